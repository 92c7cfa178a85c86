"""The tables of a definition file, as the file holds them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltaplane.errors import DefinitionError
from deltaplane.log.exported_model import FORMAT, FORMAT_VERSION
from deltaplane.stream.declared import KEYS
from deltaplane.table_values import check_keys, list_of, number
from deltaplane_services.definition_file.input_table import InputTable
from deltaplane_services.definition_file.intake_table import check_intake

__all__ = [
    "Tables",
    "load_tables",
    "names_of",
    "read_prior",
]

Tables = dict[str, Any]


def load_tables(path: Path | None) -> Tables:
    """The tables of a definition file; none for None. Raises :class:`DefinitionError` if it cannot be read."""
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
    InputTable.of(tables.get("input", {}))
    check_intake(tables)
    return tables


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


def names_of(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Names that were given with commas or one by one."""
    values = [given] if isinstance(given, str) else given or ()
    parts = [part.strip() for value in values for part in str(value).split(",")]
    return tuple(dict.fromkeys(filter(None, parts)))
