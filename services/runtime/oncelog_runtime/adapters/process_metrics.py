"""Collectors of the process (processor, memory, files, garbage collection), its server and its certificates."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from oncelog.link.tls_files import TlsFiles
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer
from oncelog_runtime.observability import health
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.health import HealthState
from oncelog_runtime.observability.metrics import Collector, Family, NodeMetrics, Row, labels_of, one


def collect_all(
    metrics: NodeMetrics, component: str, state: HealthState, server: GrpcServer, certificates: Sequence[TlsFiles]
) -> None:
    """Adds every collector of this module. `component`: the name of the service; `certificates`: those in use."""
    for collector in (
        *(of_process(), of_build(component), of_health(state)),
        *(of_server(server), of_certificates(certificates)),
    ):
        metrics.collect_with(collector)


def of_process() -> Collector:
    """Returns the collectors of prometheus-client, which read /proc and the garbage collector."""
    registry = CollectorRegistry()
    collectors: tuple[Any, ...] = (ProcessCollector(registry=registry), GCCollector(registry=registry))

    def collect() -> Iterator[Family | None]:
        for collector in collectors:
            for found in collector.collect():
                by_name: dict[str, list[Row]] = {}
                for sample in found.samples:
                    metric = names.ALL.get(sample.name)
                    if metric is None:
                        continue  # a newer prometheus-client has more; an unknown metric must not break the page
                    values = (sample.labels[label] for label in metric.labels)
                    by_name.setdefault(sample.name, []).append((labels_of(metric, *values), sample.value))
                for name, rows in by_name.items():
                    yield Family(names.ALL[name], rows)

    return collect


def of_build(component: str) -> Collector:
    """Returns the collector of the component and its version."""
    try:
        version = importlib.metadata.version("oncelog")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"

    def collect() -> Iterator[Family | None]:
        yield Family(names.BUILD, [(labels_of(names.BUILD, component, version), 1)])

    return collect


def of_health(state: HealthState) -> Collector:
    """Returns the collector of the probes' answers."""

    def collect() -> Iterator[Family | None]:
        rows = [(labels_of(names.SERVING, name), int(state.serving(name))) for name in health.NAMES]
        yield Family(names.SERVING, list(rows))

    return collect


def of_certificates(files: Sequence[TlsFiles]) -> Collector:
    """Returns the collector of the expiry times of the certificates in use."""

    def collect() -> Iterator[Family | None]:
        rows: list[Row] = [
            (labels_of(names.CERTIFICATE_EXPIRY, one_of.paths.cert_setting), one_of.validity.to_s)
            for one_of in files
            if one_of.validity.to_s
        ]
        yield Family(names.CERTIFICATE_EXPIRY, rows)

    return collect


def of_server(server: GrpcServer) -> Collector:
    """Returns the collector of links, running requests and their memory budgets."""

    def collect() -> Iterator[Family | None]:
        yield one(names.LINKS, server.open_links)
        yield one(names.REQUESTS_RUNNING, server.running_requests)
        refused = [
            (labels_of(names.LINKS_REFUSED, code), count) for code, count in sorted(server.links_refused.items())
        ]
        yield Family(names.LINKS_REFUSED, list(refused))
        budgets = server.budgets()
        for metric, place in ((names.MEMORY_TAKEN, 0), (names.MEMORY_LIMIT, 1), (names.MEMORY_REFUSED, 2)):
            rows: list[Row] = [(labels_of(metric, name), budget[place]) for name, budget in budgets.items()]
            yield Family(metric, rows)

    return collect
