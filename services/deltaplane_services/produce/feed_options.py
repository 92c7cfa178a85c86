"""The options of feeding a file to a stream, and the stream definition that the file's first rows complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from deltaplane import limits
from deltaplane.arrays import Floats
from deltaplane.errors import DefinitionError
from deltaplane.exact.grid import fit_grid
from deltaplane.log.headline import METRICS
from deltaplane.log.label_delay import LabelDelay
from deltaplane.stream.automatic_map import why_flat
from deltaplane.stream.component_tables import fit_feature_map, grid_of, grid_table, nested_windows_of
from deltaplane.stream.declared import DeclaredStream
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.nested_windows import FEWEST_UNITS, NestedWindows
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.readers import MISSING, Decide, ReaderOptions

__all__ = [
    "ImbalanceSchedule",
    "ReplayOptions",
    "complete_definition",
    "flat_because",
    "needs_first_rows",
    "reader_options",
]


@dataclass(frozen=True)
class ImbalanceSchedule:
    """The ratios of negatives to positives that are wanted at some rows; between these they change geometrically."""

    rows: tuple[int, ...]
    ratios: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> ImbalanceSchedule:
        """The schedule of a text ``ROW:RATIO,...``; a ratio alone holds from row 0 on. Raises :class:`DefinitionError`.

        ``0:1,20000:20,40000:1`` begins balanced, has 20 negatives to a positive at row 20,000, and returns.
        """
        pairs: list[tuple[int, float]] = []
        for part in text.split(","):
            row, colon, ratio = part.strip().partition(":")
            try:
                pair = (int(row), float(ratio)) if colon else (0, float(row))
            except ValueError:
                raise DefinitionError(
                    f"imbalance: expected ROW:RATIO pairs such as '0:1,20000:20', got {text!r}"
                ) from None
            if pair[0] < 0 or not 1e-6 <= pair[1] <= 1e6 or (pairs and pair[0] <= pairs[-1][0]):
                raise DefinitionError(
                    f"imbalance: expected growing rows and ratios from 1e-6 to 1e6, got {part.strip()!r} in {text!r}"
                )
            pairs.append(pair)
        return cls(tuple(row for row, _ in pairs), tuple(ratio for _, ratio in pairs))


@dataclass(frozen=True)
class ReplayOptions:
    """The options of feeding a file to a stream; ``definition_file`` declares the stream itself.

    - ``blas_threads``: the threads of BLAS during the replay; 0 for as many as it takes by itself.
    - ``shuffle``: the seed of the order in which rows are taken; None for the order of the file.
    - ``save``: the file to write from which another replay can go on.
    - ``continues``: whether this replay goes on from such a file.
    - ``content``: the bytes of the source, if ``source`` is only its name and no path.
    - ``fill_in``: whether columns have rules even if all first rows are numbers, so that what is missing later is
      filled in.
    - ``keep_predictions``: whether to keep the prediction of each row.
    - ``predictions``: a file to write them to as they are made.
    - ``label_delay``: how late labels come; None if they come with their rows.
    - ``metric``: the figure that is to be read first, of :data:`METRICS`; by default what planes are weighed for.

    Raises :class:`DefinitionError` for options that are out of range, or do not go together.
    """

    source: str
    definition_file: DefinitionFile = field(default_factory=DefinitionFile)
    chunk: int = 100
    rows_per_second: float | None = None
    imbalance: ImbalanceSchedule | None = None
    retire_fraction: float = 0.0
    seed: int = 0
    verify: bool = False
    retired_ids: Path | None = None
    blas_threads: int = 1
    shuffle: int | None = None
    save: Path | None = None
    continues: bool = False
    category: tuple[str, ...] = ()
    number: tuple[str, ...] = ()
    fill_in: bool = False
    content: BinaryIO | None = None
    keep_predictions: bool = False
    predictions: Path | None = None
    metric: str | None = None
    label_delay: LabelDelay | None = None

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise DefinitionError(f"chunk: expected at least 1 row, got {self.chunk}")
        if not 0.0 <= self.retire_fraction <= 1.0:
            raise DefinitionError(f"retire-fraction: expected a number from 0 to 1, got {self.retire_fraction}")
        if self.rows_per_second is not None and not 1e-6 <= self.rows_per_second <= 1e9:
            raise DefinitionError(f"speed: expected 1e-6 to 1e9 rows per second, got {self.rows_per_second}")
        if self.metric is not None and self.metric not in METRICS:
            raise DefinitionError(f"metric: expected one of {', '.join(METRICS)}, got {self.metric!r}")
        if not 0 <= self.seed < 2**64:
            raise DefinitionError(f"seed: expected a whole number from 0 to {2**64 - 1}, got {self.seed}")
        if self.label_delay is not None and self.label_delay.timed and not self.input.time:
            raise DefinitionError(
                f"label-delay: {self.label_delay} is a span of event time; say which column holds it with --time, or"
                " give a number of rows"
            )
        if self.save is not None or self.continues:
            self._refuse_what_cannot_go_on()
        if self.shuffle is not None and self.input.time:
            raise DefinitionError(
                f"shuffle: rows with times ({self.input.time}) have an order of their own, and a window of mixed"
                " ones is none; leave out --shuffle, or the time (--time, and input.time in the definition)"
            )

    def _refuse_what_cannot_go_on(self) -> None:
        """Raise :class:`DefinitionError` for options with a state that is not saved."""
        found = {
            "--chunk 1 (use another one)": self.chunk == 1,
            "--retire-fraction": bool(self.retire_fraction),
            "--imbalance": self.imbalance is not None,
            "--label-delay": self.label_delay is not None,
            "--shuffle": self.shuffle is not None,
            "--verify (audit the whole run instead)": self.verify and self.continues,
        }
        bad = [what for what, there in found.items() if there]
        if bad:
            raise DefinitionError(
                f"save, resume: a replay cannot be saved or go on with {', '.join(bad)}; leave that out"
            )

    @property
    def names_positive(self) -> bool:
        """Whether somebody says which class is the positive one."""
        return bool(self.stream.classes.positive)

    @property
    def makes_two_classes(self) -> bool:
        """Whether something is asked for that is about one class or two, and nobody says which classes there are.

        A replay that goes on from another has the positive class of that one.
        """
        asked = self.stream.solver.objective not in (None, "gmean")
        return asked and not self.continues and not self.names_positive and not self.stream.classes.names

    @property
    def needs_positive(self) -> str | None:
        """The option that cannot do without a positive class while nobody names one; None if there is no such."""
        if self.makes_two_classes:
            return "objective"
        return "imbalance" if self.imbalance is not None and not self.names_positive else None

    @property
    def stream(self) -> DeclaredStream:
        """The stream as it is declared."""
        return self.definition_file.stream

    @property
    def input(self) -> InputTable:
        """The table ``[input]``, which gives the roles of the file's columns."""
        return self.definition_file.input

    def with_stream(self, **parts: Any) -> ReplayOptions:
        """The options with other parts of :class:`~deltaplane.stream.declared.DeclaredStream`."""
        declared = replace(self.definition_file, stream=replace(self.stream, **parts))
        return replace(self, definition_file=declared)


