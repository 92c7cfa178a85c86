"""Files as they come: what tools and people make of a table is read, and what was recognised is said, or it is refused
with the flag that cures it.
"""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane_services.readers import ReaderError, ReaderOptions, open_rows
from deltaplane_services.readers.cells import LabelSpelling, NumberForm, read_number
from services.readers_samples import Rows, read, same_bits

VALUES = [[0.126, -0.132], [0.64, 0.105], [-0.536, 0.362], [1.304, 0.947]]
LABELS = ["0", "1", "0", "1"]
BY_LABEL = ReaderOptions(label="y")


def table(template: str, head: str = "", tail: str = "", end: str = "\n") -> bytes:
    lines = [template.format(a, b, y) for (a, b), y in zip(VALUES, LABELS, strict=True)]
    return (head + "".join(line + end for line in lines) + tail).encode()


def notes_and_rows(data: bytes, options: ReaderOptions = BY_LABEL) -> tuple[str, Rows]:
    with open_rows(io.BytesIO(data), options) as reader:
        return "; ".join(reader.notes), Rows(reader)


def fault(data: bytes, options: ReaderOptions = BY_LABEL) -> str:
    with pytest.raises(ReaderError) as raised:
        read(data, options)
    return str(raised.value)


AS_THEY_COME = {
    "comments above the header": (table("{},{},{}", "# made by a logger\n# unit: mV\na,b,y\n"), "--comment '#'"),
    "a hint of a spreadsheet": (table("{};{};{}", "sep=;\r\na;b;y\r\n", end="\r\n"), "cut at ';'"),
    "a last delimiter in rows": (table("{},{},{},", "a,b,y\n"), "ends in a delimiter"),
    "a last delimiter in header and rows": (table("{},{},{},", "a,b,y,\n"), "ends in a delimiter"),
    "row names of R": (
        b'"a" "b" "y"\n'
        + b"".join(b'"%d" %s' % (i + 1, line) for i, line in enumerate(table('{} {} "{}"').splitlines(keepends=True))),
        "row_names",
    ),
    "row names of R between commas": (
        b"a,b,y\n"
        + b"".join(b"r%d,%s" % (i, line) for i, line in enumerate(table("{},{},{}").splitlines(keepends=True))),
        "row_names",
    ),
    "columns of blanks": (table("  {:>9}   {:>9}  {} ", "  a    b   y\n"), "--delimiter blanks"),
    "what psql prints": (table(" {} | {} | {} ", " a | b | y \n---+---+---\n", "(4 rows)\n\n"), ""),
    "what sqlcmd prints": (table("{},{},{}", "a,b,y\n-----,-----,-\n", "\n(4 rows affected)\n"), ""),
    "bars": (table("{}|{}|{}", "a|b|y\n"), ""),
    "UTF-16 of a spreadsheet": ("\ufeffa,b,y\r\n" + table("{},{},{}", end="\r\n").decode()).encode("utf-16-be"),
    "signs before and behind numbers": (table("${},{} %,{}", "a,b,y\n"), "`a`: numbers are read without their $"),
}


@pytest.mark.parametrize("name", list(AS_THEY_COME))
def test_a_table_is_read_as_it_comes_and_what_was_recognised_is_said(name: str) -> None:
    case = AS_THEY_COME[name]
    data, note = case if isinstance(case, tuple) else (case, "read as utf-16")
    notes, rows = notes_and_rows(data)
    assert (rows.features.tolist(), rows.labels, rows.reasons) == (VALUES, LABELS, {})
    assert note in notes
    for block_bytes in (1, 37):
        assert read(data, BY_LABEL, block_bytes).features.tolist() == VALUES


