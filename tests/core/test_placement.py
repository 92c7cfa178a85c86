"""Placement: each id has the partition that Kafka's own clients give to their keys."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from deltaplane import limits
from deltaplane.stream.placement import PARTITIONERS, murmur2, murmur2_each, partition_of, partitions_of

PARTITIONS = [1, 7, 17, 1024]

KAFKA = [
    # The expectations of the tests of Kafka's own hash (org.apache.kafka.common.utils.Utils) and of librdkafka's.
    ("21", -973932308),
    ("foobar", -790332482),
    ("a-little-bit-long-string", -985981536),
    ("a-little-bit-longer-string", -1486304829),
    ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ("abc", 479470107),
    ("", 0x106E08D9),
]

CONSISTENT = [
    # The expectations of librdkafka's own test of its partitioner "consistent".
    ("", 0x0),
    ("23456", 0xB1B451D7),
    ("this is another string with more length to it perhaps", 0xB0150DF7),
    ("hejsan", 0xD077037E),
    # The check value of CRC-32.
    ("123456789", 0xCBF43926),
]


@pytest.mark.parametrize(("text", "code"), KAFKA)
def test_a_text_has_the_hash_that_kafka_expects(text: str, code: int) -> None:
    assert murmur2(text.encode()) == code % 2**32
    assert murmur2_each([text] * 40).tolist() == [code % 2**32] * 40


@pytest.mark.parametrize(("text", "code"), KAFKA)
@pytest.mark.parametrize("partitions", PARTITIONS)
def test_an_id_goes_where_kafkas_default_sends_its_key(text: str, code: int, partitions: int) -> None:
    assert partition_of(text, partitions) == (code & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize(("text", "code"), CONSISTENT)
@pytest.mark.parametrize("partitions", PARTITIONS)
def test_an_id_of_an_earlier_stream_goes_where_librdkafka_sends_its_key(text: str, code: int, partitions: int) -> None:
    assert partition_of(text, partitions, "crc32") == code % partitions


@given(strategies.IDS, st.integers(1, limits.PARTITIONS))
def test_by_the_earlier_rule_a_partition_is_the_checksum_of_the_bytes_of_the_id(text: str, partitions: int) -> None:
    assert partition_of(text, partitions, "crc32") == zlib.crc32(text.encode("utf-8")) % partitions


@given(
    st.lists(st.one_of(strategies.IDS, st.text(max_size=70), st.just(""), st.just("x" * 2000)), max_size=60),
    st.integers(1, limits.PARTITIONS),
    st.sampled_from(PARTITIONERS),
)
def test_many_ids_have_the_partitions_that_each_has_alone(ids: list[str], partitions: int, partitioner: str) -> None:
    rule = next(one for one in PARTITIONERS if one == partitioner)
    found = partitions_of(ids, partitions, rule)
    assert found.tolist() == [partition_of(one, partitions, rule) for one in ids]
    assert found.dtype == "int64"


@pytest.mark.parametrize("length", range(14))
def test_ids_of_every_length_and_alphabet_are_hashed_together_as_alone(length: int) -> None:
    texts = [alphabet * length + str(at) for at in range(20) for alphabet in ("a", "é", "€", "😀", "\0")]
    assert murmur2_each(texts).tolist() == [murmur2(text.encode()) for text in texts]
