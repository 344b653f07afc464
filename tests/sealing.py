"""Batches with sound checksums around whatever a test wants in a header: what a hostile producer can send.

Every field of a header that a producer writes is a keyword here, by its name in `Content` or `BatchIdentity`.
"""

from __future__ import annotations

from typing import Any

from oncelog.core.batch.header import BatchIdentity, Content, read_header, seal


def sealed(payload: bytes, **fields: int) -> bytes:
    """A batch of this payload, whatever its header says of it."""
    content = Content(**{name: fields.pop(name) for name in Content._fields})
    return seal(payload, content, BatchIdentity(**fields))


def fields_of(data: bytes) -> dict[str, Any]:
    """The header's fields, as `sealed` takes them."""
    header = read_header(data)
    fields = {name: getattr(header, name) for name in (*Content._fields, *BatchIdentity._fields) if name != "tag"}
    return fields | {"tag": header.partition_tag}


def resealed(payload: bytes, like: bytes, **changes: int) -> bytes:
    """A batch like another one, with another payload, and with these fields changed."""
    return sealed(payload, **{**fields_of(like), "uncompressed_length": len(payload), **changes})