DECLARED = {
    "no header": (table("{},{},{}"), ReaderOptions("3", header=False)),
    "no header and blanks": (table(" {}\t{}  {}"), ReaderOptions("3", header=False, delimiter="blanks")),
    "no header and a last delimiter": (table("{};{};{};"), ReaderOptions("3", header=False)),
    "comments anywhere": (table("{},{},{}\n# x", "#\na,b,y\n"), ReaderOptions("y", comment="#")),
    "decimal commas": (table("{};{};{}", "a;b;y\n").replace(b".", b","), ReaderOptions("y", decimal=",")),
    "single quotes": (table("'{}','{}','{}'", "'a',b,y\n"), ReaderOptions("y", quote="'")),
    "no quotes": (table("{},{},{}", 'a,b,"y\n'), ReaderOptions('"y', quote="none")),
    "other names": (table("{},{},{}", "p,q,r\n"), ReaderOptions("y", renamed=(("p", "a"), ("q", "b"), ("r", "y")))),
    "an encoding": (table("{},{},{}", "a,b,ß\n").decode().encode("cp850"), ReaderOptions("ß", encoding="cp850")),
}


@pytest.mark.parametrize("name", list(DECLARED))
def test_a_table_is_read_as_it_is_declared(name: str) -> None:
    data, options = DECLARED[name]
    rows = read(data, options)
    assert (rows.features.tolist(), rows.labels, rows.reasons) == (VALUES, LABELS, {})


def test_a_byte_of_windows_in_a_label_loses_no_class() -> None:
    data = b"a,y\n" + b"1,BENIGN\n" * 50 + b"2,Attack \x96 XSS\n" * 3
    notes, rows = notes_and_rows(data)
    assert (set(rows.labels), rows.reasons) == ({"BENIGN", "Attack – XSS"}, {})
    assert "read as cp1252, which its bytes look like; say another with `--encoding`" in notes
    assert "für" in read("a,y\n1,für\n".encode("latin-1"), BY_LABEL).labels
    # Where other bytes are UTF-8, it is not another encoding but one damaged row.
    assert read("a,y\n1,für\n2,".encode() + b"\xfc\n", BY_LABEL).reasons == {3: "the row is not UTF-8 text"}


def test_a_byte_that_an_encoding_has_not_costs_its_row_only() -> None:
    data = b"a,y\n1,\xe9\n2,\x81\n" + b"3,p\n" * 3
    rows = read(data, ReaderOptions("y", encoding="cp1252"))
    assert (rows.labels, rows.reasons) == (["é", "p", "p", "p"], {3: "the row is not UTF-8 text"})
    cut = "a,y\n1,p\n2,q\n".encode("utf-16")[:-1]
    assert read(cut, BY_LABEL).labels[0] == "p"


@pytest.mark.parametrize("name", ["nothing", "hex", "rot13", "idna", ""])
def test_an_encoding_that_no_file_is_in_is_refused(name: str) -> None:
    with pytest.raises(ReaderError, match="There is no encoding of text named"):
        ReaderOptions("y", encoding=name)


@pytest.mark.parametrize(
    ("written", "label"),
    [("1", "1"), ("1.0", "1"), ("+1", "1"), ("1e0", "1"), ("-0.0", "0"), ("0.50", "0.5"), (".5", "0.5"), ("007", "007")]
    + [(text, text) for text in ("1.2.3", "inf", "one", "0x1", "1 2", "1,0")],
)
def test_a_label_that_is_a_number_has_one_spelling_in_every_table(written: str, label: str) -> None:
    assert read(f'a,y\n1,"{written}"\n'.encode(), BY_LABEL).labels == [label]
    assert read(json.dumps({"a": 1, "y": written}).encode(), BY_LABEL).labels == [label]
    assert read(f'a,y\n1,"{written}"\n'.encode(), ReaderOptions("y", labels="text")).labels == [written]


def test_a_declared_label_is_spelled_as_it_was_declared() -> None:
    data = b"a,y\n1,1\n2,1.0\n3,+1\n4,0\n5,NA\n"
    rows = read(data, ReaderOptions("y", declared_labels=("1.0", "NA")))
    assert (rows.labels, rows.reasons) == (["1.0", "1.0", "1.0", "0", "NA"], {})


