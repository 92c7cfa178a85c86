"""The table ``[intake]``: a user's own topics, and where in their records the parts of a sample lie.

    [intake]
    topic = "payments"
    id = "tx.id"                    # a path: the member "id" of the member "tx"
    time = "tx.created"
    time_unit = "ms"
    row = "tx"                      # columns are looked for in here

    [intake.fields]
    amount = "tx.amount.value"      # a column that has another name there

    [intake.labels]
    topic = "chargebacks"
    id = "payment"
    label = "verdict"
    after = "30d"                   # silence for so long after an event's time
    otherwise = "ok"                # is this label

It says how topics of others are read, and is in no fingerprint: statistics stay comparable whatever it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.stream.definition import StreamDefinition
from deltaplane.table_values import canonical_json, check_keys, check_text, flag, label, list_of, span, text

__all__ = [
    "FORMATS",
    "INTAKE_KEYS",
    "FormDefinition",
    "IntakeDefinition",
    "LabelsDefinition",
    "Path",
    "check_intake",
    "intake_of",
]

FORMATS = (
    *("json", "avro", "confluent-avro", "protobuf", "confluent-protobuf"),
    *("debezium-json", "debezium-confluent-avro"),
)
"""Forms of records: JSON, Avro and Protobuf, bare or as a schema registry frames them, and envelopes of Debezium."""

_WITH_SCHEMA = ("avro", "protobuf", "confluent-protobuf")
_WITH_MESSAGE = ("protobuf", "confluent-protobuf")

INTAKE_KEYS: Mapping[str, frozenset[str]] = {
    "intake": frozenset(
        {"topic", "format", "id", "time", "time_unit", "time_format", "time_zone", "label", "row", "fields", "labels"}
        | {"keep", "schema", "message", "queries"}
    ),
    "intake.labels": frozenset({"topic", "format", "schema", "message", "id", "label", "value", "after", "otherwise"}),
}

Path = tuple[str, ...]
"""The way to a part of a record: names of members, and numbers of items of lists."""

_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class FormDefinition:
    """The form of the records of a topic: one of :data:`FORMATS`.

    - ``schema``: the file with the schema of Avro, or the descriptors of Protobuf; empty if the form needs none.
    - ``message``: the name of the message type of Protobuf, with its package.
    - ``where``: the table that says so, for messages.
    """

    name: str
    schema: str = ""
    message: str = ""
    where: str = "intake"


@dataclass(frozen=True)
class LabelsDefinition:
    """The topic of labels that come by themselves.

    - ``label``: the path of the label; None if every record means the label ``value``.
    - ``after_milliseconds``: the silence after an event's time that is the label ``otherwise``; None if an event waits
      for its label for ever.
    """

    topic: str
    form: FormDefinition
    id: Path
    label: Path | None
    value: str | None = None
    after_milliseconds: int | None = None
    otherwise: str | None = None


@dataclass(frozen=True)
class IntakeDefinition:
    """How records of a user's topics become samples and retirements. Raises :class:`DefinitionError`.

    - ``id``, ``time``, ``label``: their paths. Without ``time`` the time of the log is the event time. ``label`` is
      None if labels come by themselves.
    - ``fields``: pairs (column, path) for each column of the stream.
    - ``labels``: the topic of labels that come by themselves, if they do.
    - ``queries``: whether each event is a query, too, when it comes.
    - ``keep_milliseconds``: how long after its time an event is kept for corrections; None for ever.
    """

    topic: str
    form: FormDefinition
    id: Path
    time: Path | None
    label: Path | None
    fields: tuple[tuple[str, Path], ...]
    time_unit: str | None = None
    time_format: str | None = None
    time_zone: str | None = None
    labels: LabelsDefinition | None = None
    keep_milliseconds: int | None = None
    queries: bool = False
    identity: str = field(default="", compare=False)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are read: that of events, and that of labels if there is one."""
        return (self.topic,) if self.labels is None else (self.topic, self.labels.topic)


def check_intake(tables: Mapping[str, Any]) -> None:
    """Refuse a key of ``[intake]`` that nobody reads, and a value of another type. Raises :class:`DefinitionError`."""
    table = tables.get("intake")
    if table is None:
        return
    check_keys({"intake": table}, {"intake": INTAKE_KEYS["intake"]})
    if "labels" in table:
        check_keys({"intake.labels": table["labels"]}, {"intake.labels": INTAKE_KEYS["intake.labels"]})


def intake_of(tables: Mapping[str, Any], definition: StreamDefinition) -> IntakeDefinition | None:
    """The intake of a definition file, for its stream; None if the file has no ``[intake]``.

    Raises :class:`DefinitionError` with the key, what was expected and what came.
    """
    check_intake(tables)
    table = tables.get("intake")
    if table is None:
        return None
    if table.get("time_unit", "s") not in _UNITS:
        raise DefinitionError(f"intake.time_unit: expected one of {', '.join(_UNITS)}, got {table['time_unit']!r}")
    if "time_unit" in table and "time_format" in table:
        raise DefinitionError("intake.time_format: numbers have a unit, texts a format; leave time_unit or this out")
    if "time" not in table and {"time_unit", "time_format", "time_zone"} & table.keys():
        raise DefinitionError("intake.time: expected the path of the event time, since its form is given; got none")
    form = _form(table, "intake", FormDefinition("json"))
    labels = _labels_of(table, form, definition) if "labels" in table else None
    if ("label" in table) == (labels is not None):
        said = "both" if labels is not None else "neither"
        raise DefinitionError(
            "intake.label: expected the path of the label in an event, or [intake.labels] with the topic that labels"
            f" come in, got {said}"
        )
    keep = span(table["keep"], "intake.keep") if "keep" in table else _fitting_keep(definition, labels)
    if labels is not None and keep is not None and keep <= (labels.after_milliseconds or 0):
        raise DefinitionError("intake.keep: expected longer than intake.labels.after, or silence would never be judged")
    return IntakeDefinition(
        topic=_topic(table, "intake"),
        form=form,
        id=_needed(table, "intake", "id"),
        time=_path(table["time"], "intake.time") if "time" in table else None,
        label=_path(table["label"], "intake.label") if "label" in table else None,
        fields=_fields_of(table, definition),
        time_unit=table.get("time_unit"),
        time_format=text(table["time_format"], "intake.time_format") if "time_format" in table else None,
        time_zone=text(table["time_zone"], "intake.time_zone") if "time_zone" in table else None,
        labels=labels,
        keep_milliseconds=keep,
        queries=flag(table["queries"], "intake.queries") if "queries" in table else False,
        identity=canonical_json({"stream": definition.name, "partitions": definition.partitions, "intake": table}),
    )


