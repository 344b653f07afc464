"""The chart against the services themselves: the variables of each container are loaded by the service's own config class.

Rule 1: a name or a value that the service refuses is a problem, as it would be at the start of the pod.
Rule 2: the ports that the service would open are the ports of the container, and the probes ask on its health port.
Rule 3: the grace period leaves room for what the service may take to end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, Final

from oncelog.errors import ConfigError
from oncelog_coordinator.config import CoordinatorConfig
from oncelog_partition_leader.config import BrokerConfig
from oncelog_pid_allocator.config import PidAllocatorConfig
from oncelog_runtime.config.settings import NodeConfig, load
from tests.chart import pods
from tests.chart.tools import Document, label

SERVICES: Final[Mapping[str, tuple[str, type[NodeConfig]]]] = {
    "oncelog-partition-leader": ("partition_leader", BrokerConfig),
    "oncelog-coordinator": ("coordinator", CoordinatorConfig),
    "oncelog-pid-allocator": ("pid_allocator", PidAllocatorConfig),
}
_PORTS: Final = ("listen_port", "client_listen_port", "external_listen_port", "health_port", "metrics_port")
_GRACE_MARGIN_S: Final = 20


def problems(documents: list[Document]) -> list[str]:
    """What does not fit."""
    return [
        problem
        for document in pods.of_kind(documents, *pods.LONG_LIVED)
        for container in pods.containers(document, init=False)
        for problem in _container(document, container, documents)
    ]


def config_of(document: Document, container: Mapping[str, Any], documents: list[Document]) -> NodeConfig:
    """What the service would understand in the first pod. Raises `ConfigError`."""
    component, config_class = SERVICES[container["command"][0]]
    environment = pods.environment(document, container)
    variable = f"ONCELOG_{component.upper()}_CONFIG"
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        if variable in environment:
            file.write(pods.mounted_file(document, container, environment[variable], documents) or "missing = true")
            file.flush()
            environment[variable] = file.name
        return load(component, config_class, list(container.get("args", [])), environment)


def _container(document: Document, container: Mapping[str, Any], documents: list[Document]) -> Iterator[str]:
    if (container.get("command") or [""])[0] not in SERVICES:
        return
    where = f"{label(document)} {container['name']}"
    try:
        config = config_of(document, container, documents)
    except ConfigError as error:
        yield f"{where}: the service refuses its settings: {error}"
        return
    opened = {port for name in _PORTS if (port := getattr(config, name, 0))}
    declared = {port["containerPort"] for port in container.get("ports", [])}
    if opened != declared:
        yield f"{where} opens {sorted(opened)} and declares {sorted(declared)}"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container.get(probe, {}).get("grpc")
        if asked is not None and asked["port"] != config.health_port:
            yield f"{where}: {probe} asks port {asked['port']}, health is on {config.health_port}"
    grace_s = pods.pod_template(document)["spec"].get("terminationGracePeriodSeconds", 30)
    if grace_s < config.shutdown_grace_ms / 1000 + _GRACE_MARGIN_S:
        yield f"{where} has {grace_s} s to end and may need {config.shutdown_grace_ms / 1000} s"