@pytest.mark.parametrize("cell", ["", "?", "NA", "NaN", "null"])
def test_the_same_texts_are_missing_in_every_format(cell: str) -> None:
    files = {
        "csv": f"a,b,y\n1,2,p\n{cell},2,q\n1,2,{cell}\n",
        "jsonl": "".join(json.dumps(row) + "\n" for row in ({"a": 1, "b": 2, "y": "p"}, {"a": cell, "b": 2, "y": "q"}))
        + json.dumps({"a": 1, "b": 2, "y": cell}),
        "arff": "@relation r\n@attribute a real\n@attribute b real\n@attribute y string\n@data\n"
        f"1,2,p\n{cell},2,q\n1,2,{cell}\n",
        "libsvm": f"1 1:1 2:2\n1 1:{cell} 2:2\n{cell or '?'} 1:1 2:2\n",
    }
    for name, text in files.items():
        rows = read(text.encode(), ReaderOptions(None if name == "libsvm" else "y", format=name))
        assert len(rows.labels) == 1, name
        feature = "f1" if name == "libsvm" else "a"
        assert list(rows.reasons.values()) == [f"the feature `{feature}` is missing", "the label is missing"], name


def test_other_texts_may_be_declared_missing_even_numbers() -> None:
    data = b"a,b,y\n1,2,p\n-999,2,q\n1,NA,r\n3,4,-999\n5,6,None\n"
    rows = read(data, ReaderOptions("y", na=("-999",), missing="keep"))
    assert same_bits(rows.features, np.array([[1.0, 2.0], [np.nan, 2.0], [5.0, 6.0]]))
    assert rows.labels == ["p", "q", "None"]
    assert rows.reasons == {4: "the feature `b` is 'NA', which is not a number", 5: "the label is missing"}


def test_two_columns_of_one_name_get_a_number_and_that_is_said() -> None:
    with open_rows(io.BytesIO(b"a,a.1,a,y,a\n1,2,3,p,4\n"), BY_LABEL) as reader:
        assert reader.feature_names == ("a", "a.1", "a.2", "a.3")
        assert "a column named `a` again is read as a.2, a.3" in reader.notes
        assert Rows(reader).features.tolist() == [[1.0, 2.0, 3.0, 4.0]]
    assert "`--ignore y.1`" in fault(b"a,y,y\n1,p,p\n")
    assert read(b"a,y,y\n1,p,p\n", ReaderOptions("y", ignored=("y.1",))).labels == ["p"]


def test_thousands_are_read_only_where_they_are_declared_and_only_in_groups_of_three() -> None:
    data = b'a,y\n"1,234,567.5",p\n"12,34",q\n-999,r\n"1,000",s\n'
    rows = read(data, ReaderOptions("y", thousands=","))
    assert (rows.features.ravel().tolist(), rows.labels) == ([1234567.5, -999.0, 1000.0], ["p", "r", "s"])
    assert rows.reasons == {3: "the feature `a` is '12,34', which is not a number"}
    both = read(b"a;y\n1.234,5;p\n1,5;q\n1.5;r\n", ReaderOptions("y", thousands=".", decimal=","))
    assert (both.features.ravel().tolist(), list(both.reasons)) == ([1234.5, 1.5], [4])


def test_a_sign_that_some_numbers_lack_is_not_passed_over() -> None:
    rows = read(b"a,b,y\n13%,1,p\n0.13,1,q\n", BY_LABEL)
    assert rows.reasons == {2: "the feature `a` is '13%', which is not a number"}
    later = b"a,b,y\n" + b"13%,1,p\n" * 500 + b"0.13,1,q\n-$5,1,r\n"
    assert list(read(later, BY_LABEL).reasons) == [502, 503]


@pytest.mark.parametrize(
    ("data", "options", "flag"),
    [
        (b"41,nurse,9,lo\n46,smith,10,hi\n", ReaderOptions("income"), "say `--no-header`"),
        (b"0,126 a\n0,64 b\n", ReaderOptions("y"), ""),
        (b"a;y\n0,126;p\n0,64;q\n", BY_LABEL, "`--decimal ,`"),
        (b'a,y\n"1,126",p\n"2,640",q\n', BY_LABEL, "`--thousands ,`"),
        (b"x\n", ReaderOptions("y", format="csv"), "`--delimiter`"),
        (b",".join(b"c%d" % n for n in range(2500)) + b",y\n", BY_LABEL, "`--features NAME`"),
        (b'{"a": [1], "b": 2, "y": 2}', BY_LABEL, "`--ignore a`"),
        (b"-1 |f a:0.126 b:-0.132\n1 |f a:1 b:2\n", BY_LABEL, "VowpalWabbit"),
    ],
)
def test_what_cannot_be_told_is_refused_with_the_flag_that_says_it(
    data: bytes, options: ReaderOptions, flag: str
) -> None:
    assert flag in fault(data, options)


