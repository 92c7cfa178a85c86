"""Every bound in one place, with its reason beside it and the relations between bounds asserted at import.

A bound that is hit is always reported (a refused row, a receipt, an error with numbers): nothing is clipped.
"""

from __future__ import annotations

GRID_RANGE = 2**30
"""|q| stays below this. A grid row then fits int32, and a split product (two 15-bit halves) stays exact."""

GRID_BITS = 20
"""A fitted step leaves this many bits for the values seen, and thus a factor 1024 of headroom above them."""

EXACT_PRODUCT = 2**53
"""Sums of integers below this are exact in float64, whatever order a BLAS kernel adds them in."""

SPLIT_BITS = 15
"""q = high * 2**15 + low when a block is too large in magnitude for one exact product."""

BLOCK_ROWS = 1024
"""Rows of one block product: long enough for BLAS to run at speed, short enough to stay in the cache."""

INTEGER_HEADROOM_BITS = 8
"""Whole numbers keep a step of 1 up to 2**28, where the range still has a factor of four of headroom."""

SCALE_OF_AN_UNSEEN_FEATURE = 2.0**4
"""A feature that was zero in every row the grid was fitted on is given room for values up to 2**14: 16 in units,
times the headroom. Its resolution is then 2**-16."""

GRID_FIT_ROWS = 10_000
"""Rows read before a fitted grid is frozen. More would delay the first model, fewer would miss ordinary values."""

FEATURES = 4096
"""Features of a stream. Statistics grow with the square: 4096 features are 134 MB a class."""

CLASSES = 1024
"""Classes of a stream. Each has its own Gram matrix, in every window."""

WINDOWS = 16
"""Windows nested in one ladder."""

PARTITIONS = 1024
"""Partitions of a stream."""

EVENT_TIME_MILLISECONDS = 2**61
"""|event time| stays below this, so that adding a window's length to it cannot overflow int64."""

ID_BYTES = 256
"""Bytes of a sample id in UTF-8. Ids are held in memory for every live row."""

LABEL_BYTES = 256
"""Bytes of a label in UTF-8. Labels travel in every delta."""

BATCH_ROWS = 100_000
"""Rows of one SampleBatch. A decoder never allocates for more than a message says and this allows."""

MESSAGE_BYTES = 64 * 2**20
"""Bytes of one message before compression; a definition whose deltas cannot fit is refused at start."""

EXPIRED_ROWS_REMEMBERED = 1_000
"""Ids kept behind the window of a partition, so that a late retirement is told ``expired`` and not ``waiting``."""

RETIRED_IDS = 1_000_000
"""Retired ids remembered by a partition beyond those of rows inside the window (about 150 bytes each).
Above it the oldest are forgotten, counted, and their waiting receipts turn into ``unknown``."""

DEAD_LETTER_BYTES = 4096
"""Bytes of a rejected record that its dead letter repeats."""

assert GRID_RANGE <= 2**31, "a grid value must fit int32"
assert 2 ** (2 * SPLIT_BITS) >= GRID_RANGE, "two halves must cover the range of the grid"
assert BLOCK_ROWS * 2 * 2 ** (2 * SPLIT_BITS) < EXACT_PRODUCT, "a split block's partial sums must be exact"
assert EVENT_TIME_MILLISECONDS + 2**62 < 2**63, "event time plus the longest window must fit int64"
assert 2 ** (2 * GRID_BITS) * BLOCK_ROWS < EXACT_PRODUCT, "a block of ordinary rows must take the fast path"
