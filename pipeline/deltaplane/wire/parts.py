"""Parts that several records share: sources, statistics, scores.

The rest of the core relies on these checks: no position is negative or near the end of int64, no window has an index
beyond the limit, and no name is longer than its limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltaplane import limits
from deltaplane.errors import WireError
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Dimensions, Statistics
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import Rebuild, Source
from deltaplane.wire.frame import Fields

__all__ = [
    "check_name",
    "check_positions",
    "counts_of",
    "labels_of",
    "rebuild_of",
    "score_fields",
    "scores_of",
    "source_fields",
    "source_of",
    "statistics_fields",
    "statistics_of",
]


def source_fields(source: Source) -> Fields:
    """Fields ``site`` and ``partition``."""
    return {"site": source.site, "partition": source.partition}


def source_of(name: str, fields: Fields) -> Source:
    """The source of fields ``site`` and ``partition``. Raises :class:`WireError` if either is beyond its limit."""
    partition = fields["partition"]
    if not 0 <= partition < limits.PARTITIONS:
        raise WireError(f"{name}: expected a partition from 0 to {limits.PARTITIONS - 1}, got {partition}")
    check_name(name, "a site", fields["site"], limits.NAME_BYTES)
    return Source(fields["site"], partition)


def check_name(name: str, what: str, text: str, most_bytes: int) -> None:
    """Raise :class:`WireError` if ``text`` takes more than ``most_bytes`` in UTF-8; ``what`` is said of it."""
    # A code point takes at most four bytes.
    if 4 * len(text) > most_bytes and len(text.encode()) > most_bytes:
        raise WireError(
            f"{name}: expected {what} of at most {most_bytes} bytes, got {len(text.encode())} ({text[:50]!r}...)"
        )


def check_positions(name: str, fields: Fields, *ascending: Iterable[str]) -> None:
    """Raise :class:`WireError` unless each group of fields holds 0 ≤ first ≤ second ≤ ... ≤ limits.POSITION."""
    for group in ascending:
        least = 0
        for key in group:
            if fields[key] < least:
                raise WireError(f"{name}: expected {key} to be at least {least}, got {fields[key]}")
            if fields[key] > limits.POSITION:
                raise WireError(f"{name}: expected {key} to be at most {limits.POSITION}, got {fields[key]}")
            least = fields[key]


def rebuild_of(name: str, fields: Fields) -> Rebuild:
    """The :class:`Rebuild` of a decoded delta or checkpoint. Raises :class:`WireError` if its positions cannot be."""
    check_positions(name, fields, ("memory_from", "window_from"), ("retirements_window_from",), ("slots_to",))
    return Rebuild(*(fields[key] for key in Rebuild.__dataclass_fields__))


def statistics_fields(statistics: Statistics) -> list[Fields]:
    """A list of ``ClassMoments``, with 8 bytes an entry if all entries of a class fit int64, else 16."""
    return [
        {"window": window, "class": label, "entries": moments.to_int64_bytes() or moments.to_bytes()}
        for (window, label), moments in statistics.items()
    ]


def statistics_of(name: str, fields: Fields, key: str, dimensions: Dimensions) -> Statistics:
    """The statistics of such dimensions in the field ``key``, as :func:`statistics_fields` wrote them.

    Raises :class:`WireError` for other dimensions, or for what :func:`statistics_fields` never writes.
    """
    by_window = (dimensions,) if isinstance(dimensions, int) else dimensions
    dimension = max(by_window)
    if fields["dimension"] != dimension:
        raise WireError(
            f"{name}: expected statistics of dimension {dimension}, got {fields['dimension']};"
            " give every process the same definition"
        )
    parts: dict[tuple[int, str], Moments] = {}
    for part in fields[key]:
        at = (part["window"], part["class"])
        if not 0 <= at[0] < limits.WINDOWS:
            raise WireError(f"{name}: expected a window from 0 to {limits.WINDOWS - 1}, got {at[0]}")
        if at in parts:
            raise WireError(f"{name}: class {at[1]!r} of window {at[0]} is there twice, expected once")
        check_name(name, "a class", at[1], limits.CLASS_BYTES)
        try:
            # A window that the stream does not have is refused later, when the message meets the definition.
            parts[at] = Moments.from_bytes(by_window[min(at[0], len(by_window) - 1)], part["entries"])
        except ValueError as fault:
            raise WireError(f"{name}: {fault}") from fault
    return Statistics(dimension, parts)


def score_fields(scores: Confusion) -> list[Fields]:
    """A list of ``Score``, one for each cell of a confusion matrix."""
    return [
        {"truth": truth, "predicted": predicted, "count": count} for (truth, predicted), count in scores.counts.items()
    ]


def scores_of(name: str, fields: Fields) -> Confusion:
    """The confusion matrix that :func:`score_fields` wrote. Raises :class:`WireError` for one that cannot be."""
    counts: dict[tuple[str, str], int] = {}
    for cell in fields["scores"]:
        at = (cell["truth"], cell["predicted"])
        if at in counts:
            raise WireError(f"{name}: the score of {at[1]!r} for {at[0]!r} is there twice, expected once")
        if cell["count"] < 0:
            raise WireError(f"{name}: expected a score of at least 0, got {cell['count']} of {at[1]!r} for {at[0]!r}")
        for label in at:
            check_name(name, "a class", label, limits.CLASS_BYTES)
        counts[at] = cell["count"]
    return Confusion(counts)


def counts_of(name: str, fields: Fields, key: str) -> dict[str, int]:
    """Outcome to count, from the field ``key``. Raises :class:`WireError` for too many outcomes, or too long names."""
    counts: dict[str, int] = fields[key]
    if len(counts) > limits.OUTCOMES:
        raise WireError(f"{name}: expected up to {limits.OUTCOMES} {key}, got {len(counts)}")
    for outcome in counts:
        check_name(name, "an outcome", outcome, limits.NAME_BYTES)
    return counts


def labels_of(name: str, labels: Sequence[str]) -> tuple[str, ...]:
    """The labels, in order. Raises :class:`WireError` if there are none or too many, or one is empty or comes twice."""
    if not 1 <= len(labels) <= limits.CLASSES:
        raise WireError(f"{name}: expected 1 to {limits.CLASSES} labels, got {len(labels)}")
    for label in labels:
        check_name(name, "a label", label, limits.LABEL_BYTES)
    if "" in labels or len(set(labels)) < len(labels):
        raise WireError(f"{name}: expected labels that differ, and none that is empty, got others")
    return tuple(labels)
