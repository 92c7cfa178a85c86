"""What ``replay`` is asked to do: a definition file's tables with the command line's flags laid over them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deltaplane.definition import KEYS, StreamDefinition
from deltaplane.errors import DefinitionError
from deltaplane.exported import FORMAT, FORMAT_VERSION
from deltaplane.features import fit_table
from deltaplane.grid import Grid, fit_grid
from deltaplane.tables import check_keys, flag, label, list_of, number, numbers, strings, text, whole
from deltaplane_services.readers import ReaderOptions

INPUT_KEYS = ("label", "id", "time", "ignore", "format", "delimiter", "header", "number_of_features")
Tables = dict[str, Any]


@dataclass(frozen=True)
class ImbalanceSchedule:
    """Rows of the stream and the majority : positive ratio wanted there; between them it moves geometrically."""

    rows: tuple[int, ...]
    ratios: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> ImbalanceSchedule:
        """``0:1,20000:20,40000:1`` begins balanced, is 20 negatives to a positive at row 20,000, and returns."""
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
    """How a file is fed to the stream; the stream itself is in the tables."""

    source: str
    tables: Mapping[str, Any] = field(default_factory=dict)
    chunk: int = 100
    rows_per_second: float | None = None
    imbalance: ImbalanceSchedule | None = None
    retire_fraction: float = 0.0
    seed: int = 0
    verify: bool = False
    retired_ids: Path | None = None

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise DefinitionError(f"chunk: expected at least 1 row, got {self.chunk}")
        if not 0.0 <= self.retire_fraction <= 1.0:
            raise DefinitionError(f"retire-fraction: expected a number from 0 to 1, got {self.retire_fraction}")
        if self.rows_per_second is not None and not 1e-6 <= self.rows_per_second <= 1e9:
            raise DefinitionError(f"speed: expected 1e-6 to 1e9 rows per second, got {self.rows_per_second}")
        if not 0 <= self.seed < 2**64:
            raise DefinitionError(f"seed: expected a whole number from 0 to {2**64 - 1}, got {self.seed}")

    @property
    def input(self) -> Mapping[str, Any]:
        """The table that says which columns of the file are what."""
        table: Mapping[str, Any] = self.tables.get("input", {})
        return table


def load_tables(path: Path | None) -> Tables:
    """The tables of a definition file; none for None. Raises :class:`DefinitionError` where it cannot be read."""
    if path is None:
        return {}
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise DefinitionError(f"definition: there is no file {str(path)!r}; check the path") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise DefinitionError(f"definition: {str(path)!r} cannot be read: {fault}") from fault
    except (ValueError, RecursionError) as fault:
        # Besides what is no TOML: a number of more digits than Python converts, and lists within lists without end.
        raise DefinitionError(f"definition: {str(path)!r} is not TOML: {str(fault)[:200]}") from fault
    check_keys(tables, KEYS)
    _check_input(tables.get("input", {}))
    return tables


def _check_input(table: Any) -> None:
    """Refuse what says nothing of how a file is read: an unknown key, or a value of another type."""
    if not isinstance(table, Mapping):
        raise DefinitionError(f"input: expected a table of keys, got {table!r}")
    for key, value in table.items():
        where = f"input.{key}"
        if key not in INPUT_KEYS:
            raise DefinitionError(f"definition: unknown key {where!r}; known are {', '.join(INPUT_KEYS)}")
        if key in ("label", "id", "time"):
            label(value, where)
        elif key == "ignore":
            strings([value] if isinstance(value, str) else value, where)
        elif key == "header":
            flag(value, where)
        elif key == "number_of_features":
            whole(value, where)
        else:
            text(value, where)


def read_prior(path: Path) -> Tables:
    """The table ``[prior]`` of a model in JSON: what ``model export`` or ``replay --json`` has written."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as fault:
        raise DefinitionError(f"prior: {str(path)!r} cannot be read: {fault}") from fault
    except (ValueError, RecursionError) as fault:
        raise DefinitionError(f"prior: {str(path)!r} is not JSON ({fault})") from fault
    model = value.get("model", value) if isinstance(value, dict) else None
    lists: list[Any] = [model.get(key) for key in ("classes", "features", "weights")] if isinstance(model, dict) else []
    if not isinstance(model, dict) or not all(isinstance(item, list) and item for item in lists):
        raise DefinitionError(
            f"prior: {str(path)!r} holds no plane; give what 'model export' or 'replay --json' has written"
        )
    classes, features, weights = lists
    several = isinstance(weights[0], list)
    positive = classes[-1] if not several and model.get("positive") is None else model.get("positive")
    positive = value.get("positive") or positive if "model" in value else positive
    if model.get("format", FORMAT) != FORMAT or model.get("format_version", 1) not in range(1, FORMAT_VERSION + 1):
        raise DefinitionError(
            f"prior: {str(path)!r} is of format {model.get('format')!r}, version {model.get('format_version')!r};"
            f" expected {FORMAT!r} up to version {FORMAT_VERSION}; use the version of deltaplane that wrote it"
        )
    table = {
        "classes": classes,
        "features": features,
        "weights": weights if several else [weights],
        "biases": _biases(model),
    }
    return table if positive is None else {**table, "positive": positive}


