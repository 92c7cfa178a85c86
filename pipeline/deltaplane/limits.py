"""Every bound in one place, with its reason beside it and the relations between bounds asserted at import.

A bound that is hit is always reported (a refused row, a receipt, an error with numbers): nothing is clipped.
"""

from __future__ import annotations

GRID_RANGE_BITS = 30
GRID_RANGE = 2**GRID_RANGE_BITS
"""``|q|`` of a row of two limbs stays below this: it fits int32, and its product is exact in two limbs of 15 bits. If a
definition says nothing of a range, this is it: streams begun by early versions refuse what is beyond."""

WIDE_RANGE_BITS = 45
WIDE_RANGE = 2**WIDE_RANGE_BITS
"""``|q|`` stays below this if a definition says ``range_bits = 45``. A row beyond two limbs takes 8 bytes a value,
and a product of three limbs."""

WIDE_ROWS = 2**37
"""So many rows at the far end of the wide range have sums of squares that 128 bits hold, with their sign."""

GRID_BITS = 20
"""A fitted step leaves this many bits for the values seen, and thus a factor 1024 of headroom above them."""

REFIT_HEADROOM_BITS = 2
"""A step that is widened for values beyond the grid leaves them a factor of four of headroom."""

EXACT_PRODUCT = 2**53
"""Sums of integers below this are exact in float64, whatever order a BLAS kernel adds them in."""

SPLIT_BITS = 15
"""q = high * 2**15 + low when a block is too large in magnitude for one exact product."""

BLOCK_ROWS = 2048
"""Rows of one block product: long enough for BLAS to run at speed, short enough to stay in the cache."""

STEP_SMALLEST = 2.0**-500
"""Steps are not below this, so that a step and its square are normal numbers. Smaller values are zero on the grid."""

STEP_LARGEST = 2.0**992
"""Steps are not above this, so that every value of a grid, its offset included, is a finite number."""

STEP_LARGEST_WIDE = 2.0**977
"""The same for a grid of the wide range."""

INT64_ROWS = 7
"""So few rows are multiplied as int64 at once, without BLAS: their sums of squares cannot overflow."""

OUT_OF_PROPORTION = 2.0**10
"""A value this many times further out than is typical is not fitted on: the headroom of a fitted grid over its values,
as long as they are of two limbs."""

FAR_FOR_A_MARK = 2.0**4
"""A value that repeats exactly, is written like a mark of what is missing (-999, 1e10), and is this many times further
out than is typical, is taken for one: it is named, and no scale is fitted on it."""

ROWS_OF_A_MARK = 3
"""A value in fewer rows than this does not repeat."""

MARKS_OF_A_FEATURE = 4
"""If more values than this would be marks, the feature just has few values, and large ones."""

FINEST_SHARE_OF_A_SPREAD = 2.0**-8
"""A step is widened for values out of proportion up to this share of the typical distance from the median. Rounding to
it adds a millionth to a variance."""

ROWS_THAT_TELL = 10
"""If fewer rows were seen, that all values are whole, or multiples of some power of two, may be chance: the step is
not coarsened for it."""

SINGLE_VALUE_BITS = 16
"""Bits that a step leaves the value of a feature that never varied: nothing is known of how far others will lie, so it
has more headroom and less resolution."""

INTEGER_HEADROOM_BITS = 8
"""Whole numbers keep a step of 1 up to 2**28, where the range still has a factor of four of headroom."""

SCALE_OF_AN_UNSEEN_FEATURE = 1.0
"""A feature that was zero in every row the grid was fitted on is treated as if it had been 1: its step is 2**-16."""

GRID_FIT_ROWS = 10_000
"""Rows read before a fitted grid is frozen. More would delay the first model, fewer would miss ordinary values."""

FEATURES = 2000
"""Features of a stream. Statistics grow with the square: two classes of 2000 features are 64 MB, what a
message may have."""

