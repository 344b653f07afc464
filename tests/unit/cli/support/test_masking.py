"""What looks like a secret leaves no machine, and what does not is left alone, in time that grows with the text alone."""

from __future__ import annotations

import time

import pytest

from oncelog_cli.support.masking import MASK, is_secret, masked, masked_text

KEY = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIB\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    "name",
    ["password", "ssl.key.password", "SASL_JAAS_CONFIG", "client-secret", "ONCELOG_TOKEN", "db_api_key", "accessToken"],
)
def test_secret_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["tokens", "ssl_keyfile", "key", "partition_key", "retention_ms", "passwords_max", "maxTokens"]
)
def test_harmless_names(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2, next",
        "Authorization: Bearer hunter2",
        '{"client_secret": "hunter2"}',
        "etcd://root:hunter2@etcd-0:2379",
        KEY.replace("MHcCAQEEIB", "hunter2"),
        "token eyJhbGciOi.hunter2.sig",
        f"cut off: hunter2\nAAAA{KEY.split('-----', 3)[2]}-----END EC PRIVATE KEY-----",
        '{"clientSecret": "hunter2"}',
        "dbPassword=hunter2",
        "AWS_SECRET_ACCESS_KEY=hunter2",
        f"cut in the middle {KEY.split('-----END', maxsplit=1)[0]}hunter2",
    ],
)
def test_secrets_in_texts(text: str) -> None:
    assert "hunter2" not in masked_text(text)
    assert MASK in masked_text(text)


@pytest.mark.parametrize("word", ["A", "eyJaaaaa-", "-----END PRIVATE KEY-----", "secret", "x://a:", "A+/="])
def test_a_log_of_any_content_is_searched_in_time(word: str) -> None:
    began = time.process_time()
    masked_text(word * (400_000 // len(word)))
    assert time.process_time() - began < 5


def test_values_in_any_nesting() -> None:
    value = {"a": [{"password": "x"}, {"name": "sasl.password", "value": "x"}, ("u:x",)], "tokens": {"app": 3}}
    assert masked(value) == {
        "a": [{"password": MASK}, {"name": "sasl.password", "value": MASK}, ["u:x"]],
        "tokens": {"app": 3},
    }
    assert masked({"password": ""}) == {"password": ""}, "that it is empty is worth knowing"
