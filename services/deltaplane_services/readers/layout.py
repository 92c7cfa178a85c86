"""The layout of a table: the columns of its label, id and time, and its feature columns."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deltaplane import limits
from deltaplane.columns.encoder import Encoder
from deltaplane_services.readers.cells import AS_NUMBERS, PLAIN, LabelSpelling, NumberForm
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions
from deltaplane_services.readers.time_rule import SECONDS_OR_ISO, TimeRule

__all__ = [
    "Layout",
    "choose_columns",
    "choose_features",
    "find_column",
    "ignoring",
    "listed",
    "refuse_duplicates",
    "renamed",
]


@dataclass(frozen=True)
class Layout:
    """Positions (from 0) of the columns that are read, in a table whose columns are ``names``.

    - ``codes``: position of a nominal feature to the numbers of its values, missing ones included.
    - ``label``: None if rows are read without one.
    - ``declared_labels``: the only labels allowed; None if any text is.
    - ``labels``: the function from a text to the label that it names.
    - ``form``, ``forms``: how numbers are written, in general and in the columns at some positions.
    - ``times``: how times are read; None if the first rows must show it.
    - ``encoder``: makes the features from the columns at ``features``; None if each of these columns is a feature.
    """

    names: tuple[str, ...]
    label: int | None
    id: int | None
    time: int | None
    features: tuple[int, ...]
    codes: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    declared_labels: frozenset[str] | None = None
    labels: LabelSpelling = AS_NUMBERS
    form: NumberForm = PLAIN
    forms: Mapping[int, NumberForm] = field(default_factory=dict)
    times: TimeRule | None = None
    encoder: Encoder | None = None

    @property
    def time_rule(self) -> TimeRule:
        """How times are read; if no row has shown it, numbers are seconds and texts are ISO 8601."""
        return self.times or SECONDS_OR_ISO

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in the order of the blocks' columns."""
        if self.encoder is not None:
            return self.encoder.features
        return tuple(self.names[position] for position in self.features)

    @property
    def texts(self) -> list[int]:
        """Positions of the columns that are no features: those of label, id and time, as far as there are any."""
        return [position for position in (self.label, self.id, self.time) if position is not None]

    def form_of(self, position: int) -> NumberForm:
        """How the numbers of a column are written."""
        return self.forms.get(position, self.form)


def listed(names: Sequence[str], at_most: int = 12) -> str:
    """Names as a text for a message; of a long list, the first ones and the number of all."""
    shown = ", ".join(names[:at_most])
    return shown if len(names) <= at_most else f"{shown}, … ({len(names)} in all)"


def ignoring(names: Sequence[str], at_most: int = 6) -> str:
    """The flags that leave these columns out, quoted for a shell."""
    return " ".join(f"--ignore {shlex.quote(name)}" for name in names[:at_most])


def find_column(name: str, names: Sequence[str], role: str, where: str) -> int:
    """The position of the column ``name``. Raises ReaderError, with all names and the closest one, if there is none."""
    if name in names:
        return names.index(name)
    by_folded = {known.casefold(): known for known in reversed(names)}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    hint = f" Did you mean `{by_folded[near[0]]}`?" if near else ""
    raise ReaderError(f"{where} has no column `{name}` for the {role}; its columns are {listed(names)}.{hint}")


def _named(given: Sequence[str], names: Sequence[str]) -> list[str]:
    """The names of columns in some texts, each of which holds one name, or several between commas."""
    found: list[str] = []
    for name in given:
        parts = [part.strip() for part in name.split(",")]
        # A comma may be part of a name.
        found += parts if name not in names and len(parts) > 1 and all(part in names for part in parts) else [name]
    return found


def choose_columns(names: Sequence[str], options: ReaderOptions, where: str) -> Layout:
    """The layout of a table with these columns by the options.

    Raises ReaderError if a name is missing, comes twice, or is given for two roles, or if no feature is left.
    """
    names = renamed(names, options, where)
    refuse_duplicates(names, where)
    label = _label_of(names, options, where)
    row_id = None if options.id is None else find_column(options.id, names, "id", where)
    time = None if options.time is None else find_column(options.time, names, "time", where)
    roles = [position for position in (label, row_id, time) if position is not None]
    if len(set(roles)) < len(roles):
        raise ReaderError(f"One column of {where} is named for two of label, id and time; each needs its own.")
    features = choose_features(names, roles, options, where)
    return Layout(
        tuple(names),
        label,
        row_id,
        time,
        features,
        labels=options.label_spelling,
        form=options.number_form,
    )


def _label_of(names: Sequence[str], options: ReaderOptions, where: str) -> int | None:
    """The position of the label; None if rows are read without one. Raises ReaderError if no column is named as it."""
    if not options.labelled:
        return None
    wanted = options.label
    if wanted is None and options.look is not None:
        # One column has to be it, and all of them are looked at.
        wanted = next(name for name in reversed(names) if name not in options.ignored)
    if wanted is None:
        raise ReaderError(
            f"{where} has no column marked as the label. Name it with `--label`; the columns are {listed(names)}."
        )
    return find_column(wanted, names, "label", where)


def renamed(names: Sequence[str], options: ReaderOptions, where: str) -> list[str]:
    """The names of the columns after renaming. Raises ReaderError if a column to be renamed is missing."""
    wanted = list(names)
    for old, new in options.renamed:
        wanted[find_column(old, names, "columns to rename", where)] = new
    return wanted


def choose_features(names: Sequence[str], taken: Sequence[int], options: ReaderOptions, where: str) -> tuple[int, ...]:
    """The positions of the features: those named, or all that are not ``taken`` by another role, without ignored ones.

    Raises ReaderError if the names contradict each other, or there are no features or too many.
    """
    ignored = {find_column(name, names, "ignored columns", where) for name in _named(options.ignored, names)}
    for position in sorted(ignored.intersection(taken)):
        raise ReaderError(f"The column `{names[position]}` of {where} is both ignored and named as label, id or time.")
    if options.features is None:
        wanted = [position for position in range(len(names)) if position not in taken]
    else:
        wanted = [find_column(name, names, "features", where) for name in _named(options.features, names)]
        for position in wanted:
            if position in taken or wanted.count(position) > 1:
                raise ReaderError(
                    f"The column `{names[position]}` of {where} is named as a feature and for something else as well, "
                    "or twice; name it once."
                )
    features = tuple(position for position in wanted if position not in ignored)
    if not features:
        raise ReaderError(
            f"{where} has no feature column left after label, id, time and ignored columns; it has {listed(names)}."
        )
    if len(features) > limits.FEATURES:
        raise ReaderError(
            f"{where} has {len(features)} feature columns and a stream may have {limits.FEATURES}. "
            "Name those to use with `--features NAME`, once for each, or leave some out with `--ignore NAME`."
        )
    return features


def refuse_duplicates(names: Sequence[str], where: str) -> None:
    """Raise ReaderError if two columns have the same name."""
    seen: dict[str, int] = {}
    for position, name in enumerate(names, start=1):
        if name in seen:
            raise ReaderError(
                f"{where} has two columns named `{name}`: column {seen[name]} and column {position}. "
                "Names tell columns apart here; rename one of them in the file, or hand the table over as CSV, where "
                "the second of a name gets a number."
            )
        seen[name] = position
