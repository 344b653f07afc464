"""A Spark that is too old is named, with the one that is needed."""

from __future__ import annotations

import pyspark
import pytest

from oncelog.errors import ConfigError
from pyspark_oncelog import datasource
from pyspark_oncelog.datasource import DefaultSource
from pyspark_oncelog.spark_version import require_spark


def test_this_spark_is_new_enough() -> None:
    require_spark(pyspark.__version__)
    assert DefaultSource({"subscribe": "t"}).options["subscribe"] == "t"


def test_an_old_one_is_named_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasource, "NEEDED_MODULES", ("pyspark.sql.streaming.not_there",))
    with pytest.raises(ConfigError, match=f"needs Spark 4.2 or newer, and this is {pyspark.__version__}"):
        DefaultSource({})
