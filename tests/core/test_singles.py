"""Single samples by position: what is taken reads as the general decoder reads it, and all else is left to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from deltaplane.errors import WireError
from deltaplane.stream.sample import Samples
from deltaplane.wire import read_samples, single_samples, write_sample
from deltaplane.wire.frame import write_record

FINGERPRINT = bytes(range(16))
SHORT_BYTES = 63
Sample = tuple[str, int, str, list[float]]


def samples() -> st.SearchStrategy[Sample]:
    texts, features = st.text(max_size=80), st.lists(strategies.ANY_FLOAT, min_size=3, max_size=3)
    return st.tuples(texts, strategies.LONG, texts, features)


def same(one: Samples, other: Samples) -> bool:
    """Whether two batches are the same, bit for bit."""

    def plain(samples: Samples) -> list[object]:
        values = (getattr(samples, field.name) for field in dataclasses.fields(samples))
        return [(v.dtype, v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values]

    return plain(one) == plain(other)


def general(sample: Sample) -> bytes:
    names = ("id", "event_time", "label", "features")
    return write_record("sample", {"fingerprint": FINGERPRINT, **dict(zip(names, sample, strict=True))})


@given(samples())
def test_a_sample_is_written_as_the_general_encoder_writes_it(sample: Sample) -> None:
    assert write_sample(*sample, FINGERPRINT) == general(sample)


@given(samples())
def test_a_sample_with_a_short_id_and_label_is_taken_and_reads_the_same(sample: Sample) -> None:
    message, gathered = write_sample(*sample, FINGERPRINT), single_samples(3, FINGERPRINT)
    short = max(len(sample[0].encode()), len(sample[2].encode())) <= SHORT_BYTES
    assert gathered.take(message, 7, 8) == short
    if short:
        assert same(gathered.samples(), read_samples(message, 3, FINGERPRINT, 7, 8))


@given(sample=samples(), at=st.integers(0, 200), bytes_put=st.binary(min_size=1, max_size=4), cut=st.booleans())
def test_a_damaged_sample_is_taken_only_where_the_general_decoder_reads_the_same(
    sample: Sample, at: int, bytes_put: bytes, *, cut: bool
) -> None:
    message = write_sample(*sample, FINGERPRINT)
    damaged = message[:at] + (b"" if cut else bytes_put) + message[at + len(bytes_put) :]
    gathered = single_samples(3, FINGERPRINT)
    if gathered.take(damaged, 0, 0):
        assert same(gathered.samples(), read_samples(damaged, 3, FINGERPRINT, 0, 0))


@given(st.lists(samples().filter(lambda s: len(s[0]) < 9 and len(s[2]) < 9), min_size=1, max_size=9))
def test_many_messages_become_one_batch_in_their_order(sent: Sequence[Sample]) -> None:
    gathered = single_samples(3, FINGERPRINT)
    for offset, sample in enumerate(sent):
        assert gathered.take(write_sample(*sample, FINGERPRINT), offset, 10 * offset)
    batch = gathered.samples()
    assert list(batch.ids) == [sample[0] for sample in sent]
    assert [batch.label_table[code] for code in batch.label_codes.tolist()] == [sample[2] for sample in sent]
    assert batch.event_times.tolist() == [sample[1] for sample in sent]
    assert batch.features.tobytes() == np.array([sample[3] for sample in sent]).tobytes()
    assert batch.offsets.tolist() == list(range(len(sent)))
    assert batch.log_times.tolist() == [10 * offset for offset in range(len(sent))]
    assert not len(gathered)


@pytest.mark.parametrize("other", [None, b"", b"\xc3\x01", write_sample("a", 1, "x", [1.0], FINGERPRINT)])
def test_what_is_no_sample_of_the_stream_is_left_alone(other: bytes | None) -> None:
    gathered = single_samples(3, FINGERPRINT)
    assert not gathered.take(other, 0, 0)
    assert not len(gathered)


@pytest.mark.parametrize(
    "wrong",
    [("a", 2**63, "x", [1.0]), ("a", 1, "x", ["one"]), (5, 1, "x", [1.0]), ("\ud800", 1, "x", [1.0])],
)
def test_a_sample_that_does_not_fit_its_schema_is_refused(wrong: tuple[str, int, str, list[float]]) -> None:
    with pytest.raises(WireError, match="sample: expected values that its schema can hold"):
        write_sample(*wrong, FINGERPRINT)
