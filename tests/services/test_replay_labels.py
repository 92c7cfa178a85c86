"""Labels as people have them: told apart, counted, closed from the command line, and thinned out by the right class."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import deltaplane
from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane_services.cli.application import app
from deltaplane_services.observe.report.page import run_page
from deltaplane_services.observe.report.record import run_of
from deltaplane_services.replay.labels_seen import LabelsSeen


def rows_of(rare: float, others: tuple[str, ...] = ("ok",), rows: int = 2000) -> list[dict[str, Any]]:
    """Rows of two numbers; every so many are ``fraud``."""
    made = random.Random(4)
    table = []
    for _ in range(rows):
        fraud = made.random() < rare
        label = "fraud" if fraud else made.choice(others)
        table.append({"a": made.gauss(2 * fraud, 1), "b": made.gauss(fraud, 1), "y": label})
    return table


def file_of(table: list[dict[str, Any]], path: Path) -> str:
    path.write_text("a,b,y\n" + "".join(f"{row['a']},{row['b']},{row['y']}\n" for row in table), "utf-8")
    return str(path)


def shown(*words: str) -> str:
    done = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["replay", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_labels_that_differ_only_in_case_or_blanks_are_pointed_out_and_not_merged(tmp_path: Path) -> None:
    table = rows_of(0.3, ("ok", "ok", "ok", "Ok", "not  sure", "not sure"))
    file = file_of(table, tmp_path / "t.csv")
    page = tmp_path / "page.html"
    said = shown(file, "--label", "y", "--json", str(tmp_path / "s.json"), "--report", str(page))
    summary = json.loads((tmp_path / "s.json").read_text("utf-8"))
    assert set(summary["classes"]) == {"fraud", "ok", "Ok", "not  sure", "not sure"}
    rows = {label: sum(row["y"] == label for row in table) for label in summary["classes"]}
    assert summary["labels"] == rows
    note = f"the label 'Ok' ({rows['Ok']:,} rows) differs from 'ok' ({rows['ok']:,} rows) only in case or blanks"
    assert note in said
    assert any(one.startswith(note) for one in summary["notes"])
    assert sum("only in case or blanks" in one for one in summary["notes"]) == 2
    assert "only in case or blanks" in page.read_text("utf-8")


def test_what_differs_from_a_declared_label_is_held_against_that_one_though_it_has_more_rows() -> None:
    seen = LabelsSeen()
    seen.add(["Yes"] * 9 + ["yes"] * 2 + ["YES"] + ["no"])
    (note,) = seen.notes(("yes", "no"))
    assert note.startswith("the labels 'Yes' (9 rows), 'YES' (1 rows) differ from 'yes' (2 rows) only in case")
    assert seen.notes(())[0].startswith("the labels 'yes' (2 rows), 'YES' (1 rows) differ from 'Yes'")
    never = LabelsSeen()
    never.add(["Fraud"])
    assert never.notes(("fraud",))[0].startswith("the label 'Fraud' (1 rows) differs from 'fraud' (0 rows)")
    assert never.notes(()) == []


def test_several_words_for_one_truth_are_said_to_be_different_classes() -> None:
    seen = LabelsSeen()
    seen.add(["1", "True", "true", "0", "0", "no"])
    *_, true, false = seen.notes(())
    assert true.startswith("the labels '1' and 'True' are different classes")
    assert false.startswith("the labels '0' and 'no' are different classes")
    for labels in (["yes", "no"], ["1", "0"], ["1", "true", "maybe"], ["t", "n"], ["1", "0", "2"]):
        other = LabelsSeen()
        other.add(labels)
        assert other.notes(()) == []


def test_a_flood_of_labels_is_not_counted_without_end() -> None:
    seen = LabelsSeen()
    for at in range(50):
        seen.add([f"{at}-{one}" for one in range(200)])
    assert limits.CLASSES < len(seen.rows) <= limits.CLASSES + 200


def test_classes_are_closed_from_the_command_line_and_rows_of_others_are_refused_and_counted(tmp_path: Path) -> None:
    table = rows_of(0.2, ("ok", "ok", "later"))
    later = sum(row["y"] == "later" for row in table)
    file = file_of(table, tmp_path / "t.csv")
    results = []
    for words in (["--classes", "fraud, ok"], ["--classes", "fraud", "--classes", "ok"]):
        shown(file, "--label", "y", *words, "--json", str(tmp_path / "s.json"))
        results.append(json.loads((tmp_path / "s.json").read_text("utf-8")))
    assert [one["rejections"]["counts"] for one in results] == [{"unknown class": later}] * 2
    assert set(results[0]["classes"]) == {"fraud", "ok"}
    assert results[0]["settings"]["definition"]["classes"] == {"names": ["fraud", "ok"]}
    assert results[0]["digest"] == results[1]["digest"]
    python = deltaplane.replay(file, label="y", classes=["fraud", "ok"])
    assert python.digest == results[0]["digest"] == deltaplane.replay(file, label="y", classes="fraud,ok").digest
    with_positive = deltaplane.replay(file, label="y", classes="fraud,ok", positive="fraud")
    assert set(with_positive.summary["classes"]) == {"fraud", "ok"}
    assert "labels of the file" not in shown(file, "--label", "y", "--classes", "fraud,ok", "--positive", "fraud")


def test_the_summary_lists_the_labels_behind_the_class_of_all_others(tmp_path: Path) -> None:
    table = rows_of(0.2, ("ok", "ok", "later"))
    rows = {label: sum(row["y"] == label for row in table) for label in ("ok", "later")}
    said = shown(file_of(table, tmp_path / "t.csv"), "--label", "y", "--positive", "fraud")
    assert f"not fraud           │ labels of the file: ok: {rows['ok']:,}, later: {rows['later']:,}" in said


def test_the_summary_and_the_page_say_when_the_positive_class_was_chosen() -> None:
    table = rows_of(0.2)
    chosen, named = deltaplane.replay(table, label="y"), deltaplane.replay(table, label="y", positive="fraud")
    assert (chosen.summary["positive"], chosen.summary["positive_chosen"]) == ("fraud", True)
    assert (named.summary["positive"], named.summary["positive_chosen"]) == ("fraud", False)
    told = "the positive class is 'fraud', of which the first rows have fewest; --positive names another"
    assert chosen.summary["notes"] == [told]
    assert run_page(run_of(chosen.summary, "s")).count(told) == 1
    assert told not in run_page(run_of(named.summary, "s"))
    before = {
        name: value for name, value in named.summary.items() if name not in ("notes", "positive_chosen", "warnings")
    }
    assert run_of(before, "s").notes == ()


def test_rows_are_thinned_out_by_the_rarest_class_where_none_is_named_and_that_is_said() -> None:
    table = rows_of(0.2)
    chosen = deltaplane.replay(table, label="y", imbalance="0:20")
    named = deltaplane.replay(table, label="y", imbalance="0:20", positive="fraud")
    assert chosen.summary["outcomes"]["applied"] == named.summary["outcomes"]["applied"] > 1500
    assert chosen.summary["thinned"] == named.summary["thinned"] > 200
    assert any("the positive class is 'fraud'" in one for one in chosen.summary["notes"])
    assert not named.summary["notes"]


def test_rows_are_thinned_out_by_the_rarest_class_with_a_grid_that_needs_no_first_rows() -> None:
    table = rows_of(0.2)
    fitted = deltaplane.replay(table, label="y").definition
    again = deltaplane.replay(table, label="y", imbalance="0:20", definition=fitted)
    assert again.summary["outcomes"]["applied"] > 1500


def test_nothing_is_thinned_out_where_the_first_rows_do_not_show_which_class_is_rare() -> None:
    table = sorted(rows_of(0.2, rows=30_000), key=lambda row: row["y"], reverse=True)
    with pytest.raises(
        DefinitionError, match=r"all of the first 10,000 rows have the label 'ok'; name it with --positive"
    ):
        deltaplane.replay(table, label="y", imbalance="0:20")
    seen = LabelsSeen()
    seen.add(["b", "a", "c", "c", "c"])
    assert seen.rarest() == "a"


def test_the_positive_class_is_the_rarest_of_the_first_rows_and_not_the_last_label_or_the_rarest_in_the_end() -> None:
    table = rows_of(0.1, ("ok",), rows=limits.GRID_FIT_ROWS) + rows_of(0.9, ("ok",), rows=2 * limits.GRID_FIT_ROWS)
    chosen = deltaplane.replay(table, label="y", window="2000", C="1")
    assert (chosen.summary["positive"], chosen.summary["positive_chosen"]) == ("fraud", True)
    assert chosen.summary["labels"]["fraud"] > chosen.summary["labels"]["ok"]
    frauds = [cell for cell in chosen.summary["confusion"] if cell["truth"] == "fraud"]
    hits = sum(cell["count"] for cell in frauds if cell["predicted"] == "fraud")
    assert chosen.summary["sensitivity"] == hits / sum(cell["count"] for cell in frauds)


@pytest.mark.parametrize("objective", ["f1", "kappa", "cost:FN=50,FP=1"])
def test_what_is_asked_for_of_one_class_is_asked_for_of_the_rarest_of_the_first_rows_if_nobody_names_it(
    objective: str,
) -> None:
    table = rows_of(0.2)
    chosen = deltaplane.replay(table, label="y", objective=objective)
    named = deltaplane.replay(table, label="y", objective=objective, positive="fraud")
    assert chosen.definition == named.definition
    assert chosen.summary["digest"] == named.summary["digest"]
    assert any("the positive class is 'fraud', against all others" in one for one in chosen.summary["notes"])
    assert (chosen.summary["positive_chosen"], named.summary["positive_chosen"]) == (True, False)
    assert not named.summary["notes"]


def test_classes_that_are_named_are_not_chosen_anew_for_an_objective() -> None:
    with pytest.raises(DefinitionError, match=r"set classes\.positive"):
        deltaplane.replay(rows_of(0.2), label="y", objective="f1", classes=["fraud", "ok"])
