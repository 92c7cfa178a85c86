"""Descriptors of Protobuf as ``protoc --descriptor_set_out`` writes them: payments of a made shop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELD = descriptor_pb2.FieldDescriptorProto


def descriptor_set() -> bytes:
    """A file with ``shop.Refund``, and ``shop.Payment`` with ``shop.Payment.Tx`` in it."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Refund").field.add(name="ref", number=1, type=FIELD.TYPE_STRING, label=1)
    payment = file.message_type.add(name="Payment")
    tx = payment.nested_type.add(name="Tx")
    kinds = {"ref": FIELD.TYPE_STRING, "created": FIELD.TYPE_INT64, "amount": FIELD.TYPE_DOUBLE}
    kinds |= {"country": FIELD.TYPE_STRING, "known": FIELD.TYPE_BOOL}
    for number, (name, kind) in enumerate(kinds.items(), start=1):
        field = tx.field.add(name=name, number=number, type=kind, label=1)
        if name == "amount":
            field.proto3_optional, field.oneof_index = True, 0
    tx.oneof_decl.add(name="_amount")
    payment.field.add(name="tx", number=1, type=FIELD.TYPE_MESSAGE, type_name=".shop.Payment.Tx", label=1)
    return bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())


def descriptor_file(directory: Path) -> Path:
    """The same in a file."""
    path = directory / "shop.desc"
    path.write_bytes(descriptor_set())
    return path


def message_type(name: str) -> Any:
    """The class of messages of a type."""
    pool = descriptor_pool.DescriptorPool()
    for one in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(one)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
