"""A replay that tests and trains row by row, at the price of one that does so by the hundred.

Rows go through the log and the pipeline in records of many. What becomes of each row under a model of all rows before
it is worked out beside that, from the same rows: the scores are those of a record, a delta and a model for every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from deltaplane.log.merger import of_largest
from deltaplane.log.model import Model
from deltaplane.log.row_scores import RowScores
from deltaplane.log.scoring import ScoredRows
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.sample import Samples, admit
from deltaplane_services.processors.messages import SAMPLES, Outgoing
from deltaplane_services.produce.feed_options import ReplayOptions
from deltaplane_services.replay.pipeline import EmbeddedPipeline

__all__ = [
    "INSTEAD",
    "ROWS_ALONE",
    "ROWS_AT_ONCE",
    "SLOW",
    "ByRowPipeline",
    "by_row",
    "hindrances",
    "slow_from_the_start",
]

ROWS_AT_ONCE = 100


def by_row(definition: StreamDefinition, options: ReplayOptions) -> bool:
    """Whether a replay wants a model after every row, and its stream is one whose rows can be published together."""
    return options.chunk == 1 and not hindrances(definition, options)


def hindrances(definition: StreamDefinition, options: ReplayOptions) -> list[str]:
    """What keeps the rows of a replay from being published together, each with what to do; none if they can be.

    Ids of the file's own may come twice, and a retirement comes between two rows: then each row is a record. So it is
    if somebody watches the stream go by at a speed of its own.
    """
    windows, automatic = definition.nested_windows.windows, definition.automatic
    several_c = automatic and len(windows) == 1
    found = {
        "ids of the file's own (leave out --id: line numbers are taken)": bool(options.input.id),
        "retirements (leave out --retire-fraction)": bool(options.retire_fraction),
        "labels that come late (leave out --label-delay)": options.label_delay is not None,
        "a speed (leave out --speed)": options.rows_per_second is not None,
        f"{definition.partitions} partitions (--partitions 1)": definition.partitions > 1,
        f"{len(windows)} windows (one, as in --window 20000 --C 1)": len(windows) > 1,
        "several choices of C or weighting (one of each, as in --C 1 --weighting inverse)": several_c,
        "a window of time (--window with a number of rows, or all)": definition.nested_windows.timed,
        "a window that slides by panes (pane 1)": len(windows) == 1 and definition.nested_windows.pane_rows > 1,
        "a feature map (--feature-map linear)": definition.feature_map.kind != "none",
    }
    return [what for what, there in found.items() if there]


SLOW = "chunk 1: every row is learned and solved for by itself, which takes a millisecond and more a row, because of"
INSTEAD = "or have a model by the hundred rows: --chunk 100"
ROWS_ALONE = 1000
"""Rows that had to be solved for alone, after which that is said."""


def slow_from_the_start(definition: StreamDefinition, options: ReplayOptions) -> str | None:
    """What to tell whoever replays row by row and will wait long for it; None if that is not known beforehand.

    Whoever asked for a speed waits for that, and not for us.
    """
    if options.chunk != 1 or options.rows_per_second is not None:
        return None
    slow = hindrances(definition, options)
    slow += ["a prior (leave out --prior)"] if definition.prior is not None else []
    slow += [] if isinstance(definition.solver.weighting, str) else ["weights by class (--weighting inverse)"]
    return f"{SLOW} {'; '.join(slow)}; {INSTEAD}" if slow else None


class ByRowPipeline(EmbeddedPipeline):
    """The pipeline in this process; its model carries the scores of a stream with a new model after every row."""

    def __init__(
        self,
        definition: StreamDefinition,
        seed: int,
        warn: Callable[[str], None] = lambda _: None,
        *,
        keep_scored: bool = False,
    ) -> None:
        super().__init__(definition, seed)
        self._warn = warn
        self._scored: list[tuple[int, ScoredRows]] = []
        note = (lambda scored: self._scored.append((0, scored))) if keep_scored else None
        self._scores = RowScores(definition, note)
        self._known: list[str] = []

    @property
    def model(self) -> Model | None:
        """The newest model, with the scores of every row, and the last good plane after any of them."""
        model = super().model
        if model is None:
            return None
        plane = model.plane if model.refusal is None else self._scores.plane
        return replace(model, scores=of_largest(self._scores.scores, self._definition.most_classes), plane=plane)

    def scored(self) -> list[tuple[int, ScoredRows]]:
        """What was predicted of each row since the last call, by the plane of the rows before it."""
        scored, self._scored = self._scored, []
        return scored

    def publish(self, records: Iterable[Outgoing], now: int) -> None:
        """Score the rows one by one, and append them to the embedded broker's logs."""
        records = list(records)
        super().publish(records, now)
        for record in records:
            if record.topic == SAMPLES:
                assert isinstance(record.message, Samples), "the feed says what its records mean"
                admitted, _ = admit(record.message, self._definition, self._known)
                self._known += admitted.new_labels
                alone = self._scores.rows_alone
                self._scores.add(admitted)
                if alone < ROWS_ALONE <= self._scores.rows_alone:
                    self._warn(f"{SLOW} {self._scores.alone_because or 'a class that is missing'}; {INSTEAD}")