def reader_options(file: DefinitionFile, decide: Decide | None = None, *, fill_in: bool = False) -> ReaderOptions:
    """The options for the reader of a data file, as a definition file says.

    ``decide``, if given, decides rules for its columns from the first rows; see ``fill_in`` of :class:`ReplayOptions`.
    Raises :class:`DefinitionError` if the file contradicts itself.
    """
    stream, table = file.stream, file.input
    names, chosen = stream.features.names or (), table.features or ()
    if names and chosen and chosen != names:
        raise DefinitionError(
            f"input.features: the stream has the features {', '.join(names[:8])}, and {', '.join(chosen[:8])} are to be"
            " read; give columns the names that the stream has with --rename OLD=NEW"
        )
    classes, weighting = stream.classes, stream.solver.weighting
    declared = [*(classes.names or ()), *(() if classes.positive is None else (classes.positive,))]
    declared += list(weighting) if isinstance(weighting, Mapping) else []
    encoder, words = stream.columns, table.missing_values or ()
    if encoder is not None and (unknown := [word for word in words if word not in encoder.missing]):
        raise DefinitionError(
            f"missing_values: {', '.join(map(repr, unknown[:8]))} would be a missing value of this file, and [columns]"
            f" has rules of which none says so; list it there: missing = {[*encoder.missing, *unknown]}"
        )
    return ReaderOptions(
        features=None if encoder is not None else names or chosen or None,
        ignored=table.ignore or (),
        missing="keep" if stream.features.missing == "offset" else "refuse",
        number_of_features=table.number_of_features,
        header=table.header,
        renamed=tuple(map(_renamed, table.rename or ())),
        declared_labels=tuple(declared),
        na=tuple(dict.fromkeys((*MISSING, *words))),
        encoder=encoder,
        decide=decide,
        fill_in=fill_in,
        **{key: value for key in _TEXTS if (value := getattr(table, key)) is not None},
    )


