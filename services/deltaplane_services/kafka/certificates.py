"""The reason why a broker's certificate was refused: it is expired, for another host, or not vouched for.

librdkafka has one message for all three, that the certificate could not be verified. So the broker that it names is
asked for its certificate once more, by Python's own TLS, which tells them apart. Nothing else is sent to it.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from typing import Any

__all__ = ["ANSWER_SECONDS", "with_cause"]

ANSWER_SECONDS = 2.0

_SERVER = re.compile(r"ssl://(\[[0-9a-fA-F:.]+\]|[^/:\s]+):([0-9]{1,5})/")
_REFUSED = "certificate verify failed"
_EXPIRED, _NOT_YET_VALID = 10, 9
_OTHER_HOST = frozenset({62, 64})
_NOT_VOUCHED_FOR = frozenset({2, 18, 19, 20, 21, 24, 27})
"""OpenSSL's numbers of these errors (X509_V_ERR_…)."""

_ALERTS = {
    "alert certificate expired": "this client's own certificate (ssl.certificate.location) has expired: renew it",
    "alert unknown ca": "the broker does not know who vouches for this client's own certificate"
    " (ssl.certificate.location): have it signed by one that the broker trusts",
    "alert bad certificate": "the broker refuses this client's own certificate (ssl.certificate.location)",
    "alert certificate required": "the broker asks for a certificate of this client: set ssl.certificate.location and"
    " ssl.key.location",
}


def with_cause(said: str, properties: Mapping[str, Any]) -> str:
    """The message ``said`` by librdkafka; if it is about a certificate, followed by what is wrong and what to do.

    To find that out, a connection to the broker in the message is opened, for at most :data:`ANSWER_SECONDS`.
    """
    for alert, cause in _ALERTS.items():
        if alert in said:
            return f"{said}; {cause}"
    server = _SERVER.search(said)
    if _REFUSED not in said or server is None:
        return said
    cause = _cause(server[1].strip("[]"), int(server[2]), properties)
    return f"{said}; {cause}" if cause else said


def _cause(host: str, port: int, properties: Mapping[str, Any]) -> str:
    """What is wrong with the certificate of a broker, and what to do; empty if that cannot be found out."""
    try:
        context = _context(properties)
        with (
            socket.create_connection((host, port), timeout=ANSWER_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return ""
    except ssl.SSLCertVerificationError as fault:
        return _words(fault, f"{host}:{port}")
    except (OSError, ValueError):
        return ""


def _context(properties: Mapping[str, Any]) -> ssl.SSLContext:
    """The authorities that this client trusts, as a context of Python's TLS."""
    location, text = properties.get("ssl.ca.location"), properties.get("ssl.ca.pem")
    context = ssl.create_default_context()
    if location and location != "probe":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cafile=str(location))
        except OSError:
            context.load_verify_locations(capath=str(location))
    elif text:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=str(text))
    if properties.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    return context


def _words(fault: ssl.SSLCertVerificationError, server: str) -> str:
    code, message = fault.verify_code, fault.verify_message
    if code == _EXPIRED:
        return f"the certificate of {server} has expired: renew it on the broker, or set the clock of this machine"
    if code == _NOT_YET_VALID:
        return f"the certificate of {server} is not valid yet: set the clock of this machine, or that of who made it"
    if code in _OTHER_HOST:
        return (
            f"the certificate of {server} is for another host ({message}): reach the broker by a name that is in it"
            " (--broker, and advertised.listeners on the broker), or have it made for this one"
        )
    if code in _NOT_VOUCHED_FOR:
        return (
            f"nobody whom this client trusts vouches for the certificate of {server} ({message}): give the authority"
            " that signed it as ssl.ca.location"
        )
    return f"the certificate of {server} is refused: {message}"
