"""A broker whose certificate is refused: the message says whether it expired, is for another host, or is unknown."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafka.conftest import StartKafka
from kafka.secure import certified
from kafka.services import Stream

PASSWORD = secrets.token_hex(16)


@dataclass(frozen=True)
class Certificate:
    """What a certificate is for, from when on and for how many days, what is said of it, and whether it is trusted."""

    name: str
    begins: str
    days: int
    said: str
    trusted: bool = True


CERTIFICATES = {
    "expired": Certificate("ip:127.0.0.1", "-10d", 5, "has expired: renew it on the broker"),
    "other host": Certificate("dns:kafka.example", "-1d", 5, "is for another host (IP address mismatch"),
    "unknown": Certificate("ip:127.0.0.1", "-1d", 5, "nobody whom this client trusts vouches for the", trusted=False),
}


@pytest.mark.parametrize("fault", CERTIFICATES)
def test_each_fault_of_a_certificate_is_told_from_the_others(
    start_kafka: StartKafka, tmp_path: Path, stream_name: str, fault: str
) -> None:
    case = CERTIFICATES[fault]
    store, certificate = certified(tmp_path, PASSWORD, case.name, case.begins, case.days)
    if not case.trusted:
        (tmp_path / "stranger").mkdir()
        _, certificate = certified(tmp_path / "stranger", PASSWORD)
    client = "listener.name.client"
    properties = {
        f"{client}.ssl.keystore.location": str(store),
        f"{client}.ssl.keystore.password": PASSWORD,
        f"{client}.ssl.keystore.type": "PKCS12",
    }
    cluster = start_kafka(client_protocol="SSL", properties=properties)
    tables = {"kafka": {"security.protocol": "SSL", "ssl.ca.location": str(certificate)}}
    with Stream.of(tmp_path, stream_name, cluster.bootstrap, **tables) as stream:
        for arguments in (("worker",), ("topics", "create")):
            said = stream.run(*arguments, code=2).stderr
            assert "Traceback" not in said
            assert [name for name, one in CERTIFICATES.items() if one.said in said] == [fault], said
