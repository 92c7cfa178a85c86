"""The settings that differ between two stream definitions, if only the fingerprint of one is known.

Fingerprints in messages show *that* definitions differ. A writer may announce, beside a message, the settings of its
fingerprints (:func:`announcement`). The settings that another definition announces are shown to people, and used for
nothing else. For streams that were written before a default changed, or by programs that announce nothing,
:data:`FORMER_DEFAULTS` are tried.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.stream.definition import StreamDefinition

__all__ = [
    "ANNOUNCEMENT_BYTES",
    "COMPARE",
    "FORMER_DEFAULTS",
    "MOST_KEYS",
    "NOT_SET",
    "VALUE_CHARACTERS",
    "Announced",
    "Settings",
    "announcement",
    "data_differences",
    "differences",
    "explained",
    "read_announcement",
    "settings_of",
]

Settings = Mapping[str, str]
"""Key of a definition file to its value as a text; a long value is shown by its length and a hash."""

ANNOUNCEMENT_BYTES = 8192
VALUE_CHARACTERS = 160
MOST_KEYS = 64
NOT_SET = "not set"

_NOT_FINGERPRINTED = ("solver", "prior")
_OF_DATA = ("columns", "features", "grid", "feature_map")
"""Tables that the data fingerprint covers, and with it every sample and query."""

FORMER_DEFAULTS: tuple[tuple[str, Any], ...] = (
    ("max_skew_milliseconds", limits.LONGEST_SKEW_MILLISECONDS),
    ("partitioner", "crc32"),
)
"""Fields of :class:`StreamDefinition` whose default has changed, and their former default."""

COMPARE = "compare what `deltaplane definition show` prints where it was written with what it prints here"


@dataclass(frozen=True)
class Announced:
    """The definition that a writer announces: its fingerprints in hexadecimal, and its settings."""

    data_fingerprint: str
    stream_fingerprint: str
    settings: Settings


def settings_of(definition: StreamDefinition) -> dict[str, str]:
    """The settings that the fingerprints cover, by their keys in the definition file, each as a short text."""
    tables = {key: value for key, value in definition.to_tables().items() if key not in _NOT_FINGERPRINTED}
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        flat |= {f"{key}.{inner}": one for inner, one in value.items()} if isinstance(value, Mapping) else {key: value}
    return {key: _short(value) for key, value in flat.items()}


def _short(value: Any) -> str:
    text = json.dumps(value, separators=(", ", ": "))
    if len(text) <= VALUE_CHARACTERS:
        return text
    number = f"{len(value)} values" if isinstance(value, list) else f"{len(text)} characters"
    return f"{number} with SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def announcement(definition: StreamDefinition) -> bytes:
    """The JSON in which a writer announces its definition beside a message."""
    said = {
        "data_fingerprint": definition.data_fingerprint.hex(),
        "stream_fingerprint": definition.stream_fingerprint.hex(),
        "settings": settings_of(definition),
    }
    return json.dumps(said, separators=(",", ":")).encode()


def read_announcement(data: bytes) -> Announced | None:
    """The definition in an :func:`announcement`, or None if the bytes are not one. All texts are printable ASCII."""
    if len(data) > ANNOUNCEMENT_BYTES:
        return None
    try:
        said = json.loads(data)
        data_fingerprint, stream_fingerprint = said["data_fingerprint"], said["stream_fingerprint"]
        settings = said["settings"]
        texts = [data_fingerprint, stream_fingerprint, *settings, *settings.values()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if len(settings) > MOST_KEYS or not all(isinstance(text, str) and _is_harmless(text) for text in texts):
        return None
    return Announced(data_fingerprint, stream_fingerprint, settings)


def _is_harmless(text: str) -> bool:
    return len(text) <= VALUE_CHARACTERS + 40 and text.isascii() and text.isprintable()


def differences(here: Settings, there: Settings) -> str:
    """The keys that differ, with both values, as a part of a sentence; empty if none differs."""
    keys = [key for key in {**here, **there} if here.get(key) != there.get(key)]
    values = [f"{key} (here {here.get(key, NOT_SET)}, there {there.get(key, NOT_SET)})" for key in keys]
    return ", ".join(values)


def data_differences(here: StreamDefinition, there: StreamDefinition) -> str:
    """The settings of the data fingerprint that differ, with both values, as a part of a sentence."""
    return differences(_of_data(settings_of(here)), _of_data(settings_of(there)))


def explained(definition: StreamDefinition, came: str, announced: Announced | None) -> str:
    """A sentence that says how a definition with the fingerprint ``came``, in hexadecimal, differs, and what to do.

    ``announced``: the definition that the writer of the message announced, or None.
    """
    for former in _with_former_defaults(definition):
        if former.stream_fingerprint.hex() == came:
            here, there = settings_of(definition), settings_of(former)
            lines = [f"{key} = {value}" for key, value in there.items() if here.get(key) != value]
            gone = [key for key in here if key not in there]
            return f"it was made with what was the default once: {differences(here, there)}; " + " and ".join(
                [f"add the line {line} at the top of the definition, before its tables" for line in lines]
                + [f"take the line {key} = … out of the definition" for key in gone]
            )
    if announced is not None and came in (announced.data_fingerprint, announced.stream_fingerprint):
        own, its = settings_of(definition), announced.settings
        of_data = came == announced.data_fingerprint
        found = differences(_of_data(own), _of_data(its)) if of_data else differences(own, its)
        if found:
            return f"its writer's definition differs in {found}"
        return f"its writer announces these very settings, under which it should be another; {COMPARE}"
    return f"which settings differ is not known: its writer did not announce them; {COMPARE}"


def _of_data(settings: Settings) -> dict[str, str]:
    return {key: value for key, value in settings.items() if key.partition(".")[0] in _OF_DATA}


def _with_former_defaults(definition: StreamDefinition) -> Iterator[StreamDefinition]:
    """The definitions with one or more settings at their former defaults."""
    for number in range(1, len(FORMER_DEFAULTS) + 1):
        for chosen in itertools.combinations(FORMER_DEFAULTS, number):
            try:
                yield replace(definition, **dict(chosen))
            except DefinitionError:
                continue
