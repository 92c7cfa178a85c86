"""A history that follows its table holds, at each version, what the table adds up to there, whatever is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from broker_log import BrokerLog, Killed
from deltaplane.errors import DefinitionError, StateMismatch
from deltaplane.exact.statistics import Statistics
from deltaplane.log.delta import Source
from deltaplane.log.partial import Partial
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.embedded.embedded_broker import EmbeddedBroker
from deltaplane_services.lake.auditing import HistoryAccount
from deltaplane_services.lake.change_feed import FEED_PROPERTY, ChangeFeed
from deltaplane_services.lake.compute import Computing, compute_history
from deltaplane_services.lake.file_sums import FileSums
from deltaplane_services.lake.following import TableFollower
from deltaplane_services.lake.recomputing import TableOfHistory
from deltaplane_services.lake.sql_entries import Drawn
from deltaplane_services.lake.table_sums import ColumnsOfTable
from deltaplane_services.lake.tables import LakeError, open_table
from deltaplane_services.processors.history_source import HistoryRefused, HistorySource, Standing
from deltaplane_services.processors.messages import DELTAS, RECEIPTS
from lake_tables import COLUMNS, DEFINITION, INPUT, TABLES, WITHOUT_IDS, table_of

deltalake = pytest.importorskip("deltalake", reason="the extra lake brings it")

PAST = Source("history", 0)
FEED = {FEED_PROPERTY: "true"}


class Lake:
    """A Delta table with a change feed, of which a history is computed, published and followed."""

    def __init__(self, path: Path, columns: ColumnsOfTable = COLUMNS, retired: frozenset[str] = frozenset()) -> None:
        self.name, self.columns, self.retired = str(path), columns, retired
        self.rows = 0
        self.broker = EmbeddedBroker(1)
        deltalake.write_deltalake(self.name, self.some_rows(60), configuration=FEED)
        history = compute_history(self.name, columns, Computing(version=0, retired=retired))
        self.source = HistorySource(columns.definition, PAST, history, "0123456789abcdef")
        self.source.publish(self.log())

    def log(self, dies_before: int | None = None) -> BrokerLog:
        return BrokerLog(self.broker, self.columns.definition, dies_before)

    def some_rows(self, count: int) -> pa.Table:
        """Rows with ids that no other has."""
        self.rows += count
        return table_of(count, seed=self.rows, ids=[f"row-{at}" for at in range(self.rows - count, self.rows)])

    @property
    def table(self) -> Any:
        return deltalake.DeltaTable(self.name)

    def append(self, count: int = 20) -> None:
        deltalake.write_deltalake(self.name, self.some_rows(count), mode="append")

    def follower(self, log: BrokerLog | None = None, until: int | None = None) -> TableFollower:
        return TableFollower(self.source, ChangeFeed(self.name, self.columns), log or self.log(), until)

    def follow(self, until: int | None = None) -> None:
        follower = self.follower(until=until)
        while follower.step() is not None:
            pass

    def expected(self, version: int, out: frozenset[str] = frozenset()) -> Any:
        """What a history that is computed at a version adds up to."""
        if not self.retired | out:
            # The same in this process; no id has two rows that count.
            sums, total = FileSums(self.columns.definition, self.columns.options), Partial.zero(self.columns.definition)
            for file in open_table(self.name, version).files:
                total = total + sums.whole(file.path, file.name, hashes=False).partial
            return total.statistics
        computing = Computing(version=version, retired=self.retired | out)
        return compute_history(self.name, self.columns, computing).partial.statistics

    def check(self, version: int, out: frozenset[str] = frozenset()) -> None:
        assert self.log().state(PAST).statistics == self.expected(version, out)

    def retire(self, *ids: str) -> dict[str, str]:
        table = TableOfHistory(self.source.history)

        def find(asked: Sequence[str], at: Standing) -> tuple[Statistics, Sequence[str]]:
            return table.rows_of(asked, at, self.retired)

        return self.source.retire(self.log(), ids, find, table.never_counted(ids))


def everything_that_happens_to_tables(lake: Lake, random: Random) -> Iterator[Callable[[], object]]:
    some = random.randrange(50)
    numbers = f"demand >= {some * 20} AND demand < {some * 20 + 60}"
    yield lake.append
    yield lambda: lake.table.update({"price": "price + 0.25", "demand": "demand + 1"}, predicate=numbers)
    yield lambda: lake.table.update({"target": "'UP'"}, predicate=numbers)
    yield lambda: lake.table.update({"target": "'sideways'"}, predicate=numbers)
    yield lambda: lake.table.delete(numbers)
    yield lambda: lake.table.optimize.compact()  # noqa: PLW0108 - the table is that of its time.
    yield lambda: _upsert(lake, random)
    yield lambda: lake.table.alter.set_table_properties({"delta.logRetentionDuration": "interval 30 days"})
    yield lambda: _write_over(lake)


def _upsert(lake: Lake, random: Random) -> None:
    """Rows of which some have ids that are there, with other content, and some have not."""
    known = lake.table.to_pyarrow_table().column("id").to_pylist()
    old = random.sample(known, min(8, len(known)))
    new = lake.some_rows(6).column("id").to_pylist()
    rows = table_of(len(old) + 6, seed=random.randrange(2**31), ids=[*old, *new])
    merge = lake.table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _write_over(lake: Lake) -> None:
    rows = lake.table.to_pyarrow_table()
    deltalake.write_deltalake(lake.name, rows.slice(0, max(20, len(rows) - 10)), mode="overwrite")


@pytest.mark.parametrize("columns", [COLUMNS, WITHOUT_IDS], ids=["ids", "no ids"])
@pytest.mark.parametrize("seed", range(3))
def test_at_each_version_the_source_holds_what_the_table_adds_up_to(
    tmp_path: Path, seed: int, columns: ColumnsOfTable
) -> None:
    lake, random = Lake(tmp_path / "table", columns), Random(seed)
    for _ in range(6):
        random.choice(list(everything_that_happens_to_tables(lake, random)))()
    newest = lake.table.version()
    assert newest >= 3
    for version in range(1, newest + 1):
        lake.follow(until=version)
        lake.check(version)
        assert lake.source.standing(lake.log()).version == version
    state = lake.log().state(PAST)
    assert state.sequence == newest + 1
    assert not state.dropped
    computed = compute_history(lake.name, columns, Computing(version=newest)).partial
    assert state.statistics.digest(DEFINITION.data_fingerprint) == computed.digest()


@pytest.mark.parametrize("step", range(3))
def test_killed_at_any_step_and_run_again_each_version_counts_once(tmp_path: Path, step: int) -> None:
    lake = Lake(tmp_path / "table")
    for _ in range(3):
        lake.append()
    lake.follow(until=1)
    with pytest.raises(Killed):
        lake.follower(lake.log(step)).step()
    lake.follow()
    lake.check(3)
    assert lake.log().state(PAST).sequence == 4
    assert not lake.log().state(PAST).dropped
    records = lake.broker.end(DELTAS, 0), lake.broker.end(RECEIPTS, 0)
    lake.follow()
    assert (lake.broker.end(DELTAS, 0), lake.broker.end(RECEIPTS, 0)) == records


def test_two_that_follow_at_once_fence_nobody_and_count_nothing_twice(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.append()
    lake.append()
    one, other = lake.follower(), lake.follower()
    change = ChangeFeed(lake.name, COLUMNS).change(1, lambda _: False)
    standing = other.standing
    first = one.step()
    assert first is not None
    assert first.accepted
    # The other has read the same version before, and sends it now.
    assert lake.source.follow(lake.log(), standing, change).sequence == 2
    assert one.step() is not None
    assert other.step() is None
    lake.check(2)
    assert dict(lake.log().state(PAST).dropped) == {"repeat": 1}


def test_retired_rows_stay_out_whatever_the_table_does_with_them(tmp_path: Path) -> None:
    before = frozenset({"row-2", "row-3"})
    lake = Lake(tmp_path / "table", retired=before)
    lake.append()
    lake.follow()
    assert lake.retire("row-4", "row-70", "row-2", "nobody") == {
        "row-4": "retired",
        "row-70": "retired",
        "row-2": "duplicate",
        "nobody": "unknown",
    }
    out = frozenset({"row-4", "row-70"})
    lake.check(1, out)
    lake.table.update({"price": "price + 1.0"}, predicate="id = 'row-70' OR id = 'row-3'")
    lake.table.delete("id = 'row-4' OR id = 'row-2'")
    deltalake.write_deltalake(lake.name, table_of(1, seed=9, ids=["row-4"]), mode="append")
    lake.follow()
    lake.check(4, out)
    assert lake.retire("row-4", "row-70") == {"row-4": "duplicate", "row-70": "duplicate"}
    assert lake.retire("row-5") == {"row-5": "retired"}
    lake.append()
    lake.follow()
    out |= {"row-5"}
    lake.check(5, out)
    account = HistoryAccount(lake.source, TableOfHistory(lake.source.history), lake.log(), before)
    assert not account.of(lake.log().state(PAST)).faults


def test_a_row_that_went_is_unknown_and_one_that_came_later_is_found(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.table.delete("id = 'row-4'")
    lake.follow()
    assert lake.retire("row-4") == {"row-4": "unknown"}
    lake.check(1)


def test_of_a_table_that_was_emptied_no_row_is_found_and_its_account_is_of_none(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.table.delete()
    lake.follow()
    tiles = lake.broker.end(DELTAS, 0)
    assert lake.retire("row-4", "nobody") == {"row-4": "unknown", "nobody": "unknown"}
    assert lake.broker.end(DELTAS, 0) == tiles
    table = TableOfHistory(lake.source.history)
    state = lake.log().state(PAST)
    assert not HistoryAccount(lake.source, table, lake.log(), drawn=Drawn(20, 1)).of(state).faults
    # A source that still holds rows is not what this version gives.
    lake.append()
    lake.follow()
    standing = lake.source.standing(lake.log())
    with pytest.raises(LakeError, match=r"version 1 of the table adds up to Statistics\(\{\}\)"):
        table.rows_of(["row-4"], replace(standing, version=1))


def test_a_history_all_of_whose_rows_were_retired_has_the_account_of_none(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    outcomes = lake.retire(*(f"row-{number}" for number in range(60)))
    assert "retired" in outcomes.values()
    assert not lake.log().state(PAST).statistics.counts()
    account = HistoryAccount(lake.source, TableOfHistory(lake.source.history), lake.log(), drawn=Drawn(20, 1))
    assert not account.of(lake.log().state(PAST)).faults


def test_a_table_whose_old_files_were_vacuumed_away_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.table.delete()
    lake.table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    tiles = lake.broker.end(DELTAS, 0)
    with pytest.raises(LakeError, match=r"1 of the 1 files of version 0 are gone .* vacuumed since"):
        lake.retire("row-4")
    assert lake.broker.end(DELTAS, 0) == tiles
    with pytest.raises(LakeError, match="vacuumed since"):
        TableOfHistory(lake.source.history).again(frozenset())


def test_rows_retired_while_a_version_was_read_are_not_taken_out_again_by_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.table.delete("id = 'row-4'")
    # Who follows has read the version, in which the row goes, when the row is retired.
    follower, standing = lake.follower(), lake.source.standing(lake.log())
    change = ChangeFeed(lake.name, COLUMNS).change(1, lambda _: False)
    assert lake.retire("row-4") == {"row-4": "retired"}
    state = lake.source.follow(lake.log(), standing, change)
    assert state.samples_position == standing.state.samples_position
    followed = follower.step()
    assert followed is not None
    assert followed.accepted
    lake.check(1, frozenset({"row-4"}))


def test_the_digest_of_the_beginning_that_comes_again_hides_no_retirement(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    begin = lake.log().state(PAST).statistics
    rows = lake.table.to_pyarrow_table()
    twin = rows.filter(pa.compute.equal(rows["id"], "row-4"))
    assert lake.retire("row-4") == {"row-4": "retired"}
    deltalake.write_deltalake(lake.name, twin.set_column(0, "id", pa.array(["twin"])), mode="append")
    lake.follow()
    assert lake.log().state(PAST).statistics == begin
    assert lake.retire("row-4") == {"row-4": "duplicate"}
    assert lake.source.standing(lake.log()).out == {"row-4"}


def test_without_a_receipt_of_a_version_nobody_can_tell_what_is_out(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.append()
    lake.follow()
    lake.broker.trim(RECEIPTS, 0, lake.broker.end(RECEIPTS, 0))
    with pytest.raises(HistoryRefused, match="receipts are gone"):
        lake.follower()


# What cannot be followed is said, and nothing is published -----------------------------------------------------------


def refused(lake: Lake, match: str) -> None:
    """Following raises a reason, and leaves the log as it was."""
    end = lake.broker.end(DELTAS, 0), lake.broker.end(RECEIPTS, 0)
    with pytest.raises((LakeError, DefinitionError, StateMismatch), match=match):
        lake.follow()
    assert (lake.broker.end(DELTAS, 0), lake.broker.end(RECEIPTS, 0)) == end


def test_a_table_whose_feed_was_off_is_refused_with_the_property_to_set(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.table.alter.set_table_properties({FEED_PROPERTY: "false"})
    lake.append()
    refused(lake, rf"version 1 .*feed was off then; set {FEED_PROPERTY} = true .*anew at version 2 or later")


def test_versions_that_were_vacuumed_away_are_refused_with_the_version_to_begin_at(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.append()
    deltalake.write_deltalake(lake.name, lake.some_rows(30), mode="overwrite")
    lake.table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    newest = lake.table.version()
    refused(lake, rf"version 1 .*vacuumed away .*anew at version {newest} or later")


def test_versions_whose_log_is_gone_are_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.append()
    lake.append()
    lake.table.create_checkpoint()
    for version in range(2):
        (Path(lake.name) / "_delta_log" / f"{version:020}.json").unlink()
    refused(lake, r"version 1 .*the log of the table no longer has it .*anew at version 2 or later")


def test_a_column_of_another_type_is_refused_and_one_more_column_is_not(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    rows = lake.some_rows(10)
    more = rows.append_column("remark", pa.array(["x"] * 10))
    deltalake.write_deltalake(lake.name, more, mode="append", schema_mode="merge")
    lake.follow()
    expected = compute_history(lake.name, COLUMNS, Computing(version=1)).partial.statistics
    assert lake.log().state(PAST).statistics == expected
    other = lake.some_rows(10)
    other = other.set_column(3, "demand", pa.array(np.arange(10) / 2))
    deltalake.write_deltalake(lake.name, other, mode="overwrite", schema_mode="overwrite")
    refused(lake, r"version 2 .*its column 'demand' holds .*double.*, and .*long.* before")


def test_an_id_that_has_two_rows_is_refused_but_not_if_one_of_them_never_counted(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    twice = table_of(40, ids=[f"row-{at % 20 + 20}" for at in range(40)]).slice(0, 1)
    unknown = twice.set_column(4, "target", pa.array(["sideways"]))
    deltalake.write_deltalake(lake.name, unknown, mode="append")
    lake.follow()
    lake.check(1)
    again = table_of(12, seed=5, ids=[*["nobody"] * 9, "row-21", " row-21 ", "row-22"]).slice(9)
    deltalake.write_deltalake(lake.name, again, mode="append")
    refused(lake, r"at version 2 2 ids have several rows that count \('row-21', 'row-22'\)")


def test_histories_that_no_feed_can_go_on_from_are_refused(tmp_path: Path) -> None:
    name = str(tmp_path / "table")
    for _ in range(2):
        deltalake.write_deltalake(name, table_of(20), mode="append", configuration=FEED)
    history = compute_history(name, COLUMNS, Computing(last_by="time"))
    for found, match in (
        (history, "several rows"),
        (replace(history, facts={**history.facts, "version": None}), "no versions"),
    ):
        broker = EmbeddedBroker(1)
        source = HistorySource(DEFINITION, PAST, found, "0")
        source.publish(BrokerLog(broker))
        with pytest.raises(DefinitionError, match=match):
            TableFollower(source, ChangeFeed(name, COLUMNS), BrokerLog(broker))


def test_a_history_that_was_not_published_is_not_followed(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.broker = EmbeddedBroker(1)
    with pytest.raises(HistoryRefused, match="publish it"):
        lake.follower()


def test_open_classes_and_nested_windows_follow_as_well(tmp_path: Path) -> None:
    tables = {**TABLES, "window": {"length": ["10", "all"]}, "classes": {}}
    columns = ColumnsOfTable(StreamDefinition.from_tables(tables), INPUT)
    lake = Lake(tmp_path / "table", columns)
    lake.table.update({"target": "'new'"}, predicate="id = 'row-6'")
    lake.follow()
    partial = compute_history(lake.name, columns, Computing(version=1)).partial
    state = lake.log().state(PAST)
    assert state.statistics == partial.in_windows(columns.definition)
    assert state.labels[-1] == "new"
