"""A schema registry behind TLS that wants a login: the client's properties open it, and no message tells a secret."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from deltaplane_services.definition_file.intake_table import FormDefinition
from deltaplane_services.definition_file.knobs import Knobs
from deltaplane_services.intake.formats import decoder_of
from deltaplane_services.intake.formats.change import Change, RegistryUnavailable
from deltaplane_services.kafka.clients import registry_properties
from kafka.secure import certified

LOGIN = "shop:swordfish"
SCHEMA = {"type": "record", "name": "Payment", "fields": [{"name": "amount", "type": "long"}]}
RECORD = b"\0\0\0\0\x09\x0e"


class Answers(BaseHTTPRequestHandler):
    """What a registry answers who asks for the schema 9, if the login is right."""

    def do_GET(self) -> None:
        right = self.headers["Authorization"] == f"Basic {base64.b64encode(LOGIN.encode()).decode()}"
        answer = {"schema": json.dumps(SCHEMA)} if right else {"error_code": 40101, "message": "who are you?"}
        body = json.dumps(answer).encode()
        self.send_response(200 if right else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """(the port of a registry that speaks TLS alone, its certificate)."""
    directory = tmp_path_factory.mktemp("registry")
    store, certificate = certified(directory, "password")
    key, own, _ = pkcs12.load_key_and_certificates(store.read_bytes(), b"password")
    assert key is not None
    assert own is not None
    both = directory / "both.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    both.write_bytes(private + own.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, certificate
    server.shutdown()
    server.server_close()


def said(tmp_path: Path, lines: list[str], registry: str = "") -> str:
    """What an intake says of a registry with these properties that does not let it in."""
    with pytest.raises(RegistryUnavailable) as told:
        reads(tmp_path, lines, registry)
    return str(told.value)


def reads(tmp_path: Path, lines: list[str], registry: str = "") -> Change | None:
    """What is read of the record with the properties in a file, as an intake takes them."""
    file = tmp_path / "registry.toml"
    file.write_text("\n".join(lines))
    knobs = Knobs(registry=registry, registry_properties=str(file))
    return decoder_of(FormDefinition("confluent-avro"), registry_properties(knobs))(None, RECORD)


def test_a_registry_with_tls_and_a_login_is_asked_with_the_properties_of_the_file(
    served: tuple[int, Path], tmp_path: Path
) -> None:
    port, certificate = served
    login, trusted = f"'basic.auth.user.info' = '{LOGIN}'", f"'ssl.ca.location' = '{certificate}'"
    address = f"https://127.0.0.1:{port}"
    assert reads(tmp_path, [login, trusted], address) == Change({"amount": 7})
    assert reads(tmp_path, [trusted, f"url = 'https://{LOGIN}@127.0.0.1:{port}'"]) == Change({"amount": 7})


def test_an_intake_that_is_not_let_in_waits_and_says_why_without_the_secret(
    served: tuple[int, Path], tmp_path: Path
) -> None:
    port, certificate = served
    trusted, address = f"'ssl.ca.location' = '{certificate}'", f"https://127.0.0.1:{port}"
    assert "certificate" in said(tmp_path, [f"'basic.auth.user.info' = '{LOGIN}'"], address).lower()
    wrong = said(tmp_path, [trusted, "'basic.auth.user.info' = 'shop:secret-17'"], address)
    assert "who are you?" in wrong
    within = said(tmp_path, [trusted, f"url = 'https://shop:secret-17@127.0.0.1:{port}'"])
    assert f"schema registry {address}: " in within
    assert "secret-17" not in wrong + within
    away = said(tmp_path, ["url = 'http://shop:secret-17@127.0.0.1:1'"])
    assert "schema registry http://127.0.0.1:1: " in away
    assert "secret-17" not in away
