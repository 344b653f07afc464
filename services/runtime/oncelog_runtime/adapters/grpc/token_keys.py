"""The keys with which an issuer signs tokens (JWKS, RFC 7517), from a file or from one URL, renewed while the process
runs.

Rule 1: an unknown key causes one read, and at most one in `RENEW_MIN_MS`: invalid tokens cost no traffic. From a file, and
        until the first set is read, it is one in `RETRY_MIN_MS`. While a set is being read, no key is called unknown: who
        asks for one waits.
Rule 2: while the source cannot be read, the last keys stay valid. Before the first read no token is refused: the
        callers are asked to try again.
Rule 3: one host: redirects are not followed, plain http only to this machine, an answer is at most `BYTES_MAX` long and
        takes at most `TIMEOUT_S`.
Rule 4: only public keys of asymmetric algorithms are accepted; anything else in the set is ignored.
"""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import json
import logging
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import jwt

from oncelog.errors import ConfigError, MetadataUnavailableError
from oncelog.ports import WallClock

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
RENEW_MIN_MS: Final = 60_000
RETRY_MIN_MS: Final = 1_000
RENEW_EVERY_MS: Final = 600_000
FILE_EVERY_MS: Final = 10_000
TIMEOUT_S: Final = 5.0
BYTES_MAX: Final = 1 << 20
KEYS_MAX: Final = 100
_KINDS: Final = ("RSA", "EC", "OKP")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: object, **_more: object) -> None:
        """Refuses a redirect: the answer would come from a host that is not configured."""
        return


class TokenKeys:
    """Reads and renews the keys. `source`: a path, or an https URL. `ca_file`: the CA of the URL's server; empty = the
    public CAs. `token_file`: a bearer token for the URL, read again each time (Kubernetes wants one).
    """

    def __init__(self, source: str, clock: WallClock, ca_file: str = "", token_file: str = "") -> None:
        self._source = source
        self._clock = clock
        self._ca_file = ca_file
        self._token_file = token_file
        self._is_url = "://" in source
        if self._is_url:
            check_url(source)
        self._keys: dict[str, jwt.PyJWK] = {}
        self._was_read = False
        self._looked_ms: int | None = None
        self._looking: asyncio.Task[None] | None = None

    def has(self, key_id: str, key: jwt.PyJWK) -> bool:
        """True while this key is valid under this name. It is called at each request with a known token, so it also
        triggers the renewal of old sets when no new token arrives. Needs a running event loop.
        """
        if self._is_old():
            self._begin()
        return self._keys.get(key_id) is key

    async def find(self, key_id: str) -> jwt.PyJWK | None:
        """Returns the key, after a new read if needed; None: no such key. Raises `MetadataUnavailableError` before the
        first set is read.
        """
        if key_id not in self._keys:
            if self._is_looking() or self._may_look():
                await self._look()
        elif self._is_old():
            looking = self._begin()
            if not self._is_url:
                await asyncio.shield(looking)
        if not self._was_read:
            raise MetadataUnavailableError(
                "this process could not read the keys of tokens yet", retry_after_ms=RETRY_MIN_MS
            )
        return self._keys.get(key_id)

    def _may_look(self) -> bool:
        """True when an unknown key may cause a read."""
        age_ms = self._age_ms()
        least_ms = RENEW_MIN_MS if self._is_url and self._was_read else RETRY_MIN_MS
        return age_ms is None or age_ms >= least_ms

    def _is_old(self) -> bool:
        age_ms = self._age_ms()
        return age_ms is not None and age_ms >= (RENEW_EVERY_MS if self._is_url else FILE_EVERY_MS)

    def _age_ms(self) -> int | None:
        return None if self._looked_ms is None else self._clock.monotonic_ms() - self._looked_ms

    async def _look(self) -> None:
        """Waits for a read that all callers share."""
        await asyncio.shield(self._begin())

    def _is_looking(self) -> bool:
        return self._looking is not None and not self._looking.done()

    def _begin(self) -> asyncio.Task[None]:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._renew())
        return self._looking

    async def _renew(self) -> None:
        self._looked_ms = self._clock.monotonic_ms()
        try:
            data = await asyncio.to_thread(self._read)
            keys = keys_of(data)
        except (OSError, ValueError, http.client.HTTPException) as error:  # what is no HTTP is no OSError
            log.warning(
                "the keys of tokens cannot be read, the last ones count: %s", error, extra={"from": self._source}
            )
            return
        same = {key_id: old for key_id, old in self._keys.items() if key_id in keys and keys[key_id].key == old.key}
        if len(same) < max(len(keys), len(self._keys)):
            log.info("keys of tokens renewed", extra={"keys": sorted(ascii(key_id) for key_id in keys)})
        self._was_read = True
        self._keys = {**keys, **same}  # an unchanged key stays the same object: `has` compares by identity

    def _read(self) -> bytes:
        if not self._is_url:
            with Path(self._source).open("rb") as file:
                return _bounded(file.read(BYTES_MAX + 1))
        request = urllib.request.Request(self._source, headers={"accept": "application/json"})
        if self._token_file:
            bearer = Path(self._token_file).read_text(encoding="utf-8").strip()
            request.add_unredirected_header("authorization", f"Bearer {bearer}")
        context = ssl.create_default_context(cafile=self._ca_file or None)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirects()
        )
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return _bounded(answer.read(BYTES_MAX + 1))


def check_url(url: str) -> None:
    """Raises `ConfigError` unless the URL is https, or http on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and _is_here(parts.hostname or ""):
        return
    raise ConfigError("jwt_jwks is a path or an https URL: whoever can change these keys can be anybody", given=url)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bounded(data: bytes) -> bytes:
    if len(data) > BYTES_MAX:
        raise ValueError(f"more than {BYTES_MAX} bytes")
    return data


def keys_of(data: bytes) -> dict[str, jwt.PyJWK]:
    """Returns key id -> public key. Raises `ValueError` if this is no key set."""
    try:
        items = json.loads(data)["keys"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("this is no JSON with a list of keys") from error
    if not isinstance(items, list) or len(items) > KEYS_MAX:
        raise ValueError(f"a key set is a list of at most {KEYS_MAX} keys")
    keys: dict[str, jwt.PyJWK] = {}
    for item in items:
        if not isinstance(item, dict) or item.get("kty") not in _KINDS or item.get("use", "sig") != "sig":
            continue
        key_id = item.get("kid")
        if not isinstance(key_id, str) or not key_id or item.get("alg", ALGORITHMS[0]) not in ALGORITHMS:
            continue
        try:
            keys[key_id] = jwt.PyJWK({name: value for name, value in item.items() if name != "d"})
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            log.warning("a key of tokens cannot be used: %s", error, extra={"key_id": ascii(key_id[:64])})
    return keys
