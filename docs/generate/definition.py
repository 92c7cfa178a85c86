"""The keys of a definition file. Which there are, and what a stream has that says nothing, is asked of the product.

What a key is for is written down here, once; a key that is added or removed there ends the build until it is here, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltaplane.maps.feature_maps import KINDS as MAP_KINDS
from deltaplane.solve.objectives import KINDS_OF_OBJECTIVE
from deltaplane.solve.solver_options import KINDS
from deltaplane.stream.declared import KEYS
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.input_table import INPUT_KEYS
from deltaplane_services.definition_file.intake_table import FORMATS, INTAKE_KEYS
from generate.tables import code, table

ABOUT: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "": {
        "name": ("text", "Name of the stream; its topics begin with it. Letters, digits, `-` and `_`."),
        "partitions": (
            "whole number",
            "Partitions of samples, retirements and queries: as many workers can share them.",
        ),
        "partitioner": (
            "murmur2, crc32",
            "Which partition an id belongs to. `crc32`: streams begun by an early version.",
        ),
        "max_skew": (
            "span of time",
            "How far a row's event time may be ahead of the log ([why](../how-to/event-time.md)).",
        ),
    },
    "columns": {
        "missing": ("list of texts", "What stands for a missing value, in every column."),
        "rules": (
            "list of tables",
            "How each column of a table [becomes features](../how-to/mixed-tables.md). None: rows are numbers already.",
        ),
    },
    "features": {
        "names": ("list of texts", "The features, in the order in which messages have them."),
        "missing": ("refuse, offset", "A missing value: the row is refused, or the grid's offset is filled in."),
    },
    "grid": {
        "steps": (
            "list of numbers",
            "The resolution of each feature, a power of two. `replay` fits it to the first rows.",
        ),
        "offsets": ("list of numbers", "The middle of each feature's range."),
        "range_bits": (
            "30, 45",
            "Values up to two to this power of steps from their offset are admitted. What `replay` fits has 45.",
        ),
    },
    "feature_map": {
        "kind": (
            ", ".join(("none", *MAP_KINDS)),
            (
                "A curved boundary by random features, or, of `mixed`, [flat and curved](../explanation/automatic.md)."
                " `linear` is another word for `none`, the default; `auto` is for `replay`, which fits it."
            ),
        ),
        "units": ("whole number", "Features that the map makes."),
        "seed": ("whole number", "Seed of its random weights."),
        "sigma": ("number", "Width of its kernel, in standardized units."),
        "centers": ("list of whole numbers", "Middle of each feature, in grid steps; fitted by `replay`."),
        "scales": ("list of numbers", "Deviation of each feature, in grid steps; fitted by `replay`."),
        "curved": (
            "list of whole numbers",
            "Of `mixed`: places of the features that units of few features look at; fitted by `replay`.",
        ),
    },
    "prior": {
        "classes": ("list of texts", "Classes of an earlier model that new planes are drawn to; see `--prior`."),
        "positive": ("text", "Its positive class, if it has one."),
        "features": ("list of texts", "Its features."),
        "weights": ("list of lists", "Its weights, a list for each plane."),
        "biases": ("list of numbers", "Its biases, which are *subtracted*: intercepts with the sign turned."),
    },
    "classes": {
        "names": ("list of texts", "The labels that are admitted. None: classes come and go with their rows."),
        "positive": ("text", "This label against all others: two classes."),
        "most": ("whole number", "Where classes come and go: how many a partition admits."),
    },
    "window": {
        "length": (
            "auto, rows, span, all, or a list",
            'What is live: `20000` rows, `"7d"` of event time, `"all"`; several at once; or `"auto"`, nested windows.',
        ),
        "max": ("whole number", "Rows of the longest window of `auto`."),
        "pane": (
            "whole number",
            "Windows of rows give up their oldest rows by so many at once. It saves no time any more: leave it at 1.",
        ),
        "keep_rows": ("true, false", 'With `"all"` only: hold no rows. No row can be retired then.'),
    },
    "solver": {
        "kind": (", ".join(KINDS), "Which plane is solved for."),
        "weighting": (
            "auto, inverse, none, balanced, a table or a list",
            "Weights of the classes; a table gives one for each label.",
        ),
        "C": ("auto, a number, or a list", "Regularisation; larger fits closer. Several are weighed."),
        "standardize": ("true, false", "Regularise in standardized units, or in raw ones."),
        "bias": (
            "regularised, free, none",
            "How the plane's bias is penalised; which ones there are depends on the kind.",
        ),
        "objective": (
            ", ".join(KINDS_OF_OBJECTIVE.values()),
            "What planes and thresholds are chosen for, in your numbers: [how](../how-to/choose-what-to-optimise.md).",
        ),
        "calibrate": (
            "true, false",
            "Whether scores are counted, so that answers have probabilities ([how](../how-to/scores.md)).",
        ),
    },
    "input": {
        "label": ("text", "Column with the class."),
        "id": ("text", "Column with unique ids. Without it rows of files get ids made of file, line and content."),
        "time": ("text", "Column with the event time ([forms](../how-to/times-of-files.md))."),
        "time_unit": ("s, ms, us, ns, days", "What times that are numbers count; told by the first rows."),
        "time_format": ("text", "The form of times that are no ISO 8601, such as `%d/%m/%Y %H:%M`."),
        "time_zone": ("text", "Zone of local times, such as `Europe/Berlin`. Without it they are taken for UTC."),
        "ignore": ("list of texts", "Columns that are no features."),
        "features": ("list of texts", "Columns that are features, in this order; all others by default."),
        "missing_values": (
            "list of texts",
            "What is a missing value besides an empty cell, `?`, `NA`, `NaN` and their like; a number however written.",
        ),
        "na": ("list of texts", "The name of `missing_values` before."),
        "rename": ("list of texts", 'Other names for columns: `["old=new"]`.'),
        "encoding": ("text", "Encoding of a file of text: `utf-8`, `utf-16`, `cp1252`, …; told from its first bytes."),
        "decimal": ("text", "Decimal sign of numbers in CSV and JSON Lines."),
        "thousands": ("text", "What separates thousands in numbers."),
        "quote": ("text", 'Character around cells of CSV; `\\"` if a backslash escapes it, `none` if there is none.'),
        "comment": ("text", "What lines of CSV begin with that are no rows, such as `#`."),
        "labels": ("numbers, text", "Whether labels that are numbers have one spelling: `1` for 1, 1.0 and +1."),
        "libsvm_base": ("auto, 0, 1", "First index of LIBSVM; told by the file where this is not given."),
        "format": (
            "csv, parquet, arrow, libsvm, arff, keel, jsonl",
            "Format of the file; told from the file where this is not given.",
        ),
        "delimiter": (
            "text",
            "What is between two cells of a CSV file, `blanks` for runs of them; told from the file by default.",
        ),
        "header": (
            "true, false",
            "Whether a CSV file begins with the names of its columns; told by its first line by default.",
        ),
        "nominal": (
            "one-hot, place",
            "Nominal features of ARFF: one for each value, or its place in the declaration, as early versions had it.",
        ),
        "number_of_features": ("whole number", "Features of a LIBSVM file, which names only those that are not zero."),
    },
    "intake": {
        "topic": ("text", "Your topic of events ([how](../how-to/your-topics.md))."),
        "format": (", ".join(FORMATS), "The form of its records; `json` by default."),
        "schema": ("path", "File with the schema of Avro (.avsc), or with the descriptors of Protobuf."),
        "message": ("text", "Message type of Protobuf, with its package: `shop.Payment`."),
        "id": ("path", "Where the id of an event lies: `tx.id` is the member `id` of the member `tx`."),
        "time": ("path", "Where its time lies. Without it, the time of the log is the event time."),
        "time_unit": ("s, ms, us, ns", "What times that are numbers count; seconds by default."),
        "time_format": ("text", "The form of times that are texts and no ISO 8601, such as `%d/%m/%Y %H:%M`."),
        "time_zone": ("text", "Zone of local times, such as `Europe/Berlin`. Without it they are taken for UTC."),
        "label": ("path", "Where the label of an event lies, if it is there from the beginning."),
        "row": ("path", "The member in which columns are looked for by name; the record itself by default."),
        "fields": ("table", "Column to path, for columns that lie elsewhere or have other names there."),
        "labels": ("table", "The topic of labels that come by themselves: `[intake.labels]`."),
        "queries": ("true, false", "Whether each event is a query, too, when it comes; it is none by default."),
        "keep": (
            "span of time",
            "How long an event is kept for corrections of its label. For ever, but with windows of time.",
        ),
    },
    "intake.labels": {
        "topic": ("text", "Your topic of labels."),
        "format": (", ".join(FORMATS), "The form of its records; that of the events by default."),
        "schema": ("path", "As in `[intake]`."),
        "message": ("text", "As in `[intake]`."),
        "id": ("path", "Where the id of the event lies that a label is for."),
        "label": ("path", "Where the label lies."),
        "value": ("text", "The label that every record of the topic means, instead of `label`."),
        "after": ("span of time", "Silence for so long after an event's time is the label `otherwise`."),
        "otherwise": ("text", "The label that silence means."),
    },
}

TITLES = {
    "": "At the top of the file",
    "input": "[input]: how files are read; no part of the stream",
    "intake": "[intake]: how your own topics are read; no part of the stream",
}

_LEAST: dict[str, Any] = {
    "features": {"names": ["a"]},
    "grid": {"steps": [1.0]},
    "window": {"length": "all"},
    "solver": {"C": 1.0},
}
"""A definition that says no more than it must, to see what the others are by default."""

_CHOSEN = {
    ("", "max_skew"): "a tenth of the shortest window of time",
    ("window", "length"): "auto",
    ("solver", "C"): "auto",
    ("solver", "objective"): "gmean",
    ("solver", "calibrate"): True,
    ("window", "max"): 102_400,
}
_NOT_GIVEN = {("features", "names"), ("grid", "steps"), ("grid", "offsets"), ("", "max_skew"), ("solver", "weighting")}


def definition_tables() -> str:
    """A table of keys for each section of a definition file. Raises LookupError where the product has other keys."""
    elsewhere = {*KEYS, "service", "kafka", "input", "intake"}
    known = {section: set(keys) - (elsewhere if not section else set()) for section, keys in KEYS.items()}
    known["input"] = set(INPUT_KEYS)
    known |= {section: set(keys) for section, keys in INTAKE_KEYS.items()}
    ours = {section: set(keys) for section, keys in ABOUT.items()}
    if known != ours:
        wrong = {section: known.get(section, set()) ^ ours.get(section, set()) for section in known | ours}
        raise LookupError(f"docs/generate/definition.py: keys with no description, or that are no more: {wrong}")
    defaults = StreamDefinition.from_tables(_LEAST).to_tables()
    parts = []
    for section, keys in ABOUT.items():
        parts.append(f"## {TITLES.get(section, f'[{section}]')}\n")
        rows = []
        for key, (value, about) in keys.items():
            rows.append([code(key), value, _default(section, key, defaults), about])
        parts.append(table(["Key", "May be", "Default", "What it says"], rows))
    return "\n".join(parts)


def _default(section: str, key: str, defaults: Mapping[str, Any]) -> str:
    if (section, key) in _CHOSEN:
        return str(_CHOSEN[section, key])
    found = (defaults if not section else defaults.get(section, {})).get(key)
    if found in (None, [], {}) or (section, key) in _NOT_GIVEN:
        return ""
    return code(json.dumps(found).strip('"'))
