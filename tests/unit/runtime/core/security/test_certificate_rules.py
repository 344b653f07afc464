"""Who a certificate names is what the parser found, by rules, as a whole, or nobody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oncelog.errors import AuthenticationError, ConfigError
from oncelog_runtime.core.security.certificate_rules import (
    DEFAULT_RULES,
    SERVICES,
    CertificateFacts,
    parse_rules,
    parse_service_rules,
    principal_of,
    service_methods,
)

SERVICE_FOLDERS = Path(__file__).parents[5] / "services"


def facts(**values: tuple[str, ...]) -> CertificateFacts:
    return CertificateFacts(values)


def name_of(rules: str, given: CertificateFacts) -> str:
    return principal_of(given, parse_rules(rules, "principal_rules"))


def test_without_rules_the_uri_names_a_caller_and_then_the_host_and_never_the_common_name() -> None:
    spiffe = "spiffe://shop/ns/a/sa/web"
    assert name_of(DEFAULT_RULES, facts(uri=(spiffe,), dns=("a.b",), cn=("root",))) == f"User:{spiffe}"
    assert name_of(DEFAULT_RULES, facts(dns=("a.b",), cn=("root",))) == "User:a.b"
    with pytest.raises(AuthenticationError):
        name_of(DEFAULT_RULES, facts(cn=("root",)))


def test_the_first_rule_that_fits_as_a_whole_decides() -> None:
    rules = "uri:spiffe://shop/ns/([^/]+)/sa/(.+)=>$1-$2; cn:(.+)=>$1"
    assert name_of(rules, facts(uri=("spiffe://shop/ns/a/sa/web",), cn=("root",))) == "User:a-web"
    assert name_of(rules, facts(uri=("xspiffe://shop/ns/a/sa/web",), cn=("bob",))) == "User:bob"
    assert name_of("cn:(.+)@shop=>$1", facts(cn=("bob@shop",))) == "User:bob"
    with pytest.raises(AuthenticationError):
        name_of("cn:(.+)@shop=>$1", facts(cn=("bob@shop.evil",)))


@pytest.mark.parametrize("value", ["bob,CN=root", "bob\0", "root=", "b\u043eb", "bob,O=x", "CN=root"])
def test_a_value_is_a_value_whatever_stands_in_it(value: str) -> None:
    rules = "cn:root=>root; cn:bob=>bob"
    with pytest.raises(AuthenticationError):
        name_of(rules, facts(cn=(value,)))


def test_two_values_that_fit_name_nobody() -> None:
    with pytest.raises(AuthenticationError):
        name_of("cn:(.+)=>$1", facts(cn=("bob", "root")))


@pytest.mark.parametrize("value", ["*", "a\n", " ", "\x1b[1m", "a" * 600])
def test_a_name_that_no_principal_has_names_nobody(value: str) -> None:
    with pytest.raises(AuthenticationError):
        name_of("cn:((?s:.+))=>$1", facts(cn=(value,)))


@pytest.mark.parametrize("rules", ["cn", "cn:x", "dn:x=>y", "cn:(=>y", "cn:x=>$1", "cn:x=>", "=>y"])
def test_rules_that_do_not_work_end_the_start_with_their_setting(rules: str) -> None:
    with pytest.raises(ConfigError, match="principal_rules"):
        parse_rules(rules, "principal_rules")


def test_a_regular_expression_that_is_too_deep_is_a_named_error() -> None:
    """Found by fuzzing: it was a RecursionError."""
    with pytest.raises(ConfigError, match="principal_rules: a regular expression of 20002 characters is too deep"):
        parse_rules("cn:" + "(" * 10_000 + "x." + ")" * 10_000 + "=>y", "principal_rules")


def test_a_certificate_speaks_for_one_service_and_one_without_for_none() -> None:
    rules = parse_service_rules("dns:broker-[0-9]+=>partition_leader; dns:co-.+=>coordinator", "service_rules")
    broker = service_methods(facts(dns=("broker-1",)), rules)
    assert "PartitionLeader.Replicate" in broker
    assert "PartitionLeader.WriteTxnMarkers" not in broker
    assert "PartitionLeader.WriteTxnMarkers" in service_methods(facts(dns=("co-a",)), rules)
    assert not service_methods(facts(dns=("other",)), rules)
    assert not service_methods(None, rules)
    with pytest.raises(ConfigError):
        parse_service_rules("dns:x=>root", "service_rules")


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_a_service_may_call_just_what_its_sources_call(service: str) -> None:
    from oncelog.wire import methods

    sources = [path.read_text() for path in (SERVICE_FOLDERS / service).rglob("*.py")]
    called = {name for text in sources for name in re.findall(r"methods\.([A-Z_]+)\.call\(", text)}
    drains = {"partition_leader": {"PartitionLeader.DrainBroker"}, "coordinator": {"Coordinator.DrainCoordinator"}}
    wanted = {getattr(methods, name).name for name in called} | drains.get(service, set())
    assert wanted == SERVICES[service]
