"""Loads the settings of a process from defaults, file, environment and flags, and checks them.

Rule 1: defaults < file < environment < flags. One `load` for all; the result is frozen and checked on construction.
Rule 2: an unknown key is an error in every source, and the error names the nearest known one.
Rule 3: each setting is one dataclass field made by `setting`: the docs table is generated from its default, type and
        text.

A component's class derives from `NodeConfig` and adds fields:

    @dataclass(frozen=True, kw_only=True)
    class AllocatorConfig(NodeConfig):
        block_size: int = setting(1000, "producer ids per block")

Then, for the component `pid_allocator`, it is `block_size = 1000` in the TOML file (`--config FILE`),
`ONCELOG_PID_ALLOCATOR_BLOCK_SIZE` in the environment, and `--block-size` on the command line. Lists are written with
commas, or as TOML arrays.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from oncelog.errors import ConfigError
from oncelog.trace.tracing import SAMPLERS
from oncelog_runtime.observability.logs import LEVELS

T = TypeVar("T")
ConfigT = TypeVar("ConfigT", bound="NodeConfig")

_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("false", "no", "off", "0")
_SERVICE_LINKS: Final = re.compile(r"(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")
"""The variables that Kubernetes adds to every container's environment for a Service called `oncelog-coordinator`."""


class HelpRequested(Exception):
    """Raised for `--help`; `str()` is the text."""


def setting(default: T, doc: str, *, secret: bool = False) -> T:
    """Makes a field of a config class: default, one line of documentation; `secret` values are masked in logs."""
    return dataclasses.field(default=default, metadata={"doc": doc, "secret": secret})


