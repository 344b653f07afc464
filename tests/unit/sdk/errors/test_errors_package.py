"""Each family of errors has a file of its own, and whoever meets an error sees one module."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import pytest

from oncelog import errors

FAMILIES = {
    "retriable": errors.RetriableError,
    "abortable": errors.AbortableTransactionError,
    "fatal": errors.FatalProducerError,
    "caller": errors.CallerError,
}


@pytest.mark.parametrize("kind", errors.BY_CODE.values(), ids=lambda kind: kind.__name__)
def test_an_error_is_one_of_oncelog_errors_wherever_it_is_told(kind: type[errors.OncelogError]) -> None:
    """Pickles cross versions, and Spark prints the whole name."""
    assert getattr(errors, kind.__name__) is kind
    error = kind("said", why="so")
    assert pickle.dumps(error).count(b"oncelog.errors") == 1
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back)) == (kind, "said (why=so)")
    assert traceback.format_exception_only(error) == [f"oncelog.errors.{kind.__name__}: said (why=so)\n"]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_file_holds_one_family(name: str) -> None:
    text = (Path(errors.__file__).parent / f"{name}.py").read_text()
    kinds = [kind for kind in errors.BY_CODE.values() if issubclass(kind, FAMILIES[name])]
    assert all(f"class {kind.__name__}({FAMILIES[name].__name__}):" in text for kind in kinds)
    assert text.count("class ") == len(kinds)


def test_an_unknown_topic_says_how_to_create_it() -> None:
    error = errors.UnknownTopicError.named("orders")
    assert error.message == "topic orders does not exist; create it with `oncelog topic create orders --partitions 1`"
    assert error.context == {"topic": "orders"}
    more = errors.UnknownTopicError.named("orders", "--partitions 6", ", or do something else")
    assert more.message.endswith("orders --partitions 6`, or do something else")