MAPPED_ENTRIES = 2**23
"""Mapped values held at once, 4 bytes each: a batch that has more is mapped piece by piece."""

FEATURE_NAME_BYTES = 256
"""Bytes of a feature's name in UTF-8. Names are in every report and refusal."""

COLUMNS = FEATURES
"""Columns that are encoded: one that becomes no feature is left out, and needs no rule."""

LEVELS = 1000
"""Levels of a category. Each is a feature, and statistics grow with their square: more are hashed into buckets."""

LEVEL_BYTES = 200
"""Bytes of a level in UTF-8: it is part of the name of a feature, beside that of its column."""

TEXT_BYTES = 4096
"""Bytes of a text that is hashed: addresses and user agents are shorter, and a row must not cost what a document does.
"""

MISSING_WORDS = 64
"""Texts that stand for a missing value."""

ZONE_MINUTES = 18 * 60
"""How far a zone may be from UTC; the farthest there is has 14 hours."""

CLASSES = 1024
"""Classes of a stream. Each has its own Gram matrix, in every window. If classes are open, a partition admits so
many labels or, if that is fewer, as many as fit a message."""

CALIBRATED_CLASSES = 128
"""Up to so many classes, answers have probabilities: what a model carries for them fits the megabyte that the topics of
every stream have to spare, those that were made by earlier versions as well."""

WINDOWS = 16
"""Nested windows of one stream."""

CHOICES_OF_C = 16
"""Choices of C among the candidates of the automatic mode."""

CHOICES = 3 * CHOICES_OF_C
"""Choices of C and weighting; there are three weightings to choose from."""

CANDIDATES_OF_A_WINDOW = 2 * CHOICES
"""Of a mixed map each choice gives a flat candidate and a curved one."""

PARTITIONS = 1024
"""Partitions of a stream."""

WINDOW_LENGTH = 2**62
"""Rows or milliseconds of a window stay below this, so that arithmetic on positions and times cannot overflow int64."""

EVENT_TIME_MILLISECONDS = 2**61
"""|event time| stays below this if windows end with time, so that adding a window's length, or the skew that is
allowed (below this, too), cannot overflow int64."""

SKEW_SHARE = 10
"""If a definition does not say otherwise, an event time may be ahead of the log by the shortest window over this: a
clock that is so far ahead ends everybody's windows early by a tenth at most."""

SHORTEST_SKEW_MILLISECONDS = 5_000
"""What may be ahead in any case, up to half the shortest window: clocks that are set over a network differ by
milliseconds, after a pause of the machine by seconds."""

LONGEST_SKEW_MILLISECONDS = 86_400_000
"""What may be ahead at most, however long the windows are: a day is what a wrong time zone comes to."""

PLAUSIBLE_AGE_MILLISECONDS = 10 * 366 * 86_400_000
"""An event time within so many years of the log's time is taken for what it says; one that is not, and would be if it
had been meant in another unit, is said to look like that unit."""

ID_BYTES = 256
"""Bytes of a sample id in UTF-8. Ids are held in memory for every live row."""

KEPT_SUMS_SHARE = 1 / 8
"""Sums of a run of slots are kept if they take no more of the memory of its rows than this, for each window."""

KNOWN_SUMS_WINDOWS = 6
"""Nested windows for which sums may be larger; more windows share the same ones."""

BATCH_ID_BYTES = 2**16 - 1
"""Bytes of an id that a batch carries: longer ids than are admitted, so that they are dead-lettered like other bad
values; the length of each has a uint16 there."""

LABEL_BYTES = 256
"""Bytes of a label in UTF-8. Labels travel in every delta."""

BATCH_ROWS = 100_000
"""Rows of one SampleBatch. A decoder never allocates for more than a message says and this allows."""

NAMED_FEATURES = 2**20
"""Features, 8 bytes each, that one batch of rows by name may become: a code of one byte may become a thousand."""

