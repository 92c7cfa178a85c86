"""CSV: what stands in the file comes out, what cannot be read is refused by line and reason, nothing else is lost."""

from __future__ import annotations

import io

import numpy as np
import pytest

from deltaplane import limits
from deltaplane.stream.sample import Samples
from deltaplane.wire import write_sample_batch
from deltaplane_services.readers import ReaderError, ReaderOptions, open_rows
from deltaplane_services.readers.bounds import BLOCK_BYTES, LINE_BYTES, RECORD_BYTES
from services.readers_samples import Rows, read, trickle

BY_LABEL = ReaderOptions(label="y")


def fault(data: bytes, options: ReaderOptions = BY_LABEL) -> str:
    with pytest.raises(ReaderError) as raised:
        read(data, options)
    return str(raised.value)


def test_columns_keep_the_order_of_the_file_and_rows_their_line_numbers() -> None:
    with open_rows(io.BytesIO(b"b,y,a\n1,one,2.5\n-3,two,4e-1\n"), BY_LABEL) as reader:
        assert (reader.format, reader.feature_names) == ("csv", ("b", "a"))
        rows = Rows(reader)
    assert rows.features.tolist() == [[1.0, 2.5], [-3.0, 0.4]]
    assert rows.features.flags.c_contiguous
    assert (rows.labels, rows.ids, rows.times, rows.line_numbers) == (["one", "two"], None, [], [2, 3])


def test_id_and_time_columns_are_not_features_and_ignored_ones_may_hold_anything() -> None:
    options = ReaderOptions(label="y", id="k", time="t", ignored=("note",))
    rows = read(b"k,t,note,x,y\n r1 ,1.5,hello,3,p\nr2,1996-05-07 00:30,,4,q\n", options)
    assert (rows.ids, rows.times) == (["r1", "r2"], [1500, 831429000000])
    assert rows.features.tolist() == [[3.0], [4.0]]


def test_named_features_come_in_the_order_they_were_named() -> None:
    rows = read(b"a,b,c,y\n1,2,text,p\n", ReaderOptions(label="y", features=("b", "a")))
    assert rows.features.tolist() == [[2.0, 1.0]]


def test_a_byte_order_mark_carriage_returns_blank_lines_and_a_missing_last_line_end_change_nothing() -> None:
    rows = read(b"\xef\xbb\xbfx,y\r\n\r\n1,p\r\n   \r\n\r\n2,q", BY_LABEL)
    assert (rows.features.tolist(), rows.labels, rows.line_numbers) == ([[1.0], [2.0]], ["p", "q"], [3, 6])
    assert rows.refused == []


def test_a_lone_carriage_return_ends_no_line() -> None:
    rows = read(b"x,y\n1,p\r2,q\n\n3,r\n", BY_LABEL)
    assert (rows.labels, rows.reasons) == (["r"], {2: "the row has 3 cells and the file 2 columns"})


def test_quoted_cells_may_hold_delimiters_quotes_and_line_ends() -> None:
    rows = read(b'x,"the, label"\n"1","a, b"\n2,"say ""no"""\n3,"two\nlines"\n4,"plain"\n', ReaderOptions("the, label"))
    assert rows.labels == ["a, b", 'say "no"', "two\nlines", "plain"]
    assert rows.line_numbers == [2, 3, 4, 6]
    assert rows.features.ravel().tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 1000])
def test_a_quoted_record_may_be_cut_anywhere_by_the_blocks_it_arrives_in(block_bytes: int) -> None:
    lines = [f'{number},"line\n{number} of ""many"""\n' for number in range(50)]
    rows = read(("x,y\n" + "".join(lines)).encode(), BY_LABEL, block_bytes)
    assert rows.labels == [f'line\n{number} of "many"' for number in range(50)]
    assert rows.line_numbers == list(range(2, 102, 2))


def test_a_quote_that_nobody_closes_costs_its_own_line_only() -> None:
    rows = read(b'a,b,y\n1,2,p\n3,"4,q\n5,6,r\n7,8,s\n', BY_LABEL)
    assert (rows.labels, rows.reasons) == (["p", "r", "s"], {3: "a quote is opened and not closed"})


def test_a_stray_quote_that_meets_another_far_below_costs_its_own_line_only() -> None:
    rows = read(b'a,b,y\n1,"2,p\n3,4,q\n5,6",extra,r\n7,8,s\n', BY_LABEL)
    assert rows.labels == ["q", "s"]
    assert rows.reasons == {
        2: "the row has 4 cells and the file 3 columns, read to a quote 2 lines below",
        4: "the row has 4 cells and the file 3 columns",
    }


