"""``deltaplane replay`` from the outside: what it prints, what it exits with, and that its answers are right."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from deltaplane_services.cli import application

EXAMPLES = Path(__file__).parents[2] / "examples"
ELECTRICITY = EXAMPLES / "electricity.csv.gz"
DEFINITION = EXAMPLES / "deltaplane.toml"

Run = Callable[..., dict[str, Any]]
Fail = Callable[..., str]


def run_main(arguments: Sequence[str | Path], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the command as a shell would, and return its exit code."""
    monkeypatch.setattr("sys.argv", ["deltaplane", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        application.main()
    code = ended.value.code
    assert isinstance(code, int)
    return code


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Replay with these arguments and return what ``--json -`` prints."""

    def run(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
        assert run_main(["replay", *arguments, "--json", "-"], monkeypatch) == code
        summary: dict[str, Any] = json.loads(capsys.readouterr().out)
        return summary

    return run


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fail:
    """Replay with these arguments, which must be refused with exit code 2, and return the message."""

    def run(*arguments: str | Path) -> str:
        assert run_main(["replay", *arguments], monkeypatch) == 2
        return capsys.readouterr().err

    return run


def electricity(rows: int) -> tuple[list[str], list[list[str]]]:
    """The header and the first rows of the example, as text."""
    with gzip.open(ELECTRICITY, "rt", newline="") as file:
        reader = csv.reader(file)
        header = next(reader)
        return header, [row for row, _ in zip(reader, range(rows), strict=False)]


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


# Figures -------------------------------------------------------------------------------------------------------------

PLAIN = (
    "--label",
    "target",
    "--positive",
    "1",
    "--time",
    "event_time",
    "--C",
    "1",
    "--standardize",
    "--partitions",
    "1",
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--window", "100", "--chunk", "10"), 0.831),
        (("--window", "2000", "--chunk", "50"), 0.748),
        (("--window", "2000", "--chunk", "50", "--weighting", "none"), 0.727),
        (("--window", "100,500,2000,10000,all", "--chunk", "100", "--C", "auto"), 0.775),
    ],
)
def test_gmean_on_elec2_is_that_of_an_independent_implementation(
    replay: Run, options: tuple[str, ...], expected: float
) -> None:
    summary = replay(ELECTRICITY, *PLAIN, *options)
    assert summary["rows"] == 45_312
    assert summary["gmean"] == pytest.approx(expected, abs=0.005)


def test_the_summary_holds_what_it_promises_and_the_model_can_be_recomputed_by_hand(replay: Run) -> None:
    summary = replay(ELECTRICITY, *PLAIN, "--window", "2000", "--verify")
    promised = (
        "rows seconds rows_per_second gmean sensitivity specificity f_measure relative_sensitivity accuracy"
        " imbalance_ratio classes window_rows retired rejected model digest verified max_difference series"
    )
    assert set(promised.split()) <= set(summary)
    assert summary["verified"] is True
    assert summary["max_difference"] == 0.0
    assert sum(summary["classes"].values()) == summary["window_rows"] == 2000
    assert max(summary["classes"].values()) / min(summary["classes"].values()) == summary["imbalance_ratio"]
    cells = {(cell["truth"], cell["predicted"]): cell["count"] for cell in summary["confusion"]}
    recall = {
        label: cells[label, label] / sum(count for (truth, _), count in cells.items() if truth == label)
        for label in ("1", "not 1")
    }
    assert summary["gmean"] == pytest.approx((recall["1"] * recall["not 1"]) ** 0.5, rel=1e-12)
    assert summary["sensitivity"] == recall["1"]
    assert sum(point["rows_to"] - point["rows_from"] for point in summary["series"]) == summary["rows"]
    assert {"weights", "bias", "C", "version"} <= set(summary["model"])


FIXED = ("--definition", DEFINITION, "--window", "all", "--C", "1")
"""Nothing that depends on when a row was scored: equal statistics give equal planes."""


# Exactness -----------------------------------------------------------------------------------------------------------


def test_the_digest_over_everything_does_not_depend_on_partitions_chunks_or_order(replay: Run, tmp_path: Path) -> None:
    header, rows = electricity(1500)
    file = write_csv(tmp_path / "rows.csv", header, rows)
    shuffled = write_csv(tmp_path / "shuffled.csv", header, random.Random(7).sample(rows, len(rows)))
    runs = [
        replay(source, *FIXED, "--partitions", partitions, "--chunk", chunk)
        for source, partitions, chunk in (
            (file, "1", "1000"),
            (file, "1", "50"),
            (file, "2", "1000"),
            (file, "7", "1000"),
            (file, "2", "1"),
            (shuffled, "1", "1000"),
            (shuffled, "7", "50"),
        )
    ]
    assert {run["digest"] for run in runs} == {runs[0]["digest"]}
    assert {json.dumps(run["model"]["weights"]) for run in runs} == {json.dumps(runs[0]["model"]["weights"])}


def test_the_digest_of_a_span_of_time_does_not_depend_on_partitions_or_chunks(replay: Run, tmp_path: Path) -> None:
    header, rows = electricity(1500)
    file = write_csv(tmp_path / "rows.csv", header, rows)
    runs = [
        replay(file, "--definition", DEFINITION, "--window", "7d", "--partitions", partitions, "--chunk", chunk)
        for partitions, chunk in (("1", "1000"), ("1", "50"), ("2", "1000"), ("7", "1000"), ("2", "1"))
    ]
    assert {run["digest"] for run in runs} == {runs[0]["digest"]}
    assert runs[0]["window_rows"] == 7 * 48
    assert runs[0]["rejected"] == 0


def test_what_is_left_after_retirements_is_what_a_run_without_those_rows_gives(replay: Run, tmp_path: Path) -> None:
    header, rows = electricity(5000)
    file = write_csv(tmp_path / "rows.csv", header, rows)
    ids = tmp_path / "retired.txt"
    options = FIXED
    unlearned = replay(
        file, *options, "--retire-fraction", "0.2", "--seed", "3", "--verify", "--retired-ids", ids, "--partitions", "3"
    )
    retired = {int(line) for line in ids.read_text().split()}
    assert 900 < len(retired) == unlearned["retired"] < 1100
    # Without a column of ids, a row's id is its line; the header is line 1.
    surviving = [row for line, row in enumerate(rows, start=2) if line not in retired]
    fresh = replay(write_csv(tmp_path / "surviving.csv", header, surviving), *options)
    assert unlearned["verified"] is True
    assert unlearned["digest"] == fresh["digest"]
    assert unlearned["model"]["weights"] == fresh["model"]["weights"]


WIDE = """
[features]
names = ["a", "b"]
[grid]
steps = [{step}, {step}]
[input]
label = "y"
[window]
length = 50
"""


def outlier_rows(*, with_outlier: bool) -> list[list[object]]:
    draw = random.Random(5)
    rows: list[list[object]] = [[draw.gauss(0, 1), draw.gauss(0, 1), i % 2] for i in range(200)]
    if with_outlier:
        rows[100][0] = 1e10
    return rows


def test_an_outlier_that_has_left_a_window_leaves_no_trace(replay: Run, tmp_path: Path) -> None:
    definition = tmp_path / "wide.toml"
    definition.write_text(WIDE.format(step=16.0))
    runs = [
        replay(
            write_csv(tmp_path / f"{outlier}.csv", "aby", outlier_rows(with_outlier=outlier)),
            *("--definition", definition, "--chunk", "10", "--verify"),
        )
        for outlier in (True, False)
    ]
    assert runs[0]["rejected"] == 0
    assert runs[0]["outcomes"]["expired"] == 150
    assert runs[0]["digest"] == runs[1]["digest"]
    assert all(run["verified"] for run in runs)


def test_an_outlier_among_rows_of_unit_scale_is_refused_by_the_fitted_grid_by_name(replay: Run, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv", "aby", outlier_rows(with_outlier=True))
    summary = replay(file, "--label", "y", "--window", "50", "--verify")
    assert summary["verified"] is True
    assert summary["rejected"] == 1
    (first,) = summary["rejections"]["first"]
    assert first["line"] == 102
    assert "'a'" in first["reason"]
    assert "outside the grid" in first["reason"]


# Bad input -----------------------------------------------------------------------------------------------------------


def test_bad_rows_are_listed_with_line_and_reason_and_cost_no_other_row(replay: Run, tmp_path: Path) -> None:
    header, rows = electricity(1000)
    clean = replay(write_csv(tmp_path / "clean.csv", header, rows), "--definition", DEFINITION, "--window", "all")
    bad: list[Sequence[object]] = list(rows)
    bad.insert(500, [*rows[0][:-1], "7"])
    bad.insert(300, [*rows[0][:3], "abc", *rows[0][4:]])
    bad.insert(200, rows[0][:4])
    bad.insert(100, [rows[0][0], "nan", *rows[0][2:]])
    bad.insert(50, [rows[0][0], "1e9", *rows[0][2:]])
    summary = replay(write_csv(tmp_path / "bad.csv", header, bad), "--definition", DEFINITION, "--window", "all")
    assert summary["digest"] == clean["digest"]
    assert summary["rejected"] == 5
    found = {item["line"]: item["reason"] for item in summary["rejections"]["first"]}
    # Each row inserted above pushes those below it down by one; the header is line 1.
    assert set(found) == {52, 103, 204, 305, 506}
    assert "feat_1" in found[52]
    assert "feat_1" in found[103]
    assert "abc" in found[305]
    assert "'7'" in found[506]


def test_a_bogus_date_is_refused_and_a_gap_in_the_data_is_not(replay: Run, tmp_path: Path) -> None:
    header, rows = electricity(3000)
    rows = rows[:1000] + rows[2000:]
    rows[400][0] = "2099-01-01 00:00"
    file = write_csv(tmp_path / "rows.csv", header, rows)
    digests = set()
    for chunk in ("900", "37"):
        summary = replay(file, "--definition", DEFINITION, "--window", "7d", "--verify", "--chunk", chunk)
        assert summary["verified"] is True
        assert [item["line"] for item in summary["rejections"]["first"]] == [402]
        assert summary["window_rows"] == 7 * 48
        digests.add(summary["digest"])
    assert len(digests) == 1


@pytest.mark.parametrize("window", ["10s", "1h", "7d"])
@pytest.mark.parametrize("hours", [1, 24 * 30])
def test_rows_that_are_far_apart_are_admitted_however_short_the_window(
    replay: Run, tmp_path: Path, window: str, hours: int
) -> None:
    rows = [(at * hours * 3600, at % 7, at % 5, "ab"[at % 2]) for at in range(400)]
    file = write_csv(tmp_path / "rows.csv", ["when", "x", "y", "label"], rows)
    # Where a window holds a row or two there is never a plane, and so there are no figures.
    code = 0 if (window, hours) == ("7d", 1) else 1
    options = ("--label", "label", "--time", "when", "--window", window, "--chunk", "7", "--verify")
    summary = replay(file, *options, code=code)
    # Behind the last of rows that are months apart nobody bears witness that time has moved.
    alone = 1 if hours > 24 else 0
    assert (summary["rows"], summary["rejected"], summary["verified"]) == (400 - alone, alone, True)
    assert summary["window_rows"] == max(1, {"10s": 1, "1h": 1, "7d": 7 * 24}[window] // hours)


def test_a_wrong_column_name_is_a_message_that_shows_the_columns(refused: Fail) -> None:
    message = refused(ELECTRICITY, "--label", "targt")
    assert "targt" in message
    assert "target" in message
    assert "Traceback" not in message


def test_a_positive_label_never_seen_is_a_message_that_shows_the_labels(refused: Fail, tmp_path: Path) -> None:
    header, rows = electricity(200)
    file = write_csv(tmp_path / "rows.csv", header, rows)
    message = refused(file, "--label", "target", "--positive", "yes", "--ignore", "event_time")
    assert "'yes'" in message
    assert "0, 1" in message


def test_one_class_only_is_a_message(refused: Fail, tmp_path: Path) -> None:
    header, rows = electricity(400)
    file = write_csv(tmp_path / "rows.csv", header, [row for row in rows if row[-1] == "1"])
    message = refused(file, "--label", "target", "--ignore", "event_time")
    assert "two classes" in message


def test_rows_that_were_refused_are_in_the_message_about_those_that_were_not(refused: Fail, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("label,a,b\nbad,1,2\n" + "".join(f"good,x{row},1\n" for row in range(56)))
    message = refused(file, "--label", "label", "--missing", "refuse")
    assert "all 1 rows that could be read have the label 'bad' in column 'label'" in message
    assert "56 rows were refused: 56 rows for the reason: the feature `a` is …, which is not a number" in message
    assert "line 3: the feature `a` is 'x0'" in message
    assert "--ignore a" in message
    unnamed = tmp_path / "rows.libsvm"
    unnamed.write_text("1 1:1\n1 2:2\n")
    assert "the label '1';" in refused(unnamed)


def test_a_good_hint_survives_a_second_fault(refused: Fail, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("city,a,y\nParis,1,p\n,2,q\nRome,1,q\nBonn,,p\nOslo,1\n")
    assert "--ignore city" in refused(file, "--label", "y", "--missing", "refuse")


def test_refusals_are_summed_up_by_reason_and_column_with_examples_and_the_cure(replay: Run, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    lines = [f"{row % 2},{row / 7:.3f},1" for row in range(300)]
    bad = [f"0,x{row},1" for row in range(5)] + ["1,,1", "0,1", "?,1,1", "1,1,\xff"]
    file.write_text("y,a,b\n" + "\n".join(lines + bad) + "\n")
    reasons = replay(file, "--label", "y", "--missing", "refuse")["rejections"]["reasons"]
    told = {one["reason"]: (one["rows"], len(one["examples"]), one["cure"]) for one in reasons}
    rows, examples, cure = told["the feature `a` is …, which is not a number"]
    assert (rows, examples, cure) == (5, 3, "leave it out with `--ignore a`")
    assert "--missing offset" in told["the feature `a` is missing"][2]
    assert "--classes" in told["the label is missing"][2]
    assert "--delimiter" in told["the row has … cells and the file … columns"][2]
    # By rules a missing number costs no row.
    reasons = replay(file, "--label", "y")["rejections"]["reasons"]
    told = {one["reason"]: (one["rows"], len(one["examples"]), one["cure"]) for one in reasons}
    assert not any("is missing" in reason and "label" not in reason for reason in told)
    (of_words,) = [one for reason, one in told.items() if reason.startswith("column 'a' is no number")]
    assert of_words[:2] == (5, 3)
    assert all(flag in of_words[2] for flag in ("--missing-values x0", "--category a", "--ignore a"))


def test_an_empty_file_is_a_message(refused: Fail, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    assert "empty" in refused(tmp_path / "empty.csv", "--label", "y")


def test_a_missing_file_is_a_message(refused: Fail, tmp_path: Path) -> None:
    assert "nowhere.csv" in refused(tmp_path / "nowhere.csv", "--label", "y")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--window", "7d"), "--time"),
        (("--window", "soon"), "'soon'"),
        (("--window", "3", "--partitions", "7"), "partitions"),
        (("--C", "-1"), "C"),
        (("--kind", "svm"), "svm"),
        (("--weighting", "1=heavy"), "heavy"),
        (("--chunk", "0"), "chunk"),
        (("--retire-fraction", "1.5"), "retire-fraction"),
        (("--imbalance", "10:1,5:2"), "imbalance"),
        (("--definition", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_an_option_that_cannot_be_used_is_a_message(refused: Fail, options: tuple[str, ...], word: str) -> None:
    message = refused(ELECTRICITY, "--label", "target", "--ignore", "event_time", *options)
    assert word in message
    assert "Traceback" not in message


def test_an_unknown_key_of_a_definition_is_a_message_with_the_one_meant(refused: Fail, tmp_path: Path) -> None:
    definition = tmp_path / "deltaplane.toml"
    definition.write_text(DEFINITION.read_text().replace("length", "lenght"))
    message = refused(ELECTRICITY, "--definition", definition)
    assert "lenght" in message
    assert "length" in message


# Ways in and out -----------------------------------------------------------------------------------------------------


def test_standard_input_gives_what_the_file_gives(replay: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header, rows = electricity(1500)
    file = write_csv(tmp_path / "rows.csv", header, rows)
    from_file = replay(file, "--definition", DEFINITION)
    stream = io.TextIOWrapper(io.BytesIO(file.read_bytes()))
    monkeypatch.setattr("sys.stdin", stream)
    from_pipe = replay("-", "--definition", DEFINITION)
    assert from_pipe["digest"] == from_file["digest"]
    assert from_pipe["gmean"] == from_file["gmean"]


def test_a_definition_written_down_gives_the_same_stream_again(replay: Run, tmp_path: Path) -> None:
    header, rows = electricity(1500)
    file = write_csv(tmp_path / "rows.csv", header, rows)
    written = tmp_path / "deltaplane.toml"
    first = replay(file, *PLAIN, "--window", "300", "--write-definition", written)
    again = replay(file, "--definition", written)
    assert again["settings"] == first["settings"]
    assert again["digest"] == first["digest"]
    assert again["gmean"] == first["gmean"]


@pytest.mark.parametrize("window", ["100", "50,100", "auto"])
@pytest.mark.parametrize("chunk", ["1", "40", "300"])
def test_rows_that_give_no_plane_are_verified_to_give_none_from_scratch(
    replay: Run, tmp_path: Path, window: str, chunk: str
) -> None:
    """The classes come one after the other: with chunks of 300 rows the short windows have never had a plane."""
    rows = [[row, row % 7, "other" if row < 300 else "one"] for row in range(600)]
    file = write_csv(tmp_path / "rows.csv", ("x", "y", "class"), rows)
    options = ("--label", "class", "--positive", "one", "--window", window, "--chunk", chunk, "--verify")
    summary = replay(file, *options, "--C", "1" if window == "100" else "auto", code=1)
    assert summary["warnings"][0].startswith("the rows are sorted by class")
    assert summary["verified"] is True
    assert summary["max_difference"] == (0.0 if window == "auto" else None)


def test_several_classes_go_one_against_the_rest(replay: Run, tmp_path: Path) -> None:
    draw = random.Random(11)
    centres = {"a": (0.0, 0.0), "b": (6.0, 0.0), "c": (0.0, 6.0)}
    rows = []
    for _ in range(1200):
        label, (x, y) = draw.choice(list(centres.items()))
        rows.append([x + draw.gauss(0, 1), y + draw.gauss(0, 1), label])
    file = write_csv(tmp_path / "rows.csv", ("x", "y", "class"), rows)
    summary = replay(file, "--label", "class", "--window", "400", "--chunk", "50", "--verify")
    assert summary["verified"] is True
    assert list(summary["classes"]) == ["a", "b", "c"]
    assert len(summary["model"]["weights"]) == 3
    assert summary["gmean"] > 0.9
    assert summary["positive"] is None


def test_a_schedule_of_imbalance_is_followed(replay: Run, tmp_path: Path) -> None:
    header, rows = electricity(6000)
    file = write_csv(tmp_path / "rows.csv", header, rows)
    summary = replay(file, *PLAIN, "--window", "all", "--imbalance", "0:8", "--seed", "1")
    assert summary["imbalance_ratio"] == pytest.approx(8.0, rel=0.15)
    assert summary["thinned"] + summary["rows"] == 6000


def test_an_interrupted_file_keeps_its_rows_and_says_so(replay: Run, tmp_path: Path) -> None:
    whole = ELECTRICITY.read_bytes()
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    summary = replay(cut, "--definition", DEFINITION, code=2)
    assert 10_000 < summary["rows"] < 45_312
    assert summary["ended_early"]