def _biases(model: Mapping[str, Any]) -> list[Any]:
    """The biases of a model in JSON, which are subtracted: those of earlier versions, or intercepts turned round."""
    if (intercepts := model.get("intercepts")) is None:
        biases = model.get("biases", model.get("bias"))
        return biases if isinstance(biases, list) else [biases]
    return [-number(one, "prior.intercepts") for one in list_of(intercepts, "prior.intercepts")]


def lay_over(tables: Mapping[str, Any], section: str, **values: Any) -> Tables:
    """The tables with the values that are not None put into one section ('' for the top)."""
    given = {key: value for key, value in values.items() if value is not None}
    if not given:
        return dict(tables)
    if not section:
        return {**tables, **given}
    return {**tables, section: {**tables.get(section, {}), **given}}


def reader_options(options: ReplayOptions) -> ReaderOptions:
    """How the file is to be read."""
    table = options.input
    names = strings(options.tables.get("features", {}).get("names", ()), "features.names")
    ignored = table.get("ignore", ())
    named = {key: None if table.get(key) is None else str(table[key]) for key in ("label", "id", "time")}
    return ReaderOptions(
        label=named["label"],
        id=named["id"],
        time=named["time"],
        features=tuple(names) if names else None,
        ignored=(ignored,) if isinstance(ignored, str) else tuple(map(str, ignored)),
        format=table.get("format"),
        missing="keep" if options.tables.get("features", {}).get("missing") == "offset" else "refuse",
        number_of_features=table.get("number_of_features"),
        delimiter=table.get("delimiter"),
        header=table.get("header", True),
    )


def needs_first_rows(options: ReplayOptions) -> bool:
    """Whether the grid or the feature map is to be fitted."""
    table = options.tables.get("feature_map", {})
    complete = table.get("kind", "none") == "none" or {"centers", "scales"} <= table.keys()
    return "steps" not in options.tables.get("grid", {}) or not complete


def _fitted(tables: Tables, first: npt.NDArray[np.float64]) -> Tables:
    if "steps" not in tables.get("grid", {}):
        grid = fit_grid(first)
        tables = lay_over(tables, "grid", steps=grid.steps.tolist(), offsets=grid.offsets.tolist())
    steps = numbers(tables["grid"]["steps"], "grid.steps")
    offsets = numbers(tables["grid"].get("offsets", [0.0] * len(steps)), "grid.offsets")
    grid = Grid(np.array(steps), np.array(offsets))
    if grid.features != first.shape[1]:
        raise DefinitionError(f"grid: expected {first.shape[1]} steps, one a feature, got {grid.features}")
    return lay_over(tables, "feature_map", **fit_table(tables.get("feature_map", {}), grid, first))


def complete_definition(
    options: ReplayOptions, features: tuple[str, ...], first: npt.NDArray[np.float64] | None
) -> StreamDefinition:
    """The stream definition of a replay: what the tables leave open is taken from the file.

    ``first`` are its first rows float64[n, d], where :func:`needs_first_rows`: what is missing is fitted on them.
    """
    tables: Tables = dict(options.tables)
    names = strings(tables.get("features", {}).get("names", list(features)), "features.names")
    tables = lay_over(tables, "features", names=names)
    if first is not None:
        tables = _fitted(tables, first)
    window = tables.get("window", {})
    if "keep_rows" not in window and window.get("length") == "all":
        # Without ids of the file's own no id comes twice, and without retirements none is asked for.
        needs_rows = bool(options.input.get("id")) or options.retire_fraction > 0
        tables = lay_over(tables, "window", keep_rows=needs_rows)
    definition = StreamDefinition.from_tables(tables)
    if definition.ladder.timed and not options.input.get("time"):
        span = next(window for window in definition.ladder.windows if window.kind == "time")
        raise DefinitionError(f"window: {span} is a span of event time; say which column holds it with --time")
    if options.retire_fraction and not definition.ladder.keep_rows:
        raise DefinitionError(
            "retire-fraction: this definition keeps no rows (keep_rows = false); rows are retired by id"
        )
    return definition
