"""The run that is asked for by options of the command or keywords in Python, which have the same names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict

from deltaplane.errors import DefinitionError
from deltaplane.log.label_delay import LabelDelay
from deltaplane.stream.declared import DeclaredFeatures, DeclaredMap, DeclaredPrior, DeclaredStream
from deltaplane.stream.definition import StreamDefinition
from deltaplane.table_values import flag, number, whole
from deltaplane_services.definition_file.definition_tables import names_of, read_prior
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.definition_file.settings import resolve_knob
from deltaplane_services.produce.feed_options import ImbalanceSchedule, ReplayOptions

__all__ = [
    "FILL_IN",
    "Keywords",
    "c_of",
    "check_keywords",
    "replay_options",
    "weighting_of",
    "window_of",
    "with_keywords",
]

_Names = str | Sequence[str]
"""_Names of columns: several in a list, or in a text with commas."""


class Keywords(TypedDict, total=False):
    """The keywords of a replay, each the option of the command with that name; None is as if it were not given."""

    label: str | None
    positive: str | int | None
    classes: _Names | Sequence[str | int] | None
    time: str | None
    id: str | None
    ignore: _Names | None
    features: _Names | None
    category: _Names | None
    number: _Names | None
    missing: str | None
    rename: _Names | None
    missing_values: _Names | float | Sequence[str | float] | None
    na: _Names | None
    """The keyword of before for ``missing_values``."""
    labels: str | None
    format: str | None
    header: bool | None
    delimiter: str | None
    quote: str | None
    comment: str | None
    encoding: str | None
    decimal: str | None
    thousands: str | None
    libsvm_base: str | None
    number_of_features: int | None
    time_unit: str | None
    time_format: str | None
    time_zone: str | None
    definition: str | PathLike[str] | Mapping[str, Any] | StreamDefinition | None
    window: str | int | Sequence[str | int] | None
    max_window: int | None
    partitions: int | None
    kind: str | None
    C: str | float | Sequence[float] | None
    weighting: str | Mapping[str, float] | None
    standardize: bool | None
    objective: str | None
    feature_map: str | None
    units: int | None
    sigma: float | None
    prior: str | PathLike[str] | None
    chunk: int | None
    imbalance: str | None
    retire_fraction: float | None
    seed: int | None
    shuffle: int | None
    verify: bool | None
    metric: str | None
    label_delay: str | int | None
    blas_threads: int | None


FILL_IN = "median"
"""What ``missing`` says if rules are to fill in what is missing, even if all first rows are numbers."""

_OF_THE_FILE = (
    *("features", "rename", "labels", "format", "header", "delimiter", "quote", "comment", "encoding"),
    *("decimal", "thousands", "libsvm_base", "number_of_features", "time_unit", "time_format", "time_zone"),
)
_LISTS = ("ignore", "features", "rename")
_NOT_HERE = {
    "speed": "rows are replayed as fast as they go",
    "broker": "a replay on Kafka is one of the command",
    "engine": "a replay in pieces is one of the command",
    "processes": "a replay in pieces is one of the command",
    "pieces": "a replay in pieces is one of the command",
    "save": "a replay that goes on later is one of the command",
    "resume": "a replay that goes on later is one of the command",
    "report": "write the page of the result with .report(path)",
    "plots": "write the pictures of the result with .report(path, plots)",
    "json": "the result has it as .summary",
    "predictions": "the result has them as .predictions",
    "quiet": "nothing is printed",
    "write_definition": "the result has it as .definition_text",
    "write_model": "the result has it as .classifier",
}


def check_keywords(given: Mapping[str, Any]) -> None:
    """Raise DefinitionError for a keyword that a replay has not, with the nearest one that it has."""
    known = Keywords.__annotations__
    for name in given:
        if name in _NOT_HERE:
            raise DefinitionError(f"replay: it has no keyword {name!r} in Python: {_NOT_HERE[name]}")
        if name not in known:
            # A name in another case is nearer than one of other letters.
            folded = {one.lower(): one for one in known}
            close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
            hint = f"did you mean {folded[close[0]]!r}?" if close else f"known are {', '.join(known)}"
            raise DefinitionError(f"replay: unknown keyword {name!r}; {hint}")


def with_keywords(file: DefinitionFile, given: Mapping[str, Any]) -> DefinitionFile:
    """A definition file with what is given in place of what it says. Raises DefinitionError for a wrong value."""
    say = {name: value for name, value in given.items() if value is not None}
    # A text with commas is left to the reader, who knows whether a column is called so.
    lists = {name: [say[name]] if isinstance(say[name], str) else list(say[name]) for name in _LISTS if name in say}
    roles = {name: say.get(name) for name in ("label", "time", "id")}
    of_file = {name: lists.get(name, say.get(name)) for name in _OF_THE_FILE}
    of_file["missing_values"] = say.get("missing_values", say.get("na"))
    read_as = file.input.with_options(**roles, ignore=lists.get("ignore"), **of_file)
    names, stream = say.get("classes"), file.stream
    partitions = stream.partitions if say.get("partitions") is None else whole(say["partitions"], "partitions")
    stream = replace(
        stream,
        partitions=partitions,
        features=_with_missing(stream.features, say.get("missing")),
        classes=stream.classes.with_said(
            positive=say.get("positive"), names=None if names is None else _labels_of(names)
        ),
        window=stream.window.with_said(length=window_of(say.get("window")), max=say.get("max_window")),
        feature_map=_map_of(stream.feature_map, say),
        solver=stream.solver.with_said(
            kind=say.get("kind"),
            C=c_of(say.get("C")),
            weighting=weighting_of(say.get("weighting")),
            standardize=say.get("standardize"),
            objective=say.get("objective"),
        ),
        prior=stream.prior if say.get("prior") is None else DeclaredPrior.of(read_prior(Path(say["prior"]))),
    )
    # A definition that names no map is that of a flat stream, which goes on as one.
    if file == DefinitionFile() and _chooses_by_itself(stream):
        stream = replace(stream, feature_map=stream.feature_map.with_said(kind="auto"))
    return replace(file, stream=stream, input=read_as)


def _map_of(declared: DeclaredMap, say: Mapping[str, Any]) -> DeclaredMap:
    """The map that is asked for; without one, nothing is left of that of a definition."""
    of_it = {"kind": say.get("feature_map"), "units": say.get("units"), "sigma": say.get("sigma")}
    return (DeclaredMap() if of_it["kind"] in ("linear", "none") else declared).with_said(**of_it)


def _chooses_by_itself(stream: DeclaredStream) -> bool:
    """Whether window and C are both automatic, no map is named, and there is no prior."""
    automatic = stream.window.length in (None, "auto") and stream.solver.C in (None, "auto")
    return automatic and stream.feature_map.kind is None and stream.prior == DeclaredPrior()


def replay_options(
    source: str, file: DefinitionFile, given: Mapping[str, Any], environment: Mapping[str, str], **others: Any
) -> ReplayOptions:
    """The run that is asked for; ``file`` is that of :func:`with_keywords`, ``others`` are fields of the options.

    Raises DefinitionError for a wrong value.
    """
    say = {name: value for name, value in given.items() if value is not None}
    imbalance, shuffle, delay = (say.get(name) for name in ("imbalance", "shuffle", "label_delay"))
    return ReplayOptions(
        source=source,
        definition_file=file,
        chunk=whole(say.get("chunk", 100), "chunk"),
        imbalance=None if imbalance is None else ImbalanceSchedule.parse(str(imbalance)),
        retire_fraction=number(say.get("retire_fraction", 0.0), "retire-fraction"),
        seed=whole(say.get("seed", 0), "seed"),
        verify=flag(say.get("verify", False), "verify"),
        shuffle=None if shuffle is None else whole(shuffle, "shuffle"),
        category=names_of(say.get("category")),
        number=names_of(say.get("number")),
        fill_in=say.get("missing") == FILL_IN,
        metric=say.get("metric"),
        label_delay=None if delay is None else LabelDelay.parse(str(delay)),
        blas_threads=resolve_knob("blas_threads", say.get("blas_threads"), environment, file.service),
        **others,
    )


def _with_missing(features: DeclaredFeatures, given: str | None) -> DeclaredFeatures:
    """The features with what becomes of missing values; nothing is said of it if rules are to fill them in."""
    return replace(features, missing=None) if given == FILL_IN else features.with_said(missing=given)


def _labels_of(given: Any) -> list[str]:
    """Labels with commas, or one by one as they are."""
    if isinstance(given, str):
        return list(names_of(given))
    return list(dict.fromkeys(str(one).strip() for one in given))


def window_of(given: Any) -> Any:
    """One window, or several with commas."""
    return [part.strip() for part in given.split(",")] if isinstance(given, str) and "," in given else given


def c_of(given: Any) -> Any:
    """``auto``, one C, or several with commas."""
    if not isinstance(given, str) or given == "auto":
        return given
    try:
        numbers = [float(part) for part in given.split(",")]
    except ValueError:
        raise DefinitionError(f"C: expected auto, a number, or numbers with commas, got {given!r}") from None
    return numbers if len(numbers) > 1 else numbers[0]


def weighting_of(given: Any) -> Any:
    """A name, or explicit weights: ``'0=1,1=5'``."""
    if not isinstance(given, str) or "=" not in given:
        return given
    weights = {}
    for part in given.split(","):
        label, _, weight = part.rpartition("=")
        try:
            weights[label.strip()] = float(weight)
        except ValueError:
            raise DefinitionError(f"weighting: expected LABEL=WEIGHT pairs such as '0=1,1=5', got {part!r}") from None
    return weights
