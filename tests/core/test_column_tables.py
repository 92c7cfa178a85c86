"""The table ``[columns]`` of a definition: read, written, refused by name, and in the fingerprint if it is there."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from column_rows import ENCODER
from deltaplane.errors import DefinitionError
from deltaplane.stream.column_tables import encoder_of, encoder_table
from deltaplane.stream.definition import StreamDefinition
from deltaplane.stream.mismatch import data_differences
from deltaplane_services.definition_file.toml_writer import as_toml

STEPS = [1.0] * len(ENCODER.features)


def definition(**tables: Any) -> StreamDefinition:
    grid = {"steps": STEPS}
    return StreamDefinition.from_tables(
        {"grid": grid, "columns": encoder_table(ENCODER), "solver": {"C": 1.0}} | tables
    )


def test_features_are_named_by_the_rules() -> None:
    assert definition().features == ENCODER.features
    assert definition(features={"names": list(ENCODER.features)}) == definition()


def test_a_definition_with_columns_is_read_back_from_what_it_writes() -> None:
    written = tomllib.loads(as_toml(definition().to_tables()))
    again = StreamDefinition.from_tables(written)
    assert again == definition()
    assert again.stream_fingerprint == definition().stream_fingerprint


def test_columns_are_in_the_data_fingerprint_only_if_there_are_any() -> None:
    plain = definition(columns={}, features={"names": list(ENCODER.features)})
    assert plain.columns is None
    assert "columns" not in plain.data_settings()
    assert "columns" not in plain.to_tables()
    other = definition(columns={**encoder_table(ENCODER), "missing": ["", "none"]})
    assert len({plain.data_fingerprint, definition().data_fingerprint, other.data_fingerprint}) == 3
    assert "columns.missing" in data_differences(definition(), other)


def test_what_a_rule_does_not_say_has_a_default() -> None:
    rules = [
        {"column": "a", "kind": "number"},
        {"column": "b", "kind": "boolean", "fill": True},
        {"column": "c", "kind": "category", "levels": ["x", 7]},
        {"column": "d", "kind": "hashed"},
        {"column": "e", "kind": "time", "parts": ["days"]},
    ]
    encoder = encoder_of({"rules": rules})
    assert encoder is not None
    assert encoder.features[:6] == ("a", "a missing", "b", "b missing", "c=x", "c=7")
    assert encoder_of(encoder_table(encoder)) == encoder


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"rules": "a"}, "columns.rules: expected a list"),
        ({"rules": [3]}, "expected tables"),
        ({"rules": [{"kind": "number"}]}, "expected tables"),
        ({"rules": [{"column": "a"}]}, r"columns.rules\['a'\].kind: expected one of number, boolean"),
        ({"rules": [{"column": "a", "kind": "number", "fil": 1}]}, "unknown key 'fil'; did you mean 'fill'"),
        ({"rules": [{"column": "a", "kind": "number", "levels": ["x"]}]}, "unknown key 'levels'; a number has column"),
        ({"rules": [{"column": "a", "kind": "number", "_places": {}}]}, "unknown key '_places'"),
        ({"rules": [{"column": "a", "kind": "category", "levels": [1.5]}]}, "levels: expected a text"),
        ({"rules": [{"column": "a", "kind": "number", "fill": "x"}]}, "fill: expected a number"),
        ({"rules": [{"column": 3, "kind": "number"}]}, "column: expected a text"),
        ({"missing": [0], "rules": [{"column": "a", "kind": "number"}]}, "columns.missing: expected a text"),
        ({"missing": []}, "expected 1 to 2000 columns, got 0"),
        ({"rule": []}, "unknown key 'columns.rule'; did you mean 'rules'"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_its_place(table: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        definition(columns=table)


def test_features_that_the_rules_do_not_make_are_refused() -> None:
    with pytest.raises(DefinitionError, match=r"expected the 30 features that \[columns\] makes.*number 29 on"):
        definition(features={"names": [*ENCODER.features[:-1], "another"]})
    with pytest.raises(DefinitionError, match=r"each rule says what becomes of a missing value"):
        definition(features={"missing": "offset"})