MESSAGE_BYTES = 64 * 2**20
"""Bytes of one message before compression; a definition whose deltas cannot fit is refused at start."""

BACKUP_BLOCK_BYTES = MESSAGE_BYTES + 2**20
"""Bytes of one block of a backup, unpacked: it is ended at 16 KB, so that it may hold one message more."""

UNWALKED_BYTES = 2**16
"""A message of so many bytes is decoded at once: at worst it costs 80 times as much memory, 5 MB, for a moment. The
lists of a longer one are counted first."""

COUNT = 2**48
"""Rows of a class, and rows counted under an outcome or a score, of one source: 2**15 sources add up below 2**63, which
is what the schemas hold. At a million rows a second it takes nine years."""

DELTA_BYTES_BESIDE = 64 * 2**10
"""Bytes of a delta beside its Gram matrices and scores: names, positions, and counts by outcome."""

CLASS_BYTES = LABEL_BYTES + len(b"not ")
"""Bytes of the name of a class in UTF-8: a label, or ``not`` and a label."""

SOURCES = 2**13
"""Sources that a merger hears; it remembers each, and every model names them. Of more, the later ones are refused."""

SQUARES_OF_A_SOURCE = WIDE_RANGE**2 * WIDE_ROWS // SOURCES
"""The sum of squares of a feature in a class and a window of one source stays below this, so that those of all sources
add up within 128 bits: 16 million rows at the far end of the wide range. For rows of two limbs COUNT is the lower
bound."""

OUTCOMES = 100
"""Outcomes that a source has counts of; there are about thirty."""

NAME_BYTES = 256
"""Bytes of the name of a site, of a writer, or of an outcome in UTF-8."""

POSITION = 2**62
"""Offsets of a log, and numbers of tiles and slots, that come from others are up to this, so that what is added to
them stays below 2**63."""

MODEL_VERSION = 2**62
"""The highest version of a model. Nobody comes near it who counts; of models that have it, the last one counts."""

SCORES = CLASSES**2
"""Cells of a confusion matrix: pairs of a truth and a prediction."""

CELL_BYTES = 16
"""Bytes of one score beside its two labels: their lengths, and the count."""

EXPIRED_ROWS_REMEMBERED = 1_000
"""Ids kept behind the window of a partition, so that a late retirement is told ``expired`` and not ``waiting``."""

RETIRED_IDS = 1_000_000
"""A partition remembers a retired id until so many others, each counted once, have been retired after it, at least, and
forgets it before there are twice as many, unless a window holds a row that was retired as early (about 150 bytes each).
What is forgotten is counted."""

RETIREMENTS_OF_BEFORE = 4 * RETIRED_IDS
"""Retirements, repeats included, beyond which earlier versions forgot: what they did so cannot be held against a delta.
"""

SERVED_ANSWERS = 2**19
"""Answers that wait for labels at a judge, the newest: about 90 MB with ids of twenty characters."""

DEAD_LETTER_BYTES = 4096
"""Bytes of a rejected record that its dead letter repeats."""

LETTER_HEADER_BYTES = 2**16
"""Bytes of a rejected record's headers that its dead letter repeats; if there are more, it repeats none."""

LETTER_ROWS = 1_000
"""Rows of one batch that have a dead letter each when they are refused; one more letter counts the others."""

ROW_BYTES = 256
"""Bytes of a batch that the dead letter of one of its rows repeats: that of the whole record would be a megabyte of
letters for the rows of one batch, and more."""

ROW_REASON_BYTES = 400
"""Bytes of the reason of a refused row of a batch, in UTF-8: its letter has less than a kilobyte."""

REASON_CHARACTERS = 1000
"""Characters of a reason. What is refused has a say in it: names, labels, ids."""

HEADERS = 32
"""Headers of a query that come back with its answer; of more, the first ones."""

HEADERS_BYTES = 4096
"""Bytes of the names and values of those headers: an answer must stay small, whatever hangs on the query."""

