"""LIBSVM text to sparse rows: a whole block at once if it is regular, else line by line.

The fast path works on all bytes of a block together. The positions of the separators show whether each line is a label
and pairs of index and value. Indices are summed from their digits, and Arrow's parser reads the values. If anything is
unusual, the fast path gives up, and the lines are read one by one. ``#`` comments and svmlight's ``qid:`` are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from deltaplane.arrays import Flags, Floats, Int64s, UInt8s
from deltaplane_services.readers.cells import canonical_label, clip, excerpt, read_number
from deltaplane_services.readers.row_blocks import RefusedRow

__all__ = ["COLON", "NEWLINE", "SPACE", "SparseRows", "extreme_indices", "read_lines", "read_regular_lines"]

SPACE, NEWLINE, COLON = ord(" "), ord("\n"), ord(":")
_IS_SEPARATOR = np.zeros(256, dtype=np.bool_)
_IS_SEPARATOR[[SPACE, NEWLINE, COLON]] = True
_LONGEST_INDEX = 9
"""The most digits of an index that the fast path reads; real indices have four at most."""


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """n rows of a block: row i has ``indices`` (from 0 or 1) and ``values`` from ``starts[i]`` to ``starts[i + 1]``."""

    labels: list[str]
    line_numbers: Int64s
    starts: Int64s
    indices: Int64s
    values: Floats
    refused: tuple[RefusedRow, ...]
    text: bytes
    first_line_number: int

    @classmethod
    def of_refused(cls, row: RefusedRow) -> Self:
        """No rows but one that was refused."""
        nothing = np.empty(0, dtype=np.int64)
        return cls([], nothing, np.zeros(1, dtype=np.int64), nothing, np.empty(0), (row,), b"", row.line_number)


@dataclass(frozen=True, slots=True, eq=False)
class _Tokens:
    """The texts between separators: position and length of each, the separator behind it, whether it opens a line."""

    starts: Int64s
    lengths: Int64s
    separators: UInt8s
    opens_line: Flags

    def take(self, which: Flags | slice) -> _Tokens:
        return _Tokens(self.starts[which], self.lengths[which], self.separators[which], self.opens_line[which])


def read_regular_lines(data: bytes, first_line_number: int) -> SparseRows | None:
    """The rows of whole lines if all are regular (one label, then pairs with rising indices), else None."""
    text = _with_single_separators(data)
    if text is None:
        return None
    characters = np.frombuffer(text, dtype=np.uint8)
    tokens = _tokens(characters)
    empty = tokens.lengths == 0
    blank = empty & tokens.opens_line & (tokens.separators == NEWLINE)
    line_numbers = first_line_number + np.flatnonzero(~blank[tokens.opens_line])
    if not np.array_equal(empty, blank):
        return None
    if blank.any():
        tokens = tokens.take(~blank)
    label_tokens, feature_tokens = tokens.take(tokens.opens_line), tokens.take(~tokens.opens_line)
    index_tokens, value_tokens = feature_tokens.take(slice(0, None, 2)), feature_tokens.take(slice(1, None, 2))
    if (
        np.any(label_tokens.separators == COLON)
        or np.any(index_tokens.separators != COLON)
        or np.any(value_tokens.separators == COLON)
    ):
        return None
    opening = np.append(np.flatnonzero(tokens.opens_line), len(tokens.starts))
    starts = np.concatenate(([0], np.cumsum((np.diff(opening) - 1) // 2)))
    labels = _labels(text, label_tokens)
    if labels is not None and np.any(np.diff(opening) == 1) and not all(map(_is_number, set(labels))):
        return None
    indices = _indices(characters, index_tokens)
    values = _values(characters, value_tokens)
    if labels is None or indices is None or values is None or not _rise_within_rows(indices, starts):
        return None
    return SparseRows(labels, line_numbers, starts, indices, values, (), data, first_line_number)


def _with_single_separators(data: bytes) -> bytes | None:
    """The text with a single space between tokens and a newline after each line; None if it needs a closer look."""
    if not data.isascii() or b"#" in data:
        return None
    text = data.replace(b"\r\n", b"\n").replace(b"\t", b" ")
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    text = text.replace(b" \n", b"\n")
    # Line by line, these count as blanks, too.
    if any(blank in text for blank in (b"\r", b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e", b"\x1f")):
        return None
    text = text.rstrip(b" ") if text.endswith(b" ") else text
    return text if text.endswith(b"\n") else text + b"\n"


def _tokens(characters: UInt8s) -> _Tokens:
    ends = np.flatnonzero(_IS_SEPARATOR[characters])
    starts = np.concatenate(([0], ends[:-1] + 1))
    separators = characters[ends]
    return _Tokens(starts, ends - starts, separators, np.concatenate(([True], separators[:-1] == NEWLINE)))


def _labels(text: bytes, tokens: _Tokens) -> list[str] | None:
    """The labels in one spelling; each different text is read once. None if one of them cannot be read."""
    known: dict[bytes, str] = {}
    labels = []
    for start, length in zip(tokens.starts.tolist(), tokens.lengths.tolist(), strict=True):
        token = text[start : start + length]
        label = known.get(token)
        if label is None:
            try:
                label = known[token] = _label(token.decode("ascii"))
            except ValueError:
                return None
        labels.append(label)
    return labels


def _indices(characters: UInt8s, tokens: _Tokens) -> Int64s | None:
    """The indices int64[n] of n tokens of decimal digits; None if a token is anything else."""
    indices = np.zeros(len(tokens.starts), dtype=np.int64)
    longest = int(tokens.lengths.max(initial=0))
    if longest > _LONGEST_INDEX:
        return None
    last = tokens.starts + tokens.lengths - 1
    for place in range(longest):
        has_place = tokens.lengths > place
        digits = characters[np.maximum(last - place, 0)].astype(np.int64) - ord("0")
        if np.any(has_place & ((digits < 0) | (digits > 9))):
            return None
        indices += np.where(has_place, digits, 0) * 10**place
    return indices if np.all(tokens.lengths > 0) else None


def extreme_indices(data: bytes) -> tuple[bool, int]:
    """(whether an index of these lines may be 0, the highest possible index), from the digits before colons."""
    characters = np.frombuffer(data, dtype=np.uint8)
    digits = characters - np.uint8(ord("0"))
    colons = np.flatnonzero(characters == COLON)
    numbers = np.zeros(len(colons), dtype=np.int64)
    goes_on = colons > 0
    for place in range(_LONGEST_INDEX):
        digit = digits[np.maximum(colons - 1 - place, 0)]
        goes_on = goes_on & (digit <= 9) & (colons > place)
        if not goes_on.any():
            break
        numbers += np.where(goes_on, digit, 0).astype(np.int64) * 10**place
    has_digits = digits[np.maximum(colons - 1, 0)] <= 9
    return bool(np.any(has_digits & (numbers == 0))), int(numbers.max(initial=0))


def _values(characters: UInt8s, tokens: _Tokens) -> Floats | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    edges = np.zeros(len(characters) + 1, dtype=np.int8)
    edges[tokens.starts] += 1
    edges[tokens.starts + tokens.lengths] -= 1
    kept = characters[np.cumsum(edges[:-1], dtype=np.int8).astype(np.bool_)]
    offsets = np.concatenate(([0], np.cumsum(tokens.lengths))).astype(np.int32)
    texts = pa.StringArray.from_buffers(len(tokens.starts), pa.py_buffer(offsets), pa.py_buffer(kept))
    try:
        values: Floats = pc.cast(texts, pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return values


def _rise_within_rows(indices: Int64s, starts: Int64s) -> bool:
    rises = np.diff(indices, prepend=0) > 0
    rises[starts[:-1][np.diff(starts) > 0]] = True
    return bool(rises.all())


def read_lines(data: bytes, first_line_number: int) -> SparseRows:
    """The rows of whole lines, read one by one; a line that cannot be read is a refused row, with the reason."""
    labels: list[str] = []
    line_numbers: list[int] = []
    starts = [0]
    indices: list[int] = []
    values: list[float] = []
    refused: list[RefusedRow] = []
    for line_number, line in enumerate(data.split(b"\n"), start=first_line_number):
        try:
            words = line.partition(b"#")[0].decode("utf-8").split()
            if not words:
                continue
            label, features = _label(words[0]), _features(words[1:])
            if not features and label == words[0] and not _is_number(label):
                raise ValueError(f"the line {clip(words[0], 40)!r} is neither a number nor a label and features")
        except UnicodeDecodeError:
            refused.append(RefusedRow(line_number, "the row is not UTF-8 text", excerpt(line)))
        except ValueError as fault:
            refused.append(RefusedRow(line_number, str(fault), excerpt(line)))
        else:
            labels.append(label)
            line_numbers.append(line_number)
            indices += features
            values += features.values()
            starts.append(len(indices))
    return SparseRows(
        labels,
        np.array(line_numbers, dtype=np.int64),
        np.array(starts, dtype=np.int64),
        np.array(indices, dtype=np.int64),
        np.array(values, dtype=np.float64),
        tuple(refused),
        data,
        first_line_number,
    )


def _label(word: str) -> str:
    """The label in a word, with one spelling for a number. Raises ValueError if it is no label."""
    if ":" in word:
        raise ValueError(f"the row starts with {clip(word, 40)!r}, where a label was expected")
    if "," in word:
        raise ValueError(f"the row has several labels, {clip(word, 40)!r}, where one was expected")
    try:
        return canonical_label(word)
    except ValueError:
        return word


def _is_number(word: str) -> bool:
    try:
        read_number(word)
    except ValueError:
        return False
    return True


def _features(words: list[str]) -> dict[int, float]:
    """Index to value of the words after the label. Raises ValueError for a word that is no such pair."""
    features: dict[int, float] = {}
    for word in words:
        index, colon, value = word.partition(":")
        if index == "qid":
            continue
        if not colon or not index.isascii() or not index.isdigit() or len(index) > 18:
            raise ValueError(f"{clip(word, 40)!r} is not an index and a value, as in `3:0.5`")
        position = int(index)
        if position in features:
            raise ValueError(f"the index {position} is there twice")
        try:
            features[position] = read_number(value)
        except ValueError:
            raise ValueError(f"the feature `f{position}` is {clip(value, 40)!r}, which is not a number") from None
    return features