def test_a_header_in_the_middle_is_refused_as_such() -> None:
    rows = read(b"a,b,y\n1,2,p\na,b,y\n3,4,q\n", BY_LABEL)
    assert (rows.labels, rows.reasons) == (["p", "q"], {3: "the line is the header again"})


def test_fortran_writes_exponents_with_a_d() -> None:
    assert read(b"a,b,y\n+1.5D-03,2.d+1,p\n", BY_LABEL).features.tolist() == [[0.0015, 20.0]]
    assert list(read(b"a,b,y\n12D3,1,p\n1,1,q\n", BY_LABEL).reasons) == [2]


def test_backslashes_before_quotes_are_read_where_they_are_declared() -> None:
    data = b'a,note,y\n1,"say \\"hi\\", 0","p\\\\"\n2,"x ""y""",q\n3,plain\\,r\n'
    rows = read(data, ReaderOptions("y", ignored=("note",), quote='\\"'))
    assert (rows.labels, rows.reasons) == (["p\\", "q", "r"], {})


# JSON Lines


def test_objects_are_rows_and_keys_are_columns() -> None:
    data = (
        b'\xef\xbb\xbf{"a": 1, "on": true, "y": true}\n\n{"y": "x", "a": "2.5", "on": false}\n'
        b'{"a": 12345678901234567890, "on": 1e3, "y": 1.0}\n'
    )
    with open_rows(io.BytesIO(data), BY_LABEL) as reader:
        assert (reader.format, reader.feature_names) == ("jsonl", ("a", "on"))
        rows = Rows(reader)
    assert rows.features.tolist() == [[1.0, 1.0], [2.5, 0.0], [12345678901234567890.0, 1000.0]]
    assert (rows.labels, rows.line_numbers, rows.reasons) == (["true", "x", "1"], [1, 3, 4], {})


def test_a_key_that_is_not_there_is_missing_and_null_and_an_empty_text_are() -> None:
    data = (
        b'{"a": 1, "b": 2, "y": "p"}\n{"a": 1, "y": "q"}\n{"a": null, "b": 1, "y": "r"}\n{"a": 1, "b": "", "y": "s"}\n'
    )
    rows = read(data + b'{"a": 1, "b": 2}\n', BY_LABEL)
    missing = ["the feature `b` is missing", "the feature `a` is missing", "the feature `b` is missing"]
    assert list(rows.reasons.values()) == [*missing, "the label is missing"]
    kept = read(data, ReaderOptions("y", missing="keep"))
    assert np.isnan(kept.features).tolist() == [[False, False], [False, True], [True, False], [False, True]]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": 1, "y": ', "the line is not JSON: Expecting value at character 14"),
        (b"[1, 2]", "the line is '[1, 2]', where an object in braces was expected"),
        (b'{"a": [1], "y": "p"}', "the key `a` holds a list, of which no column is made"),
        (b'{"a": {"b": 1}, "y": "p"}', "the key `a.b` is none of the first rows"),
        (b'{"a": 1, "a": 2, "y": "p"}', "the key `a` is there twice"),
        (b'{"a": 1, "y": "p", "late": 1}', "the key `late` is none of the first rows"),
        (b'{"a": 1, "y": "\\ud800"}', "the row holds half a character (a lone surrogate)"),
        (b'{"a": "x", "y": "p"}', "the feature `a` is 'x', which is not a number"),
        (b'{"a": 1, "y": "\xff"}', "the row is not UTF-8 text"),
        (
            b'{"a": ' + b"[" * 9999 + b"]" * 9999 + b"}",
            "the line is not JSON that can be read: it is nested too deeply",
        ),
    ],
)
def test_a_line_that_is_no_row_is_refused_for_what_is_wrong_with_it(line: bytes, reason: str) -> None:
    first = b'{"a": 1, "y": "p"}\n' * 4000
    rows = read(first + line + b'\n{"a": 2, "y": "q"}\n', ReaderOptions("y", encoding="utf-8"))
    assert (len(rows.labels), rows.reasons) == (4001, {4001: reason})


