"""Session tokens: who was given a producer id or a session of a transactional id can show that it was.

Rule 1: a token is a keyed hash over what it is for, so every broker and coordinator checks it alone: nothing is asked, nothing
        is stored. The key stands in etcd and is known to the cluster's services alone; it never goes out.
Rule 2: a producer id's token is for its plain batches and for settling them. A session's token, of (transactional id's producer
        id, session epoch) and of the transactional id itself, is for all that the session does: batches of its transactions,
        whoever of its participants writes them, enrolment, end, renewal, offsets. A later session has another epoch, and so
        another token. Under another transactional id's name it opens nothing: rights are asked for that name (`security.gate`).
Rule 3: names, numbers and epochs are no secrets: operators' lists tell them. What is told to others never holds a token.
Rule 4: tokens are given to everybody who begins, and are looked at only where `require_session_tokens` is set, or access rules
        are on: clients of an older version show none.
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
    """See the module. Made of a process's view of the cluster, which follows the key."""

    def __init__(self, view: ClusterView, *, required: bool) -> None:
        self._view = view
        self.required = required

    # ------------------------------------------------------------ giving

    def of_producer(self, producer_id: int) -> bytes:
        """For a producer without a transactional id; empty while this process does not know the key."""
        return self._make(_PRODUCER, producer_id, _NO_EPOCH)

    def of_session(self, transactional_id: str, txn_producer_id: int, session_epoch: int) -> bytes:
        """For a session of a transactional id, and for all participants of its transactions."""
        return self._make(_SESSION, txn_producer_id, session_epoch, transactional_id)

    def _make(self, kind: bytes, producer_id: int, epoch: int, transactional_id: str = "") -> bytes:
        """The epoch stands in it, so that a token can be checked where the caller names no epoch."""
        key = self._view.session_key
        if not key:
            return b""
        claim = _CLAIM.pack(kind, producer_id, epoch) + transactional_id.encode()
        return _EPOCH.pack(epoch) + hashlib.blake2b(claim, key=key, digest_size=_HASH_BYTES).digest()

    # ------------------------------------------------------------ checking

    def require_producer(self, producer_id: int, token: bytes) -> None:
        """Raises `TransactionalIdAuthorizationError` unless the producer id was given to whoever shows this."""
        if self.required:
            self._require(token, self.of_producer(producer_id), producer_id)

    def require_session(self, transactional_id: str, txn_producer_id: int, session_epoch: int, token: bytes) -> None:
        """Raises `TransactionalIdAuthorizationError` unless this session, of this transactional id, was given to whoever shows
        this.
        """
        if self.required:
            self._require(token, self.of_session(transactional_id, txn_producer_id, session_epoch), txn_producer_id)

    def require_any_session(self, transactional_id: str, txn_producer_id: int, token: bytes) -> None:
        """As `require_session`, for calls that name no epoch: a former session's token is one, too. What it may still do, the
        core decides: hear what became of its transactions, and nothing else.
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

    # ------------------------------------------------------------ telling others

    def shown_run(self, owner_run: str) -> str:
        """A run's name for operators' lists. It is what a run's participants are known by, so where tokens are required, the
        beginning of its hash stands for it.
        """
        if not self.required or not owner_run:
            return owner_run
        return "sha256:" + hashlib.sha256(owner_run.encode()).hexdigest()[:SHOWN_CHARACTERS]
