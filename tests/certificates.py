"""A certificate authority for tests, and files that its certificates stand in."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme

from oncelog.client.tls_check import PemPaths

HOUR = timedelta(hours=1)


class Authority:
    """`issue` writes NAME.crt and NAME.key beside ca.crt; a second `issue` of the same name is a renewal."""

    def __init__(self, folder: Path, ca_name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.ca_path = folder / f"{ca_name}.crt"
        self.ca_path.write_bytes(self._ca.cert_pem.bytes())

    def pem(self, *names: str, **options: Any) -> tuple[bytes, bytes]:
        """(certificate chain, key) that nobody has written anywhere."""
        issued = self._ca.issue_cert(*names, **options)
        return b"".join(pem.bytes() for pem in issued.cert_chain_pems), issued.private_key_pem.bytes()

    def issue(self, name: str, *names: str, expires_in: timedelta | None = None) -> PemPaths:
        """`names` are hosts and addresses that the certificate holds. `expires_in` may be negative."""
        options: dict[str, Any] = {}
        if expires_in is not None:
            now = datetime.now(UTC)
            options = {"not_before": now + min(expires_in, timedelta()) - HOUR, "not_after": now + expires_in}
        cert, key = self.pem(*names, **options)
        paths = PemPaths(str(self._folder / f"{name}.crt"), str(self._folder / f"{name}.key"), str(self.ca_path))
        Path(paths.cert).write_bytes(cert)
        Path(paths.key).write_bytes(key)
        return paths


def trusting_only(paths: PemPaths) -> PemPaths:
    """The CA without a certificate of one's own."""
    return dataclasses.replace(paths, cert="", key="")