RECORD_BYTES = 512
"""Bytes of memory that a record takes beside its value, about."""

HELD_BYTES = 256 * 2**20
"""Bytes of samples, and as many of retirements, that a rebuilding source holds of what lies behind the place where its
rebuild ends, while it waits for the other; then no more of them are read."""

assert GRID_RANGE <= 2**31, "a grid value must fit int32"
assert 2 ** (2 * SPLIT_BITS) >= GRID_RANGE, "two halves must cover the range of a row of two limbs"
assert 2 ** (3 * SPLIT_BITS) >= WIDE_RANGE, "three limbs must cover the range of a row of three limbs"
assert WIDE_RANGE**2 * WIDE_ROWS <= 2**127, (
    "squares of rows of three limbs must add up within 128 bits, one of them the sign"
)
assert SQUARES_OF_A_SOURCE * SOURCES <= 2**127, "squares of all sources must add up within 128 bits"
assert COUNT * GRID_RANGE**2 <= SQUARES_OF_A_SOURCE, (
    "a source of rows of two limbs must be bounded by their number alone"
)
assert 2 * STEP_LARGEST_WIDE * WIDE_RANGE <= 2.0**1023, "the wide range of the largest step must be finite"
assert WIDE_RANGE < EXACT_PRODUCT, "a value on the grid must be exact in float64"
assert 2 * STEP_LARGEST * GRID_RANGE <= 2.0**1023, "the range of the largest step about its offset must be finite"
assert 2**GRID_BITS * 2**INTEGER_HEADROOM_BITS <= GRID_RANGE // 4, "whole numbers must have headroom at a step of 1"
assert BLOCK_ROWS * GRID_RANGE < EXACT_PRODUCT, "a block's sums must be exact"
assert BLOCK_ROWS * 2 * 2 ** (2 * SPLIT_BITS) < EXACT_PRODUCT, "a split block's partial sums must be exact"
assert LEVELS < FEATURES, "the levels of one category must fit a stream"
assert FEATURES <= NAMED_FEATURES, "a batch of one row by name must be possible"
assert LEVEL_BYTES < FEATURE_NAME_BYTES, "the name of a feature must have room for a level"
assert EVENT_TIME_MILLISECONDS + WINDOW_LENGTH < 2**63, "event time plus the longest window must fit int64"
assert 2 * (FEATURES + 1) * (FEATURES + 2) // 2 * 16 + 6 * (2 * LABEL_BYTES + CELL_BYTES) + DELTA_BYTES_BESIDE <= (
    MESSAGE_BYTES
), "a delta of two classes must fit a message at the largest number of features"
assert CLASSES < 2**15, "a class code must fit the int16 that it has in a window"
assert ID_BYTES <= BATCH_ID_BYTES < 2**16, "the length of an id must fit the uint16 that it has in a batch"
assert 2 * OUTCOMES * NAME_BYTES <= DELTA_BYTES_BESIDE, "counts by outcome must fit beside the statistics"
assert RETIRED_IDS >= 1, "what is retired must be remembered"
assert EXPIRED_ROWS_REMEMBERED <= RETIRED_IDS, "what was retired behind a window must not be forgotten before its rows"
assert COUNT * PARTITIONS * 2**5 <= 2**63, "counts of the partitions of 32 sites must add up within int64"
assert INT64_ROWS * GRID_RANGE**2 < 2**63, "products of few rows must fit int64"
assert DEAD_LETTER_BYTES < MESSAGE_BYTES, "a dead letter must fit a message"
assert ROW_BYTES <= DEAD_LETTER_BYTES, "of a batch less is repeated than of a record"
assert MESSAGE_BYTES <= HELD_BYTES, "a source that is held back must have read something"
assert 2 ** (2 * GRID_BITS) * BLOCK_ROWS < EXACT_PRODUCT // 2, "a block of ordinary rows must take the fast path"
