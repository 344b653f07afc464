"""Takes secrets out of what leaves the machine: by the names of settings, and by the looks of values.

Rule: a name is judged by its words (`ssl_key_password`, not `tokens` of Spark's batches); a text is searched for pairs,
private keys, bearer tokens and passwords in addresses. What is masked is replaced by `***`, never shortened. The time is
linear in the text, whatever stands in it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Final

MASK: Final = "***"
_WORD: Final = (
    r"(?:password|passwd|passphrase|secret|token|credentials?|api_?key|access_?key|private_?key|jaas_config|"
    r"authorization)"
)
_BEGINS: Final = r"(?:^|[^A-Za-z]|(?-i:(?<=[a-z0-9])(?=[A-Z])))"
"""Matches where a word begins in a name, `client_secret` and `clientSecret` alike."""
_NAME: Final = re.compile(rf"{_BEGINS}{_WORD}$", re.IGNORECASE)
_PAIR: Final = re.compile(
    rf"({_BEGINS}{_WORD}[\"']?\s*[=:]\s*)(?:(?:bearer|basic)\s+)?(\"[^\"]*\"|'[^']*'|[^\s,;&}}]+)", re.IGNORECASE
)
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_PEM_END: Final = re.compile(r"-----END [A-Z ]*PRIVATE KEY-----")
_PEM_CHARACTERS: Final = string.ascii_letters + string.digits + "+/=\\ \r\n"
_JWT: Final = re.compile(r"\beyJ[\w-]{5,2000}\.[\w-]+\.[\w-]*")
_USER: Final = re.compile(r"(\b\w{1,40}://[^\s/:@]+:)[^\s/@]+(@)")


def is_secret(name: str) -> bool:
    """True when the value of a setting of this name is a secret."""
    return bool(_NAME.search(name.replace("-", "_").replace(".", "_")))


def masked(value: object, name: str = "") -> object:
    """The same value without secrets, in any nesting of mappings and lists."""
    if isinstance(value, Mapping):
        pair = set(value) == {"name", "value"}  # a list of settings
        return {
            key: masked(item, str(value["name"]) if pair and key == "value" else str(key))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(item, name) for item in value]
    if is_secret(name) and value not in (None, "", b""):
        return MASK
    return masked_text(value) if isinstance(value, str) else value


def masked_text(text: str) -> str:
    """A text, a log for example, without what looks like a secret."""
    text = _PEM.sub(MASK, text)
    *cut, rest = _PEM_END.split(text)  # keys whose beginning was cut off
    text = MASK.join([*(part.rstrip(_PEM_CHARACTERS) for part in cut), rest])
    text = _PAIR.sub(rf"\1{MASK}", text)
    return _USER.sub(rf"\1{MASK}\2", _JWT.sub(MASK, text))
