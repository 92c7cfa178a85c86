"""Which settings differ between two definitions: said where it is known, and said to be unknown where it is not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.mismatch import (
    ANNOUNCEMENT_BYTES,
    FORMER_DEFAULTS,
    announcement,
    data_differences,
    explained,
    read_announcement,
    settings_of,
)

TABLES: dict[str, Any] = {
    "name": "s",
    "features": {"names": ["a", "b"]},
    "grid": {"steps": [1.0, 0.5]},
    "window": {"length": 100},
    "solver": {"C": 1.0},
    "max_skew": "2h",
}
HERE = StreamDefinition.from_tables(TABLES)

CHANGES: dict[str, dict[str, Any]] = {
    "name": {"name": "t"},
    "features.names": {"features": {"names": ["a", "c"]}},
    "features.missing": {"features": {"names": ["a", "b"], "missing": "offset"}},
    "grid.steps": {"grid": {"steps": [1.0, 0.25]}},
    "grid.offsets": {"grid": {"steps": [1.0, 0.5], "offsets": [0.0, 7.0]}},
    "classes.names": {"classes": {"names": ["x", "y"]}},
    "classes.positive": {"classes": {"positive": "x"}},
    "classes.most": {"classes": {"most": 5}},
    "window.length": {"window": {"length": 200}},
    "window.pane": {"window": {"length": 100, "pane": 5}},
    "window.keep_rows": {"window": {"length": "all", "keep_rows": False}},
    "partitions": {"partitions": 3},
    "max_skew": {"max_skew": "3h"},
}
"""A key of a definition file, and tables that change it."""
OF_DATA = {"features.names", "features.missing", "grid.steps", "grid.offsets"}


def other(key: str) -> StreamDefinition:
    return StreamDefinition.from_tables({**TABLES, **CHANGES[key]})


@pytest.mark.parametrize("key", CHANGES)
def test_a_setting_that_differs_is_named_with_both_values(key: str) -> None:
    there = other(key)
    said = explained(HERE, there.stream_fingerprint.hex(), read_announcement(announcement(there)))
    assert f"{key} (here {settings_of(HERE).get(key, 'not set')}, there {settings_of(there)[key]})" in said


@pytest.mark.parametrize("key", CHANGES)
def test_of_a_sample_only_settings_are_named_that_make_samples_differ(key: str) -> None:
    there = other(key)
    assert (there.data_fingerprint != HERE.data_fingerprint) == (key in OF_DATA)
    both = StreamDefinition.from_tables({**TABLES, **CHANGES["grid.steps"], "partitions": 7})
    said = explained(HERE, both.data_fingerprint.hex(), read_announcement(announcement(both)))
    assert "grid.steps (here [1.0, 0.5], there [1.0, 0.25])" in said
    assert "partitions" not in said


def test_every_setting_of_the_fingerprints_has_a_key_here() -> None:
    """What a fingerprint is made of and no key shows could differ without a word."""
    changed = {key: other(key) for key in CHANGES}
    for key, there in changed.items():
        assert there.stream_fingerprint != HERE.stream_fingerprint
        assert settings_of(there) != settings_of(HERE), key
    mapped = {"feature_map": {"kind": "hidden", "units": 3, "seed": 1, "centers": [0, 0], "scales": [1.0, 1.0]}}
    there = StreamDefinition.from_tables({**TABLES, **mapped})
    assert "feature_map.kind" in data_differences(HERE, there)


def test_long_lists_are_told_apart_by_number_and_hash_and_an_announcement_stays_small() -> None:
    def wide(last: str) -> StreamDefinition:
        names = [f"feature {number}" for number in range(300)]
        tables = {**TABLES, "features": {"names": [*names, last]}, "grid": {"steps": [2.0**-20] * 301}}
        return StreamDefinition.from_tables(tables)

    one, two = wide("x"), wide("y")
    assert len(announcement(one)) < ANNOUNCEMENT_BYTES / 2
    said = explained(one, two.data_fingerprint.hex(), read_announcement(announcement(two)))
    assert said.count("301 values with SHA-256") == 2
    assert "grid.steps" not in said


@pytest.mark.parametrize(("field", "value"), FORMER_DEFAULTS)
def test_a_stream_from_before_a_default_changed_is_recognised_and_the_line_to_add_is_said(
    field: str, value: Any
) -> None:
    here = replace(HERE, partitions=2)
    there = replace(here, **{field: value})
    assert there.stream_fingerprint != here.stream_fingerprint, "these tests declare something else"
    said = explained(here, there.stream_fingerprint.hex(), None)
    assert "what was the default once" in said
    if field == "max_skew_milliseconds":
        assert said.endswith(
            '(here "2h", there "1d"); add the line max_skew = "1d" at the top of the definition, before its tables'
        )


def test_of_a_definition_that_nobody_announced_it_is_said_that_it_is_not_known() -> None:
    for announced in (None, read_announcement(announcement(other("grid.steps")))):
        said = explained(HERE, "00" * 16, announced)
        assert said.startswith("which settings differ is not known")
        assert "deltaplane definition show" in said


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff",
        b'{"data_fingerprint": 1, "stream_fingerprint": "", "settings": {}}',
        b'{"data_fingerprint": "", "stream_fingerprint": "", "settings": []}',
        b'{"data_fingerprint": "", "stream_fingerprint": "", "settings": {"a": 1}}',
        b'{"data_fingerprint": "", "stream_fingerprint": "", "settings": {"a": "' + b"x" * 1000 + b'"}}',
        b'{"data_fingerprint": "", "stream_fingerprint": "", "settings": {"a": "\\u001b[2J"}}',
        b'{"data_fingerprint": "\\n", "stream_fingerprint": "", "settings": {}}',
        b"[" * 8000,
        b'{"data_fingerprint": "", "stream_fingerprint": "", "settings": '
        + json.dumps(dict.fromkeys(map(str, range(200)), "")).encode()
        + b"}",
        announcement(HERE) + b" " * ANNOUNCEMENT_BYTES,
    ],
)
def test_what_is_no_announcement_is_none(data: bytes) -> None:
    assert read_announcement(data) is None


@given(
    st.binary(max_size=300)
    | st.recursive(st.none() | st.text(), st.lists).map(
        lambda value: json.dumps({"data_fingerprint": value, "stream_fingerprint": "", "settings": value}).encode()
    )
)
def test_whatever_somebody_announces_is_read_or_none(data: bytes) -> None:
    said = read_announcement(data)
    assert said is None or explained(HERE, said.stream_fingerprint, said).isprintable()


def test_a_forged_announcement_is_words_alone() -> None:
    """It says what differs, and whatever it says, what came is of another definition all the same."""
    forged = json.loads(announcement(HERE))
    forged["stream_fingerprint"] = "00" * 16
    said = explained(HERE, "00" * 16, read_announcement(json.dumps(forged).encode()))
    assert said.startswith("its writer announces these very settings")
