"""The obstacles that keep records from being delivered, for the errors which say that they were not.

Rule: each error begins with, or ends in, what stands in the way of its own batch, and has that as its `__cause__`.
"""

from __future__ import annotations

from oncelog.core.causes import because, told_of
from oncelog.core.produce.accumulator import Batch
from oncelog.core.produce.actions import Facts
from oncelog.errors import (
    BufferExhaustedError,
    DeliveryTimedOutError,
    InvalidRecordError,
    OncelogError,
    ThrottlingQuotaExceededError,
)


def quota_of(facts: Facts, address: str, batch: Batch, now_ms: int) -> ThrottlingQuotaExceededError | None:
    """The leader's quota, when the batch waits for it now, or has waited for it and had no other answer."""
    last_error = batch.attempt.last_error
    if isinstance(last_error, ThrottlingQuotaExceededError):
        return None  # it names the quota itself
    is_held = facts.held_until_ms(address, now_ms) > 0
    if is_held or (last_error is None and facts.was_held_since(address, batch.created_ms)):
        return ThrottlingQuotaExceededError(
            f"{address} makes this client wait, by its quota produce_bytes_per_s or requests_per_s: see `oncelog quota list`, "
            "and the option delivery_timeout_ms"
        )
    return None


def closed_too_early(batch: Batch, obstacle: OncelogError | None) -> DeliveryTimedOutError:
    """For a batch that `close` no longer waits for."""
    cause = obstacle or batch.attempt.last_error
    message = f"the producer was closed before the acknowledgement came{_why(batch, cause)}"
    return because(DeliveryTimedOutError(message), cause)


def crashed(batch: Batch, defect: OncelogError) -> OncelogError:
    """For a batch that a defect of the producer drops: only what never was sent has certainly failed."""
    if batch.attempt.tries == 0:
        return defect
    message = f"no acknowledgement came, and it is not known whether the records were written: {defect}"
    return because(DeliveryTimedOutError(message, attempts=batch.attempt.tries), defect)


def no_room(
    max_block_ms: int, buffer_memory: int, oldest: Batch | None, obstacle: OncelogError | None
) -> BufferExhaustedError:
    """For a record that finds no room because the oldest batch makes none."""
    cause = obstacle or (oldest.attempt.last_error if oldest is not None else None)
    message = f"no room within {max_block_ms} ms{_why(oldest, cause)}"
    return because(BufferExhaustedError(message, buffer_memory=buffer_memory), cause)


def not_encoded(error: Exception) -> OncelogError:
    """Why a batch has no bytes. An error that is not ours becomes an `InvalidRecordError`, with it as its cause."""
    if isinstance(error, OncelogError):
        return error
    return because(InvalidRecordError(f"the records could not be encoded: {error!r}"), error)


def _why(batch: Batch | None, cause: OncelogError | None) -> str:
    return "" if batch is None or cause is None else f": {told_of(cause, batch.topic, batch.partition.partition)}"
