"""Reports lost data: by an error that ends the query, or by a line in the log (option failOnDataLoss)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from oncelog.errors import OffsetOutOfRangeError
from pyspark_oncelog.options.read_write_options import SourceOptions

_log = logging.getLogger(__name__)


def report_losses(options: SourceOptions, losses: Sequence[str]) -> None:
    """Raises `OffsetOutOfRangeError` with every sentence, unless the user said that data may be lost."""
    if not losses:
        return
    if options.fail_on_data_loss:
        raise OffsetOutOfRangeError(
            f"data was lost before it was read: {'; '.join(losses)}. To go on with what is left, set option "
            "failOnDataLoss=false"
        )
    for loss in losses:
        _log.warning("failOnDataLoss=false: %s", loss)


def report_beyond(options: SourceOptions, which: str, beyond: Sequence[str]) -> None:
    """Raises `OffsetOutOfRangeError` for offsets that the user gave and no log has yet; they are no lost data.

    `which` is "starting" or "ending". With failOnDataLoss=false what there is goes in their place.
    """
    if beyond and options.fail_on_data_loss:
        raise OffsetOutOfRangeError(
            f"option {which}Offsets lies beyond the end: {'; '.join(beyond)}. Correct it, or, to go on from what there is, "
            "set option failOnDataLoss=false"
        )
    for sentence in beyond:
        _log.warning("failOnDataLoss=false: option %sOffsets lies beyond the end: %s", which, sentence)
