"""The time to live of a record: a header says when it expires, and readers skip it from then on.

    oncelog.expires-ms    decimal milliseconds since 1970, as ASCII digits

Rule 1: it costs nothing where a batch has no headers, and a comparison of names, column by column, where it has some.
Rule 2: a header that is no number in this form means nothing. Of several in one record the earliest time counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from oncelog.core.batch import header as hd
from oncelog.core.batch.header import BatchHeader
from oncelog.core.batch.record import EXPIRES_HEADER

if TYPE_CHECKING:
    import numpy as np

    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

_DIGITS: Final = "^[0-9]{1,18}$"


def expired_rows(rows: pa.RecordBatch, header: BatchHeader, now_ms: int) -> Mask | None:
    """Says which rows of a decoded batch have expired, by row; None: none of them."""
    if header.schema_id != hd.SCHEMA_HEADERS or not rows.num_rows:
        return None
    import numpy as np
    import pyarrow.compute as pc

    column = rows.column(3)
    items = column.flatten()
    is_named = pc.equal(items.field("key"), EXPIRES_HEADER)
    if not pc.any(is_named).as_py():
        return None
    values = items.field("value").filter(is_named)
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    owners = np.repeat(np.arange(rows.num_rows), counts)[is_named.to_numpy(zero_copy_only=False)]
    is_number = pc.fill_null(pc.match_substring_regex(values, _DIGITS), False)
    times = values.filter(is_number).cast(pa.string()).cast(pa.int64()).to_numpy()
    late = owners[is_number.to_numpy(zero_copy_only=False)][times <= now_ms]
    if not len(late):
        return None
    found: Mask = np.zeros(rows.num_rows, np.bool_)
    found[late] = True
    return found
