"""Session tokens: the owner of a producer id or of a session of a transactional id proves with one that it was given to
it.

Rule 1: a token is a keyed hash over its subject, so every broker and coordinator checks it alone: nothing is requested,
        nothing is stored. The key is in etcd and known only to the cluster's services; it never leaves them.
Rule 2: a producer id's token is for its plain batches and for settling them. A session's token covers (transactional
        id's producer id, session epoch) and the transactional id itself, and is for everything that the session does:
        batches of its transactions by all of its participants, enrolment, end, renewal, offsets. A later session has
        another epoch, and so another token. It is not valid for another transactional id: rights are checked for that
        name (`security.gate`).
Rule 3: names, numbers and epochs are no secrets: operators' lists show them. No such list contains a token.
Rule 4: every new session or producer gets a token, but it is checked only where `require_session_tokens` is set, or
        access rules are on: clients of an older version send none.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final

from oncelog.errors import CoordinatorNotAvailableError, TransactionalIdAuthorizationError
from oncelog_runtime.metadata.cluster_view import ClusterView

_HASH_BYTES: Final = 16
_PRODUCER: Final = b"producer"
_SESSION: Final = b"session."
_CLAIM: Final = struct.Struct(">8sqi")
_EPOCH: Final = struct.Struct(">i")
_NO_EPOCH: Final = -1
SHOWN_CHARACTERS: Final = 12


class SessionTokens:
    """Makes and checks tokens, with the key from the process's view of the cluster."""

    def __init__(self, view: ClusterView, *, required: bool) -> None:
        self._view = view
        self.required = required

    # ------------------------------------------------------------ making

    def of_producer(self, producer_id: int) -> bytes:
        """Returns the token of a producer without a transactional id; empty while this process does not know the key."""
        return self._make(_PRODUCER, producer_id, _NO_EPOCH)

    def of_session(self, transactional_id: str, txn_producer_id: int, session_epoch: int) -> bytes:
        """Returns the token of a session of a transactional id, for all participants of its transactions."""
        return self._make(_SESSION, txn_producer_id, session_epoch, transactional_id)

    def _make(self, kind: bytes, producer_id: int, epoch: int, transactional_id: str = "") -> bytes:
        """Makes a token. It contains the epoch, so that it can be checked for calls that name no epoch."""
        key = self._view.session_key
        if not key:
            return b""
        claim = _CLAIM.pack(kind, producer_id, epoch) + transactional_id.encode()
        return _EPOCH.pack(epoch) + hashlib.blake2b(claim, key=key, digest_size=_HASH_BYTES).digest()

    # ------------------------------------------------------------ checking

    def require_producer(self, producer_id: int, token: bytes) -> None:
        """Raises `TransactionalIdAuthorizationError` unless this is the producer id's token."""
        if self.required:
            self._require(token, self.of_producer(producer_id), producer_id)

    def require_session(self, transactional_id: str, txn_producer_id: int, session_epoch: int, token: bytes) -> None:
        """Raises `TransactionalIdAuthorizationError` unless this is the token of this session of this transactional id."""
        if self.required:
            self._require(token, self.of_session(transactional_id, txn_producer_id, session_epoch), txn_producer_id)

    def require_any_session(self, transactional_id: str, txn_producer_id: int, token: bytes) -> None:
        """Checks calls that name no epoch: the token of a former session is valid too. The core decides what such a
        session may still do: learn the outcomes of its transactions, and nothing else.
        """
        if self.required:
            epoch = _EPOCH.unpack_from(token)[0] if len(token) == _EPOCH.size + _HASH_BYTES else _NO_EPOCH
            self._require(token, self.of_session(transactional_id, txn_producer_id, epoch), txn_producer_id)

    def _require(self, token: bytes, wanted: bytes, producer_id: int) -> None:
        if not wanted:
            raise CoordinatorNotAvailableError("this process does not know the key of session tokens yet")
        if not hmac.compare_digest(token, wanted):
            raise TransactionalIdAuthorizationError(
                "the session token is missing or another one: show the one that InitProducerId or JoinTransaction answered, "
                "with a client library of this version, or begin a new session",
                producer_id=producer_id,
            )

    # ------------------------------------------------------------ lists of operators

    def shown_run(self, owner_run: str) -> str:
        """Returns a run's name for operators' lists. A participant identifies itself by the name of its run, so where
        tokens are required, the beginning of a hash is shown instead.
        """
        if not self.required or not owner_run:
            return owner_run
        return "sha256:" + hashlib.sha256(owner_run.encode()).hexdigest()[:SHOWN_CHARACTERS]
