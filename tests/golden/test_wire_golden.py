"""The bytes on the topics do not change by accident: each record is written to and read from committed files.

If a test here fails, the change has broken what is stored in every topic of every running stream. Where that is meant,
``golden/regenerate.py`` says how to write the files anew.
"""

from __future__ import annotations

import pytest

import deltaplane_schemas
from golden.wire_examples import DIRECTORY, EXAMPLES, same

CURE = "not meant? undo it; meant? see tests/golden/regenerate.py"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_record_is_written_as_the_committed_bytes(name: str) -> None:
    example = EXAMPLES[name]
    assert example.write().hex() == example.golden().hex(), CURE


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_committed_bytes_are_read_as_the_record(name: str) -> None:
    example = EXAMPLES[name]
    assert same(example.read(example.golden()), example.value), CURE


def test_every_schema_has_a_golden_file_and_no_file_is_left_over() -> None:
    assert {example.schema for example in EXAMPLES.values()} == set(deltaplane_schemas.NAMES)
    assert {file.name for file in DIRECTORY.iterdir()} == {example.file.name for example in EXAMPLES.values()}
