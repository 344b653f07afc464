"""docs/reference has every class, method, property, field and error that users can reach, each with a sentence."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import oncelog
import pyspark_oncelog
from oncelog import errors, sync
from oncelog.client.admin.admin import Admin
from oncelog.client.once import refusals
from oncelog.config import ClientConfig, ConsumerConfig, ProducerConfig, WorkerConfig
from scripts import api_reader, gen_api, gen_reference

PAGES = gen_api.pages()
EXPORTED = {name: getattr(oncelog, name) for name in oncelog.__all__}
CLASSES = {
    **{name: kind for name, kind in EXPORTED.items() if inspect.isclass(kind) and not issubclass(kind, Exception)},
    "Admin": Admin,
    **{f"sync.{name}": getattr(sync, name) for name in sync.__all__},
    "DefaultSource": pyspark_oncelog.DefaultSource,
}
del CLASSES["ErrorCode"], CLASSES["sync.Client"]  # on the page of errors; under the name SyncClient
CLASSES = {name: kind for name, kind in CLASSES.items() if inspect.isclass(kind) and not kind.__name__.startswith("_")}
CONFIGS: dict[type[Any], str] = {
    ClientConfig: "client.md",
    ProducerConfig: "producer.md",
    ConsumerConfig: "consumer.md",
    WorkerConfig: "worker.md",
}
TEXT = "\n".join(PAGES.values())
HEADINGS = set(re.findall(r"^##+ (.+)$", TEXT, re.MULTILINE))


def public(kind: type[Any]) -> Iterator[str]:
    """Names without an underscore that come from our packages, asked for with `dir`, not as the generator asks.

    Without those whose docstring says that they are there for another module of ours.
    """
    for name in dir(kind):
        home = next(base for base in kind.__mro__ if name in vars(base))
        if (getattr(kind, name).__doc__ or "").startswith("For `oncelog."):
            continue
        if not name.startswith("_") and home.__module__.partition(".")[0] in ("oncelog", "pyspark_oncelog"):
            yield name


def fields_of(kind: type[Any]) -> set[str]:
    if issubclass(kind, enum.Enum):
        return {item.name for item in kind}
    if dataclasses.is_dataclass(kind):
        return {item.name for item in dataclasses.fields(kind)}
    return {*getattr(kind, "_fields", ())}


def section(name: str) -> str:
    """What stands below a class's heading, up to the next one."""
    found = re.search(rf"^## {re.escape(name)}$(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"docs/reference/api has no {name}"
    return found[1]


def lacking(name: str, kind: type[Any], text: str) -> list[str]:
    """Public names of a class that its section has neither as a heading nor in its table."""
    rows = r"(?m)^\| `(\w+)` \|"
    there = {*re.findall(rf"(?m)^### {re.escape(name)}\.(\w+)$", text), *re.findall(rows, text)}
    if kind in CONFIGS:
        there |= {*re.findall(rows, gen_reference.pages()[CONFIGS[kind]])}
    attributes = {item.name for item in api_reader.attributes(kind)}
    return sorted(({*public(kind)} | fields_of(kind) | attributes) - there)


def test_the_pages_are_what_the_program_says() -> None:
    assert gen_api.main(["--check"]) == 0, "run python -m scripts.gen_api"


def test_there_is_much_to_count() -> None:
    assert len(CLASSES) > 30
    assert sum(len([*public(kind)]) for kind in CLASSES.values()) > 250


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_public_name_of_a_class_is_there(name: str) -> None:
    assert lacking(name, CLASSES[name], section(name)) == []


def test_a_method_that_is_missing_is_noticed() -> None:
    text = section("Producer").replace("### Producer.send_batch\n", "")
    assert lacking("Producer", oncelog.Producer, text) == ["send_batch"]


def test_everything_that_is_exported_is_there() -> None:
    """Regression: `ProducerConfig` was not exported."""
    others = {name for name in EXPORTED if name not in CLASSES}
    raised = {kind.__name__ for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, Exception)}
    of_once = {kind.__name__ for kind in vars(refusals).values() if inspect.isclass(kind)}
    assert others - raised - of_once == {"errors", "sync", "ErrorCode"}
    assert of_once <= HEADINGS, "errors that never travel stand beside what raises them"
    assert {name for name in others & raised if f"`{name}`" not in PAGES["errors.md"]} - {"OncelogError"} == set()
    assert set(pyspark_oncelog.__all__) <= HEADINGS


def test_every_value_that_administration_answers_is_there() -> None:
    """All classes of `oncelog.client.admin.descriptions` reach users through `client.admin`."""
    from oncelog.client.admin import descriptions

    kinds = {
        name for name, kind in vars(descriptions).items() if getattr(kind, "__module__", "") == descriptions.__name__
    }
    assert len(kinds) > 15
    assert kinds <= HEADINGS


def test_every_error_is_there_with_its_number_and_what_to_do() -> None:
    rows = [
        re.split(r" (?<!\\)\| ", row.strip("| \n"))
        for row in PAGES["errors.md"].splitlines()
        if re.match(r"\| \d", row)
    ]
    assert [int(row[0]) for row in rows] == sorted(errors.BY_CODE)
    for number, code, kind, meaning, action, retriable, advice in rows:
        error = errors.BY_CODE[int(number)]("")
        assert (code, kind) == (f"`{error.code.name}`", f"`{type(error).__name__}`")
        assert (action, retriable) == (error.action.name, "yes" if error.retriable else "no")
        assert len(meaning) > 10
        assert advice.endswith(".")


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_class_method_and_attribute_has_a_sentence(name: str) -> None:
    kind = CLASSES[name]
    assert len(api_reader.class_doc(kind)) > 10
    silent = [member.name for member in api_reader.members(kind) if len(member.doc) < 6]
    assert silent + [item.name for item in api_reader.attributes(kind) if len(item.doc) < 6] == []


# ---------------------------------------------------------------- the reader


class Sample:
    """See the module. And more."""

    def __init__(self) -> None:
        self.shown: int = 1
        """What is shown."""
        self._hidden = 2

    async def call(self, name: str, *, timeout_ms: int | None = None) -> list[str]:
        """Calls."""
        return [name]

    @property
    def size(self) -> int:
        """How large."""
        return 0

    def _private(self) -> None: ...


def test_members_are_told_as_python_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_reader, "is_ours", lambda kind: kind is Sample)
    assert list(api_reader.members(Sample)) == [
        ("call", "async def call(name: str, *, timeout_ms: int | None = None) -> list[str]", "Calls."),
        ("size", "size: int", "How large."),
    ]
    assert api_reader.attributes(Sample) == [("shown", "", "", "What is shown.")]
    assert api_reader.class_doc(Sample).startswith("docs/reference has every class")
    assert api_reader.class_doc(Sample).endswith("\n\nAnd more.")


def test_a_docstring_becomes_markdown() -> None:
    doc = "Does it, for x < 1.\n\n    code(1)\n        more\n\nRule 1: one\n        thing.\nRule 2: `a<b`."
    assert gen_api.prose(doc).split("\n\n") == [
        "Does it, for x \\< 1.",
        "```python\ncode(1)\n    more\n```",
        "1. One thing.\n2. `a<b`.",
    ]
