"""The table ``[columns]`` of a definition file, and the encoder that it describes.

[columns]
missing = ["", "?", "NA"]
rules = [
  { column = "amount", kind = "number", log = true, fill = 12.5 },
  { column = "country", kind = "category", levels = ["DE", "FR"], missing = "fill" },
]
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any

from deltaplane.columns.cells import MISSING
from deltaplane.columns.encoder import Encoder
from deltaplane.columns.rules import RULES, ColumnRule
from deltaplane.errors import DefinitionError
from deltaplane.table_values import Tables, flag, list_of, number, strings, text, whole

__all__ = ["encoder_of", "encoder_table"]

_SETTINGS: Mapping[str, Callable[[Any, str], Any]] = {
    "column": text,
    "missing": text,
    "log": flag,
    "levels": strings,
    "buckets": whole,
    "hashed_by": text,
    "parts": strings,
    "zone_minutes": whole,
}


def encoder_of(table: Tables) -> Encoder | None:
    """The encoder of a table ``[columns]``, or None if the table is empty: then rows come as numbers.

    Raises :class:`DefinitionError` if a rule is not valid.
    """
    if not table:
        return None
    rules = tuple(map(_rule_of, list_of(table.get("rules", ()), "columns.rules")))
    missing = tuple(text(word, "columns.missing") for word in list_of(table.get("missing", MISSING), "columns.missing"))
    return Encoder(rules, missing)


def _rule_of(table: Any) -> ColumnRule:
    if not isinstance(table, Mapping) or "column" not in table:
        raise DefinitionError(f'columns.rules: expected tables {{ column = "…", kind = "…" }}, got {table!r:.200}')
    where = f"columns.rules[{table['column']!r:.100}]"
    kind = RULES.get(str(table.get("kind", "")))
    if kind is None:
        raise DefinitionError(f"{where}.kind: expected one of {', '.join(RULES)}, got {table.get('kind')!r:.100}")
    known = {one.name for one in dataclasses.fields(kind) if one.init}
    given: dict[str, Any] = {}
    for key, value in table.items():
        if key == "kind":
            continue
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; a {kind.KIND} has {', '.join(sorted(known))}"
            raise DefinitionError(f"{where}: unknown key {key!r:.100}{hint}")
        reads = _SETTINGS.get(key) or (flag if kind.KIND == "boolean" else number)
        read = reads(value, f"{where}.{key}")
        given[key] = tuple(read) if isinstance(read, list) else read
    return kind(**given)


def encoder_table(encoder: Encoder) -> dict[str, Any]:
    """The table ``[columns]`` of an encoder: the inverse of :func:`encoder_of`."""
    identity = encoder.identity
    return {"missing": identity["missing"], "rules": identity["rules"]}
