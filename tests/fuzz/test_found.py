"""What the fuzzer has found, each by itself: it was a traceback, or a record that stopped a service for good."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from deltaplane import limits
from deltaplane.errors import DefinitionError, WireError
from deltaplane.exact.moments import Moments
from deltaplane.exact.statistics import Statistics
from deltaplane.log.confusion import Confusion
from deltaplane.log.delta import Claim, Verdict
from deltaplane.solve.prequential_counts import Choice, PrequentialCounts
from deltaplane.stream.definition import StreamDefinition
from deltaplane.wire import read_model, write_claim, write_delta
from deltaplane.wire.frame import read_record
from deltaplane_services.definition_file.definition_tables import load_tables, read_prior
from deltaplane_services.definition_file.parsed_file import DefinitionFile
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.observe.report.compare import comparison
from deltaplane_services.observe.report.record import run_of
from deltaplane_services.observe.top.gather import Address, Silence, parse, read_metrics
from deltaplane_services.processors.merger_processor import MergerProcessor
from deltaplane_services.processors.messages import DELTAS, Record
from deltaplane_services.produce.feed_options import ReplayOptions, complete_definition, reader_options
from deltaplane_services.readers import ReaderError, ReaderOptions, open_rows, parquet_format
from fuzz.records import NOW, SOURCE, _delta
from golden.wire_examples import EXAMPLES, with_fields
from services.report_summaries import vanishing

# Records -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ['{"a": 1' + "0" * 400 + "}", '{"a": 1e999}', '{"a": 1' + "0" * 5000 + "}", "{"])
def test_a_model_with_weights_that_no_float_holds_is_refused(weighting: str) -> None:
    with pytest.raises(WireError, match="expected solver options of this version"):
        read_model(with_fields("model", weighting=weighting))


def test_prequential_counts_of_more_rows_than_can_be_counted_are_refused() -> None:
    prequential_counts = PrequentialCounts(
        (Choice(1.0, "inverse"),),
        {"yes": np.zeros((2, 1, 2, 2), dtype=np.int64)},
        {"yes": np.full((2, 1, 2), limits.COUNT + 1)},
    )
    with pytest.raises(WireError, match=f"at most {limits.COUNT} rows"):
        EXAMPLES["delta"].read(write_delta(replace(_delta(0), prequential_counts=prequential_counts)))


def test_a_blend_of_no_plane_or_of_other_features_than_its_plane_is_refused() -> None:
    _, fields = read_record(EXAMPLES["model_blended"].golden(), ("model",))
    blend, whole = fields["blend"], fields["blend"]["targets"][0]
    for targets, words in (
        ([], "of one plane or more"),
        ([{**whole, "biases": np.full(12, np.nan).tobytes()}], "of one plane or more"),
        ([{**whole, "weights": np.zeros(18).tobytes()}], r"over the same features, got \[2, 3\]"),
    ):
        with pytest.raises(WireError, match=words):
            read_model(with_fields("model_blended", blend={**blend, "targets": targets}))


GRID_SQUARE = limits.GRID_RANGE**2


def moments_of(first: int, last: int, count: int) -> Moments:
    """The Gram matrix of one feature with these entries."""
    entries = [first, last, count]
    high = np.array([entry >> 64 for entry in entries], dtype=np.int64)
    return Moments(2, high, np.array([entry & 2**64 - 1 for entry in entries], dtype=np.uint64))


IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "a count below zero": {"counts": {"applied": -1}},
    "a count beyond all counting": {"counts": {"applied": limits.COUNT + 1}},
    "a score beyond all counting": {"scores": Confusion({("no", "no"): limits.COUNT + 1})},
    "more rows than can be": {"change": (GRID_SQUARE, 0, limits.COUNT + 1)},
    "a sum of squares below zero": {"change": (-(2**100), 0, 6)},
    "a sum of squares that no values have": {"change": (9 * GRID_SQUARE, 0, 6)},
    "a sum that no values have": {"change": (0, 2**100, 6)},
}


def follow(*values: bytes) -> tuple[MergerProcessor, list[str]]:
    """A merger that publishes after each record, and what it put among the dead letters."""
    merger, letters = MergerProcessor(ONE), []
    for offset, value in enumerate(values):
        output = merger.process([Record(DELTAS, 0, offset, NOW, None, value)])
        letters += [str(out.value) for out in output.first]
        merger.publish(NOW)
        merger.checkpoints()
    return merger, letters


ONE = StreamDefinition.from_tables(
    {
        "name": "s",
        "features": {"names": ["a"]},
        "grid": {"steps": [1.0]},
        "window": {"length": "all"},
        "solver": {"C": 1},
    }
)


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_delta_that_no_rows_can_have_made_is_a_dead_letter_and_the_merger_goes_on(what: str) -> None:
    # Unrefused, it would stop each merger after the next: what they publish would not fit its schema, or be solved.
    rows = {(0, label): Moments.of_rows(np.array([[at], [2.0]])) for at, label in enumerate(("no", "yes"))}
    base = replace(_delta(0), stream_fingerprint=ONE.stream_fingerprint, change=Statistics(2, rows))
    claim = write_claim(Claim(SOURCE, "w", ONE.stream_fingerprint))
    next_one = replace(base, tile=replace(base.tile, sequence=1, samples_from=1, samples_to=2))
    wrong = dict(IMPOSSIBLE[what])
    if "change" in wrong:
        wrong["change"] = Statistics(2, {(0, "no"): moments_of(*wrong["change"])})
    merger, letters = follow(claim, write_delta(base), write_delta(replace(next_one, **wrong)), write_delta(next_one))
    assert len(letters) == 1
    assert "impossible change" in letters[0]
    usual, none = follow(claim, write_delta(base), write_delta(next_one))
    assert not none
    assert merger.model is not None
    assert usual.model is not None
    assert merger.model.digest == usual.model.digest
    assert merger.verdicts[Verdict.ACCEPTED] == 2


# Definitions ---------------------------------------------------------------------------------------------------------

PLAIN: Mapping[str, Any] = {"features": {"names": ["a", "b"]}, "grid": {"steps": [0.5, 1.0]}}
PRIOR = {"classes": ["0", "1"], "weights": [[1.0, 2.0]], "biases": [0.5]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "9" * 5000, "is not TOML: Exceeds the limit"),
        ("a = " + "[" * 100_000, "is not TOML"),
        ("input = 5", "input: expected a table of keys, got 5"),
        ("[input]\nlabel = [1]", "input.label: expected a text"),
        ("[input]\nignore = 5", "input.ignore: expected a list"),
        ("[input]\nheader = 'no'", "input.header: expected true or false"),
        ("[input]\nnumber_of_features = '3'", "input.number_of_features: expected a whole number"),
        ("[input]\ndelimiter = 5", "input.delimiter: expected a text"),
        ("[input]\nlabel_names = 'x'", "unknown key 'input.label_names'"),
    ],
)
def test_a_definition_file_that_cannot_be_used_is_refused_with_the_place(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "deltaplane.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(DefinitionError, match=words):
        load_tables(path)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"features": {"names": 5}}, "features.names: expected a list"),
        ({"grid": {"steps": ["auto", 1.0]}}, "grid.steps: expected a number, got 'auto'"),
        ({"grid": {"steps": [1.0, 1.0], "offsets": "x"}}, "grid.offsets: expected a list"),
        ({"grid": {"steps": [1.0]}}, "grid: expected 2 steps"),
    ],
)
def test_tables_are_checked_before_a_grid_or_map_is_fitted_with_them(tables: dict[str, Any], words: str) -> None:
    def used() -> None:
        options = ReplayOptions("file", DefinitionFile.of({"feature_map": {"kind": "fourier"}, **tables}))
        reader_options(options.definition_file)
        complete_definition(options, ("a", "b"), np.zeros((3, 2)))

    with pytest.raises(DefinitionError, match=words):
        used()


def test_class_weights_of_hundreds_of_digits_are_refused() -> None:
    solver = {"C": 1.0, "weighting": {"a": 10**400}}
    with pytest.raises(DefinitionError, match=r"solver\.weighting\.a: expected a number of at most"):
        StreamDefinition.from_tables({**PLAIN, "solver": solver})


def test_the_positive_class_of_a_prior_may_be_written_as_a_number_like_its_classes() -> None:
    prior = {**PRIOR, "classes": [0, 1], "positive": 1}
    made = StreamDefinition.from_tables({**PLAIN, "prior": prior}).prior
    assert made is not None
    assert made.positive == "1"


def test_a_prior_that_names_a_feature_twice_is_refused() -> None:
    prior = {**PRIOR, "positive": "1", "features": ["a", "a"]}
    with pytest.raises(DefinitionError, match=r"prior\.features: expected names that differ, got 2 of 1"):
        StreamDefinition.from_tables({**PLAIN, "prior": prior})


@pytest.mark.parametrize(
    "changes",
    [{"weights": None}, {"weights": []}, {"weights": {}}, {"weights": 0.5}, {"features": None}, {"classes": "01"}],
)
def test_a_prior_file_without_a_whole_plane_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    whole = {"classes": ["0", "1"], "features": ["a", "b"], "weights": [1.0, 2.0], "bias": 0.5}
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"model": whole | changes}), "utf-8")
    with pytest.raises(DefinitionError, match="holds no plane"):
        read_prior(path)
    path.write_text(json.dumps({"model": {key: value for key, value in whole.items() if key != "bias"}}), "utf-8")
    with pytest.raises(DefinitionError, match=r"prior\.biases: expected a number, got None"):
        StreamDefinition.from_tables({**PLAIN, "prior": read_prior(path)})


# Data files ----------------------------------------------------------------------------------------------------------


def parquet_of(labels: pa.Array, name: str = "label") -> bytes:
    out = io.BytesIO()
    pyarrow.parquet.write_table(
        pa.table({"a": [1.0, 2.0], name: labels}), out, compression="NONE", use_dictionary=False
    )
    return out.getvalue()


def test_text_in_parquet_that_is_no_text_is_shown_with_its_bytes() -> None:
    data = parquet_of(pa.array(["UP", "DOWN"])).replace(b"DOWN", b"D\xffWN")
    with open_rows(io.BytesIO(data), ReaderOptions(label="label")) as reader:
        assert [label for block in reader for label in block.labels] == ["UP", "D\\xffWN"]


def test_text_in_parquet_that_is_no_text_is_shown_with_its_bytes_in_a_refused_row_too() -> None:
    data = parquet_of(pa.array(["UP", "DOWN"])).replace(b"DOWN", b"D\xffWN")
    data = data.replace(np.float64(2.0).tobytes(), np.float64("nan").tobytes())
    with open_rows(io.BytesIO(data), ReaderOptions(label="label")) as reader:
        refused = [row for block in reader for row in block.refused]
    assert [(row.line_number, row.text) for row in refused] == [(2, "a=nan, label=b'D\\xffWN'")]


@pytest.mark.parametrize(("unit", "tick"), [("ns", 1), ("ms", 2**62), ("us", -(2**62)), ("s", 2**50)])
def test_times_in_parquet_that_python_has_not_are_numbers_wherever_they_stand(unit: str, tick: int) -> None:
    # A time of nanoseconds, as pandas writes them, was enough for a traceback.
    times = pa.array([1, tick], pa.timestamp(unit))
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"a": [1.0, float("nan")], "when": times, "label": ["x", "y"]}), out)
    for options in (ReaderOptions(label="label", id="when"), ReaderOptions(label="when", ignored=("label",))):
        with open_rows(io.BytesIO(out.getvalue()), options) as reader:
            (block,) = list(reader)
        assert len(block) == 1
        assert "when=" in block.refused[0].text
    with pytest.raises(ReaderError, match="holds timestamp"):
        open_rows(io.BytesIO(out.getvalue()), ReaderOptions(label="label"))


@pytest.mark.parametrize("index", [2, -1, 2**31 - 1])
def test_a_place_beyond_the_dictionary_of_a_parquet_column_is_a_fault_of_the_file(
    index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    indices = pa.array([0, index], pa.int32())
    damaged = pa.DictionaryArray.from_arrays(indices, pa.array(["UP", "DOWN"]), safe=False)
    batch = pa.record_batch({"a": [1.0, 2.0], "label": damaged})
    monkeypatch.setattr(parquet_format._TypedRows, "_batches", lambda *_: iter([batch]))
    with pytest.raises(ReaderError, match="cannot be read on after row 0: a dictionary of 2 values has none at"):
        open_rows(io.BytesIO(parquet_of(pa.array(["UP", "DOWN"]))), ReaderOptions(label="label"))


def test_names_in_parquet_that_are_no_text_are_a_fault_of_the_file() -> None:
    data = parquet_of(pa.array(["UP", "DOWN"]), "labelname").replace(b"labelname", b"l\xffbelname")
    with pytest.raises(ReaderError, match="is not a whole Parquet file"):
        open_rows(io.BytesIO(data), ReaderOptions(label="label"))


@pytest.mark.parametrize("index", ["0" * 18 + "99", "0" * 5000, "9" * 5000])
def test_a_place_in_a_sparse_row_that_takes_many_digits_is_no_place(index: str) -> None:
    data = f"@relation r\n@attribute a real\n@attribute label {{x,y}}\n@data\n{{{index} 1, 1 x}}\n1,x\n".encode()
    with open_rows(io.BytesIO(data), ReaderOptions(format="arff")) as reader:
        refused = [row for block in reader for row in block.refused]
    assert len(refused) == 1
    assert "is not the number of an attribute, 0 to 1" in refused[0].reason


@pytest.mark.parametrize("size", ["9" * 5000, "\N{SUPERSCRIPT TWO}"])
def test_a_size_of_a_message_that_is_no_number_is_refused(size: str) -> None:
    tables = {**PLAIN, "kafka": {"message.max.bytes": size}}
    with pytest.raises(DefinitionError, match=r"message\.max\.bytes"):
        resolve_settings({}, {}, tables)


# Reports and metrics -------------------------------------------------------------------------------------------------


def test_a_report_of_a_c_of_hundreds_of_digits_can_be_compared() -> None:
    summary = vanishing()
    summary["model"]["C"] = 10**400
    runs = {"a": run_of(summary, "a"), "b": run_of(vanishing(), "b")}
    assert any("C = 1000000" in cell for row in comparison(runs).body for cell in row)


@pytest.mark.parametrize("port", ["9" * 5000, "\N{SUPERSCRIPT TWO}", "65536", "0", "-1"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(DefinitionError, match="--at: expected HOST:PORT"):
        Address.of(f"host:{port}")


BUILD = 'deltaplane_build_info{stream="s",role="worker",version="1"} 1\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('deltaplane_consumer_lag_records{stream="s"} 3', "deltaplane_consumer_lag_records has not the labels"),
        ('deltaplane_build_info{role="worker",version="1"} 1', "deltaplane_build_info has not the labels"),
    ],
)
def test_metrics_without_the_labels_of_this_version_are_a_strangers(line: str, words: str) -> None:
    found = read_metrics(f"{BUILD}{line}\n")
    assert isinstance(found, Silence)
    assert found.stranger
    assert words in found.why


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "9" * 400])
def test_a_value_that_no_float_holds_is_not_known(value: str) -> None:
    assert parse(f'{BUILD}deltaplane_model_version{{stream="s"}} {value}\n').keys() == {"deltaplane_build_info"}
