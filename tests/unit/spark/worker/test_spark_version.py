"""A Spark that is too old is named, with the one that is needed; what no Spark offers yet is noticed when one does."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql.datasource import DataSourceStreamReader, SimpleDataSourceStreamReader
from pyspark.sql.streaming import datasource as streaming

from oncelog.errors import ConfigError
from pyspark_oncelog import datasource
from pyspark_oncelog.datasource import DefaultSource
from pyspark_oncelog.worker.spark_version import require_spark


def test_this_spark_is_new_enough() -> None:
    require_spark(pyspark.__version__)
    assert DefaultSource({"subscribe": "t"}).options["subscribe"] == "t"


def test_an_old_one_is_named_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most managed platforms run an older Spark."""
    monkeypatch.setattr(datasource, "NEEDED_MODULES", ("pyspark.sql.streaming.not_there",))
    with pytest.raises(ConfigError, match=f"needs Spark 4.2 or newer, and this is {pyspark.__version__}"):
        DefaultSource({})


# ------------------------------------------------------------ what Spark does not offer yet


def _stream_of_a_python_source() -> bytes:
    """Spark's classes that stand for a streaming source in Python, as they are in its jar."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-sql_*.jar")
    with zipfile.ZipFile(jar) as classes:
        names = [name for name in classes.namelist() if re.search(r"/python/PythonMicroBatchStream\w*\.class$", name)]
        assert any(name.endswith("Base.class") for name in names), "Spark calls them otherwise: look again"
        return b"".join(classes.read(name) for name in names)


def test_spark_asks_a_source_in_python_for_no_metrics_and_no_description() -> None:
    """Spark shows no metrics of a sink, and a class name as its description.

    When this fails, Spark offers a way: take it, and change the table of docs/spark.md, "What is not there".
    """
    offered = {name for kind in (DataSourceStreamReader, SimpleDataSourceStreamReader) for name in vars(kind)}
    offered |= {name for kind in vars(streaming).values() if isinstance(kind, type) for name in vars(kind)}
    assert "latestOffset" in offered, "those are the classes that a source is made of"
    assert [name for name in sorted(offered) if re.search(r"metric|descri", name, re.IGNORECASE)] == []
    stream = _stream_of_a_python_source()
    assert b"latestOffset" in stream, "methods can be found by their names"
    assert b"ReportsSourceMetrics" not in stream
    assert b"toString" not in stream, "a source's description in the progress is what this says"
