"""New inputs from known ones: turned bits, numbers at their edges, lengths, pieces that go, come twice, or come from elsewhere.

Everything follows from the random generator that is given.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random
from typing import Final

_EDGES: Final = (
    *(
        0,
        1,
        2,
        7,
        15,
        16,
        63,
        64,
        127,
        128,
        255,
        256,
        1_000,
        4_095,
        4_096,
        (1 << 15) - 1,
        1 << 15,
        (1 << 16) - 1,
        1 << 16,
    ),
    *((1 << 24), (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
)
_LAYOUTS: Final = ("<B", "<H", "<I", "<Q", ">H", ">I", ">Q")
_TEXT: Final = (
    *(
        b"null",
        b"true",
        b"-1",
        b"0",
        b"1e400",
        b"NaN",
        b"-Infinity",
        b"1e308",
        b"9" * 400,
        b'""',
        b"[]",
        b"{}",
        b"[" * 2_000,
    ),
    *(
        b'{"a":' * 1_000,
        b'"\\ud800"',
        b"\xff",
        b"\x00",
        b"\n",
        b"%s",
        b"../",
        b"a" * 300,
        b",",
        b"=",
        b'"',
        b"\xe2\x80\xae",
    ),
    *(b"1" * 5_000, b"-9223372036854775809", b"\x1b[31m", b"\\u0000", b"*"),
)


class Mutator:
    """Of one target."""

    def __init__(self, random: Random, words: Sequence[bytes] = (), max_bytes: int = 16_384) -> None:
        self._random = random
        self._words = (*words, *_TEXT)
        self._max_bytes = max_bytes
        self._kinds = (
            self._turn_bit,
            self._turn_bit,
            self._set_byte,
            self._set_number,
            self._set_number,
            self._add_to_number,
            self._cut,
            self._remove,
            self._repeat,
            self._insert,
            self._insert_word,
            self._replace_word,
            self._digits,
            self._varint,
        )

    def mutated(self, data: bytes, corpus: Sequence[bytes]) -> bytes:
        """One to six changes."""
        changed = bytearray(data)
        for _ in range(self._random.choice((1, 1, 1, 2, 2, 3, 4, 6))):
            if self._random.random() < 0.08:
                changed = self._spliced(changed, self._random.choice(corpus))
            else:
                self._random.choice(self._kinds)(changed)
        return bytes(changed[: self._max_bytes])

    def _at(self, data: bytearray, width: int = 1) -> int:
        return self._random.randrange(max(1, len(data) - width + 1))

    def _turn_bit(self, data: bytearray) -> None:
        if data:
            data[self._at(data)] ^= 1 << self._random.randrange(8)

    def _set_byte(self, data: bytearray) -> None:
        if data:
            data[self._at(data)] = self._random.randrange(256)

    def _set_number(self, data: bytearray) -> None:
        layout = self._random.choice(_LAYOUTS)
        width = struct.calcsize(layout)
        if len(data) >= width:
            edge = self._random.choice((*_EDGES, len(data), len(data) - 1, len(data) + 1))
            struct.pack_into(layout, data, self._at(data, width), edge % (1 << 8 * width))

    def _add_to_number(self, data: bytearray) -> None:
        layout = self._random.choice(_LAYOUTS)
        width = struct.calcsize(layout)
        if len(data) >= width:
            at = self._at(data, width)
            (number,) = struct.unpack_from(layout, data, at)
            struct.pack_into(layout, data, at, (number + self._random.choice((-8, -2, -1, 1, 2, 8))) % (1 << 8 * width))

    def _cut(self, data: bytearray) -> None:
        del data[self._at(data) :]

    def _remove(self, data: bytearray) -> None:
        at = self._at(data)
        del data[at : at + self._length()]

    def _repeat(self, data: bytearray) -> None:
        at = self._at(data)
        piece = data[at : at + self._length()]
        data[at:at] = piece * self._random.choice((1, 1, 2, 8, 64))

    def _insert(self, data: bytearray) -> None:
        at = self._at(data)
        length = self._length()
        data[at:at] = self._random.choice((self._random.randbytes(length), bytes(length), b"\xff" * length))

    def _insert_word(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = self._random.choice(self._words)

    def _replace_word(self, data: bytearray) -> None:
        word = self._random.choice(self._words)
        at = self._at(data)
        data[at : at + self._random.choice((1, len(word), self._length()))] = word

    def _digits(self, data: bytearray) -> None:
        """A decimal number in a text becomes another one."""
        found = [at for at, byte in enumerate(data) if 48 <= byte < 58]
        if found:
            at = end = self._random.choice(found)
            while end < len(data) and 48 <= data[end] < 58:
                end += 1
            data[at:end] = self._random.choice(
                (b"-1", b"0", b"1e400", b"null", b'"x"', str(self._random.choice(_EDGES)).encode())
            )

    def _varint(self, data: bytearray) -> None:
        """A number as protobuf writes it."""
        number, out = self._random.choice(_EDGES), bytearray()
        while number > 127:
            out.append(number & 127 | 128)
            number >>= 7
        out.append(number)
        at = self._at(data)
        data[at : at + self._random.choice((1, 1, len(out)))] = out

    def _length(self) -> int:
        return self._random.choice((1, 1, 2, 4, 8, 16, 32, 120))

    def _spliced(self, data: bytearray, other: bytes) -> bytearray:
        at, there = self._at(data), self._random.randrange(len(other) + 1)
        return (
            bytearray(data[:at]) + other[there : there + self._random.choice((len(other), self._length()))] + data[at:]
        )
