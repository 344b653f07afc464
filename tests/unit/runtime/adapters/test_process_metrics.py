"""What a process says about itself, read from the system and from its certificates."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector

from oncelog.link.tls_files import TlsFiles
from oncelog_runtime.adapters import process_metrics
from oncelog_runtime.adapters.process_metrics import of_build, of_certificates, of_health, of_process
from oncelog_runtime.observability.health import STARTUP, HealthState
from oncelog_runtime.observability.metrics import Collector, Histogram
from tests.certificates import Authority


def told(collector: Collector) -> dict[str, float]:
    """name{labels} -> value."""
    return {
        f"{family.metric.name}{{{labels}}}": value
        for family in collector()
        if family is not None
        for labels, value in family.rows
        if not isinstance(value, Histogram)
    }


def test_the_process_tells_its_memory_and_files() -> None:
    found = told(of_process())
    assert found["process_resident_memory_bytes{}"] > 1 << 20
    assert found["process_open_fds{}"] > 0
    assert 'python_gc_collections_total{generation="2"}' in found


def test_what_a_newer_library_tells_does_not_spoil_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    class Newer(ProcessCollector):  # type: ignore[misc]
        def collect(self) -> list[Any]:
            return [GaugeMetricFamily("process_of_tomorrow", "?", 1), *super().collect()]

    monkeypatch.setattr(process_metrics, "ProcessCollector", Newer)
    found = told(of_process())
    assert "process_open_fds{}" in found
    assert not [name for name in found if "tomorrow" in name]


def test_the_build_names_component_and_version() -> None:
    ((series, value),) = told(of_build("coordinator")).items()
    assert series.startswith('oncelog_build_info{component="coordinator",version="')
    assert value == 1


def test_probes_are_told_as_they_are() -> None:
    state = HealthState()
    collector = of_health(state)
    assert told(collector)['oncelog_probe_serving{probe="liveness"}'] == 1
    before = told(collector)[f'oncelog_probe_serving{{probe="{STARTUP}"}}']
    state.started()
    after = told(collector)[f'oncelog_probe_serving{{probe="{STARTUP}"}}']
    assert (before, after) == (0, 1)


def test_a_certificate_tells_when_it_ends(tmp_path: Path) -> None:
    paths = Authority(tmp_path).issue("node", "localhost", expires_in=timedelta(days=3))
    files = TlsFiles(replace(paths, cert_setting="tls_cert_file"))
    name = 'oncelog_tls_certificate_expiry_timestamp_seconds{file="tls_cert_file"}'
    collector = of_certificates([files])
    assert name not in told(collector), "nothing was read yet"
    files.current()
    assert abs(told(collector)[name] - time.time() - 3 * 86_400) < 300
