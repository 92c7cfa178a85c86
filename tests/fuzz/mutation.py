"""Seeded damage: bytes that were a message or a file, made into what a stranger or a bad disk might make of them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

MOST_BYTES = 20_000
"""An input is cut to this: what a long one does beyond a short one is tested by itself, with its memory measured."""

WHOLE = (0, 1, -1, 2, 127, 128, 255, 2**15, 2**16 - 1, 2**16, 2**31 - 1, 2**31, -(2**31), 2**53, 2**62, 2**63 - 1)
NUMBERS = (
    *(str(number).encode() for number in (*WHOLE, -(2**63), 2**63, 2**64, 10**30, -(10**30))),
    *(b"0.0", b"-0.0", b"1e-320", b"1e308", b"1e309", b"-1e999", b"nan", b"NaN", b"inf", b"-inf", b"Infinity", b""),
    *(b"1_000", b"0x10", b"1e", b".", b"-", b"+", b"+1", b"00012", b"1" * 400, b"9" * 5000, b"0." + b"1" * 400, b"1,5"),
)
_NUMBER = re.compile(rb"[-+]?[0-9][0-9._]*(?:[eE][-+]?[0-9]+)?")


def zigzag(number: int) -> bytes:
    """Avro's encoding of an int or long."""
    unsigned = (number << 1 ^ number >> 63) & (2**64 - 1)
    out = bytearray()
    while unsigned > 0x7F:
        out.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    return bytes([*out, unsigned])


def damaged(chance: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """The data after one to five kinds of damage; ``others`` are inputs to splice, ``words`` what the format is of."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5))):
        data = _once(chance, data, others, words)[:MOST_BYTES]
    return data


def _once(  # noqa: PLR0911 - one kind of damage, one return.
    chance: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]
) -> bytes:
    at, to = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
    match chance.randrange(11):
        case 0 if data:
            at = chance.randrange(len(data))
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case 1 if data:
            at = chance.randrange(len(data))
            return data[:at] + bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))]) + data[at + 1 :]
        case 2:
            return data[:at]
        case 3:
            return data[:at] + data[min(to, at + chance.choice((1, 2, 8, 64))) :]
        case 4:
            piece = data[at : min(to, at + 200)]
            return data[:at] + piece * chance.choice((2, 3, 50)) + data[at:]
        case 5:
            other = chance.choice(others)
            start = chance.randint(0, len(other))
            return data[:at] + other[start : start + chance.choice((1, 4, 32, 10_000))] + data[to:]
        case 6:
            return data[:at] + zigzag(chance.choice(WHOLE)) + data[at + chance.choice((0, 1, 1, 8)) :]
        case 7:
            return data[:at] + chance.randbytes(chance.choice((1, 2, 8, 30))) + data[at:]
        case 8 if words:
            return data[:at] + chance.choice(words) + data[at + chance.choice((0, 0, 1, 5)) :]
        case _:
            return _other_number(chance, data)


def _other_number(chance: random.Random, data: bytes) -> bytes:
    """Another number where one stands, or anywhere."""
    places = list(_NUMBER.finditer(data, 0, 4000))
    place = chance.choice(places).span() if places else (chance.randint(0, len(data)),) * 2
    return data[: place[0]] + chance.choice(NUMBERS) + data[place[1] :]