def test_a_quote_that_is_not_closed_within_the_bound_costs_its_own_line_only_and_is_given_up_soon() -> None:
    many = b"1.000000000000000000000000,2,p\n" * 150_000
    with open_rows(io.BytesIO(b'a,b,y\n0,0,first\n1,2,"p\n' + many), BY_LABEL) as reader:
        first = next(reader)
        assert first.refused[0].reason == "a quote is opened and not closed"
        assert reader.bytes_read <= 3 * BLOCK_BYTES
        rows = Rows([first, *reader])
    assert rows.labels == ["first"] + ["p"] * 150_000
    assert list(rows.reasons) == [3]


def test_a_quoted_record_beyond_the_bound_is_refused_although_it_is_closed() -> None:
    line = b"x" * 1000 + b"\n"
    rows = read(b'a,y\n1,p\n2,"' + line * (RECORD_BYTES // 1000) + b'"\n3,q\n', BY_LABEL)
    assert rows.labels == ["p", "q"]
    assert rows.reasons[3] == "a quote is opened and not closed"
    rows = read(b'a,y\n1,p\n2,"' + line * (RECORD_BYTES // 1000 - 100) + b'"\n3,q\n', BY_LABEL)
    assert (len(rows.labels), rows.reasons) == (3, {})


def test_text_behind_a_closing_quote_refuses_the_row() -> None:
    assert read(b'x,y\n1,p\n2,"a"b\n3,q\n', BY_LABEL).reasons == {3: "text follows a closing quote"}


def test_a_quote_within_an_unquoted_cell_is_an_ordinary_character() -> None:
    assert read(b'x,y\n1,5" pipe\n2,6"\n', BY_LABEL).labels == ['5" pipe', '6"']


def test_bytes_that_are_not_utf8_refuse_their_row_even_in_an_ignored_column() -> None:
    rows = read("x,n,y\n1,é,p\n2,".encode() + b"\xe9,q\n3,,r\n", ReaderOptions(label="y", ignored=("n",)))
    assert (rows.labels, rows.reasons) == (["p", "r"], {3: "the row is not UTF-8 text"})
    assert rows.refused[0].text == r"2,\xe9,q"


@pytest.mark.parametrize("block_bytes", [100_000, 2**20])
def test_an_overlong_line_is_refused_and_the_rows_around_it_stand(block_bytes: int) -> None:
    too_long = b"7" * (LINE_BYTES + 1)
    rows = read(b"x,y\n1,p\n" + too_long + b",q\n3,r\n" + too_long, BY_LABEL, block_bytes)
    assert (rows.labels, rows.line_numbers) == (["p", "r"], [2, 4])
    assert list(rows.reasons) == [3, 5]
    assert all("longer than 1048576 bytes" in reason for reason in rows.reasons.values())
    assert all(len(row.text) == 120 for row in rows.refused)


@pytest.mark.parametrize("cell", ["", " ", "?", "NA", " NA ", "nan", "NaN", "-nan", "NULL"])
def test_a_missing_feature_is_refused_by_name_or_kept_as_nan(cell: str) -> None:
    data = f"a,b,y\n1,2,p\n3,{cell},q\n5,6,r\n".encode()
    rows = read(data, BY_LABEL)
    assert (rows.labels, rows.reasons) == (["p", "r"], {3: "the feature `b` is missing"})
    kept = read(data, ReaderOptions(label="y", missing="keep"))
    assert kept.labels == ["p", "q", "r"]
    assert np.isnan(kept.features).tolist() == [[False, False], [False, True], [False, False]]


@pytest.mark.parametrize("cell", ["1_000", "0x10", "1e", "--1", "abc", "1,5", "٣", "1 2", "true", "$1"])
def test_text_in_a_feature_is_refused_with_its_name_and_the_text(cell: str) -> None:
    rows = read(f'a,b,y\n1,2,p\n3,"{cell}",q\n5,6,r\n'.encode(), BY_LABEL)
    assert (rows.labels, rows.reasons) == (["p", "r"], {3: f"the feature `b` is {cell!r}, which is not a number"})


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
def test_an_infinity_passes_as_a_value_for_the_core_to_refuse(cell: str) -> None:
    assert np.isinf(read(f"x,y\n1,p\n{cell},q\n".encode(), BY_LABEL).features[1, 0])


def test_a_missing_label_or_an_empty_id_is_refused_and_other_text_is_a_label_as_it_stands() -> None:
    data = b"k,x,y\n1,1,\n2,1,  \n ,1,a\n4,1, a b \n5,1,NA\n6,1,?\n7,1,NaN\n8,1,007\n"
    rows = read(data, ReaderOptions(label="y", id="k"))
    assert rows.labels == ["a b", "007"]
    missing = dict.fromkeys((2, 3, 6, 7, 8), "the label is missing")
    assert rows.reasons == {**missing, 4: "the id is empty"}


def test_an_id_that_no_batch_can_carry_is_refused_and_costs_no_other_row() -> None:
    fits, too_long, wide = "i" * (2**16 - 1), "i" * 2**16, "漢" * 2**15
    rows = read(f"k,x,y\n{fits},1,p\n{too_long},2,p\n{wide},3,p\nz,4,q\n".encode(), ReaderOptions(label="y", id="k"))
    assert rows.ids == [fits, "z"]
    assert rows.reasons == {
        3: "the id takes 65,536 bytes, expected at most 256; shorten it",
        4: "the id takes 98,304 bytes, expected at most 256; shorten it",
    }
    samples = Samples.of_record(rows.ids or [], 0, ("p", "q"), np.arange(2, dtype=np.int32), rows.features)
    assert len(write_sample_batch(samples, bytes(16))) > len(fits), "what is left is what a batch can carry"


def test_a_row_with_too_few_or_too_many_cells_is_refused() -> None:
    rows = read(b"x,y\n1,p\n2\n3,q,r\n4,s\n", BY_LABEL)
    assert (rows.labels, rows.line_numbers) == (["p", "s"], [2, 5])
    assert rows.reasons == {
        3: "the row has 1 cell and the file 2 columns",
        4: "the row has 3 cells and the file 2 columns",
    }


def test_a_bad_time_is_refused_with_what_it_was() -> None:
    rows = read(b"t,x,y\n5,1,p\nsoon,1,q\n,1,r\ninf,1,s\n1e300,1,u\n2024-02-30,1,v\n", ReaderOptions("y", time="t"))
    assert rows.labels == ["p"]
    assert rows.reasons == {
        3: "the time 'soon' is neither seconds since the epoch nor ISO 8601; declare its form with --time-format",
        4: "the time is missing",
        5: "the time 'inf' is not finite",
        6: "the time '1e300' is outside the range of 64-bit milliseconds",
        7: "the time '2024-02-30' names a day that does not exist",
    }


def test_bad_rows_far_apart_are_found_in_a_file_of_many_blocks_and_no_good_row_is_lost() -> None:
    lines = [f"{number},{number / 7!r},c{number % 3}" for number in range(150_000)]
    bad = {5: "5,oops,c", 70_000: "70000,", 149_999: "149999,,c0"}
    lines = [bad.get(number, line) for number, line in enumerate(lines)]
    rows = read(("i,x,y\n" + "\n".join(lines)).encode(), BY_LABEL)
    good = [number for number in range(150_000) if number not in bad]
    assert [row.line_number for row in rows.refused] == [number + 2 for number in bad]
    assert [row.text for row in rows.refused] == list(bad.values())
    assert rows.line_numbers == [number + 2 for number in good]
    assert np.array_equal(rows.features, [[number, number / 7] for number in good])
    assert rows.labels == [f"c{number % 3}" for number in good]


@pytest.mark.parametrize("bad", [b",\n", b",q\n", b"z,q\n", b"1\n", b"\xff\n"])
def test_a_block_of_nothing_but_bad_rows_comes_in_bounded_blocks(bad: bytes) -> None:
    data = b"x,y\n1,p\n" + b"2,q\n" * 20_000 + bad * 20_000 + b"3,r\n"
    with open_rows(io.BytesIO(data), BY_LABEL) as reader:
        blocks = list(reader)
    assert max(len(block.refused) for block in blocks) <= 2 * 8192
    assert sum(len(block.refused) for block in blocks) == 20_000
    assert sum(len(block) for block in blocks) == 20_002


@pytest.mark.parametrize(("delimiter", "name"), [(";", None), ("\t", None), ("|", "|"), (" ", " ")])
def test_the_delimiter_is_told_from_the_first_line_or_named(delimiter: str, name: str | None) -> None:
    data = "a|b|y\n1|2|p\n3||q\n"
    rows = read(data.replace("|", delimiter).encode(), ReaderOptions("y", delimiter=name, format="csv"))
    assert (rows.features.tolist(), rows.reasons) == ([[1.0, 2.0]], {3: "the feature `b` is missing"})


def test_a_file_without_header_names_its_columns_by_position() -> None:
    rows = read(b"1,2,p\n3,4,q\n", ReaderOptions(label="3", header=False))
    assert (rows.features.tolist(), rows.labels, rows.line_numbers) == ([[1, 2], [3, 4]], ["p", "q"], [1, 2])


def test_a_feature_column_of_text_is_a_fault_of_the_file_and_told_with_the_way_out() -> None:
    message = fault(b"city,x,the land,y\nParis,1,F,p\nRome,2,I,q\n")
    assert "column `city`" in message
    assert "So do the land." in message
    assert "line 2, is 'Paris'" in message
    assert "`--ignore city --ignore 'the land'`" in message


def test_a_first_block_without_a_good_row_is_no_fault_of_the_file_if_not_all_of_it_is_text() -> None:
    rows = read(b"x,y\nhello,p\n,q\n", BY_LABEL)
    assert (len(rows.labels), list(rows.reasons)) == (0, [2, 3])


def test_the_text_of_a_refused_row_is_fit_for_a_terminal() -> None:
    rows = read(b'x,y\n1,p\nx\x1b[31m,"a\nb"\n', BY_LABEL)
    assert rows.refused[0].text == r'x\x1b[31m,"a\nb"'


def test_one_row_of_text_among_good_ones_is_no_fault_of_the_file() -> None:
    assert read(b"x,y\nhello,p\n2,q\n", BY_LABEL).labels == ["q"]


def test_a_wrong_column_name_is_answered_with_the_columns_there_are_and_the_closest() -> None:
    assert fault(b"a,Target\n1,p\n", ReaderOptions("target")) == (
        "the stream has no column `target` for the label; its columns are a, Target. Did you mean `Target`?"
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ReaderOptions(), "Name it with `--label`; the columns are a, b, y."),
        (ReaderOptions("y", id="y"), "named for two of label, id and time"),
        (ReaderOptions("y", ignored=("y",)), "`y` of the stream is both ignored and named"),
        (ReaderOptions("y", ignored=("a", "b")), "no feature column left"),
        (ReaderOptions("y", features=("a", "a")), "named as a feature and for something else as well, or twice"),
        (ReaderOptions("y", features=("a", "c")), "no column `c` for the features"),
        (ReaderOptions("y", ignored=("bb",)), "Did you mean `b`?"),
    ],
)
def test_columns_that_do_not_go_together_are_a_fault(options: ReaderOptions, expected: str) -> None:
    assert expected in fault(b"a,b,y\n1,2,p\n", options)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"a,y\n", "has a header and no rows"),
        (b"a,y\n\n\r\n", "has a header and no rows"),
        (
            b"a,y,y\n1,2,p\n",
            "2 columns named `y`, which is its label. The first of them is it; the others are read as y.1",
        ),
        (
            b",x,y\n0,1,p\n0,2,q\n",
            "gives no name to column 1, which is often a saved row number. Leave it out with `--ignore col",
        ),
        (b"y\np\n", "has one column only, 'y', when cut at ','"),
        (b"a,y\r1,p\r", "ends its lines with carriage returns alone"),
        (b'a,"y\n1,p\n', "holds no names: a quote is opened and not closed"),
        (b"\xc3\xa9,\xff\n1,p\n", "holds no names: the row is not UTF-8 text"),
        (b"x" * (LINE_BYTES + 1), "The first line of the stream is longer than 1048576 bytes"),
        (b"1,2\n3,4\n", "Its first line holds numbers: if it is a row and no header, say `--no-header`"),
        (b"".join(b"c%d," % number for number in range(9999)) + b"y\n", f"a stream may have {limits.FEATURES}"),
    ],
)
def test_faults_of_the_file_are_told_when_it_is_opened(data: bytes, expected: str) -> None:
    with pytest.raises(ReaderError) as raised:
        open_rows(io.BytesIO(data), ReaderOptions("y", format="csv"))
    assert expected in str(raised.value)