def test_keys_that_nobody_reads_may_hold_anything_and_come_late() -> None:
    data = b'{"a": 1, "y": "p", "note": {"x": []}}\n' * 3000 + b'{"a": 1, "y": "q", "late": 7, "note": 1}\n'
    assert len(read(data, ReaderOptions("y", features=("a",))).labels) == 3001
    assert len(read(data, ReaderOptions("y", ignored=("note",))).labels) == 3000


# KEEL

KEEL = (
    b"@relation shells\n@attribute Len real[-4.0,4.0]\n@attribute Wid integer [-4, 4]\n@attribute Gone real [0, 1]\n"
    b"@attribute Class{positive, negative}\n@inputs Len, Wid\n@outputs Class\n@data\n"
    b"1.288, 1, 0.5, positive\n0.066, <null>, 0.5, negative\n-1.5, -3, 0.5, negative\n"
)


def test_a_keel_file_says_its_inputs_and_its_output() -> None:
    with open_rows(io.BytesIO(KEEL), ReaderOptions()) as reader:
        assert reader.feature_names == ("Len", "Wid")
        rows = Rows(reader)
    assert (rows.features.tolist(), rows.labels) == ([[1.288, 1.0], [-1.5, -3.0]], ["positive", "negative"])
    assert rows.reasons == {10: "the feature `Wid` is missing"}
    assert read(KEEL, ReaderOptions(format="keel", ignored=("Wid",))).features.ravel().tolist() == [1.288, 0.066, -1.5]
    two = KEEL.replace(b"@outputs Class", b"@outputs Class, Gone")
    assert "2 outputs, Gone, Class; name one with `--label`" in fault(two, ReaderOptions())


# Laws

plain_numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-(10**9), 10**9).map(str)
)


@given(st.lists(st.tuples(plain_numbers, st.sampled_from(["", " ", "\t"])), min_size=1, max_size=20))
def test_decimal_commas_give_the_bits_that_points_give(cells: list[tuple[str, str]]) -> None:
    lines = [f"{pad}{number};p" for number, pad in cells]
    points = ("a;y\n" + "\n".join(lines)).encode()
    rows = read(points.replace(b".", b","), ReaderOptions("y", decimal=","))
    assert same_bits(rows.features, read(points, BY_LABEL).features)


@given(st.integers(-(10**15), 10**15), st.integers(0, 999))
def test_thousands_give_the_number_that_was_written(whole: int, fraction: int) -> None:
    form = NumberForm(decimal=",", thousands=".", affix="€")
    text = f"{whole:,}".replace(",", ".") + f",{fraction:03d} €"
    assert form.read(text) == float(f"{whole}.{fraction:03d}")


@given(st.text(st.sampled_from("0123456789.eEdD+-naif_,$% ")), st.sampled_from(["", "$", "%"]))
def test_a_form_reads_nothing_else_than_a_number_with_its_signs(text: str, affix: str) -> None:
    form = NumberForm(affix=affix)
    try:
        number = form.read(text)
    except ValueError:
        return
    bare = text.replace(affix, "", 1) if affix else text
    assert same_bits(np.array([number]), np.array([read_number(bare.replace(" ", ""))]))


@given(st.text(st.sampled_from("01.e+-x ")), st.frozensets(st.text(st.sampled_from("01.+")), max_size=3))
def test_spelling_a_label_twice_changes_nothing(text: str, declared: frozenset[str]) -> None:
    spelled = LabelSpelling(declared=declared)
    assert spelled(spelled(text)) == spelled(text)
