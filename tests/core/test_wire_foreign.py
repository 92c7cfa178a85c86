"""What is said of bytes that are no message of ours: the person who sent them finds out what they sent."""

from __future__ import annotations

import base64
import gzip
import io
import json

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltaplane_schemas
from deltaplane.errors import WireError
from deltaplane.stream.sample import Retirement
from deltaplane.wire import read_samples, write_retirement, write_sample
from deltaplane.wire.foreign import what_came

FINGERPRINT = bytes(range(16))
SAMPLE = write_sample("a", 1, "yes", [1.0, 2.0], FINGERPRINT)
GLUE = b"\x03\0" + bytes.fromhex("b7b4a7f09c964e4aa687fb5de9ef0c63") + SAMPLE[10:]


def container() -> bytes:
    """An Avro object container file with one sample."""
    out = io.BytesIO()
    fields = {"fingerprint": FINGERPRINT, "id": "a", "event_time": 1, "label": "yes", "features": [1.0]}
    fastavro.writer(out, deltaplane_schemas.load("sample"), [fields])
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (json.dumps({"id": "a", "x": 1.5}).encode(), "got JSON ("),
        (json.dumps([{"id": "a"}]).encode(), "got JSON ("),
        (b'\xef\xbb\xbf  {"id": "a"}', "got JSON ("),
        (json.dumps({"text": "ä" * 9000}, ensure_ascii=False).encode(), "got JSON ("),
        (json.dumps(json.dumps({"id": "a"})).encode(), "got JSON within a JSON text ("),
        (b"\0\0\0\0\x2a" + b'{"id": "a"}', "got Confluent schema registry framing (00, schema id 42)"),
        (b"\0\0\0\0\x2a\x02\x61\x06", "got Confluent schema registry framing (00, schema id 42)"),
        (b"\0\0\0\0\x2a" + SAMPLE[10:], "got a sample in Confluent schema registry framing (00, schema id 42)"),
        (b"\0\0\0\0\0\0\0\0\x07\x02\x61\x06", "got perhaps Apicurio registry framing (00, id 7)"),
        (GLUE, "got AWS Glue schema registry framing (schema b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63)"),
        (container(), "got an Avro object container file ("),
        (b"a,1.5,2.5,yes\n", "got plain text with commas, perhaps a line of CSV ("),
        (b"a;1,5;2,5;yes", "perhaps a line of CSV ("),
        (b"a\t1.5\t2.5", "got plain text with tabs"),
        (b"hello", "got plain text (5 bytes)"),
        (b"<row><id>a</id></row>", "got XML or another markup ("),
        (b"", "got an empty value; publish the record itself"),
        (None, "got a null value (a tombstone); publish the record itself"),
        (write_retirement(Retirement("a", "b", 0), FINGERPRINT), "got retirement; it was published to the wrong topic"),
        (SAMPLE[10:], "got perhaps a sample without its header ("),
        (base64.b64encode(SAMPLE), "got a message of ours written as base64 ("),
        (SAMPLE.hex().encode(), "got a message of ours written in hexadecimal ("),
        (gzip.compress(SAMPLE, mtime=0), "got bytes packed by gzip ("),
        (bytes.fromhex("80049516000000000000007d94288c0269"), "got a pickle of Python ("),
        (bytes.fromhex("0a0161 11000000000000f83f 1a03796573"), "got perhaps Protocol Buffers ("),
        (bytes.fromhex("ff00fe01fd02fc03"), "got 8 bytes beginning ff00fe01fd02fc03"),
        (b"\xc3\x01" + bytes(8) + b"abc", "the mark of a schema that this version does not have"),
    ],
)
def test_a_record_of_another_kind_is_said_to_be_that(data: bytes | None, words: str) -> None:
    with pytest.raises(WireError) as refused:
        read_samples(data, 2, FINGERPRINT, 0, 0)
    assert words in str(refused.value)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_whatever_comes_is_said_in_few_words_of_one_line(data: bytes) -> None:
    came, cure = what_came(data)
    assert came.isprintable()
    assert cure.isprintable()
    assert len(came) < 200


@pytest.mark.parametrize("begins", [b"{", b'"', b"a,", b"\x0a\x01", b"\0\0\0\0\x01", b"\x80\x04\x95"])
def test_no_value_of_a_row_is_repeated(begins: bytes) -> None:
    came, cure = what_came(begins + b"4111-1111-1111-1111 secret")
    assert "4111" not in came + cure
    assert "secret" not in came + cure


@pytest.mark.parametrize("rows", [1, 1000])
def test_rows_of_floats_are_not_taken_for_anything_that_begins_likewise(rows: int) -> None:
    values = np.random.default_rng(7).normal(size=rows).tobytes()
    assert what_came(values)[0].startswith(("perhaps", f"{len(values):,} bytes beginning"))
