"""The tables of a definition file, as a file holds them and as flags lie over them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltaplane.errors import DefinitionError
from deltaplane.log.exported_model import FORMAT, FORMAT_VERSION
from deltaplane.stream.component_tables import KEYS
from deltaplane.table_values import check_keys, flag, label, list_of, number, strings, text, whole
from deltaplane_services.definition_file.intake_table import check_intake

__all__ = [
    "INPUT_KEYS",
    "Tables",
    "check_input",
    "lay_over",
    "lay_over_input",
    "load_tables",
    "missing_values_of",
    "names_of",
    "read_prior",
]

_TEXT_KEYS = ("format", "delimiter", "encoding", "decimal", "thousands", "quote", "comment", "labels", "libsvm_base")
_TIME_KEYS = ("time", "time_unit", "time_format", "time_zone")
_LIST_KEYS = ("ignore", "features", "missing_values", "na", "rename")
INPUT_KEYS = ("label", "id", *_TIME_KEYS, *_LIST_KEYS, *_TEXT_KEYS, "header", "number_of_features", "nominal")
Tables = dict[str, Any]


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
    check_input(tables.get("input", {}))
    check_intake(tables)
    return tables


def check_input(table: Any) -> None:
    """Refuse what says nothing of how a file is read: an unknown key, or a value of another type."""
    if not isinstance(table, Mapping):
        raise DefinitionError(f"input: expected a table of keys, got {table!r}")
    for key, value in table.items():
        where = f"input.{key}"
        if key not in INPUT_KEYS:
            raise DefinitionError(f"definition: unknown key {where!r}; known are {', '.join(INPUT_KEYS)}")
        if key in ("label", "id", "time"):
            label(value, where)
        elif key in _LIST_KEYS:
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


def lay_over_input(tables: Mapping[str, Any], **values: Any) -> Tables:
    """The tables with what is said of the file put into ``[input]``; None and an empty list say nothing."""
    given = {key: None if value in ([], ()) else value for key, value in values.items()}
    if given.get("time_unit") is not None or given.get("time_format") is not None:
        # One that is given takes the place of the other in the file.
        kept = {key: value for key, value in tables.get("input", {}).items() if key not in ("time_unit", "time_format")}
        tables = {**tables, "input": kept}
    if given.get("delimiter") in ("tab", "\\t"):
        given["delimiter"] = "\t"
    laid = lay_over(tables, "input", **given)
    if given.get("missing_values") is not None:
        table = laid["input"]
        words = _values_of(given["missing_values"], commas="," not in (table.get("decimal"), table.get("thousands")))
        laid["input"] = {key: value for key, value in table.items() if key != "na"} | {"missing_values": words}
    return laid


def missing_values_of(table: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts and numbers that ``[input]`` declares as missing values; ``na`` is their key of before."""
    words = table.get("missing_values", table.get("na", ()))
    return (words,) if isinstance(words, str) else tuple(map(str, words))


def _values_of(given: Any, *, commas: bool) -> list[str]:
    """Values one by one, or several between commas where no number of the file has one."""
    texts = map(str, given if isinstance(given, list | tuple) else [given])
    parts = (part.strip() for text in texts for part in (text.split(",") if commas else [text]))
    return list(dict.fromkeys(filter(None, parts)))


def names_of(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Names that were given with commas or one by one."""
    values = [given] if isinstance(given, str) else given or ()
    parts = [part.strip() for value in values for part in str(value).split(",")]
    return tuple(dict.fromkeys(filter(None, parts)))
