"""How a transaction is named in requests, and what the caller's words mean there. One place for all who end or renew one."""

from __future__ import annotations

from typing import Final

from oncelog.core.batch.identity import Identity
from oncelog.errors import ConfigError
from oncelog.v1 import coordinator_pb2 as co

_WAITS: Final = {"decided": co.END_WAIT_DECIDED, "visible": co.END_WAIT_VISIBLE}


def end_wait(wait: str) -> co.EndWait:
    """The wait of an end, as requests have it. Raises `ConfigError` for anything but "decided" and "visible"."""
    if wait not in _WAITS:
        raise ConfigError('wait is "decided" or "visible"', given=wait)
    return _WAITS[wait]


def name_of(who: Identity) -> co.TransactionName:
    """Which transaction it is, and by whose right it is spoken of."""
    return co.TransactionName(
        transactional_id=who.transactional_id,
        txn_shard=who.txn_shard,
        txn_producer_id=who.txn_producer_id,
        txn_no=who.txn_no,
        producer_epoch=who.producer_epoch,
        session_token=who.session_token,
    )
