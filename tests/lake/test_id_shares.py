"""Rows that do not count are told bucket by bucket as they are told from all rows at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaplane.stream.sample import Samples, admit
from deltaplane_services.lake import id_shares
from deltaplane_services.lake.id_shares import Share, Shares, bucket_of, losers_of_bucket
from deltaplane_services.lake.last_versions import LastBy, Versions, losers_of
from lake_tables import DEFINITION

IDS = ["a", "b", "a\0b", "", "\ud800", "ü", "row-17"]
PORTIONS = st.lists(st.lists(st.tuples(st.sampled_from(IDS[:3] + IDS[4:]), st.integers(0, 3)), max_size=12), max_size=4)


def shares_of(portion: Sequence[tuple[str, int]], buckets: int) -> list[tuple[int, Share]]:
    """The shares of rows (id, time), passed on whenever they are full."""
    shares, found = Shares(buckets), list[tuple[int, Share]]()
    for begin in range(0, len(portion), 2):
        rows = portion[begin : begin + 2]
        times = np.array([time for _, time in rows], dtype=np.int64)
        codes, features = np.zeros(len(rows), dtype=np.int32), np.zeros((len(rows), 2))
        samples = Samples.of_record([sample_id for sample_id, _ in rows], 0, ("UP",), codes, features)
        admitted, refused = admit(samples, DEFINITION)
        assert not refused
        admitted.event_times[:] = times
        shares.add(admitted)
        if shares.full:
            found += shares.take()
    return [*found, *shares.take()]


@pytest.mark.parametrize("last_by", ["place", "time"])
@given(portions=PORTIONS, retired=st.frozensets(st.sampled_from(IDS)), buckets=st.integers(1, 3))
def test_buckets_lose_the_rows_that_all_together_lose(
    portions: list[list[tuple[str, int]]], retired: frozenset[str], buckets: int, last_by: LastBy
) -> None:
    by_bucket: dict[int, list[tuple[int, Share]]] = {}
    for number, portion in enumerate(portions):
        for bucket, share in shares_of(portion, buckets):
            by_bucket.setdefault(bucket, []).append((number, share))
    found, gone = dict[int, tuple[set[int], set[int]]](), set[str]()
    for bucket, shares in by_bucket.items():
        of_bucket = frozenset(one for one in retired if bucket_of(one, buckets) == bucket)
        # They come in the order in which tasks end.
        losers, ids = losers_of_bucket(shares[::-1], of_bucket, last_by)
        gone |= ids
        for number, of_portion in losers.items():
            for kept, ordinals in zip(found.setdefault(number, (set(), set())), of_portion, strict=True):
                assert kept.isdisjoint(ordinals.tolist())
                assert sorted(ordinals.tolist()) == ordinals.tolist()
                kept.update(ordinals.tolist())
    every = {number: versions_of(portion) for number, portion in enumerate(portions)}
    expected = losers_of(every, retired, last_by)
    assert found == {number: tuple(set(one.tolist()) for one in losers) for number, losers in expected.items()}
    assert gone == {sample_id for portion in portions for sample_id, _ in portion} & retired


def versions_of(portion: Sequence[tuple[str, int]]) -> Versions:
    ids, times = [sample_id for sample_id, _ in portion], [time for _, time in portion]
    return Versions(np.arange(len(portion)), ids, np.array(times, dtype=np.int64))


@pytest.mark.parametrize("limit", ["_ROWS_AT_ONCE", "_BYTES_AT_ONCE"])
def test_shares_are_passed_on_before_a_portion_is_over(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    portion = [(f"row-{number}", number) for number in range(10)]
    assert len(shares_of(portion, 1)) == 1
    monkeypatch.setattr(id_shares, limit, 3)
    shares = [share for _, share in shares_of(portion, 1)]
    assert len(shares) > 2
    assert [one.decode() for share in shares for one in share.each_id()] == [sample_id for sample_id, _ in portion]
    assert np.concatenate([np.frombuffer(share.ordinals, dtype=np.int64) for share in shares]).tolist() == [*range(10)]
    assert np.concatenate([np.frombuffer(share.times, dtype=np.int64) for share in shares]).tolist() == [*range(10)]


def test_a_bucket_does_not_depend_on_the_process() -> None:
    assert [bucket_of(sample_id, 1000) for sample_id in IDS] == [907, 681, 721, 0, 600, 789, 118]
