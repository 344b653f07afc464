"""The renderings that are kept in the repository: a change of the chart shows what it changes.

Rule 1: `default.yaml` has every object of the default values. The file of another case has only what differs from it,
        below a first document that names what is the same; together they are the whole rendering.
Rule 2: files that the chart only passes on (dashboard, alert rules) are left out but for what it adds to them: they have tests
        of their own.
Rule 3: objects are sorted and written one way, so that Helm's versions do not show.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from tests.chart.tools import Document, label

FOLDER: Final = Path(__file__).parent / "golden"
BASE: Final = "default"
_SAME: Final = "the same as in default.yaml"


def path_of(name: str) -> Path:
    """The file of a case."""
    return FOLDER / f"{name}.yaml"


def names() -> list[str]:
    """The cases that have a file."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def written(documents: list[Document], base: list[Document] | None) -> str:
    """The text of a file; `base` None: of `default.yaml`."""
    found = sorted(map(_shortened, documents), key=label)
    if base is None:
        return _dump(found)
    known = {label(document): _shortened(document) for document in base}
    same = [label(document) for document in found if known.get(label(document)) == document]
    return _dump([{_SAME: same}, *(document for document in found if label(document) not in same)])


def _shortened(document: Document) -> Document:
    if document["kind"] == "PrometheusRule":
        return {**document, "spec": {"files/alerts.yaml": _runbook_urls(document)}}
    if "oncelog.json" in document.get("data", {}):
        return {**document, "data": {"oncelog.json": "files/dashboard.json"}}
    return document


def _runbook_urls(rule: Document) -> list[str]:
    """What the chart adds to the alert rules."""
    notes = [alert["annotations"] for group in rule["spec"]["groups"] for alert in group["rules"]]
    return sorted(note["runbook_url"] for note in notes if "runbook_url" in note)


def _dump(documents: list[Any]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=True, width=120)


def load(name: str) -> list[Document]:
    """The whole rendering of a case."""
    found = list(yaml.safe_load_all(path_of(name).read_text(encoding="utf-8")))
    if name == BASE:
        return found
    same = set(found[0][_SAME])
    return [document for document in load(BASE) if label(document) in same] + found[1:]
