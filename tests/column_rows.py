"""A made table of mixed columns and an encoder for it, and strategies for cells as files and Python have them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from deltaplane.columns.encoder import Encoder
from deltaplane.columns.rules import BooleanRule, CategoryRule, HashedRule, NumberRule, TimeRule

ENCODER = Encoder(
    (
        NumberRule("amount", fill=12.5),
        NumberRule("balance", "fill", fill=-3.0, log=True),
        BooleanRule("online", fill=True),
        CategoryRule("country", levels=("DE", "FR", "5411")),
        CategoryRule("kind", "refuse", levels=("a",)),
        HashedRule("merchant", buckets=7),
        TimeRule("begun", zone_minutes=60, fill=1_700_000_000_000.0),
        TimeRule("ended", "fill", parts=("hour",)),
    )
)

MISSING = st.sampled_from([None, float("nan"), "", " ", "?", "NA", "nan"])
NUMBERS = st.floats() | st.integers() | st.sampled_from(["12.5", "-1e3", " 7 ", "1,5", "1_000", "x", True])
TRUTHS = st.sampled_from([True, False, 0, 1, 1.0, "YES", "n", "t", "False", "0", "maybe", 2])
TEXTS = st.sampled_from(["DE", "FR", " FR", "5411", 5411, 5411.0, "a", True, "\ud800", "x" * 300, [1]]) | st.text()
TIMES = st.datetimes(timezones=st.none() | st.just(UTC)) | st.sampled_from(
    ["2026-11-29", "2026-11-29T18:30:00.5Z", "2026-11-29 18:30:00+02:00", 1.7e9, -5, "1700000000", "2026-02-30", "soon"]
)

CELLS = {
    "amount": NUMBERS,
    "balance": NUMBERS,
    "online": TRUTHS,
    "country": TEXTS,
    "kind": TEXTS,
    "merchant": TEXTS,
    "begun": TIMES,
    "ended": TIMES,
}
RECORDS = st.fixed_dictionaries({}, optional={name: MISSING | cells for name, cells in CELLS.items()})

GOOD: dict[str, Any] = {
    "amount": 20,
    "balance": "-1.5",
    "online": "no",
    "country": "FR",
    "kind": "a",
    "merchant": "corner shop",
    "begun": datetime(2026, 11, 29, 18, tzinfo=UTC),
    "ended": "2026-11-29T06:00:00",
}
