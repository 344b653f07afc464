"""Objects that live in one process say so when they are pickled or copied, and do not name one of their parts.

Rule: clients and what they make stay; plain values travel: records, offsets, options, `ParticipantResult`.
"""

from __future__ import annotations

from typing import NoReturn, SupportsIndex


class StaysHere:
    """See the module: a base class."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Raises `TypeError` that says what to do."""
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: it belongs to this process and its connections. Make the"
            " client where it is used, inside of the function that Spark or multiprocessing runs, from options that you hand"
            " over; records, offsets and a ParticipantResult can be pickled"
        )
