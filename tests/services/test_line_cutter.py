"""Looking at the first lines of a file moves nothing: the pieces that come are the same lines, in longer blocks."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane_services.readers import ReaderError, bounds
from deltaplane_services.readers.byte_sources import ByteSource
from deltaplane_services.readers.lines import LineCutter, OverlongLine, TextBlock

Piece = TextBlock | OverlongLine


class Failing(io.BytesIO):
    """A file that cannot be read to its end."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if not data:
            raise OSError("the disk has failed")
        return data


def pieces_of(cutter: LineCutter) -> list[Piece]:
    found = []
    while (piece := cutter.next_piece()) is not None:
        found.append(piece)
    return found


def told(pieces: list[Piece]) -> tuple[bytes, list[int]]:
    """All text, and the numbers of overlong lines."""
    text = b"".join(piece.data for piece in pieces if isinstance(piece, TextBlock))
    return text, [piece.line_number for piece in pieces if isinstance(piece, OverlongLine)]


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(bounds, "BLOCK_BYTES", 16)
    patch.setattr(bounds, "LINE_BYTES", 24)
    yield
    patch.undo()


def cutter_of(data: bytes, kind: type[io.BytesIO] = io.BytesIO) -> LineCutter:
    return LineCutter(ByteSource(kind(data), "made", close=False))


LINES = st.lists(st.integers(0, 12) | st.just(60), max_size=40).map(lambda sizes: [b"x" * size for size in sizes])


@given(LINES, st.integers(0, 50), st.booleans())
def test_what_is_looked_at_comes_again_and_nothing_is_lost(lines: list[bytes], wanted: int, ended: bool) -> None:  # noqa: FBT001
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    plain, looking = cutter_of(data), cutter_of(data)
    seen = looking.look_ahead(wanted)
    assert looking.look_ahead(wanted) == seen
    found = pieces_of(looking)
    assert found[:1] == ([] if seen is None else [seen])
    assert told(found) == told(pieces_of(plain))
    numbers = [piece.first_line_number for piece in found if isinstance(piece, TextBlock)]
    assert numbers == sorted(set(numbers))


def test_a_block_is_as_long_as_is_wanted_and_no_longer() -> None:
    cutter = cutter_of(b"1234567\n" * 40)
    seen = cutter.look_ahead(9)
    assert isinstance(seen, TextBlock)
    assert seen.data.count(b"\n") == 10
    assert (seen.first_line_number, seen.final) == (1, False)


def test_a_file_that_fails_behind_what_is_looked_at_fails_there_and_not_before() -> None:
    cutter = cutter_of(b"1234567\n" * 6, Failing)
    seen = cutter.look_ahead(50)
    assert isinstance(seen, TextBlock)
    assert cutter.next_piece() == seen
    with pytest.raises(ReaderError, match="the disk has failed"):
        pieces_of(cutter)
