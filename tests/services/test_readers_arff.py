"""ARFF: the header declares, the data follows it, and a nominal feature is one for each declared value."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane_services.readers import ReaderError, ReaderOptions, open_rows
from deltaplane_services.readers.arff_format import ArffDialect
from services.readers_samples import Rows, read, same_bits

HEADER = b"""% a comment
@RELATION 'two words'
@attribute 'wind speed' REAL
@Attribute colour {red, 'dark blue', "it's"}   % three of them
@attribute\tcount\tinteger

@attribute class {yes, no}
@data
"""


def data_of(*lines: str) -> bytes:
    return HEADER + "\n".join(lines).encode()


COLOURS = ("colour=red", "colour=dark blue", "colour=it's")
BY_PLACE = ReaderOptions(nominal="place")


def test_the_last_attribute_is_the_label_and_nominal_features_are_one_for_each_value() -> None:
    data = data_of("1.5,red,3,yes", "-2,'dark blue',4,no", '0,"it\'s",5,yes')
    with open_rows(io.BytesIO(data), ReaderOptions()) as reader:
        assert (reader.format, reader.feature_names) == ("arff", ("wind speed", *COLOURS, "count"))
        rows = Rows(reader)
    assert rows.features.tolist() == [[1.5, 1.0, 0.0, 0.0, 3.0], [-2.0, 0.0, 1.0, 0.0, 4.0], [0.0, 0.0, 0.0, 1.0, 5.0]]
    assert (rows.labels, rows.line_numbers) == (["yes", "no", "yes"], [9, 10, 11])
    with open_rows(io.BytesIO(data), BY_PLACE) as reader:
        assert reader.feature_names == ("wind speed", "colour", "count")
        assert Rows(reader).features.tolist() == [[1.5, 0.0, 3.0], [-2.0, 1.0, 4.0], [0.0, 2.0, 5.0]]


def test_features_of_single_values_can_be_named_and_the_attribute_itself_only_where_places_are_declared() -> None:
    data = data_of("1.5,red,3,yes", "-2,'dark blue',4,no")
    wanted = ("count", "colour=dark blue", "wind speed")
    rows = read(data, ReaderOptions(features=wanted))
    assert rows.features.tolist() == [[3.0, 0.0, 1.5], [4.0, 1.0, -2.0]]
    with pytest.raises(ReaderError, match="has no column `colour=pink` for the features"):
        open_rows(io.BytesIO(data), ReaderOptions(features=("colour=pink",)))
    with pytest.raises(ReaderError) as raised:
        open_rows(io.BytesIO(data), ReaderOptions(features=("colour", "count")))
    assert '`nominal = "place"` under `[input]`' in str(raised.value)
    named = ReaderOptions(features=("count", "colour"), nominal="place")
    assert read(data, named).features.tolist() == [[3.0, 0.0], [4.0, 1.0]]


def test_blocks_of_many_made_features_stay_within_their_bound_and_refused_rows_with_them() -> None:
    values = ",".join(f"v{number}" for number in range(1500))
    lines = [f"v{row % 1500},{'x' if row % 100 == 99 else row},q" for row in range(4000)]
    data = f"@relation r\n@attribute a {{{values}}}\n@attribute b real\n@attribute y {{p,q}}\n@data\n"
    with open_rows(io.BytesIO((data + "\n".join(lines)).encode()), ReaderOptions()) as reader:
        blocks = list(reader)
    assert max(block.features.nbytes for block in blocks) <= 16 * 2**20
    rows = Rows(blocks)
    assert len(rows.labels) == 3960
    assert rows.features[:, :1500].sum(axis=1).tolist() == [1.0] * 3960
    assert [refused.line_number for refused in rows.refused] == [6 + row for row in range(99, 4000, 100)]
    for block in blocks[:-1]:
        assert all(refused.line_number <= block.line_numbers[-1] + 1 for refused in block.refused)


def test_comments_blank_lines_spaces_and_tabs_between_values_change_nothing() -> None:
    rows = read(
        data_of("1, red ,2, yes", "", "% 9,red,9,no", "  3\tred\t4  no", "5 'dark blue' 6 yes"), ReaderOptions()
    )
    assert rows.features[:, [0, 4]].tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert (rows.labels, rows.line_numbers, rows.reasons) == (["yes", "no", "yes"], [9, 12, 13], {})


def test_rows_between_commas_and_rows_between_spaces_may_take_turns() -> None:
    rows = read(data_of("1,red,2,yes", "3 red 4 no", "5,red,6,yes", "7\tred\t8\tno"), ReaderOptions())
    assert rows.features[:, 0].tolist() == [1.0, 3.0, 5.0, 7.0]
    assert (rows.labels, rows.line_numbers) == (["yes", "no", "yes", "no"], [9, 10, 11, 12])


@pytest.mark.parametrize(
    ("row", "ids"),
    [
        ('"a b",1,2', ["a b"]),
        ("'a b',1,2", ["a b"]),
        ("'a\\tb',1,2", ["a\tb"]),
        ("a b,1,2", ["a b"]),
        ("%a,1,2", []),
        (" % a,1,2", []),
        ("a%{,1,2", ["a%{"]),
        ("{0 b,1 1,2 2}", ["b"]),
    ],
)
def test_text_is_unquoted_and_a_comment_or_a_sparse_row_is_no_text(row: str, ids: list[str]) -> None:
    header = "@relation r\n@attribute k string\n@attribute x real\n@attribute y real\n@data\n"
    rows = read(f"{header}first,1,2\n{row}\nlast,1,2\n".encode(), ReaderOptions(id="k"))
    assert (rows.ids, rows.refused) == (["first", *ids, "last"], [])


def test_a_sparse_row_leaves_out_zeros_and_first_values() -> None:
    rows = read(data_of("{0 1.5, 1 'dark blue', 3 no}", "{}", "{2 7}", "1,red,1,no"), ReaderOptions())
    assert rows.features.tolist() == [[1.5, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 1, 0, 0, 7], [1, 1, 0, 0, 1]]
    assert rows.labels == ["no", "yes", "yes", "no"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("?,red,1,yes", "the feature `wind speed` is missing"),
        ("1,?,1,yes", "the feature `colour` is missing"),
        ("1,red,1,?", "the label is missing"),
        ("1,red,1,maybe", "the label 'maybe' is not among the declared values"),
        ("1,green,1,yes", "the feature `colour` is 'green', which is not among its declared values"),
        ("1,red,many,yes", "the feature `count` is 'many', which is not a number"),
        ("1,red,yes", "the row has 3 cells and the file 4 columns"),
        ("1,'red,1,yes", 'the feature `colour` is "\'red", which is not among its declared values'),
        ("{0 1, 0 2}", "the attribute 0 is there twice"),
        ("{4 1}", "'4' is not the number of an attribute, 0 to 3"),
        ("{x 1}", "'x' is not the number of an attribute, 0 to 3"),
        ("{1}", "'1' is not the number of an attribute and a value"),
        ("{0 1", "the sparse row does not end with a brace"),
    ],
)
def test_a_bad_row_is_refused_for_what_is_wrong_with_it(line: str, reason: str) -> None:
    rows = read(data_of("1,red,1,yes", line, "2,red,2,no"), ReaderOptions())
    assert (rows.labels, rows.reasons) == (["yes", "no"], {10: reason})
    assert rows.refused[0].text == line


def test_a_missing_nominal_value_that_is_kept_is_none_of_the_values_nor_the_first() -> None:
    rows = read(data_of("?,?,1,yes"), ReaderOptions(missing="keep"))
    assert same_bits(rows.features, np.array([[np.nan, 0.0, 0.0, 0.0, 1.0]]))
    basket = b"@relation r\n@attribute milk {t}\n@attribute a {?,b}\n@attribute y {p,q}\n@data\nt,b,p\n?,?,q\n"
    assert read(basket, ReaderOptions(missing="keep")).features.tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert read(basket, ReaderOptions()).reasons == {7: "the feature `milk` is missing"}
    declared = b"@relation r\n@attribute alley {None,NA}\n@attribute b real\n@attribute y {p,q}\n@data\nNone,1,p\n"
    assert read(declared, ReaderOptions()).features.tolist() == [[1.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("declaration", "values"),
    [
        ("{low,mid,high} % was {1,2,3}", ["low", "mid", "high"]),
        ("{low,mid,high} % don't", ["low", "mid", "high"]),
        ("{low,'m}id',high}%{}", ["low", "m}id", "high"]),
        ("{it's, b} % isn't {x}", ["it's", "b"]),
        ("{ mammal, bird , fish }", ["mammal", "bird", "fish"]),
        ("{'  yes', 'no  '}", ["yes", "no"]),
        ("{'\\'B1of3\\'','\\'B2of3\\''}", ["'B1of3'", "'B2of3'"]),
        ("{uUsP,UUSp}", ["uUsP", "UUSp"]),
        ("{a,a,b}", ["a", "b"]),
        ('{"a, b",c}', ["a, b", "c"]),
    ],
)
def test_the_values_of_a_list_end_at_its_brace_whatever_comes_behind_or_stands_in_quotes(
    declaration: str, values: list[str]
) -> None:
    data = f"@relation r\n@attribute v {declaration}\n@attribute x real\n@attribute y {{p,q}}\n@data\n?,1,p\n"
    with open_rows(io.BytesIO(data.encode()), ReaderOptions(missing="keep")) as reader:
        assert reader.feature_names == (*(f"v={value}" for value in values), "x")


def test_a_list_without_an_end_is_refused_soon_however_long_it_is() -> None:
    data = "@relation r\n@attribute v {" + ",".join(["'a'"] * 2000) + "\n@data\n"
    with pytest.raises(ReaderError, match="lists no values"):
        open_rows(io.BytesIO(data.encode()), ReaderOptions(format="arff"))


@pytest.mark.parametrize("kind", ["numeric [0,10]", "integer[-5..5]", "REAL % 0 to 1", "real{0,1}"])
def test_what_stands_behind_a_type_is_no_part_of_it(kind: str) -> None:
    data = f"@relation r\n@attribute 1st.value {kind}\n@attribute %share real\n@attribute y {{p,q}}\n@data\n1,2,p\n"
    with open_rows(io.BytesIO(data.encode()), ReaderOptions()) as reader:
        assert reader.feature_names == ("1st.value", "%share")


@pytest.mark.parametrize("label", [None, "price"])
def test_a_label_that_measures_something_is_refused_with_the_attributes_that_may_be_meant(label: str | None) -> None:
    header = "@relation r\n@attribute a real\n@attribute kind {u,v}\n@attribute price real\n@data\n"
    data = header + "".join(f"{row},u,{row / 7}\n" for row in range(300))
    with pytest.raises(ReaderError, match="--label") as raised:
        open_rows(io.BytesIO(data.encode()), ReaderOptions(label=label))
    assert "`price`, which is numeric and has 300 different values in the first 300 rows" in str(raised.value)
    assert "nominal attributes are kind" in str(raised.value)
    few = header + "".join(f"{row},u,{row % 3}\n" for row in range(300))
    assert set(read(few.encode(), ReaderOptions(label=label)).labels) == {"0", "1", "2"}


def test_a_row_with_a_weight_is_refused_for_that_and_read_where_the_weight_is_one() -> None:
    rows = read(data_of("1,red,2,yes, {1}", "3,red,4,no, {5}", "5,red,6,yes,{ 1.0 }"), ReaderOptions())
    assert rows.features[:, 0].tolist() == [1.0, 5.0]
    assert "instance weight 5" in rows.reasons[10]


def test_dates_that_have_no_meaning_here_are_refused_with_what_it_is() -> None:
    data = b"@relation r\n@attribute d date 'yyyy-ww'\n@attribute a real\n@attribute y {p,q}\n@data\n2020-01,1,p\n"
    with pytest.raises(ReaderError, match="of which 'ww' is not known here"):
        open_rows(io.BytesIO(data), ReaderOptions(time="d"))


def test_another_attribute_may_be_the_label_the_id_or_the_time() -> None:
    header = (
        b"@relation r\n@attribute when date 'yyyy-MM-dd'\n@attribute who string\n"
        b"@attribute a numeric\n@attribute b real\n@data\n"
    )
    options = ReaderOptions(label="b", id="who", time="when")
    rows = read(header + b"1996-05-07,'O\\'Brien',1,1.0\n'1996-05-07 00:30',\"a, b\",2,2\n", options)
    assert (rows.labels, rows.ids, rows.times) == (["1", "2"], ["O'Brien", "a, b"], [831427200000, 831429000000])
    assert rows.features.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"@relation r\n@attribute a numeric\n", "ends before its ARFF header does: there is no `@data` line"),
        (b"% nothing\n", "ends before its ARFF header does"),
        (b"@relation r\n@attribute a numeric\n@data\n1\n", "declares 1 attributes"),
        (b"@relation r\n@attribute a complex\n@data\n", "The attribute `a` in line 2 of the stream is of type complex"),
        (b"@relation r\n@attribute a\n@data\n", "is of type no type"),
        (b"@relation r\n@attribute a {}\n@data\n", "The nominal attribute `a` in line 2 of the stream lists no values"),
        (b"@relation r\n@attribute\n@data\n", "The attribute in line 2 of the stream has no name"),
        (b"@relation r\nhello\n", "Line 2 of the stream is 'hello'"),
        (
            b"@relation r\n@attribute s string\n@attribute y {a}\n@data\nq,a\n",
            "`s` of the stream is of type string, and",
        ),
        (b"@relation r\n@attribute d date\n@attribute y {a}\n@data\nq,a\n", "Leave it out with `--ignore d`"),
        (b"@relation r\n@attribute a real\n@attribute y {a}\n@data\n% none\n", "has a header and no rows"),
        (b"@relation r\n@attribute a real\n@attribute a real\n@data\n1,1\n", "two columns named `a`"),
    ],
)
def test_faults_of_the_file_are_told_when_it_is_opened(data: bytes, expected: str) -> None:
    with pytest.raises(ReaderError) as raised:
        open_rows(io.BytesIO(data), ReaderOptions(format="arff"))
    assert expected in str(raised.value)


def test_a_header_may_be_longer_than_a_block() -> None:
    values = ",".join(f"value{number}" for number in range(3000))
    data = f"@relation r\n@attribute a {{{values}}}\n@attribute b real\n@attribute y {{p,q}}\n@data\nvalue2999,1,q\n"
    rows = read(data.encode(), BY_PLACE, block_bytes=1000)
    assert (rows.features.tolist(), rows.labels, rows.line_numbers) == ([[2999.0, 1.0]], ["q"], [6])


numbers = st.sampled_from(["1", " 2.5", "-1e3", "?", "", "x", "'3'", "%", "{1"])
colours = st.sampled_from(["red", " red", "'dark blue'", "dark blue", '"it\'s"', "it's", "?", "", "green", "\\"])
classes = st.sampled_from(["yes", "no ", "'no'", '"no"', "?", "", "maybe"])
tidy_rows = st.tuples(numbers, colours, numbers, classes).map(list)
any_rows = st.lists(st.one_of(numbers, colours, classes), min_size=2, max_size=5)


@given(st.lists(st.tuples(st.one_of(tidy_rows, tidy_rows, any_rows), st.sampled_from([",", ",", ",", " ", ", "]))))
def test_the_fast_path_and_the_exact_path_give_the_same_rows_and_the_same_reasons(
    drawn: list[tuple[list[str], str]],
) -> None:
    data = data_of("1,red,1,yes", *(separator.join(row) for row, separator in drawn))
    fast = read(data, ReaderOptions())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArffDialect, "is_plain", lambda _self, _data: False)
        exact = read(data, ReaderOptions())
    assert same_bits(fast.features, exact.features)
    assert (fast.labels, fast.line_numbers, fast.refused) == (exact.labels, exact.line_numbers, exact.refused)


@pytest.mark.parametrize(
    ("row", "label"),
    [
        ("1,2,q % a comment", "q"),
        ("1,2,'p %1'\t% with 'quotes' and {braces}", "p %1"),
        ("{0 1,1 2,2 q} % sparse", "q"),
        ("{0 1,1 2,2 q}, {1}", "q"),
        ("{0 1,1 2,2 q} {1.0}", "q"),
        ("1,2,50%", "50%"),
    ],
)
def test_what_follows_a_row_is_no_part_of_it(row: str, label: str) -> None:
    header = "@relation r\n@attribute a numeric\n@attribute b numeric\n@attribute c {q,'p %1',50%}\n@data\n"
    blocks = list(open_rows(io.BytesIO(f"{header}{row}\n1,2,q\n".encode()), ReaderOptions(format="arff")))
    assert [name for block in blocks for name in block.labels] == [label, "q"]


def test_a_sparse_row_with_another_weight_says_so() -> None:
    data = b"@relation r\n@attribute a numeric\n@attribute c {p,q}\n@data\n{0 1,1 q}, {2.0}\n1,p\n"
    refused = [one for block in open_rows(io.BytesIO(data), ReaderOptions(format="arff")) for one in block.refused]
    assert "the instance weight 2.0" in refused[0].reason
