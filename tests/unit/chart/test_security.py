"""The chart with access rules on: a certificate speaks for one service, jobs are somebody, tokens are where they must be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oncelog_partition_leader.config import BrokerConfig
from oncelog_runtime.core.security.acl import check_principal
from oncelog_runtime.core.security.certificate_rules import (
    DEFAULT_RULES,
    SERVICES,
    CertificateFacts,
    parse_rules,
    parse_service_rules,
    principal_of,
    service_methods,
)
from tests.chart import fit, golden, pods
from tests.chart.tools import Document

SECURED = ("security-kubernetes", "security-certificates", "security-keys-file", "security-cert-manager")


def broker(case: str) -> BrokerConfig:
    """What a broker of a rendering is told."""
    documents = golden.load(case)
    for document in pods.of_kind(documents, "StatefulSet"):
        for container in pods.containers(document):
            if container.get("command") == ["oncelog-partition-leader"]:
                config = fit.config_of(document, container, documents)
                assert isinstance(config, BrokerConfig)
                return config
    raise AssertionError("no broker")


def certificates(documents: list[Document]) -> dict[str, CertificateFacts]:
    """By component, what the certificates say that cert-manager would issue."""
    return {
        document["metadata"]["labels"]["app.kubernetes.io/component"]: CertificateFacts(
            {"dns": tuple(document["spec"].get("dnsNames", ())), "uri": tuple(document["spec"].get("uris", ()))}
        )
        for document in pods.of_kind(documents, "Certificate")
    }


def job_pods(documents: list[Document]) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in pods.of_kind(documents, "Job", "Pod"):
        spec = pods.pod_template(document)["spec"]
        yield document["metadata"]["name"], spec


@pytest.mark.parametrize("case", ["security-kubernetes", "security-cert-manager", "tls-cert-manager"])
def test_each_certificate_of_the_chart_speaks_for_its_own_service_alone(case: str) -> None:
    rules = parse_service_rules(broker(case).service_rules, "service_rules")
    issued = certificates(golden.load(case))
    for component, service in (("partition-leader", "partition_leader"), ("coordinator", "coordinator")):
        assert service_methods(issued[component], rules) == SERVICES[service]
    assert len({rule.result for rule in rules}) == 3
    for component in issued.keys() - {"partition-leader", "coordinator"}:
        assert service_methods(issued[component], rules) == frozenset(), component


def test_one_secret_for_all_services_makes_no_service_rules() -> None:
    assert broker("tls-existing-secret").service_rules == ""
    assert broker("security-certificates").service_rules != ""
    assert broker("security-oidc").service_rules.startswith("uri:spiffe://x/broker=>")


def test_the_jobs_own_certificate_names_a_super_user() -> None:
    facts = certificates(golden.load("security-cert-manager"))["jobs"]
    assert principal_of(facts, parse_rules(DEFAULT_RULES, "")) in broker("security-cert-manager").super_users


@pytest.mark.parametrize("case", SECURED)
def test_every_job_is_somebody_who_may_do_everything(case: str) -> None:
    config = broker(case)
    documents = golden.load(case)
    account = next(iter(job_pods(documents)))[1]["serviceAccountName"]
    named = {
        "security-kubernetes": f"User:system:serviceaccount:default:{account}",
        "security-certificates": "User:oncelog-jobs",
        "security-keys-file": "User:jobs",
        "security-cert-manager": f"User:spiffe://cluster.local/ns/default/sa/{account.removesuffix('-partition-leader')}-jobs",
    }
    assert named[case] in config.super_users
    assert check_principal(named[case], wildcard=False)
    for name, spec in job_pods(documents):
        (container,) = spec["containers"]
        told = {entry["name"]: entry.get("value", "") for entry in container["env"]}
        mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
        shown = [
            told[key] for key in ("ONCELOG_TOKEN_FILE", "ONCELOG_SSL_CERTFILE", "ONCELOG_SSL_CAFILE") if key in told
        ]
        assert "ONCELOG_TOKEN_FILE" in told or "ONCELOG_SSL_CERTFILE" in told, name
        assert all(any(path.startswith(f"{folder}/") for folder in mounted) for path in shown), name


def test_tokens_are_projected_with_their_audience_and_nowhere_else() -> None:
    audiences: dict[str, set[Any]] = {}
    for document in pods.of_kind(golden.load("security-kubernetes"), *pods.WORKLOADS):
        spec = pods.pod_template(document)["spec"]
        assert spec["automountServiceAccountToken"] is False
        component = pods.pod_template(document)["metadata"]["labels"]["app.kubernetes.io/component"]
        audiences[component] = {
            source["serviceAccountToken"].get("audience", "the API server")
            for volume in spec.get("volumes", [])
            for source in volume.get("projected", {}).get("sources", [])
            if "serviceAccountToken" in source
        }
    to_fetch_keys = {key: {"the API server"} for key in ("partition-leader", "coordinator")}
    to_say_who = {key: {"oncelog"} for key in ("access", "topics", "test", "upgrade-check")}
    assert audiences == {**to_fetch_keys, **to_say_who, "pid-allocator": set(), "etcd": set()}


@pytest.mark.parametrize("case", golden.names())
def test_no_rendering_but_those_with_service_accounts_has_a_token(case: str) -> None:
    if case == "security-kubernetes":
        return
    assert "serviceAccountToken" not in golden.path_of(case).read_text(encoding="utf-8")


def test_the_issuer_is_what_the_values_say() -> None:
    kubernetes, oidc, file = (broker(case) for case in ("security-kubernetes", "security-oidc", "security-keys-file"))
    assert kubernetes.jwt_issuer == "https://kubernetes.default.svc.cluster.local"
    assert (oidc.jwt_jwks, oidc.jwt_principal_claim) == ("https://login.example.com:8443/keys", "preferred_username")
    assert (file.jwt_jwks, file.jwt_jwks_bearer_file) == ("/etc/oncelog/issuer/jwks.json", "")
    assert file.require_session_tokens


def test_without_rules_the_services_are_told_nothing_of_them() -> None:
    text = golden.path_of("default").read_text(encoding="utf-8")
    assert not any(word in text for word in ("AUTHORIZATION", "SUPER_USERS", "JWT_", "SERVICE_RULES", "TOKEN_FILE"))