class Setting(NamedTuple):
    """One row of the docs table."""

    name: str
    type: str
    default: str
    environment: str
    flag: str
    doc: str


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """The settings that every service has."""

    node_id: int = setting(0, "number of this process among its kind, 0 and up; a broker's id")
    listen_host: str = setting("127.0.0.1", "address to listen on; 0.0.0.0 = all")
    listen_port: int = setting(0, "port to listen on; 0 = any free port")
    advertised_address: str = setting("", "host:port that others use to reach this process; empty = where it listens")
    health_port: int = setting(0, "plaintext port of grpc.health.v1 (startup, liveness, readiness); 0 = off")
    tls_cert_file: str = setting(
        "", "PEM certificate of this process, for and towards other services; empty = plaintext"
    )
    tls_key_file: str = setting("", "PEM key of tls_cert_file, without passphrase")
    tls_ca_file: str = setting(
        "", "PEM certificates of the CA that signs all services: no other process may speak to them"
    )
    service_rules: str = setting(
        "",
        "which service a certificate at the internal listener is, as FIELD:PATTERN=>SERVICE rules between `;`; each may "
        "then call what it needs alone; empty = every certificate of tls_ca_file may call all",
    )
    etcd_tls_ca_file: str = setting("", "PEM certificates of the CA of etcd; empty = plaintext")
    etcd_tls_cert_file: str = setting("", "PEM certificate to show to etcd; empty = none")
    etcd_tls_key_file: str = setting("", "PEM key of etcd_tls_cert_file, without passphrase")
    health_host: str = setting("0.0.0.0", "address of the health port")
    metrics_port: int = setting(0, "port of GET /metrics for Prometheus, plain HTTP; 0 = off")
    metrics_host: str = setting("0.0.0.0", "address of the metrics port")
    metrics_per_partition: bool = setting(True, "export series of each partition, beside the totals")
    etcd_endpoints: tuple[str, ...] = setting(("127.0.0.1:2379",), "etcd members, host:port")
    etcd_connect_timeout_ms: int = setting(60_000, "how long to wait for etcd at the start, 0 (do not look) to 600000")
    data_dir: str = setting("oncelog-data", "where this process keeps its files")
    log_level: str = setting("INFO", f"least level that is logged: {', '.join(LEVELS)}")
    max_message_bytes: int = setting(64 << 20, "largest gRPC message sent or received, 1 MiB to 1 GiB")
    request_memory_bytes: int = setting(
        0, "bytes of requests being served, in the whole process; 0 = eight times max_message_bytes"
    )
    answer_memory_bytes: int = setting(
        0,
        "bytes of answers, from before they are read until they left, in the whole process; 0 = four times max_message_bytes",
    )
    arriving_memory_bytes: int = setting(
        0, "bytes of messages that are not whole yet, in the whole process; 0 = four times max_message_bytes"
    )
    message_timeout_ms: int = setting(
        60_000, "a client's message must arrive in this time, 1000 and up; 0 = as long as it likes"
    )
    links_max: int = setting(4_096, "most links of peers, at each listener")
    links_per_peer_max: int = setting(1_024, "most links from one address, or of one principal, at each listener")
    reflection: bool = setting(
        True, "answer gRPC server reflection, so that grpcurl needs no .proto files; it tells the protocol alone"
    )
    otlp_endpoint: str = setting("", "where traces go, by OTLP over gRPC: http://host:4317; empty = no tracing")
    trace_sampler: str = setting("parentbased_always_on", f"which traces are recorded: {', '.join(SAMPLERS)}")
    trace_sampler_arg: float = setting(1.0, "share of the traces that a ratio sampler records, 0 to 1")
    shutdown_grace_ms: int = setting(20_000, "how long running requests may take after SIGTERM, 0 to 600000")

    def __post_init__(self) -> None:
        """Raises `ConfigError`. A subclass calls `NodeConfig.__post_init__(self)` first."""
        self.check("node_id", self.node_id >= 0, "0 and up")
        for name in ("listen_port", "health_port", "metrics_port"):
            self.check(name, 0 <= getattr(self, name) <= 65535, "0 to 65535")
        same = self.listen_port != 0 and self.listen_port == self.health_port
        self.check("health_port", not same, "different from listen_port")
        same = self.metrics_port != 0 and self.metrics_port in (self.listen_port, self.health_port)
        self.check("metrics_port", not same, "different from listen_port and health_port")
        self.check("log_level", self.log_level in LEVELS, f"one of {', '.join(LEVELS)}")
        self.check_together("tls_cert_file", "tls_key_file", "tls_ca_file")
        self.check_together("etcd_tls_cert_file", "etcd_tls_key_file")
        self.check("service_rules", bool(self.tls_cert_file) or not self.service_rules, "empty without tls_cert_file")
        nameless = bool(self.etcd_tls_cert_file) and not self.etcd_tls_ca_file
        self.check("etcd_tls_ca_file", not nameless, "given together with etcd_tls_cert_file")
        self.check("etcd_endpoints", len(self.etcd_endpoints) > 0, "at least one host:port")
        for endpoint in self.etcd_endpoints:
            self.check("etcd_endpoints", is_address(endpoint), "host:port, host:port, ...")
        if self.advertised_address:
            self.check("advertised_address", is_address(self.advertised_address), "host:port")
        self.check("data_dir", bool(self.data_dir), "a directory")
        self.check("max_message_bytes", 1 << 20 <= self.max_message_bytes <= 1 << 30, "1 MiB to 1 GiB")
        for name in ("request_memory_bytes", "answer_memory_bytes", "arriving_memory_bytes"):
            least = 3 * self.max_message_bytes
            value = getattr(self, name)
            self.check(name, value == 0 or value >= least, f"0, or three times max_message_bytes ({least}) and up")
        timeout_ms = self.message_timeout_ms
        self.check("message_timeout_ms", timeout_ms == 0 or 1_000 <= timeout_ms <= 3_600_000, "0, or 1000 to 3600000")
        self.check("links_max", self.links_max >= 1, "1 and up")
        self.check("links_per_peer_max", self.links_per_peer_max >= 1, "1 and up")
        self.check("etcd_connect_timeout_ms", 0 <= self.etcd_connect_timeout_ms <= 600_000, "0 to 600000")
        self.check(
            "otlp_endpoint", not self.otlp_endpoint or _is_url(self.otlp_endpoint), "http(s)://host:port, or empty"
        )
        self.check("trace_sampler", self.trace_sampler in SAMPLERS, f"one of {', '.join(SAMPLERS)}")
        self.check("trace_sampler_arg", 0.0 <= self.trace_sampler_arg <= 1.0, "0 to 1")
        self.check("shutdown_grace_ms", 0 <= self.shutdown_grace_ms <= 600_000, "0 to 600000")

    def check(self, name: str, holds: bool, legal: str) -> None:
        """Raises `ConfigError` with the legal values unless `holds`."""
        if not holds:
            raise ConfigError(f"{name} must be {legal}", setting=name, value=getattr(self, name))

    def check_together(self, *names: str) -> None:
        """Raises `ConfigError` when some of these settings are given and some are empty."""
        given = [name for name in names if getattr(self, name)]
        for name in names:
            self.check(name, not given or name in given, f"given together with {', '.join(given)}")

    def effective(self) -> dict[str, object]:
        """Returns all values, secrets masked, for the log line at the start."""
        return {
            field.name: "***"
            if field.metadata.get("secret") and getattr(self, field.name)
            else getattr(self, field.name)
            for field in dataclasses.fields(self)
        }

    @classmethod
    def describe(cls, component: str) -> list[Setting]:
        """Returns the rows of the docs table, in the order of the fields."""
        hints = get_type_hints(cls)
        return [
            Setting(
                field.name,
                _type_name(hints[field.name]),
                _shown(field.default),
                _environment_prefix(component) + field.name.upper(),
                "--" + field.name.replace("_", "-"),
                str(field.metadata.get("doc", "")),
            )
            for field in dataclasses.fields(cls)
        ]


# ---------------------------------------------------------------- loading


