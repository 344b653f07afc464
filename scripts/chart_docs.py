"""Make the chart's values.schema.json and README.md from its values.yaml and from the services' own settings.

    python scripts/chart_docs.py [--check]

Rule 1: in values.yaml, `# -- text` describes the key below it, a plain comment a section; `# @schema {...}` is added to
        the JSON schema of the key, `# @open` lets a map have any keys, `# @inherits NAME` adds the keys of a section.
Rule 2: a map is closed unless it says otherwise; every key has a description. Anything else is an error here.
Rule 3: `settings` of a service may name what its config class has, except what the chart itself sets.
`--check` writes nothing and exits 1 when a file is not what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from oncelog_coordinator.config import CoordinatorConfig
from oncelog_partition_leader.config import BrokerConfig
from oncelog_pid_allocator.config import PidAllocatorConfig
from oncelog_runtime.config.settings import NodeConfig, Setting

CHART: Final = Path(__file__).resolve().parents[1] / "helm" / "oncelog"
COMPONENTS: Final[Mapping[str, type[NodeConfig]]] = {
    "partition_leader": BrokerConfig,
    "coordinator": CoordinatorConfig,
    "pid_allocator": PidAllocatorConfig,
}
_SET_BY_CHART: Final = """
node_id rack data_dir log_level etcd_endpoints health_host health_port metrics_host metrics_port metrics_per_partition
listen_host listen_port advertised_address client_listen_port client_address external_listen_port external_address
tls_cert_file tls_key_file tls_ca_file client_tls_cert_file client_tls_key_file client_tls_ca_file
client_tls_require_certificate etcd_tls_ca_file etcd_tls_cert_file etcd_tls_key_file
otlp_endpoint trace_sampler trace_sampler_arg transaction_max_timeout_ms
default_replication_factor internal_topic_replication_factor min_insync_replicas
service_rules authorization super_users principal_rules require_session_tokens
jwt_issuer jwt_audience jwt_jwks jwt_jwks_ca_file jwt_jwks_bearer_file jwt_principal_claim
"""
SET_BY_CHART: Final = frozenset(_SET_BY_CHART.split())
"""Settings for which there is a value of the chart's own, so they are no keys of `settings`."""

ACCESS_RESOURCES: Final = ("topic", "group", "transactionalId", "appId")
"""Resources of `auth.acls` by the first words of their keys."""

_TYPES: Final = {"whole number": "integer", "number": "number", "text": "string", "true or false": "boolean"}
_DRAFT: Final = "http://json-schema.org/draft-07/schema#"


class ValuesError(Exception):
    """values.yaml breaks a rule; the message names the line."""


# ---------------------------------------------------------------- reading values.yaml


