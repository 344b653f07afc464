"""What single checks of options refuse, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from oncelog import option_checks
from oncelog.errors import ConfigError

LONE_SURROGATE = "\ud800"


def config(value: object) -> SimpleNamespace:
    return SimpleNamespace(option=value)


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (lambda given: option_checks.positive(given, "option"), 0, "`option` is 0, and must be at least 1"),
        (lambda given: option_checks.at_least(given, "option", 5), 4, "`option` is 4, and must be at least 5"),
        (lambda given: option_checks.at_least(given, "option", 5), 1 << 41, "must be at most 1099511627776"),
        (lambda given: option_checks.within(given, "option", 1, 3), 0, "`option` is 0, and must be 1 to 3"),
        (lambda given: option_checks.within(given, "option", 1, 3), 4, "`option` is 4, and must be 1 to 3"),
        (lambda given: option_checks.text(given, "option"), 7, "`option` is 7, and must be text that UTF-8 can hold"),
        (lambda given: option_checks.text(given, "option"), LONE_SURROGATE, "must be text that UTF-8 can hold"),
        (lambda given: option_checks.one_of(given, "option", ("a", "b")), "c", "'c', and must be one of a, b"),
    ],
)
def test_a_check_names_the_option_and_what_it_must_be(
    check: Callable[[object], None], value: object, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check(config(value))
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (lambda given: option_checks.positive(given, "option"), 1),
        (lambda given: option_checks.at_least(given, "option", 5), 1 << 40),
        (lambda given: option_checks.within(given, "option", 1, 3), 1),
        (lambda given: option_checks.within(given, "option", 1, 3), 3),
        (lambda given: option_checks.text(given, "option"), None),
        (lambda given: option_checks.text(given, "option"), "grün"),
        (lambda given: option_checks.secret(given, "option"), ""),
        (lambda given: option_checks.one_of(given, "option", ("a", "b")), "b"),
    ],
)
def test_a_check_lets_pass_what_is_allowed(check: Callable[[object], None], value: object) -> None:
    check(config(value))


@pytest.mark.parametrize("value", [LONE_SURROGATE + "hidden", 4711])
def test_a_refused_secret_is_not_shown(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        option_checks.secret(config(value), "option")
    assert str(value) not in str(caught.value)
    assert "`option` must be text" in caught.value.message


@pytest.mark.parametrize(
    ("given", "default", "value"),
    [
        ("true", False, True),
        ("FALSE", True, False),
        (True, False, True),
        ("7", 1, 7),
        (7, 1, 7),
        ("0.5", 1.0, 0.5),
        ("text", "", "text"),
        (None, None, None),
    ],
)
def test_text_becomes_the_type_of_the_default(given: object, default: object, value: object) -> None:
    coerced = option_checks.coerce("option", given, default)
    assert (type(coerced), coerced) == (type(value), value)


@pytest.mark.parametrize(
    ("given", "default", "message"),
    [
        ("yes", False, "`option` is true or false"),
        (1, False, "`option` is true or false"),
        ("much", 1, "`option` is a whole number"),
        ("much", 1.0, "`option` is a number"),
        (None, 1, "`option` is a whole number"),
        (float("inf"), 1, "`option` is a whole number"),
    ],
)
def test_what_has_not_the_type_of_the_default_is_refused(given: object, default: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        option_checks.coerce("option", given, default)
    assert message in caught.value.message


def test_an_unknown_name_is_told_the_nearest_known_one() -> None:
    assert option_checks.suggestion("linger", ["linger_ms", "batch_size"]) == "; did you mean `linger_ms`?"
    assert option_checks.suggestion("colour", ["linger_ms", "batch_size"]) == ""