def load(component: str, cls: type[ConfigT], argv: Sequence[str], environ: Mapping[str, str]) -> ConfigT:
    """Loads the effective configuration of a process of `component`. Raises `ConfigError`; `HelpRequested` for
    `--help`.

    `argv` is without the program's name. The file is named by `--config` or `ONCELOG_<COMPONENT>_CONFIG`.
    """
    flags = _from_flags(component, cls, argv)
    environment = _from_environment(component, cls, environ)
    path = flags.pop("config", None) or environment.pop("config", None)
    environment.pop("config", None)
    values: dict[str, object] = {**(_from_file(cls, str(path)) if path else {}), **environment, **flags}
    hints = get_type_hints(cls)
    return cls(**{name: _coerce(name, value, hints[name]) for name, value in values.items()})


def _names(cls: type[NodeConfig]) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def _environment_prefix(component: str) -> str:
    return f"ONCELOG_{component.upper()}_"


def _unknown(what: str, key: str, known: Sequence[str]) -> ConfigError:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "see --help"
    return ConfigError(f"unknown {what} {key}: {hint}", key=key)


def _from_file(cls: type[NodeConfig], path: str) -> dict[str, object]:
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file: {error.strerror}", file=path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file is not TOML: {error}", file=path) from error
    known = _names(cls)
    for key in values:
        if key not in known:
            raise _unknown("key in the configuration file:", key, known)
    return values


def _from_environment(component: str, cls: type[NodeConfig], environ: Mapping[str, str]) -> dict[str, str]:
    prefix = _environment_prefix(component)
    known = {prefix + name.upper(): name for name in [*_names(cls), "config"]}
    values: dict[str, str] = {}
    for key, value in environ.items():
        if not key.startswith(prefix):
            continue
        if key in known:
            values[known[key]] = value
        elif _SERVICE_LINKS.fullmatch(key[len(prefix) :]) is None:
            raise _unknown("environment variable", key, list(known))
    return values


def _from_flags(component: str, cls: type[NodeConfig], argv: Sequence[str]) -> dict[str, str]:
    known = {"--" + name.replace("_", "-"): name for name in [*_names(cls), "config"]}
    hints = get_type_hints(cls)
    values: dict[str, str] = {}
    rest = list(argv)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if flag in ("--help", "-h"):
            raise HelpRequested(help_text(component, cls))
        if flag not in known:
            raise _unknown("option", flag, list(known))
        if not equals:
            if hints.get(known[flag]) is bool and (not rest or rest[0].startswith("--")):
                value = "true"
            elif not rest:
                raise ConfigError(f"{flag} needs a value", key=flag)
            else:
                value = rest.pop(0)
        values[known[flag]] = value
    return values


def help_text(component: str, cls: type[NodeConfig]) -> str:
    """Returns the text that `--help` prints."""
    rows = [f"  {row.flag} <{row.type}>\n      {row.doc} (default {row.default})" for row in cls.describe(component)]
    prefix = _environment_prefix(component)
    return "\n".join(
        [
            f"oncelog {component}: each option may also stand in a TOML file (--config FILE) or in the environment",
            f"({prefix}<NAME>); options beat the environment, which beats the file.",
            "",
            *rows,
        ]
    )


# ---------------------------------------------------------------- values


def _coerce(name: str, value: object, hint: Any) -> Any:
    """Converts text or a TOML value to the field's type. Raises `ConfigError`."""
    try:
        return _convert(value, hint)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} must be {_type_name(hint)}", setting=name, value=value) from error


def _convert(value: object, hint: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if value in (None, ""):
            return None
        return _convert(value, next(arm for arm in get_args(hint) if arm is not type(None)))
    if origin is tuple:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise TypeError
        return tuple(
            _convert(item.strip() if isinstance(item, str) else item, get_args(hint)[0]) for item in items if item
        )
    if origin is Literal:
        if value not in get_args(hint):
            raise ValueError
        return value
    if hint is bool:
        return _to_bool(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    if hint is int and isinstance(value, float):
        raise TypeError
    if hint is str and not isinstance(value, str):
        raise TypeError
    return hint(value)


def _to_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text not in _TRUE + _FALSE:
        raise ValueError
    return text in _TRUE


def _type_name(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return f"comma-separated list of {_type_name(get_args(hint)[0])}"
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return _type_name(next(arm for arm in get_args(hint) if arm is not type(None))) + " or empty"
    return {int: "whole number", float: "number", str: "text", bool: "true or false"}.get(hint, str(hint))


def _shown(default: object) -> str:
    if isinstance(default, tuple):
        return ",".join(map(str, default)) or "empty"
    if isinstance(default, bool):
        return str(default).lower()
    return "empty" if default in ("", None) else str(default)


def _is_url(text: str) -> bool:
    scheme, _, rest = text.partition("://")
    return scheme in ("http", "https") and is_address(rest.rstrip("/"))


def is_address(text: str) -> bool:
    """True for host:port."""
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) <= 65535