@dataclass(slots=True)
class Value:
    """One key of values.yaml with what its comment says."""

    path: tuple[str, ...]
    default: Any
    text: str = ""
    described: bool = False
    """The comment began with `--`: a row of its own. Otherwise the text describes a section."""
    schema: dict[str, Any] = field(default_factory=dict)
    is_open: bool = False
    inherits: str = ""
    children: list[Value] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The dotted name."""
        return ".".join(self.path)

    def walk(self) -> Iterator[Value]:
        """Itself and all below."""
        yield self
        for child in self.children:
            yield from child.walk()


def read_values(text: str) -> list[Value]:
    """The top-level values. Raises `ValuesError`."""
    root = yaml.compose(text)
    lines = text.splitlines()
    assert isinstance(root, yaml.MappingNode)
    return [_value(key, node, (), lines) for key, node in root.value]


def _value(key: Any, node: Any, parents: tuple[str, ...], lines: list[str]) -> Value:
    value = Value((*parents, key.value), yaml.safe_load(yaml.serialize(node)))
    _read_comment(value, lines, key.start_mark.line)
    if isinstance(node, yaml.MappingNode) and node.value and (not value.is_open or _has_comments(node, lines)):
        value.children = [_value(k, v, value.path, lines) for k, v in node.value]
    if not value.children and not value.described:
        raise ValuesError(f"values.yaml:{key.start_mark.line + 1}: {value.key} has no `# -- description`")
    return value


def _has_comments(node: yaml.MappingNode, lines: list[str]) -> bool:
    return lines[node.value[0][0].start_mark.line - 1].lstrip().startswith("# --")


def _read_comment(value: Value, lines: list[str], line: int) -> None:
    block: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        block.insert(0, lines[line].lstrip().removeprefix("#").strip())
    words = []
    for text in block:
        if text.startswith("@schema "):
            value.schema.update(json.loads(text.removeprefix("@schema ")))
        elif text == "@open":
            value.is_open = True
        elif text.startswith("@inherits "):
            value.inherits = text.removeprefix("@inherits ")
        elif text.startswith("-- "):
            value.described = True
            words = [text.removeprefix("-- ")]
        else:
            words.append(text)
    value.text = " ".join(words).strip()


# ---------------------------------------------------------------- the schema


def make_schema(values: list[Value]) -> dict[str, Any]:
    """The JSON schema of the values."""
    sections = {value.key: value for value in values}
    properties = {value.path[-1]: _schema_of(value, sections) for value in values}
    properties["enabled"] = {"type": "boolean", "description": "Not used: the condition of a parent chart."}
    image = {child.path[-1]: _schema_of(child, sections) for child in sections["image"].children}
    definitions = {
        "imageOverride": {"type": "object", "additionalProperties": False, "properties": image},
        "accessRule": _access_rule_schema(),
    }
    definitions.update({name: _settings_schema(name) for name in COMPONENTS})
    return {
        "$schema": _DRAFT,
        "title": "Values of the oncelog chart",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": definitions,
    }


def _access_rule_schema() -> dict[str, Any]:
    """An item of `auth.acls`: a role, or operations on resources."""
    names = {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}}
    resources = [key for kind in ACCESS_RESOURCES for key in (f"{kind}s", f"{kind}Prefixes")]
    role = {"role": {"type": "string"}, "on": {"type": "string"}, "onPrefix": {"type": "string"}}
    rule: dict[str, Any] = {"operations": names, "cluster": {"const": True}, **dict.fromkeys(resources, names)}
    rule |= {"deny": {"type": "boolean"}, "host": {"type": "string"}}
    return {
        "type": "object",
        "required": ["principals"],
        "additionalProperties": False,
        "properties": {"principals": names, **role, **rule},
    }


def _schema_of(value: Value, sections: Mapping[str, Value]) -> dict[str, Any]:
    if "$ref" in value.schema:
        return {"$ref": value.schema["$ref"]}
    schema: dict[str, Any] = {"type": _type_of(value), "description": value.text, **value.schema}
    if schema["type"] == "array" and "items" not in schema:
        raise ValuesError(f'values.yaml: {value.key} is a list: say of what, `# @schema {{"items": ...}}`')
    if schema["type"] == "object":
        inherited = sections[value.inherits].children if value.inherits else []
        properties = {child.path[-1]: _reference(child) for child in inherited}
        properties.update({child.path[-1]: _schema_of(child, sections) for child in value.children})
        if properties:
            schema["properties"] = properties
        elif not value.is_open:
            raise ValuesError(f"values.yaml: {value.key} is an empty map: `# @open` lets it have any keys")
        schema["additionalProperties"] = value.is_open
    return schema


def _reference(value: Value) -> dict[str, Any]:
    return {"$ref": "#/" + "/".join(f"properties/{name}" for name in value.path)}


def _type_of(value: Value) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds[type(value.default)]


def _settings_schema(component: str) -> dict[str, Any]:
    properties = {row.name: _setting_schema(row) for row in settings(component)}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def settings(component: str) -> list[Setting]:
    """The settings of a service that are keys of `settings`, as the service describes them."""
    return [row for row in COMPONENTS[component].describe(component) if row.name not in SET_BY_CHART]


def _setting_schema(row: Setting) -> dict[str, Any]:
    if row.type.startswith("comma-separated"):
        return {"type": ["array", "string"], "items": {"type": ["string", "integer"]}, "description": row.doc}
    if row.type.startswith("one of "):
        return {"type": "string", "enum": row.type.removeprefix("one of ").split(", "), "description": row.doc}
    kind = _TYPES.get(row.type.removesuffix(" or empty"))
    return {"type": kind, "description": row.doc} if kind else {"description": row.doc}


# ---------------------------------------------------------------- the README


def make_readme(template: str, values: list[Value]) -> str:
    """The template with its two tables filled in."""
    tables = {
        "<!-- values -->": _values_tables(values),
        "<!-- settings -->": "\n".join(_settings_section(component) for component in COMPONENTS).strip(),
    }
    for mark, table in tables.items():
        assert template.count(mark) == 1, f"README.template.md must have {mark} once"
        template = template.replace(mark, table)
    return template


def _values_tables(values: list[Value]) -> str:
    """A table for each section, and before them one of the values that stand alone."""
    alone = [value for value in values if not value.children]
    sections = [_table("General", "", alone)]
    for value in values:
        if value.children:
            rows = [row for row in value.walk() if row.described and not row.children]
            sections.append(_table(value.key, value.text, rows))
    return "\n".join(sections).strip()


def _table(title: str, text: str, rows: list[Value]) -> str:
    lines = [f"### {title}", "", *([_escape(text), ""] if text else [])]
    lines += ["| key | default | what it is |", "|---|---|---|"]
    lines += [f"| `{row.key}` | {_default(row.default)} | {_escape(row.text)}{_choices(row)} |" for row in rows]
    return "\n".join([*lines, ""])


def _choices(row: Value) -> str:
    choices = row.schema.get("enum", [])
    shown = ", ".join(f"`{choice}`" for choice in choices)
    return "" if not choices or all(f"`{choice}`" in row.text for choice in choices) else f" One of {shown}."


def _default(default: Any) -> str:
    shown = json.dumps(default, ensure_ascii=False) if not isinstance(default, str) else f'"{default}"'
    return f"`{_escape(shown)}`"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def _settings_section(component: str) -> str:
    head, *tail = component.split("_")
    lines = [f"### {head}{''.join(word.capitalize() for word in tail)}.settings", ""]
    lines += ["| name | type | default | what it is |", "|---|---|---|---|"]
    lines += [f"| `{s.name}` | {_escape(s.type)} | `{s.default}` | {_escape(s.doc)} |" for s in settings(component)]
    return "\n".join([*lines, ""])


# ---------------------------------------------------------------- files


def generate(chart: Path = CHART) -> dict[Path, str]:
    """Path to content of every generated file."""
    values = read_values((chart / "values.yaml").read_text(encoding="utf-8"))
    template = (chart / "README.template.md").read_text(encoding="utf-8")
    return {
        chart / "values.schema.json": json.dumps(make_schema(values), indent=1, ensure_ascii=False) + "\n",
        chart / "README.md": make_readme(template, values),
    }


def drift(chart: Path = CHART) -> list[str]:
    """Names of the generated files that are not what `generate` says."""
    return [
        path.name
        for path, content in generate(chart).items()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    ]


def main(arguments: list[str] | None = None) -> int:
    """Writes the files, or with `--check` looks whether they are up to date."""
    parser = argparse.ArgumentParser(description="Make the chart's schema and README from its values.yaml.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file would change")
    args = parser.parse_args(arguments)
    stale = drift()
    if not args.check:
        for path, content in generate().items():
            path.write_text(content, encoding="utf-8")
        print(f"chart docs: {', '.join(stale) or 'nothing'} changed")
        return 0
    for name in stale:
        print(f"helm/oncelog/{name} is out of date: run python scripts/chart_docs.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
