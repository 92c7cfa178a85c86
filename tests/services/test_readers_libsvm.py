"""LIBSVM: sparse lines become dense rows, and a line that is not one is refused for what is wrong with it."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane import limits
from deltaplane.columns.encoder import Encoder
from deltaplane.columns.rules import NumberRule
from deltaplane_services.readers import ReaderError, ReaderOptions, libsvm_format, open_rows
from deltaplane_services.readers.libsvm_rows import extreme_indices, read_lines, read_regular_lines
from services.readers_samples import Rows, read, same_bits, trickle

LIBSVM = ReaderOptions(format="libsvm")


def test_what_is_not_written_is_zero_and_features_are_named_by_index() -> None:
    with open_rows(io.BytesIO(b"1 1:0.5 3:2\n-1 2:1e3\n1\n"), LIBSVM) as reader:
        assert reader.feature_names == ("f1", "f2", "f3")
        rows = Rows(reader)
    assert rows.features.tolist() == [[0.5, 0.0, 2.0], [0.0, 1000.0, 0.0], [0.0, 0.0, 0.0]]
    assert (rows.labels, rows.line_numbers, rows.ids, rows.times) == (["1", "-1", "1"], [1, 2, 3], None, [])


@pytest.mark.parametrize(
    ("written", "label"),
    [("1", "1"), ("+1", "1"), ("1.0", "1"), ("-1.00", "-1"), ("1e0", "1"), ("-0", "0"), ("0.5", "0.5"), ("007", "7")],
)
def test_a_label_has_one_spelling(written: str, label: str) -> None:
    assert read(f"{written} 1:1\n".encode(), LIBSVM).labels == [label]


def test_the_label_answers_to_its_name_as_a_column_would() -> None:
    assert read(b"2 1:1\n", ReaderOptions("label", format="libsvm")).labels == ["2"]


def test_comments_queries_tabs_spaces_blank_lines_and_carriage_returns_are_passed_over() -> None:
    data = b"# made by hand\n\n1 qid:7 1:2 # good\r\n \n2\t 1:3  2:4 \r\n1   2:5"
    rows = read(data, LIBSVM)
    assert (rows.labels, rows.line_numbers, rows.reasons) == (["1", "2", "1"], [3, 5, 6], {})
    assert rows.features.tolist() == [[2.0, 0.0], [3.0, 4.0], [0.0, 5.0]]


def test_indices_may_come_in_any_order_but_not_twice() -> None:
    rows = read(b"1 2:4 1:3\n1 2:4 2:4\n", LIBSVM)
    assert (rows.features.tolist(), rows.reasons) == ([[3.0, 4.0]], {2: "the index 2 is there twice"})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1 0:5", "it has the index 0, and indices start at 1"),
        (b"0,2 1:1", "the row has several labels, '0,2', where one was expected"),
        (b"spam", "the line 'spam' is neither a number nor a label and features"),
        (b"1 1:x", "the feature `f1` is 'x', which is not a number"),
        (b"1 1:2:3:4", "the feature `f1` is '2:3:4', which is not a number"),
        (b"1 1:1_0", "the feature `f1` is '1_0', which is not a number"),
        (b"1 1:0x1", "the feature `f1` is '0x1', which is not a number"),
        (b"1 a:1", "'a:1' is not an index and a value, as in `3:0.5`"),
        (b"1 1.0:1", "'1.0:1' is not an index and a value, as in `3:0.5`"),
        (b"1 -1:1", "'-1:1' is not an index and a value, as in `3:0.5`"),
        (b"1 7", "'7' is not an index and a value, as in `3:0.5`"),
        (b"1:1 2:2", "the row starts with '1:1', where a label was expected"),
        (b"nan 1:1", "the label is missing"),
        (b"? 1:1", "the label is missing"),
        (b"1 2:nan", "the feature `f2` is missing"),
        (b"1 2:", "the feature `f2` is missing"),
        (b"1 2:\xff", "the row is not UTF-8 text"),
        (b"1 4:1", "the index 4 is above the 3 features asked for"),
        (b"1 99999999999999999999:1", "'99999999999999999999:1' is not an index and a value, as in `3:0.5`"),
    ],
)
def test_a_bad_line_is_refused_for_what_is_wrong_with_it(line: bytes, reason: str) -> None:
    options = ReaderOptions(format="libsvm", number_of_features=3, encoding="utf-8", libsvm_base="1")
    rows = read(b"1 1:1\n" + line + b"\n2 2:2\n", options)
    assert (rows.labels, rows.reasons) == (["1", "2"], {2: reason})
    assert rows.refused[0].text.startswith(line[:4].decode())


def test_the_number_of_features_of_a_pipe_is_that_of_its_first_rows_and_a_higher_index_later_is_refused() -> None:
    many = b"1 1:1 4:1\n" * 120_000
    with open_rows(trickle(many + b"2 5:1\n1 4:7\n", 2**20), LIBSVM) as reader:
        rows = Rows(reader)
    assert rows.features.shape == (120_001, 4)
    assert rows.features[-1].tolist() == [0.0, 0.0, 0.0, 7.0]
    assert rows.reasons == {120_001: "the index 5 is above the 4 features of the first rows"}


def test_a_feature_of_a_file_that_appears_only_at_its_end_is_a_feature() -> None:
    rows = read(b"1 1:1 4:1 # 9:9\n" * 120_000 + b"2 5:1\n1 x 6:7\n", LIBSVM)
    assert rows.features.shape == (120_001, 5)
    assert rows.features[-1].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert list(rows.reasons) == [120_002]
    packed = read(gzip.compress(b"1 1:1\n" * 200_000 + b"2 3:1\n"), LIBSVM)
    assert packed.features.shape == (200_001, 3)


def test_a_file_that_has_an_index_0_counts_from_there_and_says_so() -> None:
    with open_rows(io.BytesIO(b"-1 1:2\n" * 200_000 + b"1 0:5\n"), LIBSVM) as reader:
        assert reader.feature_names == ("f0", "f1")
        assert "--libsvm-base 0" in reader.notes[0]
        rows = Rows(reader)
    assert (rows.features[-1].tolist(), rows.reasons) == ([5.0, 0.0], {})
    assert read(b"1 1:5\n", ReaderOptions(format="libsvm", libsvm_base="0")).features.tolist() == [[0.0, 5.0]]


def test_labels_may_be_text() -> None:
    rows = read(b"neg 1:1\npos 2:3\n1.0 1:2\n+1\n", LIBSVM)
    assert (rows.labels, rows.reasons) == (["neg", "pos", "1", "1"], {})


def test_a_file_wider_than_a_stream_is_refused_with_the_way_out_and_named_features_may_lie_far_apart() -> None:
    data = b"1 1:1 47236:2\n2 7:1 47236:3\n"
    with pytest.raises(ReaderError, match=r"features up to `f47236` in 2 of 2 rows.*--features f1 --features f2"):
        read(data, LIBSVM)
    rows = read(data, ReaderOptions(format="libsvm", features=("f47236", "f7", "f99999")))
    assert rows.features.tolist() == [[2.0, 0.0, 0.0], [3.0, 1.0, 0.0]]


@given(st.binary(max_size=60), st.lists(st.tuples(st.integers(0, 99), st.integers(-9, 9)), max_size=5))
def test_no_index_escapes_the_quick_look(noise: bytes, pairs: list[tuple[int, int]]) -> None:
    data = noise + b"\n1 " + " ".join(f"{index}:{value}" for index, value in sorted(dict(pairs).items())).encode()
    exact = read_lines(data, 1)
    has_zero, highest = extreme_indices(data)
    assert highest >= exact.indices.max(initial=0)
    assert has_zero or exact.indices.min(initial=1) > 0


def test_an_index_no_stream_can_have_does_not_make_every_row_that_wide() -> None:
    rows = read(f"1 1:1 {limits.FEATURES + 1}:1\n1 2:1\n".encode(), LIBSVM)
    assert rows.features.tolist() == [[0.0, 1.0]]
    assert list(rows.reasons) == [1]


def test_a_missing_value_may_be_kept() -> None:
    rows = read(b"1 1:? 2:1\n1 1:1\n", ReaderOptions(format="libsvm", missing="keep"))
    assert same_bits(rows.features, np.array([[np.nan, 1.0], [1.0, 0.0]]))


def test_features_may_be_chosen_and_ignored_by_name() -> None:
    data = b"1 1:1 2:2 3:3\n"
    assert read(data, ReaderOptions(format="libsvm", features=("f3", "f1"))).features.tolist() == [[3.0, 1.0]]
    assert read(data, ReaderOptions(format="libsvm", ignored=("f2",))).features.tolist() == [[1.0, 3.0]]


def test_wide_rows_come_in_bounded_blocks_and_every_refused_row_once() -> None:
    lines = ["oops" if number % 700 == 699 else f"{number % 2} {number % 50 + 1}:1" for number in range(5000)]
    options = ReaderOptions(format="libsvm", number_of_features=limits.FEATURES)
    with open_rows(io.BytesIO("\n".join(lines).encode()), options) as reader:
        blocks = list(reader)
    assert max(block.features.nbytes for block in blocks) <= 16 * 2**20
    rows = Rows(blocks)
    assert rows.line_numbers == [number + 1 for number in range(5000) if lines[number] != "oops"]
    assert list(rows.reasons) == [number + 1 for number in range(5000) if lines[number] == "oops"]
    assert len(rows.refused) == len(rows.reasons)


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (b"\n\n", LIBSVM, "is empty"),
        (b"\n\n", ReaderOptions(format="libsvm", number_of_features=3), "is empty"),
        (
            b"a,b\n1,2\n",
            LIBSVM,
            "in line 1, the row has several labels, 'a,b', where one was expected. If it is another kind of file",
        ),
        (b"1\n2\n", LIBSVM, "The first 2 rows of the stream have no features"),
        (b"1 1:1\n", ReaderOptions("y", format="libsvm"), "without a column `y` for the label. Leave `--label` out."),
        (b"1 1:1\n", ReaderOptions(time="t", format="libsvm"), "without a column `t` for the time"),
        (b"1 1:1\n", ReaderOptions(features=("x",), format="libsvm"), "no column `x` for the features"),
        (b"1 1:1\n", ReaderOptions(number_of_features=10**6, format="libsvm"), "1000000 features were asked for"),
        (b"1 1:1\n", ReaderOptions(encoder=Encoder((NumberRule("f1"),)), format="libsvm"), "[columns]: take them out"),
    ],
)
def test_faults_of_the_file_are_told_when_it_is_opened(data: bytes, options: ReaderOptions, expected: str) -> None:
    with pytest.raises(ReaderError) as raised:
        open_rows(io.BytesIO(data), options)
    assert expected in str(raised.value)


values = st.one_of(st.floats().map(repr), st.sampled_from(["1", "+2", ".5", "1e400", "x", "", "1_0", "?", "NA", "0x1"]))
pairs = st.tuples(st.sampled_from(["1", "2", "03", "5", "9", "12", "0", "a", "-1", "1.0"]), values).map(":".join)
words = st.one_of(pairs, pairs, pairs, pairs, st.sampled_from(["qid:1", "7", ":", "1:2:3", "1:2:3:4", "#", "é"]))
labels = st.sampled_from(["1", "+1", "-1.0", "2", "nan", "a", "1:1", ""])
lines_of_words = st.lists(
    st.tuples(
        labels, st.lists(words, max_size=4), st.sampled_from([" ", " ", "\t", "  "]), st.sampled_from(["", " ", "\r"])
    )
)


@given(lines_of_words)
def test_what_is_read_all_at_once_is_what_is_read_line_by_line(lines: list[tuple[str, list[str], str, str]]) -> None:
    data = "\n".join(separator.join((label, *row)) + end for label, row, separator, end in lines).encode()
    exact, fast = read_lines(data, 1), read_regular_lines(data, 1)
    if fast is None:
        return
    assert exact.refused == ()
    assert (exact.labels, exact.line_numbers.tolist()) == (fast.labels, fast.line_numbers.tolist())
    assert (exact.starts.tolist(), exact.indices.tolist()) == (fast.starts.tolist(), fast.indices.tolist())
    assert same_bits(exact.values, fast.values)


@given(st.lists(st.dictionaries(st.integers(1, 20), st.floats(allow_nan=False), max_size=6), min_size=1))
def test_ordinary_rows_are_read_all_at_once_to_the_bit(rows: list[dict[int, float]]) -> None:
    data = "".join(
        f"{n} " + " ".join(f"{i}:{row[i]!r}" for i in sorted(row)) + "\n" for n, row in enumerate(rows)
    ).encode()
    fast = read_regular_lines(data, 1)
    assert fast is not None
    assert fast.values.view(np.int64).tolist() == [
        int(np.float64(row[index]).view(np.int64)) for row in rows for index in sorted(row)
    ]


def test_lines_that_are_not_regular_are_looked_at_by_themselves_among_many_that_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = []

    def noted(data: bytes, first_line_number: int) -> object:
        looked_at.append(data.count(b"\n"))
        return read_lines(data, first_line_number)

    monkeypatch.setattr(libsvm_format, "read_lines", noted)
    lines = [b"1 1:x" if number == 7777 else b"1 1:%d" % number for number in range(20_000)]
    rows = read(b"\n".join(lines) + b"\n", LIBSVM)
    assert rows.reasons == {7778: "the feature `f1` is 'x', which is not a number"}
    assert rows.features.ravel().tolist() == [number for number in range(20_000) if number != 7777]
    assert sum(looked_at) < 200
