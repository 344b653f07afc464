"""What keeps records from being delivered, for the errors which say that they were not.

Rule: each error begins with, or ends in, what stands in the way of its own batch, and has that as its `__cause__`.
"""

from __future__ import annotations

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.core.causes import because, told_of
from oncelog.core.produce.accumulator import Batch
from oncelog.wire import methods


def quota_of(context: Context, address: str, batch: Batch) -> errors.ThrottlingQuotaExceededError | None:
    """The leader's quota, when the batch waits for it now, or has waited for it and heard of nothing else."""
    if isinstance(batch.last_error, errors.ThrottlingQuotaExceededError):
        return None  # it names the quota itself
    throttles, method = context.throttles, methods.PRODUCE.name
    is_held = throttles.until_ms(address, method, now_ms()) > 0
    if is_held or (batch.last_error is None and throttles.held_since(address, method, batch.created_ms)):
        return errors.ThrottlingQuotaExceededError(
            f"{address} makes this client wait, by its quota produce_bytes_per_s or requests_per_s: see `oncelog quota list`, "
            "and the option delivery_timeout_ms"
        )
    return None


def closed_too_early(batch: Batch, obstacle: errors.OncelogError | None) -> errors.DeliveryTimedOutError:
    """For what `close` no longer waits for."""
    cause = obstacle or batch.last_error
    message = f"the producer was closed before the acknowledgement came{_why(batch, cause)}"
    return because(errors.DeliveryTimedOutError(message), cause)


def crashed(batch: Batch, defect: errors.OncelogError) -> errors.OncelogError:
    """For what a defect of the producer drops: what was sent may be written, only what never was has certainly failed."""
    if batch.attempts == 0:
        return defect
    message = f"no acknowledgement came, and it is not known whether the records were written: {defect}"
    return because(errors.DeliveryTimedOutError(message, attempts=batch.attempts), defect)


def no_room(
    max_block_ms: int, buffer_memory: int, oldest: Batch | None, obstacle: errors.OncelogError | None
) -> errors.BufferExhaustedError:
    """For what finds no room because the oldest batch makes none."""
    cause = obstacle or (oldest.last_error if oldest is not None else None)
    message = f"no room within {max_block_ms} ms{_why(oldest, cause)}"
    return because(errors.BufferExhaustedError(message, buffer_memory=buffer_memory), cause)


def _why(batch: Batch | None, cause: errors.OncelogError | None) -> str:
    return "" if batch is None or cause is None else f": {told_of(cause, batch.topic, batch.partition.partition)}"
