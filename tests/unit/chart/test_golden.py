"""The kept renderings hold every rule and fit the services as they are now. `make chart` checks that they are current."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from tests.chart import fit, golden, past, pods, policy
from tests.chart.tools import Document, case_name, label, value_files

CASES = golden.names()


def test_every_example_has_a_rendering() -> None:
    assert [case_name(path) for path in value_files()] == CASES


@pytest.mark.parametrize("case", CASES)
def test_every_rule_holds(case: str) -> None:
    assert policy.problems(golden.load(case)) == []


@pytest.mark.parametrize("case", CASES)
def test_the_services_accept_what_the_chart_gives_them(case: str) -> None:
    assert fit.problems(golden.load(case)) == []


def named(documents: list[Document], name: str) -> Document:
    return next(document for document in documents if label(document) == name)


@pytest.fixture
def default() -> list[Document]:
    return copy.deepcopy(golden.load(golden.BASE))


def broker(documents: list[Document]) -> dict[str, Any]:
    return next(pods.containers(named(documents, "StatefulSet/oncelog-partition-leader")))


def test_pods_have_the_addresses_that_others_will_use(default: list[Document]) -> None:
    config = fit.config_of(named(default, "StatefulSet/oncelog-partition-leader"), broker(default), default)
    assert config.node_id == 0
    assert (
        config.advertised_address
        == "oncelog-partition-leader-0.oncelog-partition-leader-headless.default.svc.cluster.local:9093"
    )


@pytest.mark.parametrize(
    ("case", "address"),
    [
        ("external-nodeport", "10.0.0.5:31010"),
        ("external-loadbalancer", "b0.example.com:443"),
        ("tls-cert-manager", "oncelog-partition-leader-0.log.example.com:9094"),
    ],
)
def test_each_pod_is_told_how_it_is_reached_from_outside(case: str, address: str) -> None:
    documents = golden.load(case)
    workload = named(documents, "StatefulSet/oncelog-partition-leader")
    assert fit.config_of(workload, broker(documents), documents).external_address == address  # type: ignore[attr-defined]


def test_a_drain_comes_before_the_end(default: list[Document]) -> None:
    hook = broker(default)["lifecycle"]["preStop"]["exec"]["command"]
    assert hook == ["oncelog", "node", "drain", "--self", "--timeout", "60"]


def test_brokers_that_go_are_emptied_before_the_upgrade() -> None:
    job = named(golden.load("scale-in"), "Job/oncelog-decommission")
    command = next(pods.containers(job))["command"]
    assert command == ["oncelog", "node", "decommission", "4", "3", "--missing-ok", "--timeout", "600"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"


def test_a_plain_job_of_other_topics_has_another_name() -> None:
    assert any(
        re.fullmatch(r"Job/oncelog-topics-[0-9a-f]{8}", label(document)) for document in golden.load("collector")
    )


# ---------------------------------------------------------------- each rule finds what it is for


def test_a_setting_that_the_service_does_not_know_is_found(default: list[Document]) -> None:
    broker(default)["env"].append({"name": "ONCELOG_PARTITION_LEADER_LISTEN_PROT", "value": "1"})
    assert any("LISTEN_PORT" in problem for problem in fit.problems(default))


def test_a_port_that_nobody_opens_is_found(default: list[Document]) -> None:
    broker(default)["ports"].append({"name": "web", "containerPort": 8080})
    assert any("8080" in problem for problem in fit.problems(default))


def test_a_short_grace_period_is_found(default: list[Document]) -> None:
    named(default, "StatefulSet/oncelog-partition-leader")["spec"]["template"]["spec"][
        "terminationGracePeriodSeconds"
    ] = 5
    assert any("5 s to end" in problem for problem in fit.problems(default))


def _twice(container: dict[str, Any]) -> None:
    container["env"].append(container["env"][0])


def _root(container: dict[str, Any]) -> None:
    container["securityContext"]["runAsUser"] = 0


def _writable(container: dict[str, Any]) -> None:
    container["securityContext"]["readOnlyRootFilesystem"] = False


def _no_liveness(container: dict[str, Any]) -> None:
    del container["livenessProbe"]


def _same_probes(container: dict[str, Any]) -> None:
    container["livenessProbe"] = container["readinessProbe"]


def _no_memory(container: dict[str, Any]) -> None:
    del container["resources"]["limits"]


def _stray_mount(container: dict[str, Any]) -> None:
    container["volumeMounts"].append({"name": "nowhere", "mountPath": "/x"})


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_twice, "is there 2 times"),
        (_root, "not restricted"),
        (_writable, "readOnlyRootFilesystem"),
        (_no_liveness, "has no livenessProbe"),
        (_same_probes, "ask the same"),
        (_no_memory, "limits.memory"),
        (_stray_mount, "which is no volume"),
    ],
)
def test_a_spoilt_container_is_found(spoil: Any, says: str, default: list[Document]) -> None:
    spoil(broker(default))
    assert any(says in problem for problem in policy.problems(default))


def test_a_service_that_selects_nothing_is_found(default: list[Document]) -> None:
    named(default, "Service/oncelog")["spec"]["selector"]["app.kubernetes.io/component"] = "typo"
    assert any("selects the pods of 0 workloads" in problem for problem in policy.problems(default))


def test_a_version_in_a_selector_is_found(default: list[Document]) -> None:
    spec = named(default, "StatefulSet/oncelog-partition-leader")["spec"]
    for labels in (spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]):
        labels["app.kubernetes.io/version"] = "1"
    assert any("selects by" in problem for problem in policy.problems(default))


# ---------------------------------------------------------------- upgrades


def test_replicas_and_pods_may_change(default: list[Document]) -> None:
    after = copy.deepcopy(default)
    named(after, "StatefulSet/oncelog-partition-leader")["spec"].update(replicas=9, template={})
    assert list(past.problems(default, after)) == []


@pytest.mark.parametrize("key", ["serviceName", "podManagementPolicy", "volumeClaimTemplates", "selector"])
def test_what_kubernetes_never_lets_change_is_found(key: str, default: list[Document]) -> None:
    after = copy.deepcopy(default)
    named(after, "StatefulSet/oncelog-partition-leader")["spec"][key] = "other"
    assert any("cannot change" in problem for problem in past.problems(default, after))


def test_a_stateful_set_that_is_gone_is_found(default: list[Document]) -> None:
    after = [document for document in default if label(document) != "StatefulSet/oncelog-etcd"]
    assert any("is gone" in problem for problem in past.problems(default, after))
