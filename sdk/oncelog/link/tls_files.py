"""Certificates from files, for as long as a process lives: checked when they are read, read again when they change.

Rule 1: what cannot work is said before anything is served or dialled, in one sentence that names the setting and file.
Rule 2: files are compared by content, never by name or time, so that any way of replacing them is seen (Kubernetes swaps
        a symbolic link of the folder, tools rename or write in place).
Rule 3: a renewal that cannot work changes nothing: the last good files stay in use, and the log says so, once.
Rule 4: half a renewal (new certificate, old key) is looked at again, at once and with each later use.

Thread-safe: gRPC asks for certificates in threads of its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Final

from oncelog.errors import ConfigError
from oncelog.link import tls_check
from oncelog.link.tls_check import Pem, PemPaths, Use, Validity

_log = logging.getLogger(__name__)

_OVERDUE: Final = 1 / 6
"""A renewal is overdue when less than this share of a certificate's lifetime is left; usually it comes with a third left."""
_COMPLAIN_EVERY_S: Final = 3600.0
_TRIES: Final = 3


class TlsFiles:
    """The newest good content of `paths`.

    `hosts`: names and addresses under which peers dial this process; the certificate must hold them. `wanted_hosts` too,
    but a missing one is only logged (clients may come by a proxy that has a certificate of its own).
    """

    def __init__(
        self,
        paths: PemPaths,
        use: Use = Use.CLIENT,
        *,
        hosts: Sequence[str] = (),
        wanted_hosts: Sequence[str] = (),
    ) -> None:
        self.paths = paths
        self._use = use
        self._hosts = tuple(hosts)
        self._wanted_hosts = tuple(wanted_hosts)
        self._lock = threading.Lock()
        self._good: Pem | None = None
        self._refused: Pem | None = None
        self._complaint = ""
        self._validity = Validity()
        self._quiet_until_s = 0.0

    def current(self) -> Pem:
        """The newest good content; the same object as long as nothing changed.

        Raises `ConfigError` when there has been no good one yet.
        """
        return self._current(again=False)

    @property
    def validity(self) -> Validity:
        """The life of the certificate in use."""
        return self._validity

    def look(self) -> None:
        """Called by a timer: notices renewals, good and bad, and complains when one is overdue."""
        self._current(again=True)
        now_s, validity = time.time(), self._validity
        left_s = validity.to_s - now_s
        if not validity.to_s or left_s > (validity.to_s - validity.from_s) * _OVERDUE or now_s < self._quiet_until_s:
            return
        self._quiet_until_s = now_s + _COMPLAIN_EVERY_S
        if left_s <= 0:
            _log.error("the certificate has expired: new connections fail until it is renewed", extra=self._story())
        else:
            _log.warning("the certificate expires soon and was not renewed", extra=self._story())

    def _current(self, *, again: bool) -> Pem:
        """`again`: what was refused is checked once more (it may be valid by now)."""
        with self._lock:
            found = None
            try:
                found = self.paths.read()
                if self._good is not None and (found == self._good or (found == self._refused and not again)):
                    return self._good
                found, validity = self._checked(found)
            except ConfigError as error:
                return self._keep_old(found, error)
            if self._good is not None:
                _log.info("certificates renewed", extra=self._story())
            self._good, self._refused, self._complaint = found, None, ""
            self._validity, self._quiet_until_s = validity, 0.0
            return found

    def _checked(self, found: Pem) -> tuple[Pem, Validity]:
        for _ in range(_TRIES):
            fault, validity = None, Validity()
            try:
                validity = tls_check.check(self.paths, found, self._use, self._hosts)
            except ConfigError as error:
                fault = error
            before, found = found, self.paths.read()
            if found != before:
                continue  # in the middle of a renewal
            if fault is not None:
                raise fault
            self._want_hosts(found)
            return found, validity
        raise ConfigError(f"{self.paths.cert_setting} {self.paths.cert} changes while it is read")

    def _want_hosts(self, found: Pem) -> None:
        for host in self._wanted_hosts:
            try:
                tls_check.check(self.paths, found, Use.SERVER, (host,))
            except ConfigError as error:
                _log.warning("clients will refuse this process: %s", error)

    def _keep_old(self, refused: Pem | None, error: ConfigError) -> Pem:
        """Rule 3."""
        if self._good is None:
            raise error
        self._refused = refused
        if error.message != self._complaint:
            self._complaint = error.message
            _log.error("the new certificates cannot be used, the old ones stay: %s", error, extra=self._story())
        return self._good

    def _story(self) -> dict[str, str]:
        valid_to = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._validity.to_s)) if self._validity.to_s else ""
        return {"cert": self.paths.cert, "ca": self.paths.ca, "old_valid_to": valid_to}
