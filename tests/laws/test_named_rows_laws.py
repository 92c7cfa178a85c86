"""One row gives the same features wherever it comes in: by name, alone or in a batch, from a file, from Python."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from column_rows import ENCODER, RECORDS
from deltaplane.columns.encoder import Encoded, chosen_cells, coded
from deltaplane.columns.sent_cells import sent_row
from deltaplane.errors import RowsRefused
from deltaplane.exact.grid import Grid
from deltaplane.log.records import NamedQuery
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import NestedWindows, Window
from deltaplane.stream.rows_by_name import features_by_name
from deltaplane.stream.sample import Samples
from deltaplane.wire import (
    NamedSamples,
    read_query,
    read_samples,
    write_named_query,
    write_named_sample,
    write_named_sample_batch,
)

FINGERPRINT = bytes(16)
WIDTH = len(ENCODER.features)
DEFINITION = StreamDefinition(
    "stream",
    ENCODER.features,
    Grid(np.full(WIDTH, 0.5), np.zeros(WIDTH)),
    NestedWindows((Window("all"),)),
    SolverOptions(),
    columns=ENCODER,
)
ODD = {
    "amount": st.decimals()
    | st.integers(-(2**70), 2**70).map(np.float64)
    | st.sampled_from([2**53 + 1, -(2**64), 1e300]),
    "country": st.sampled_from([2**53 + 1, 10**30, Decimal(5411), np.int8(7), np.str_("DE"), np.float32(0.1), -0.0]),
    "merchant": st.integers() | st.floats() | st.decimals(allow_nan=False),
    "begun": st.datetimes(timezones=st.just(timezone(timedelta(hours=14, minutes=30))))
    | st.dates()
    | st.decimals(0, 10**9, places=4)
    | st.datetimes().map(np.datetime64)
    | st.integers(-(10**18), 10**18).map(lambda ticks: np.datetime64(ticks, "ns")),
    "online": st.sampled_from([np.True_, Decimal(1), np.int64(0), date(2026, 11, 29)]),
    "ended": st.sampled_from(
        [datetime(1, 1, 1, tzinfo=UTC), "9999-12-31T23:59", np.datetime64("2026-11"), np.datetime64("1969-12-31T23")]
    ),
}
ROWS = RECORDS | st.fixed_dictionaries({"kind": st.just("a")}, optional=ODD)


def can_be_sent(row: Mapping[str, Any]) -> bool:
    try:
        sent_row(row, ENCODER)
    except (RowsRefused, ArithmeticError):
        return False
    return True


def same(samples: Samples, encoded: Encoded) -> None:
    assert samples.features.tobytes() == encoded.features.tobytes()
    assert sorted(samples.unread) == np.flatnonzero(~encoded.fits).tolist()


def frame(rows: int) -> Samples:
    """Ids, times and labels of so many rows, without features."""
    codes = np.arange(rows, dtype=np.int32) % 2
    return Samples.of_record([f"id-{at}" for at in range(rows)], 7, ("a", "b"), codes, np.empty((rows, 0)))


def batch_of(table: Mapping[str, Any], rows: int) -> Samples:
    message = write_named_sample_batch(frame(rows), table, ENCODER, FINGERPRINT)
    return read_samples(message, WIDTH, FINGERPRINT, 0, 0, columns=ENCODER)


@given(st.lists(ROWS, min_size=1, max_size=12))
def test_what_no_message_can_carry_no_encoder_would_take(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if not can_be_sent(row):
            assert not ENCODER.encode_records([row]).fits[0]


@given(st.lists(ROWS, min_size=1, max_size=12).map(lambda rows: [row for row in rows if can_be_sent(row)]).filter(bool))
def test_a_row_by_name_has_the_features_of_its_cells_alone_and_in_batches(rows: list[dict[str, Any]]) -> None:
    encoded = ENCODER.encode_records(rows)
    gathered, alone = NamedSamples(ENCODER, FINGERPRINT), []
    for at, row in enumerate(rows):
        message = write_named_sample(f"id-{at}", 7, "a", row, ENCODER, FINGERPRINT)
        assert gathered.take(message, at, 0)
        alone.append(read_samples(message, WIDTH, FINGERPRINT, at, 0, columns=ENCODER))
    same(gathered.samples(), encoded)
    assert np.vstack([one.features for one in alone]).tobytes() == encoded.features.tobytes()
    assert [bool(one.unread) for one in alone] == [not fits for fits in encoded.fits]

    table = {name: [row.get(name) for row in rows] for name in ENCODER.columns}
    same(batch_of(table, len(rows)), encoded)
    same(batch_of({name: coded(cells) for name, cells in table.items()}, len(rows)), encoded)
    half = np.arange(0, len(rows), 2)
    some = batch_of({name: chosen_cells(coded(cells), half) for name, cells in table.items()}, len(half))
    assert some.features.tobytes() == encoded.features[half].tobytes()

    features, refused = features_by_name(DEFINITION, rows)
    assert features.tobytes() == encoded.features.tobytes()
    assert sorted(refused) == np.flatnonzero(~encoded.fits).tolist()

    asked = [
        read_query(write_named_query(NamedQuery("q", row, FINGERPRINT), ENCODER), 0, FINGERPRINT, by_name=True)
        for row in rows
    ]
    cells = [one.cells for one in asked if isinstance(one, NamedQuery)]
    assert ENCODER.encode_records(cells).features.tobytes() == encoded.features.tobytes()


@given(st.lists(ROWS, min_size=1, max_size=12).map(lambda rows: [row for row in rows if can_be_sent(row)]).filter(bool))
def test_a_row_of_a_file_has_the_features_of_the_same_row_by_name(rows: list[dict[str, Any]]) -> None:
    """What a message carries, written into a CSV file: texts as they are, numbers as Python writes them."""
    sent = [sent_row(row, ENCODER) for row in rows]
    written = io.StringIO()
    writer = csv.DictWriter(written, ENCODER.columns)
    writer.writeheader()
    for row in sent:
        writer.writerow({name: repr(cell) if isinstance(cell, float) else cell for name, cell in row.items()})
    read = list(csv.DictReader(io.StringIO(written.getvalue())))
    in_file, by_name = ENCODER.encode_records(read), ENCODER.encode_records(sent)
    # What differs in a file: it has no bytes for a lone carriage return, and codes and truths are texts there.
    plain = [
        at
        for at, row in enumerate(sent)
        if all("\r" not in cell and "\n" not in cell for cell in row.values() if isinstance(cell, str))
        and not any(isinstance(cell, bool | float) for cell in row.values())
    ]
    assert in_file.features[plain].tobytes() == by_name.features[plain].tobytes()


@given(
    st.lists(st.floats(width=32) | st.none(), min_size=1, max_size=300), st.sampled_from(["amount", "country", "begun"])
)
def test_a_column_of_numbers_is_the_same_as_an_array_as_a_list_and_by_its_different_numbers(
    numbers: list[float | None], name: str
) -> None:
    rows = len(numbers)
    rest: dict[str, Any] = {"kind": ["a"] * rows}
    listed = batch_of({**rest, name: numbers}, rows)
    array = np.array([np.nan if one is None else one for one in numbers])
    for cells in (array, array.astype(np.float32), coded(numbers)):
        other = batch_of({**rest, name: cells}, rows)
        assert other.features.tobytes() == listed.features.tobytes()
        assert sorted(other.unread) == sorted(listed.unread)
