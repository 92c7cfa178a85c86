"""The forms that records of users' topics may have: what lies in the bytes, and what that says of a row.

A form is a parser, from bytes to a value as parsed JSON has it, and a reader, from the values to a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltaplane_services.definition_file.intake_table import FormDefinition, IntakeDefinition
from deltaplane_services.intake.formats.change import Decoder, Parser, row_reader
from deltaplane_services.intake.formats.debezium import change_reader

__all__ = ["decoder_of", "decoders_of"]

_DEBEZIUM = "debezium-"


def decoders_of(intake: IntakeDefinition, registry: Mapping[str, Any]) -> Mapping[str, Decoder]:
    """The reader of records of each topic. ``registry``: properties of a schema registry's client, if there is one.

    Raises :class:`DefinitionError` for a file of schemas that cannot be used, and for a registry that is not named.
    """
    decoders = {intake.topic: decoder_of(intake.form, registry)}
    if intake.labels is not None:
        decoders[intake.labels.topic] = decoder_of(intake.labels.form, registry)
    return decoders


def decoder_of(form: FormDefinition, registry: Mapping[str, Any]) -> Decoder:
    """The reader of one form."""
    name = form.name.removeprefix(_DEBEZIUM)
    parse = _parser(name, form, registry)
    return row_reader(parse) if name == form.name else change_reader(parse)


def _parser(name: str, form: FormDefinition, registry: Mapping[str, Any]) -> Parser:
    # Each loads what it needs, and most streams need none of it.
    if name == "json":
        from deltaplane_services.intake.formats.json_objects import parsed

        return parsed
    if name == "confluent-avro":
        from deltaplane_services.intake.formats.avro_records import by_registry
        from deltaplane_services.intake.formats.registry import Registry

        return by_registry(Registry(registry))
    if name == "avro":
        from deltaplane_services.intake.formats.avro_records import of_file

        return of_file(Path(form.schema), f"{form.where}.schema")
    from deltaplane_services.intake.formats.protobuf_messages import framed, unframed

    return (framed if name == "confluent-protobuf" else unframed)(
        Path(form.schema), form.message, f"{form.where}.schema"
    )
