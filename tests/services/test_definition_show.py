"""What ``definition show`` prints for producers in other languages, worked out again without our code."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import tomllib
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import deltaplane_schemas
from deltaplane_services.cli.application import app

README = Path(deltaplane_schemas.__file__).with_name("README.md").read_text("utf-8")
EXAMPLE = README.partition("## Writing from another language")[2]


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", EXAMPLE, re.DOTALL)
    assert found is not None
    return found[1]


def number_text(value: float) -> str:
    """The text of a number as the page describes it."""
    bits = int.from_bytes(struct.pack(">d", value))
    sign, exponent, fraction = "-" if bits >> 63 else "", bits >> 52 & 0x7FF, bits & (1 << 52) - 1
    if not exponent and not fraction:
        return f"{sign}0x0.0p+0"
    assert exponent, "a grid has no such small numbers"
    return f"{sign}0x1.{fraction:013x}p{exponent - 1023:+d}"


def fingerprint(definition: dict[str, Any]) -> tuple[str, str]:
    """The text and the data fingerprint of a definition file, as the page describes them."""
    names, grid = definition["features"]["names"], definition["grid"]
    offsets = grid.get("offsets", [0.0] * len(names))
    values: dict[str, str | list[str]] = {
        "features": [json.dumps(name) for name in names],
        "map": '"none"',
        "missing": json.dumps(definition["features"].get("missing", "refuse")),
        "offsets": [f'"{number_text(value)}"' for value in offsets],
        "steps": [f'"{number_text(value)}"' for value in grid["steps"]],
    }
    parts = [f'"{key}":{_json(value)}' for key, value in values.items()]
    text = "{" + ",".join(parts) + "}"
    return text, hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _json(value: str | list[str]) -> str:
    return value if isinstance(value, str) else f"[{','.join(value)}]"


def shown(definition: str, tmp_path: Path, *options: str) -> str:
    file = tmp_path / "s.toml"
    file.write_text(definition, "utf-8")
    result = CliRunner().invoke(app, ["definition", "show", "--definition", str(file), *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_example_of_the_page_is_right(tmp_path: Path) -> None:
    text, found = fingerprint(tomllib.loads(block("toml")))
    assert text == block("json").strip()
    assert f"has the data fingerprint `{found}`" in EXAMPLE
    facts = json.loads(shown(block("toml"), tmp_path, "--json"))
    assert facts["data_fingerprint"] == found
    assert facts["data_fingerprint_text"] == text
    assert f"`{facts['message_begins']['sample']}`" in EXAMPLE


@pytest.mark.parametrize("missing", ["refuse", "offset"])
def test_the_command_prints_what_the_page_describes(tmp_path: Path, missing: str) -> None:
    definition = f"""
        features.names = ["a", "\\U0001F600 \\"quoted\\"", "back\\\\slash"]
        features.missing = "{missing}"
        grid.steps = [0.125, 1.0, 1048576.0]
        window.length = 10
        solver.C = 1.0
        """
    facts = json.loads(shown(definition, tmp_path, "--json"))
    assert (facts["data_fingerprint_text"], facts["data_fingerprint"]) == fingerprint(tomllib.loads(definition))


@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: not 0 < abs(value) < 1e-300))
def test_the_text_of_a_number_is_that_of_the_page(value: float) -> None:
    assert number_text(value) == value.hex()


def test_a_stream_with_columns_is_shown_with_them_and_with_the_beginnings_of_rows_by_name(tmp_path: Path) -> None:
    definition = """
        columns.rules = [
            { column = "amount", kind = "number" },
            { column = "known", kind = "boolean", missing = "fill" },
        ]
        grid.steps = [0.125, 1.0, 1.0]
        window.length = 10
        solver.C = 1.0
        """
    facts = json.loads(shown(definition, tmp_path, "--json"))
    assert facts["columns"] == ["amount", "known"]
    assert facts["features"] == ["amount", "amount missing", "known"]
    named = {name for name in facts["message_begins"] if name.startswith("named_")}
    assert named == {"named_sample", "named_sample_batch", "named_query"}
    assert facts["message_begins"]["named_sample"].endswith(facts["data_fingerprint"])
    plain = json.loads(shown(block("toml"), tmp_path, "--json"))
    assert set(plain["message_begins"]) == {"sample", "sample_batch", "retirement", "query"}
    assert "columns" not in plain


def test_people_see_all_that_a_producer_needs(tmp_path: Path) -> None:
    page = shown(block("toml"), tmp_path)
    for words in ("payments.samples", "key: sample id", "amount, hour, prix en €", "max_skew", "c301e4828be8b29d0780"):
        assert words in page


def test_the_secrets_of_a_definition_are_not_shown(tmp_path: Path) -> None:
    page = shown(block("toml") + '[kafka]\n"sasl.password" = "hunter2-secret"\n', tmp_path, "--json")
    assert "hunter2" not in page


def test_where_an_id_goes_is_worked_out_as_its_partitioner_says(tmp_path: Path) -> None:
    facts = json.loads(shown(block("toml"), tmp_path, "--json"))
    assert (facts["partitioner"], facts["partitions"]) == ("murmur2", 4)
    # By Kafka's own default partitioner; that of its Java client says the same.
    assert facts["partition_of_id"] == {"a": 0, "order-17": 1, "é": 3}
    older = json.loads(shown('partitioner = "crc32"\n' + block("toml"), tmp_path, "--json"))
    assert older["partition_of_id"] == {one: zlib.crc32(one.encode()) % 4 for one in older["partition_of_id"]}
