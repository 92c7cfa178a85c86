"""A schema registry, asked by the client of confluent-kafka: what it does not know is a bad record, silence a wait."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from deltaplane.errors import DefinitionError
from deltaplane.public_names import extra_needed
from deltaplane_services.intake.formats.change import BadRecord, RegistryUnavailable

__all__ = ["Registry"]

_ANSWER_SECONDS = 5.0
_FORGET_SECONDS = 5.0
"""How long a schema that it does not know is not asked for again: records of it may come by the thousand."""

_MOST_UNKNOWN = 10_000
_UNKNOWN = frozenset({40401, 40402, 40403})
"""Its numbers for a subject, a version and a schema that it does not have."""


def _without_login(url: str) -> str:
    """An address without the user and the password that its client takes from it, for messages."""
    scheme, found, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{found}{host.rpartition('@')[2]}{slash}{path}"


class Registry:
    """A registry and its client, made of properties of confluent-kafka's ``SchemaRegistryClient``, ``url`` among them.

    Raises :class:`DefinitionError` without a URL, for properties that the client refuses, and where there is no client.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        if not properties.get("url"):
            raise DefinitionError(
                "registry: the form of [intake] needs a schema registry; give its address, registry ="
                ' "http://HOST:PORT" in [service], or --registry'
            )
        with extra_needed("a format of [intake] with a registry", "registry"):
            from confluent_kafka import KafkaException
            from confluent_kafka.schema_registry import SchemaRegistryClient
            from confluent_kafka.schema_registry.common import _httpx_compat
            from confluent_kafka.schema_registry.error import SchemaRegistryError
        self._answered, self._misframed = SchemaRegistryError, KafkaException
        self._unanswered = _httpx_compat.httpx.HTTPError
        self.url = _without_login(str(properties["url"]))
        self._unknown: dict[str, tuple[float, str]] = {}
        # It tells of each question, and of none that would need telling.
        for name in ("httpx2", "httpx"):
            logging.getLogger(name).setLevel(logging.WARNING)
        ours = {"timeout": _ANSWER_SECONDS, "max.retries": 0}
        try:
            self.client = SchemaRegistryClient({**ours, **properties})
        except (ValueError, TypeError, OSError) as fault:
            # What it says may repeat a value, and that a secret.
            names = ", ".join(sorted(properties))
            raise DefinitionError(
                f"registry: its client refuses the properties ({type(fault).__name__}); given were {names}; check"
                " registry and registry_properties"
            ) from None

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Turn faults of the client into :class:`RegistryUnavailable`, or :class:`BadRecord` if it has answered."""
        try:
            yield
        except self._answered as fault:
            if fault.error_code in _UNKNOWN:
                raise BadRecord(f"the schema registry does not know its schema: {fault.error_message}"[:300]) from None
            raise RegistryUnavailable(f"schema registry {self.url}: {fault}; waiting for it") from fault
        except self._unanswered as fault:
            raise RegistryUnavailable(f"schema registry {self.url}: {fault}; waiting for it") from fault
        except self._misframed as fault:
            raise BadRecord(f"expected the framing of a schema registry: {fault}"[:300]) from None

    def schemas_of(self, schema_id: Any) -> Iterator[Any]:
        """The schemas of Avro behind an id, as JSON has them: its own, and those that it refers to."""
        name, now = str(schema_id.guid or schema_id.id), time.monotonic()
        known_since, why = self._unknown.get(name, (now - _FORGET_SECONDS, ""))
        if now - known_since < _FORGET_SECONDS:
            raise BadRecord(why)
        try:
            of = self.client.get_schema(schema_id.id) if schema_id.guid is None else self._by_guid(name)
        except self._answered as fault:
            if fault.error_code not in _UNKNOWN:
                raise
            if len(self._unknown) >= _MOST_UNKNOWN:
                self._unknown.clear()
            why = f"the schema registry does not know its schema {name}: {fault.error_message}"[:300]
            self._unknown[name] = now, why
            raise BadRecord(why) from None
        yield from self._with_references(of, set())

    def _by_guid(self, guid: str) -> Any:
        return self.client.get_schema_by_guid(guid)

    def _with_references(self, schema: Any, seen: set[tuple[str, int]]) -> Iterator[Any]:
        if schema.schema_type not in (None, "AVRO"):
            raise BadRecord(f"expected a schema of Avro, the registry has one of {str(schema.schema_type)[:20]}")
        try:
            yield json.loads(schema.schema_str)
        except ValueError:
            yield schema.schema_str
        for one in schema.references or ():
            if (one.subject, one.version) not in seen:
                seen.add((one.subject, one.version))
                yield from self._with_references(self.client.get_version(one.subject, one.version).schema, seen)
