"""Records that are messages of Protobuf, of a type that a file of descriptors has (``protoc --descriptor_set_out``).

With the framing of a schema registry the place of the type stands before each message. It must be that of the declared
one: messages of other types are refused. The registry itself is not asked, since fields are found by their numbers.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltaplane.errors import DefinitionError
from deltaplane.public_names import extra_needed
from deltaplane_services.intake.formats.change import BadRecord, Parser, check_size

__all__ = ["framed", "unframed"]

_FAULTS = (EOFError, ValueError, TypeError, LookupError, struct.error, RecursionError, OverflowError)
"""What readers of a message and of its framing raise besides their own errors."""


def unframed(path: Path, message: str, where: str) -> Parser:
    """The parser of bare messages of a type. Raises :class:`DefinitionError` if the file does not have it."""
    kind = _message_type(path, message, where)
    return _parser(kind.FromString)


def framed(path: Path, message: str, where: str) -> Parser:
    """The parser of messages behind a schema's id and the place of their type. Raises as :func:`unframed` does."""
    kind = _message_type(path, message, where)
    with extra_needed("the format confluent-protobuf", "registry"):
        from confluent_kafka.schema_registry import dual_schema_id_deserializer
        from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
    expected = _place(kind.DESCRIPTOR)

    def payload(data: bytes, context: Any, schema_id: Any) -> io.BytesIO:
        stream = dual_schema_id_deserializer(data, context, schema_id)
        if (at := schema_id.message_indexes) != expected:
            raise BadRecord(f"expected {message}, which is type {expected} of its file, got a message of type {at}")
        return stream

    read = ProtobufDeserializer(kind, {"schema.id.deserializer": payload, "use.deprecated.format": False})
    return _parser(lambda data: read(data, None))


def _parser(read: Callable[[bytes], Any]) -> Parser:
    from confluent_kafka import KafkaException
    from google.protobuf.json_format import Error, MessageToDict
    from google.protobuf.message import DecodeError

    def parse(data: bytes) -> Any:
        check_size(data, "Protobuf")
        try:
            # Fields that know whether they are there are missing if they are not; others have their default.
            return MessageToDict(
                read(data), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
        except BadRecord:
            raise
        except (KafkaException, DecodeError, Error, *_FAULTS) as fault:
            raise BadRecord(f"expected a message of Protobuf, got bytes that are none: {str(fault)[:200]}") from None

    return parse


def _message_type(path: Path, message: str, where: str) -> Any:
    """The class of messages of a type in a file of descriptors."""
    with extra_needed("a format of Protobuf", "registry"):
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file
        pool = descriptor_pool.DescriptorPool()
        for one in files:
            pool.Add(one)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
    except OSError as fault:
        raise DefinitionError(
            f"{where}: {str(path)!r} cannot be read: {fault}; paths begin where the process does"
        ) from None
    except (DecodeError, KeyError, TypeError) as fault:
        raise DefinitionError(
            f"{where}: {str(path)!r} has no message type {message!r}: {str(fault)[:200]}; make it by protoc"
            " --include_imports --descriptor_set_out, and name the type with its package"
        ) from None


def _place(descriptor: Any) -> list[int]:
    """The place of a type: its number among the types of its file, or of the type in which it lies, from outside in."""
    outer = descriptor.containing_type
    if outer is None:
        return [list(descriptor.file.message_types_by_name).index(descriptor.name)]
    return [*_place(outer), [one.name for one in outer.nested_types].index(descriptor.name)]