def test_a_first_line_of_numbers_that_has_the_name_of_the_label_is_said_to_be_taken_for_a_header() -> None:
    data = b"0.5,20,7,yes\n0.25,21,8,no\n0.75,22,9,no\n"
    with open_rows(io.BytesIO(data), ReaderOptions("20", format="csv", ignored=("yes",))) as reader:
        notes = reader.notes
    told = "the first line, taken for a header, holds numbers: 0.5, 20, 7, yes; if it is a row, say `--no-header`, and "
    assert notes == (f"{told}columns are named by their places",)


@pytest.mark.parametrize("head", [b"0,1,2,y", b"1,2,3,y", b"y,0,1,2", b"a,b,20,y", b"a,1,b,y"])
def test_names_that_count_the_columns_are_names(head: bytes) -> None:
    rows = b"".join(b"1,2,3,4\n" for _ in range(9))
    with open_rows(io.BytesIO(head + b"\n" + rows), ReaderOptions("y", format="csv")) as reader:
        assert [note for note in reader.notes if "header" in note] == []


def test_the_place_of_a_label_in_a_file_of_words_without_a_header_names_the_flag() -> None:
    for label, cure in (("3", True), ("4", False), ("y", False), ("0", False), ("9" * 5000, False)):
        with pytest.raises(ReaderError) as raised:
            open_rows(io.BytesIO(b"f,t,won\nt,t,nowin\n"), ReaderOptions(label, format="csv"))
        assert ("say `--no-header`, and columns are named by their places, from 1 to 3" in str(raised.value)) == cure


