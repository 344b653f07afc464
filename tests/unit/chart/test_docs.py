"""The chart's README and schema come from its values, and say what the services understand."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

from scripts import chart_docs


def test_readme_and_schema_are_what_the_values_say() -> None:
    # The settings of the services are left out: `make chart` looks at them, so that a new setting does not break this.
    for path, wanted in chart_docs.generate().items():
        assert _without_settings(path.read_text(encoding="utf-8")) == _without_settings(wanted), (
            f"{path.name} is out of date: run python scripts/chart_docs.py"
        )


def _without_settings(text: str) -> str:
    if text.startswith("{"):
        schema = json.loads(text)
        return json.dumps({**schema, "$defs": {"imageOverride": schema["$defs"]["imageOverride"]}})
    return text.partition("\n## Settings\n")[0]


def schema() -> dict[str, Any]:
    return json.loads((chart_docs.CHART / "values.schema.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def test_every_setting_of_the_schema_is_one_of_the_services() -> None:
    for component, config_class in chart_docs.COMPONENTS.items():
        known = {row.name for row in config_class.describe(component)}
        assert set(schema()["$defs"][component]["properties"]) <= known


def test_the_default_values_and_all_examples_are_valid() -> None:
    validator = jsonschema.Draft7Validator(schema())
    values = yaml.safe_load((chart_docs.CHART / "values.yaml").read_text(encoding="utf-8"))
    assert list(validator.iter_errors(values)) == []
    for example in (chart_docs.CHART / "ci").glob("*-values.yaml"):
        errors = [error.message for error in validator.iter_errors(yaml.safe_load(example.read_text(encoding="utf-8")))]
        assert (example.name, errors) == (example.name, [])


OPEN = re.compile(
    r"Labels|Annotations|annotations|labels|Selector|affinity|Context|resources|Probe|Strategy|lifecycleHooks|global"
)


def test_the_schema_is_closed_but_for_what_goes_to_kubernetes_as_it_is() -> None:
    def open_maps(node: dict[str, Any], path: str) -> list[str]:
        if node.get("type") != "object":
            return []
        found = [path] if node.get("additionalProperties") is not False else []
        return found + [
            one for key, child in node.get("properties", {}).items() for one in open_maps(child, f"{path}.{key}")
        ]

    assert [path for path in open_maps(schema(), "") if not OPEN.search(path)] == []


@pytest.mark.parametrize("component", sorted(chart_docs.COMPONENTS))
def test_what_the_chart_sets_itself_is_no_setting(component: str) -> None:
    assert not {row.name for row in chart_docs.settings(component)} & chart_docs.SET_BY_CHART


def test_a_value_without_a_description_is_refused() -> None:
    with pytest.raises(chart_docs.ValuesError, match=r"values.yaml:2: a.b has no"):
        chart_docs.read_values("a:\n  b: 1\n")


def test_an_empty_map_must_say_what_it_takes() -> None:
    values = chart_docs.read_values("image:\n  # -- a tag\n  tag: x\n# -- labels\nlabels: {}\n")
    with pytest.raises(chart_docs.ValuesError, match="labels is an empty map"):
        chart_docs.make_schema(values)


def test_comments_become_schema_and_text() -> None:
    text = 'image:\n  # -- a tag\n  tag: x\n# -- how\n# many\n# @schema {"minimum": 1}\ncount: 3\n'
    values = chart_docs.read_values(text)
    assert chart_docs.make_schema(values)["properties"]["count"] == {
        "type": "integer",
        "description": "how many",
        "minimum": 1,
    }
