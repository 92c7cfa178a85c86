"""The stream definition: everything that must be the same for producers, workers, merger and scorer.

Two fingerprints follow from it. ``data_fingerprint`` covers the settings that two statistics must share to be
comparable (features, grid, feature map, missing values, columns): it is in every sample and in every digest.
``stream_fingerprint`` adds those that two deltas must share to be added (classes, windows, partitions, the values
admitted): it is in every claim, delta, checkpoint and model. Solver settings are in neither, so C or the weighting may
change on a live stream.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np

from deltaplane import limits
from deltaplane.arrays import Flags, Floats, Int64s
from deltaplane.columns.encoder import Encoder
from deltaplane.errors import DefinitionError
from deltaplane.exact.grid import Grid
from deltaplane.maps.feature_maps import NO_MAP, FeatureMap
from deltaplane.solve.calibration import CALIBRATION_BYTES
from deltaplane.solve.candidates import AUTOMATIC_WEIGHTINGS
from deltaplane.solve.flat_and_curved import curved_among
from deltaplane.solve.objectives import GMEAN, Objective
from deltaplane.solve.prequential_counts import Choice
from deltaplane.solve.score_histograms import SCORE_BYTES
from deltaplane.solve.solver import Plane
from deltaplane.solve.solver_options import SolverOptions
from deltaplane.stream.class_definition import ClassDefinition
from deltaplane.stream.column_tables import encoder_table
from deltaplane.stream.component_tables import (
    choices_of,
    feature_map_of,
    feature_map_table,
    grid_of,
    grid_table,
    nested_windows_of,
    prior_of,
    prior_table,
    solver_of,
    weightings_of,
)
from deltaplane.stream.declared import DeclaredStream
from deltaplane.stream.message_size import MessageSize
from deltaplane.stream.nested_windows import NestedWindows
from deltaplane.stream.placement import PARTITIONERS, Partitioner, partition_of, partitions_of
from deltaplane.table_values import Tables, canonical_json, check_text, span_text

__all__ = ["FINGERPRINT_BYTES", "NAME", "StreamDefinition"]

FINGERPRINT_BYTES = 16
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True)
class StreamDefinition:
    """The definition of one stream, which producers, workers, mergers and scorers share.

    ``choices`` and ``weightings``: the values of C and the class weightings of the candidates of the automatic mode;
    empty means the solver's own. ``prior``: a plane that new ones are drawn to. ``objective``: the measure by which
    candidates are weighed and thresholds set. ``calibrate``: whether scores are counted, so that answers have
    probabilities. ``partitioner``: the rule for the partition of an id; it is in the stream fingerprint unless it is
    that of earlier versions. ``columns``: the encoder that makes features of table rows; None if rows come as numbers.
    If there is one, it is in the data fingerprint. Raises :class:`DefinitionError` if settings cannot be used, or not
    together.
    """

    name: str
    features: tuple[str, ...]
    grid: Grid
    nested_windows: NestedWindows
    solver: SolverOptions
    classes: ClassDefinition = field(default_factory=ClassDefinition)
    missing: Literal["refuse", "offset"] = "refuse"
    partitions: int = 1
    partitioner: Partitioner = "murmur2"
    max_skew_milliseconds: int = limits.LONGEST_SKEW_MILLISECONDS
    choices: tuple[float, ...] = ()
    weightings: tuple[str, ...] = ()
    feature_map: FeatureMap = NO_MAP
    prior: Plane | None = None
    objective: Objective = GMEAN
    calibrate: bool = True
    columns: Encoder | None = None
    data_fingerprint: bytes = field(init=False, repr=False)
    stream_fingerprint: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise DefinitionError(f"name: expected letters, digits, - and _ (it begins topic names), got {self.name!r}")
        if not 1 <= len(self.features) <= limits.FEATURES or len(set(self.features)) != len(self.features):
            raise DefinitionError(
                f"features: expected 1 to {limits.FEATURES} different names, got {len(self.features)}"
                f" of which {len(set(self.features))} differ"
            )
        for feature in self.features:
            check_text(feature, "features: a name", limits.FEATURE_NAME_BYTES)
        if self.grid.features != len(self.features):
            raise DefinitionError(f"grid: expected {len(self.features)} steps, one a feature, got {self.grid.features}")
        if self.missing not in ("refuse", "offset"):
            raise DefinitionError(f"features: missing must be 'refuse' or 'offset', got {self.missing!r}")
        if self.columns is not None:
            self._check_columns(self.columns)
        if not 0 <= self.max_skew_milliseconds < limits.EVENT_TIME_MILLISECONDS:
            raise DefinitionError(
                f"max_skew: expected 0 to {limits.EVENT_TIME_MILLISECONDS - 1} ms, got {self.max_skew_milliseconds} ms"
            )
        self._check_partitions()
        self._check_feature_map()
        self._check_choices()
        self._check_declared()
        self.message_size.check()
        object.__setattr__(self, "data_fingerprint", _fingerprint(self.data_settings()))
        object.__setattr__(self, "stream_fingerprint", _fingerprint(self.data_settings() | self._stream_settings()))

    def partition_of(self, sample_id: str) -> int:
        """The partition of samples and retirements with this id."""
        return partition_of(sample_id, self.partitions, self.partitioner)

    def partitions_of(self, ids: Sequence[str]) -> Int64s:
        """int64[n]: the partitions of n ids."""
        return partitions_of(ids, self.partitions, self.partitioner)

    @property
    def checks_places(self) -> bool:
        """Whether samples and retirements in another partition than that of their id are refused.

        Streams with the partitioner of earlier versions admit them, as before: a window that is rebuilt must hold the
        same rows.
        """
        return self.partitions > 1 and self.partitioner != "crc32"

    @property
    def dimension(self) -> int:
        """D, the side of a Gram matrix: the number of features of the plane (mapped ones if there is a map) + 1."""
        return self.feature_map.width(len(self.features)) + 1

    @functools.cached_property
    def dimensions(self) -> tuple[int, ...]:
        """D of the Gram matrices of each window; with a mixed map, short windows have fewer units."""
        beside = self.feature_map.beside
        if not beside:
            return (self.dimension,) * len(self.nested_windows.windows)
        return tuple(beside + units + 1 for units in self.nested_windows.units(self.feature_map.units))

    @property
    def plane_features(self) -> tuple[str, ...]:
        """The names of the features that the plane has weights for: the stream's own, or mapped ones."""
        return self.feature_map.names(self.features)

    @functools.cached_property
    def plane_grid(self) -> Grid:
        """The grid that the Gram matrices are in."""
        return self.feature_map.grid(self.grid)

    def plane_inputs(self, rows: Floats) -> tuple[Floats, Flags]:
        """The inputs float64[n, D-1] of a plane for raw rows float64[n, d], and bool[n]: which rows can be answered.

        Missing values are filled in if the definition says so. A row can be answered if it is on the grid then.
        """
        filled, _ = self.filled(rows)
        quantized, fits = self.grid.quantize(filled)
        if self.feature_map.kind == "none":
            return filled, fits
        return self.feature_map.inputs(filled, self.feature_map.apply(np.where(fits[:, None], quantized, 0))), fits

    def filled(self, rows: Floats) -> tuple[Floats, Flags | None]:
        """Raw rows float64[n, d] with the grid's offsets in place of missing values, and bool[n, d]: which these are.

        If the definition refuses missing values, the rows are unchanged and the flags are None.
        """
        if self.missing == "refuse":
            return rows, None
        gaps = np.isnan(rows)
        return np.where(gaps, self.grid.offsets, rows) if gaps.any() else rows, gaps

    @functools.cached_property
    def most_classes(self) -> int:
        """The largest number of classes that a partition admits, and that a model tells apart."""
        if not self.classes.are_open:
            return self.message_size.classes
        return self.classes.most or MessageSize.most_classes(len(self.nested_windows.windows), self.dimension)

    @functools.cached_property
    def most_calibrated(self) -> int:
        """The largest number of classes with which answers have probabilities; 0 if they are not wanted."""
        return self.message_size.most_with(limits.CALIBRATED_CLASSES, CALIBRATION_BYTES) if self.calibrate else 0

    @functools.cached_property
    def automatic(self) -> bool:
        """Whether the plane is a blend of candidates.

        It is if there are several windows or several choices of C and weighting, or if the objective is not the G-mean.
        """
        return len(self.nested_windows.windows) > 1 or len(self.choices_tried) > 1 or self.objective != GMEAN

    @functools.cached_property
    def candidate_options(self) -> tuple[SolverOptions, ...]:
        """The solver's options with each weighting and each C of the candidates."""
        weightings: Sequence[Any] = self.weightings or (self.solver.weighting,)
        return tuple(
            replace(self.solver, C=C, weighting=weighting)
            for weighting in weightings
            for C in self.choices or (self.solver.C,)
        )

    @functools.cached_property
    def curved_options(self) -> tuple[SolverOptions, ...]:
        """The solver's options of the curved candidates; empty without a mixed map."""
        return curved_among(self.candidate_options) if self.feature_map.beside else ()

    @functools.cached_property
    def choices_tried(self) -> tuple[Choice, ...]:
        """The choices of the candidates of a window; with a mixed map, first the flat and then the curved ones."""
        curved = (Choice.of(options)._replace(curved=True) for options in self.curved_options)
        return (*map(Choice.of, self.candidate_options), *curved)

    def _check_partitions(self) -> None:
        if not 1 <= self.partitions <= limits.PARTITIONS:
            raise DefinitionError(f"partitions: expected 1 to {limits.PARTITIONS}, got {self.partitions}")
        if self.partitioner not in PARTITIONERS:
            raise DefinitionError(f"partitioner: expected one of {', '.join(PARTITIONERS)}, got {self.partitioner!r}")
        for window in self.nested_windows.windows:
            if window.counted and window.length < self.partitions:
                raise DefinitionError(
                    f"window: {window.length} rows cannot be shared by {self.partitions} partitions;"
                    " every partition needs one"
                )

    def _check_columns(self, columns: Encoder) -> None:
        if self.features != columns.features:
            pairs = zip(self.features, columns.features, strict=False)
            at = next((place for place, (one, other) in enumerate(pairs) if one != other), len(columns.features))
            raise DefinitionError(
                f"features.names: expected the {len(columns.features)} features that [columns] makes, got"
                f" {len(self.features)}, other from number {at} on; leave features.names out, and fit the grid anew"
            )
        if self.missing != "refuse":
            raise DefinitionError("features.missing: with [columns] each rule says what becomes of a missing value")

    def _check_feature_map(self) -> None:
        mapped, features = len(self.feature_map.centers), len(self.features)
        if self.feature_map.kind != "none" and mapped != features:
            raise DefinitionError(f"feature_map: expected {features} centers, one a feature, got {mapped}")
        expected = self.dimension - 1
        if self.prior is not None and (found := self.prior.weights.shape[1]) != expected:
            raise DefinitionError(f"prior: expected weights of {expected} features, got {found}")

    def _check_choices(self) -> None:
        choices = self.choices
        if len(choices) > limits.CHOICES_OF_C or list(choices) != sorted(set(choices)):
            raise DefinitionError(
                f"solver.C: expected up to {limits.CHOICES_OF_C} different choices in ascending order, got {choices}"
            )
        if len(set(self.weightings)) != len(self.weightings) or "default" in self.weightings:
            raise DefinitionError(f"solver.weighting: expected names that differ, got {', '.join(self.weightings)}")
        assert len(self.candidate_options) <= limits.CHOICES, "three weightings of so many C at most"

    def _check_declared(self) -> None:
        self.objective.check_classes(self.classes.positive, len(self.classes.names) or self.classes.most)
        fits, most = MessageSize.most_classes(len(self.nested_windows.windows), self.dimension), self.classes.most
        if most is not None and not 2 <= most <= fits:
            raise DefinitionError(f"classes.most: expected 2 to {fits}, which fit a message, got {most}")
        weighting, names = self.solver.weighting, self.classes.names
        if names and not isinstance(weighting, str):
            classes = {self.classes.class_of(name) for name in names}
            if weighting.keys() != classes:
                raise DefinitionError(
                    f"solver.weighting: expected one weight for each of {', '.join(sorted(map(str, classes)))},"
                    f" got weights for {', '.join(sorted(weighting)) or 'none'}"
                )

    @property
    def message_size(self) -> MessageSize:
        """The sizes of the largest messages of this stream."""
        choices = len(self.choices_tried) if self.automatic else 0
        size = MessageSize.of(self.classes.modelled_classes, len(self.nested_windows.windows), self.dimension, choices)
        return size if self.objective == GMEAN else replace(size, score_bytes=SCORE_BYTES)

    def data_settings(self) -> dict[str, Any]:
        """The settings of which the data fingerprint is the hash: see :func:`canonical_json`."""
        return {
            "features": list(self.features),
            "steps": [step.hex() for step in self.grid.steps.tolist()],
            "offsets": [offset.hex() for offset in self.grid.offsets.tolist()],
            "missing": self.missing,
            "map": self.feature_map.identity,
            **({} if self.columns is None else {"columns": self.columns.identity}),
        }

    def _stream_settings(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "classes": list(self.classes.names),
            "positive": self.classes.positive,
            **({} if self.classes.most is None else {"most_classes": self.classes.most}),
            "windows": [[window.kind, window.length] for window in self.nested_windows.windows],
            "pane_rows": self.nested_windows.pane_rows,
            "keep_rows": self.nested_windows.keep_rows,
            "partitions": self.partitions,
            "max_skew_milliseconds": self.max_skew_milliseconds,
            **({"partitioner": self.partitioner} if self.checks_places else {}),
            # The range decides which rows are admitted, not their grid values: statistics of others stay comparable.
            **({} if self.grid.range_bits == limits.GRID_RANGE_BITS else {"range_bits": self.grid.range_bits}),
            **({"dimensions": list(self.dimensions)} if self.feature_map.beside else {}),
        }

    @classmethod
    def from_tables(cls, tables: Tables) -> StreamDefinition:
        """The definition of the tables of a ``deltaplane.toml``.

        Raises :class:`DefinitionError` if a key is not known, or if a value is not valid.
        """
        return cls.of(DeclaredStream.of(tables))

    @classmethod
    def of(cls, declared: DeclaredStream) -> StreamDefinition:
        """The definition of a stream that is declared, with defaults for what it leaves open.

        Raises :class:`DefinitionError` if something without a default is left open, or if a value is not valid.
        """
        made = () if declared.columns is None else declared.columns.features
        names = made if declared.features.names is None else declared.features.names
        if not names:
            raise DefinitionError("features: expected names = [...], got none")
        grid, given, solver = grid_of(declared.grid, len(names)), declared.classes, declared.solver
        classes = ClassDefinition(given.names or (), given.positive, given.most)
        partitions = 1 if declared.partitions is None else declared.partitions
        feature_map = feature_map_of(declared.feature_map, len(names))
        fitting = MessageSize.most_windows(
            classes.modelled_classes, feature_map.width(len(names)) + 1, classes.most or 2
        )
        nested_windows, choices = nested_windows_of(declared.window, partitions, fitting), choices_of(solver)
        skew, missing, name = declared.max_skew_milliseconds, declared.features.missing, declared.name
        return cls(
            name="stream" if name is None else name,
            features=names,
            grid=grid,
            nested_windows=nested_windows,
            solver=solver_of(solver, choices),
            classes=classes,
            missing=cast("Literal['refuse', 'offset']", "refuse" if missing is None else missing),
            partitions=partitions,
            partitioner="murmur2" if declared.partitioner is None else declared.partitioner,
            max_skew_milliseconds=nested_windows.fitting_skew_milliseconds if skew is None else skew,
            choices=choices,
            weightings=weightings_of(solver, several=len(nested_windows.windows) > 1 or len(choices) > 1),
            feature_map=feature_map,
            prior=prior_of(declared.prior, feature_map.names(names)),
            objective=GMEAN if solver.objective is None else Objective.parse(solver.objective),
            calibrate=solver.calibrate is not False,
            columns=declared.columns,
        )

    def to_tables(self) -> dict[str, Any]:
        """The tables of the definition: the inverse of :meth:`from_tables`."""
        solver = self.solver
        weighting: Any = solver.weighting if isinstance(solver.weighting, str) else dict(solver.weighting)
        if len(self.weightings) > 1:
            weighting = "auto" if self.weightings == AUTOMATIC_WEIGHTINGS else list(self.weightings)
        bounds = {"positive": self.classes.positive, "most": self.classes.most}
        classes = {"names": list(self.classes.names)} | {key: one for key, one in bounds.items() if one is not None}
        windows = [str(window) for window in self.nested_windows.windows]
        return {
            "name": self.name,
            "partitions": self.partitions,
            "partitioner": self.partitioner,
            "max_skew": span_text(self.max_skew_milliseconds),
            **({} if self.columns is None else {"columns": encoder_table(self.columns)}),
            "features": {"names": list(self.features), "missing": self.missing},
            "grid": grid_table(self.grid),
            "feature_map": feature_map_table(self.feature_map),
            "classes": classes,
            "window": {
                "length": windows[0] if len(windows) == 1 else windows,
                "pane": self.nested_windows.pane_rows,
                "keep_rows": self.nested_windows.keep_rows,
            },
            "solver": {
                "kind": solver.kind,
                "weighting": weighting,
                "C": list(self.choices) or solver.C,
                "standardize": solver.standardize,
                "bias": solver.bias,
                **({} if self.objective == GMEAN else {"objective": str(self.objective)}),
                **({} if self.calibrate else {"calibrate": False}),
            },
            "prior": {} if self.prior is None else prior_table(self.prior, self.plane_features),
        }


def _fingerprint(settings: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(canonical_json(settings).encode()).digest()[:FINGERPRINT_BYTES]