def _fitting_keep(definition: StreamDefinition, labels: LabelsDefinition | None) -> int | None:
    """How long an event can be in a window of event time, after its silence; None if there is no such bound."""
    windows = definition.nested_windows.windows
    if not definition.nested_windows.timed or not all(window.timed for window in windows):
        return None
    longest = max(window.length for window in windows) + definition.max_skew_milliseconds
    return longest + (0 if labels is None else labels.after_milliseconds or 0)


def _labels_of(table: Mapping[str, Any], events: FormDefinition, definition: StreamDefinition) -> LabelsDefinition:
    labels = table["labels"]
    if ("label" in labels) == ("value" in labels):
        raise DefinitionError(
            "intake.labels: expected label = the path of the label, or value = the label that every record of the topic"
            f" means, got {'both' if 'label' in labels else 'neither'}"
        )
    if ("after" in labels) != ("otherwise" in labels):
        raise DefinitionError(
            "intake.labels: after and otherwise go together: after so long a silence, an event has that label"
        )
    if _topic(labels, "intake.labels") == _topic(table, "intake"):
        raise DefinitionError("intake.labels.topic: expected another topic than that of the events, got the same")
    value = _class(labels["value"], "intake.labels.value", definition) if "value" in labels else None
    return LabelsDefinition(
        topic=_topic(labels, "intake.labels"),
        form=_form(labels, "intake.labels", events),
        id=_needed(labels, "intake.labels", "id"),
        label=_path(labels["label"], "intake.labels.label") if "label" in labels else None,
        value=value,
        after_milliseconds=span(labels["after"], "intake.labels.after") if "after" in labels else None,
        otherwise=_class(labels["otherwise"], "intake.labels.otherwise", definition) if "otherwise" in labels else None,
    )


def _class(value: Any, where: str, definition: StreamDefinition) -> str:
    """A label that the stream admits."""
    named = label(value, where)
    check_text(named, where, limits.LABEL_BYTES)
    if definition.classes.class_of(named) is None:
        raise DefinitionError(f"{where}: expected one of {', '.join(definition.classes.names)}, got {named!r}")
    return named


def _fields_of(table: Mapping[str, Any], definition: StreamDefinition) -> tuple[tuple[str, Path], ...]:
    columns = definition.features if definition.columns is None else definition.columns.columns
    row, given = _path(table["row"], "intake.row") if "row" in table else (), table.get("fields", {})
    if not isinstance(given, Mapping):
        raise DefinitionError(f"intake.fields: expected a table of column = path, got {given!r}")
    check_keys({"intake.fields": given}, {"intake.fields": frozenset(columns)})
    return tuple(
        (name, _path(given[name], f"intake.fields.{name}") if name in given else (*row, name)) for name in columns
    )


def _topic(table: Mapping[str, Any], where: str) -> str:
    name = text(table.get("topic", ""), f"{where}.topic")
    if not 1 <= len(name) <= 249:
        raise DefinitionError(f"{where}.topic: expected the name of a topic, got {name[:100]!r}")
    return name


def _form(table: Mapping[str, Any], where: str, default: FormDefinition) -> FormDefinition:
    if not {"format", "schema", "message"} & table.keys():
        return default
    name = table.get("format", default.name)
    if name not in FORMATS:
        raise DefinitionError(f"{where}.format: expected one of {', '.join(FORMATS)}, got {name!r}")
    given = {key: text(table[key], f"{where}.{key}") for key in ("schema", "message") if key in table}
    for key, forms, what in (
        ("schema", _WITH_SCHEMA, "the path of the file with its schema (.avsc) or descriptors"),
        ("message", _WITH_MESSAGE, "the name of the message type, with its package"),
    ):
        if (name in forms) != bool(given.get(key)):
            wanted = what if name in forms else f"none: the format {name} needs none"
            raise DefinitionError(f"{where}.{key}: expected {wanted}, got {given.get(key, 'none')!r}")
    return FormDefinition(str(name), given.get("schema", ""), given.get("message", ""), where)


def _needed(table: Mapping[str, Any], where: str, key: str) -> Path:
    if key not in table:
        raise DefinitionError(f"{where}.{key}: expected the path of the {key} in a record, got none")
    return _path(table[key], f"{where}.{key}")


def _path(value: Any, where: str) -> Path:
    """A path: names with dots between them, or a list of names, which may have dots."""
    names = value.split(".") if isinstance(value, str) else list_of(value, where)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise DefinitionError(f"{where}: expected a path such as 'tx.id', or a list of names, got {value!r}")
    return tuple(names)