_TEXTS = (
    *("label", "id", "time", "time_unit", "time_format", "time_zone", "format", "delimiter", "encoding"),
    *("decimal", "thousands", "quote", "comment", "labels", "libsvm_base", "nominal"),
)


def _renamed(pair: str) -> tuple[str, str]:
    """Old and new name of a column."""
    old, equals, new = pair.rpartition("=")
    if not (equals and old.strip() and new.strip()):
        raise DefinitionError(f"rename: expected OLD=NEW, got {pair!r}")
    return old.strip(), new.strip()


def needs_first_rows(options: ReplayOptions) -> bool:
    """Whether the grid or the feature map must be fitted on the first rows."""
    return options.stream.grid.steps is None or not options.stream.feature_map.is_complete


def _fitted(stream: DeclaredStream, first: Floats, classes: int) -> DeclaredStream:
    """The stream with a grid and a map; what it lacks of them is fitted on the first rows float64[n, d]."""
    if stream.grid.steps is None:
        stream = replace(stream, grid=stream.grid.with_said(**grid_table(fit_grid(first))))
    grid, windows = grid_of(stream.grid, first.shape[1]), None
    if stream.feature_map.kind in ("auto", "mixed"):
        windows = _nested_windows(stream)
    return replace(stream, feature_map=fit_feature_map(stream.feature_map, grid, first, windows, classes))


def _nested_windows(stream: DeclaredStream) -> NestedWindows:
    partitions = 1 if stream.partitions is None else stream.partitions
    return nested_windows_of(stream.window, partitions, limits.WINDOWS)


def flat_because(options: ReplayOptions, first: Floats | None, classes: int) -> str | None:
    """Why a replay with the feature map ``auto`` is flat; None if it is curved, or if no ``auto`` was asked for.

    ``first`` and ``classes`` are those of :func:`complete_definition`.
    """
    asked = options.stream.feature_map
    if asked.kind != "auto" or first is None:
        return None
    most = FEWEST_UNITS if asked.units is None else asked.units
    return why_flat(first.shape[1], len(first), classes, _nested_windows(options.stream), most)


def complete_definition(
    options: ReplayOptions, features: tuple[str, ...], first: Floats | None, classes: int = 2
) -> StreamDefinition:
    """The stream definition of a replay; what nobody declares is taken from the file.

    ``first`` are its first rows float64[n, d] if :func:`needs_first_rows`; a missing grid or map is fitted on them.
    ``classes``: the number of classes that are known of. Raises :class:`DefinitionError` if the definition, the file
    and the options do not go together.
    """
    stream = options.stream
    if stream.features.names is None:
        stream = replace(stream, features=replace(stream.features, names=features))
    if first is not None:
        stream = _fitted(stream, first, classes)
    if stream.window.keep_rows is None and stream.window.length == "all":
        # If the file has no ids, no id comes twice; without retirements either, no row is ever looked up.
        needs_rows = bool(options.input.id) or options.retire_fraction > 0
        stream = replace(stream, window=replace(stream.window, keep_rows=needs_rows))
    definition = StreamDefinition.of(stream)
    span = definition.nested_windows.shortest_timed
    if span is not None and not options.input.time:
        raise DefinitionError(f"window: {span} is a span of event time; say which column holds it with --time")
    if options.retire_fraction and not definition.nested_windows.keep_rows:
        raise DefinitionError(
            "retire-fraction: this definition keeps no rows (keep_rows = false); rows are retired by id"
        )
    return definition