@pytest.mark.parametrize(
    "wrong",
    [{"missing": "drop"}, {"format": "xlsx"}, {"number_of_features": 0}, {"delimiter": ",,"}, {"delimiter": '"'}],
)
def test_options_that_mean_nothing_are_refused_by_themselves(wrong: dict[str, object]) -> None:
    with pytest.raises(ReaderError):
        ReaderOptions(**wrong)  # type: ignore[arg-type]


def test_the_rows_of_a_pipe_come_as_it_trickles() -> None:
    with open_rows(trickle(b"x,y\n1,p\n2,q\n3,r\n", 5), BY_LABEL) as reader:
        assert reader.bytes_total is None
        rows = Rows(reader)
        assert reader.bytes_read == 16
    assert rows.labels == ["p", "q", "r"]


@pytest.mark.parametrize(
    "line", ['1, "a, b" ,p', '1 ,  "a, b",p', '1,"a, b"  , p', '"1" , "a, b", "p" ', '1,\t"a, b"\t,"p"\t']
)
def test_blanks_may_stand_around_quotes(line: str) -> None:
    data = f'x, "note" , "y"\n{line}\n2, "", q\n'.encode()
    reader = open_rows(io.BytesIO(data), ReaderOptions("y", ignored=("note",)))
    blocks = list(reader)
    assert reader.feature_names == ("x",)
    assert [label for block in blocks for label in block.labels] == ["p", "q"]


