"""What the end-to-end suite judges by, without a cluster: recordings travel whole, verdicts can be negative."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from oncelog_runtime.adapters.grpc.certificates import facts_of
from oncelog_runtime.core.security.certificate_rules import SERVICES, parse_service_rules, service_methods
from tests.e2e.kubernetes import guard, judging
from tests.e2e.kubernetes.load import COPY, COPY_OF, PARTITIONS
from tests.e2e.kubernetes.recording import Recording, pack, unpack
from tests.e2e.kubernetes.report import Report, Wrong
from tests.e2e.kubernetes.suite import split_image
from tests.simulation.history import Key, Status

ROOT = Path(__file__).resolve().parents[2]
KEY: Key = (COPY_OF, 0)


def recording() -> Recording:
    """One committed transaction of two values, one poll that saw them, a faithful copy."""
    made = Recording(final={(topic, p): [] for topic, count in PARTITIONS.items() for p in range(count)})
    history = made.history
    txn = history.invoke("txn-0", "txn", 1_000)
    txn.writes = [(KEY, history.new_value()), (KEY, history.new_value())]
    history.complete(txn, Status.OK, 1_250)
    poll = history.invoke("reader-0", "poll", 1_300)
    poll.reads = {KEY: [(0, 1), (1, 2)]}
    history.complete(poll, Status.OK, 1_400)
    made.final[KEY] = [(0, 1), (1, 2)]
    made.final[COPY, 0] = [(0, 1), (1, 2)]
    made.counts = {"txn ok": 1}
    return made


def test_a_recording_travels_whole() -> None:
    made = recording()
    made.errors.append({"name": "NetworkError", "retriable": True})
    open_one = made.history.invoke("plain-0", "send", 2_000)
    open_one.writes = [((COPY_OF, 1), made.history.new_value())]
    open_one.write_offsets = {((COPY_OF, 1), 3): 7}
    got = unpack(pack(made))
    assert got.history.operations == made.history.operations
    assert (got.final, got.errors, got.counts) == (made.final, made.errors, made.counts)


def test_a_sound_history_has_no_anomaly() -> None:
    assert judging.anomalies(recording()) == []


@pytest.mark.parametrize(
    ("final", "name"),
    [([(0, 1)], "torn-transaction"), ([], "lost-write"), ([(0, 1), (1, 2), (2, 2)], "duplicate")],
)
def test_a_bad_final_read_is_named(final: list[tuple[int, int]], name: str) -> None:
    made = recording()
    made.final[KEY] = made.final[COPY, 0] = final
    assert any(sentence.startswith(name) for sentence in judging.anomalies(made))


def test_a_copy_that_differs_is_named() -> None:
    made = recording()
    made.final[COPY, 0] = [(0, 2), (1, 1)]
    assert [sentence.split(":")[0] for sentence in judging.anomalies(made)] == ["copy-differs"]


def test_only_errors_that_nothing_cures_are_failed_calls() -> None:
    def error(name: str, *, retriable: bool = False, requires_abort: bool = False) -> dict[str, Any]:
        return {"kind": "txn", "name": name, "retriable": retriable, "requires_abort": requires_abort}

    made = Recording(errors=[error("A", retriable=True), error("B", requires_abort=True), error("C")])
    assert [e["name"] for e in judging.failed_calls(made)] == ["C"]
    assert judging.error_names(made) == "txn A x 1, txn B x 1, txn C x 1"


def test_the_slowest_call_of_a_phase_counts_what_overlaps_it() -> None:
    made = recording()
    assert judging.slowest_call_ms(made, 1_200, 5_000) == 250
    assert judging.slowest_call_ms(made, 1_251, 5_000) == 0
    assert judging.calls(made, 1_000, 1_250) == 1


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("localhost/oncelog:dev", ("localhost", "oncelog", "dev")),
        ("registry.example:5000/team/oncelog:1.0", ("registry.example:5000", "team/oncelog", "1.0")),
        ("oncelog:0.1.0", ("docker.io", "library/oncelog", "0.1.0")),
        ("team/oncelog", ("docker.io", "team/oncelog", "latest")),
    ],
)
def test_an_image_is_split_as_docker_reads_it(image: str, parts: tuple[str, str, str]) -> None:
    assert split_image(image) == parts


def test_a_failed_step_is_told_and_survived_only_where_that_is_said(tmp_path: Path) -> None:
    report = Report()
    with report.step("survived", Wrong):
        raise Wrong("it was not so")
    with pytest.raises(Wrong), report.step("deadly"):
        raise Wrong("nor was this")
    with report.step("fine"):
        pass
    report.write(tmp_path / "out" / "result.json", image="x")
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [step["outcome"] for step in document["steps"]] == ["FAILED", "FAILED", "ok"]
    assert document["ok"] is False
    assert "it was not so" in report.table()


def test_the_etcd_image_holds_the_binary_where_the_chart_looks(tmp_path: Path) -> None:
    (tmp_path / "etcd").write_bytes(b"binary")
    out = tmp_path / "etcd.tar"
    command = [sys.executable, ROOT / "scripts" / "etcd_image.py", tmp_path / "etcd", "example/etcd:1", out]
    subprocess.run(command, check=True, timeout=60)
    with tarfile.open(out) as archive:
        (manifest,) = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
        layer = archive.extractfile(manifest["Layers"][0]).read()  # type: ignore[union-attr]
    assert manifest["RepoTags"] == ["example/etcd:1"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        member = files.getmember("usr/local/bin/etcd")
        assert (member.mode, files.extractfile(member).read()) == (0o755, b"binary")  # type: ignore[union-attr]


def test_a_secure_cluster_has_a_certificate_for_each_service_and_a_load_that_is_somebody(tmp_path: Path) -> None:
    made = {item["metadata"]["name"]: item for item in guard.manifests("oncelog", "e2e", "{}", tmp_path)}
    rules = "; ".join(
        f"dns:oncelog-{name}-headless[.]e2e[.]svc[.]cluster[.]local=>{name.replace('-', '_')}"
        for name in ("partition-leader", "coordinator", "pid-allocator")
    )
    parsed = parse_service_rules(rules, "service_rules")
    methods = {
        name: service_methods(facts_of(base64.b64decode(made[name]["data"]["tls.crt"])), parsed)
        for name in ("inside-partition-leader", "inside-coordinator", "inside-etcd", guard.CLIENT_SECRET)
    }
    assert methods["inside-partition-leader"] == SERVICES["partition_leader"]
    assert methods["inside-coordinator"] == SERVICES["coordinator"]
    assert methods["inside-etcd"] == methods[guard.CLIENT_SECRET] == frozenset()
    assert made["inside-etcd"]["data"]["ca.crt"] != made[guard.CLIENT_SECRET]["data"]["ca.crt"]
    schema = json.loads((ROOT / "helm" / "oncelog" / "values.schema.json").read_text())
    values = guard.chart_values("e2e", "https://kubernetes.default.svc")
    assert list(jsonschema.Draft7Validator(schema).iter_errors(values)) == []
    assert values["auth"]["superUsers"] == [f"User:system:serviceaccount:e2e:{guard.pod_parts()['account']}"]
    assert not list(tmp_path.glob("*.key"))
