"""Compiled rules answer as a plain scan over all of them would."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import (
    EVERYBODY,
    LEGAL,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    allowed_by,
    check_acl,
)
from oncelog_runtime.core.security.matcher import Matcher
from oncelog_runtime.core.security.roles import BUILT_IN, Binding, expand

PRINCIPALS = ("User:a", "User:b", "User:ab")
NAMES = ("a", "ab", "abc", "b", "ba")
HOSTS = ("10.0.0.1", "10.0.0.2")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)


@st.composite
def acls(draw: st.DrawFn) -> Acl:
    kind = draw(st.sampled_from(TYPES))
    pattern = draw(st.sampled_from(PatternType))
    names = (*NAMES, "*") if pattern is PatternType.LITERAL else NAMES
    return check_acl(
        Acl(
            draw(st.sampled_from((*PRINCIPALS, EVERYBODY))),
            kind,
            pattern,
            draw(st.sampled_from(names)),
            draw(st.sampled_from(sorted(LEGAL[kind]))),
            draw(st.sampled_from(Permission)),
            draw(st.sampled_from((*HOSTS, "*"))),
        )
    )


def scan(rules: list[Acl], who: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
    """The meaning of rules, in the words of Kafka's documentation."""
    mine = [
        rule
        for rule in rules
        if rule.principal in (who, "User:*")
        and rule.host in (host, "*")
        and rule.resource_type == kind
        and (
            (rule.pattern_type == "LITERAL" and rule.resource_name in (name, "*"))
            or (rule.pattern_type == "PREFIXED" and name.startswith(rule.resource_name))
        )
    ]
    if any(rule.permission == "DENY" and rule.operation in (operation, "ALL") for rule in mine):
        return False
    return any(rule.permission == "ALLOW" and rule.operation in allowed_by(operation) for rule in mine)


QUESTIONS = st.tuples(
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from([operation for operation in Operation if operation is not Operation.ALL]),
    st.sampled_from(TYPES),
    st.sampled_from((*NAMES, "abcd", "z", "*")),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(acls(), max_size=12), st.lists(QUESTIONS, min_size=1, max_size=8))
def test_the_matcher_answers_as_a_scan_does(
    rules: list[Acl], questions: list[tuple[str, str, Operation, ResourceType, str]]
) -> None:
    policy = Policy()
    policy.replace(rules, [], {})
    for who, host, operation, kind, name in questions:
        expected = scan(rules, who, host, operation, kind, name)
        assert Matcher(rules).rules_of(who, host).decide(operation, kind, name).allowed == expected
        access = policy.access(who, host)
        access.look()
        for _ in range(2):  # asked anew, and remembered
            assert access.allows(operation, kind, name) == expected


@settings(max_examples=300, deadline=None)
@given(st.lists(acls(), max_size=8), st.sampled_from(PRINCIPALS), st.sampled_from(HOSTS), st.sampled_from(TYPES))
def test_somewhere_is_never_said_when_it_is_nowhere(rules: list[Acl], who: str, host: str, kind: ResourceType) -> None:
    said = Matcher(rules).rules_of(who, host).decide_any(Operation.READ, kind).allowed
    names = {name + more for name in (*NAMES, "z") for more in ("", "q")}
    found = any(scan(rules, who, host, Operation.READ, kind, name) for name in names)
    if found:
        assert said  # the other way round a patchwork of denials may cover a prefix, as in Kafka


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(BUILT_IN)), st.sampled_from(NAMES), st.sampled_from(PatternType), QUESTIONS)
def test_a_binding_is_the_rules_that_it_stands_for(
    role: str, name: str, pattern: PatternType, question: tuple[str, str, Operation, ResourceType, str]
) -> None:
    binding = Binding("User:a", role, pattern, name)
    rules = [check_acl(acl) for acl in expand(binding, {})]
    policy = Policy()
    policy.replace([], [binding], {})
    access = policy.access(question[0], question[1])
    access.look()
    assert access.allows(*question[2:]) == scan(rules, *question)