def test_a_quote_behind_a_blank_that_encloses_no_cell_is_a_character() -> None:
    data = b'x,note,y\n1, 5" wide,p\n2, "5" wide,q\n3, 6",p\n4,"" ,q\n'
    blocks = list(open_rows(io.BytesIO(data), ReaderOptions("y", ignored=("note",))))
    assert [label for block in blocks for label in block.labels] == ["p", "q", "p", "q"]


@pytest.mark.parametrize(
    ("data", "cure"),
    [
        (b"'x','y'\n'1','p'\n", "--quote"),
        (b"# made by us, twice\nx,y\n1,p\n", "`--comment '#'`"),
        (b"Report of March,,\nx,z,y\n1,2,p\n", "`--comment 'Report'`"),
        (b"Report of March\nx,z,y\n1,2,p\n", "`--comment`"),
    ],
)
def test_a_first_line_that_holds_no_names_is_refused_with_the_cure(data: bytes, cure: str) -> None:
    with pytest.raises(ReaderError) as refused:
        open_rows(io.BytesIO(data), ReaderOptions("y", format="csv"))
    assert cure in str(refused.value)


def test_a_quoted_line_that_names_the_delimiter_is_none_of_names() -> None:
    reader = open_rows(io.BytesIO(b'"sep=;"\nx;y\n1;p\n'), ReaderOptions("y"))
    assert reader.feature_names == ("x",)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_two_bytes_a_character_are_recognised_without_a_mark(encoding: str) -> None:
    data = ("height,label\n" + "".join(f"{at},{'früh' if at % 9 == 0 else 'ok'}\n" for at in range(60))).encode(
        encoding
    )
    reader = open_rows(io.BytesIO(data), ReaderOptions("label"))
    assert {label for block in reader for label in block.labels} == {"früh", "ok"}
    assert f"read as {encoding}" in reader.notes[0]


@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r", "gb18030", "euc-jp", "big5"])
def test_another_script_is_not_taken_for_the_windows_encoding_of_the_west(encoding: str) -> None:
    words = ("норма", "обман") if encoding in ("cp1251", "koi8-r") else ("正常", "異常")
    data = ("a,y\n" + "".join(f"{at},{words[at % 2]}\n" for at in range(60))).encode(encoding)
    refused = [one for block in open_rows(io.BytesIO(data), ReaderOptions("y")) for one in block.refused]
    assert len(refused) == 60
    reader = open_rows(io.BytesIO(data), ReaderOptions("y", encoding=encoding))
    assert {label for block in reader for label in block.labels} == set(words)
