"""Ask every service at once what it knows: ``/metrics`` and, for the words, ``/readyz``.

Each answer is taken apart by Prometheus's own parser. Whoever does not answer, not in time, too much, or something else
than metrics is a :class:`Silence` with the reason. A host name that stands for several machines (a scaled service of
containers) is asked at each of its addresses; taken as one, it would show now this process and now that.
"""

from __future__ import annotations

import http.client
import math
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from deltaplane.errors import DefinitionError
from deltaplane_services.observe.metrics import metric_names
from deltaplane_services.observe.metrics.metric import Metric
from deltaplane_services.system.printable import plain

__all__ = [
    "MOST_BYTES",
    "MOST_THREADS",
    "MOST_WORDS",
    "OURS",
    "TIMEOUT_SECONDS",
    "Address",
    "Gatherer",
    "Gathering",
    "Scrape",
    "Series",
    "Silence",
    "parse",
    "read_metrics",
]

TIMEOUT_SECONDS = 2.0
"""How long a service may take to answer before it counts as silent."""

MOST_BYTES = 16 * 2**20
"""The largest answer that is read; that of a service with all its series is a hundredth of this."""

MOST_THREADS = 32
MOST_WORDS = 500
"""Characters of ``/readyz`` that are kept."""

OURS = tuple(value for value in vars(metric_names).values() if isinstance(value, Metric))
"""Every metric that a service of this version may have."""

Series = tuple[Mapping[str, str], float]


@dataclass(frozen=True, order=True)
class Address:
    """Where a service may be asked: a host name or address, and a port."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Self:
        """``HOST:PORT``, an IPv6 address in brackets. Raises :class:`DefinitionError`."""
        host, colon, port = text.strip().rpartition(":")
        inside = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        is_host = bool(inside) and not set(inside) & set("/[]@ ") and (":" not in inside or inside != host)
        if not (colon and is_host and re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65_536):
            raise DefinitionError(f"--at: expected HOST:PORT such as 127.0.0.1:9108, got {text[:100]!r}")
        return cls(inside, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Scrape:
    """What one service said. ``asked_at`` is monotonic, in seconds; ``ready`` and ``why`` are what ``/readyz`` says."""

    asked_at: float
    series: Mapping[str, Sequence[Series]]
    ready: bool
    why: str

    @property
    def identity(self) -> Mapping[str, str]:
        """Labels stream, role and version of what runs there."""
        return self.series[metric_names.BUILD.name][0][0]

    def of(self, name: str) -> Sequence[Series]:
        """Labels and values of the series of this name."""
        return self.series.get(name, ())

    def value(self, name: str, **labels: str) -> float | None:
        """The value of the one series of this name with these labels, or None if there is none."""
        for found, value in self.of(name):
            if all(found.get(label) == wanted for label, wanted in labels.items()):
                return value
        return None

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Value by one label, among the series with these other labels."""
        return {
            found[label]: value
            for found, value in self.of(name)
            if label in found and all(found.get(other) == wanted for other, wanted in labels.items())
        }


@dataclass(frozen=True)
class Silence:
    """Why there is no answer of a service at an address. ``stranger``: something answers that is no service."""

    why: str
    stranger: bool = False


@dataclass(frozen=True)
class Gathering:
    """One round of asking. ``at`` is the time of day, in seconds since 1970; ``asked_at`` is monotonic.

    ``shown`` is what each address is called: as it was given, and with the machine if it stands for several.
    """

    at: float
    asked_at: float
    answers: Mapping[Address, Scrape | Silence]
    shown: Mapping[Address, str]


class Gatherer:
    """Asks the same places again and again. Machines that a name once had are asked on: a dead one must not vanish.

    ``looks_around``: nobody has named the places, and one where nothing has ever answered is no service that is away.
    """

    def __init__(
        self, places: Iterable[Address], timeout_seconds: float = TIMEOUT_SECONDS, *, looks_around: bool = False
    ) -> None:
        self._places = tuple(dict.fromkeys(places))
        self._looks_around = looks_around
        self._heard: set[Address] = set()
        self._timeout = timeout_seconds
        self._machines: dict[Address, Address] = {}

    def gather(self) -> Gathering:
        """Ask everybody, all at once."""
        at, asked_at = time.time(), time.monotonic()
        with ThreadPoolExecutor(MOST_THREADS) as threads:
            nameless: dict[Address, Scrape | Silence] = {}
            for place, found in zip(self._places, threads.map(_machines, self._places), strict=True):
                for machine in found if isinstance(found, list) else ():
                    self._machines.setdefault(machine, place)
                if isinstance(found, Silence) and place not in self._machines.values():
                    nameless[place] = found
            answers = dict(zip(self._machines, threads.map(self._ask, self._machines), strict=True))
        if self._looks_around:
            answers = self._of_those_heard(answers)
        several = {place for place, count in Counter(self._machines.values()).items() if count > 1}
        shown = {
            machine: f"{place} at {machine.host}" if place in several else str(place)
            for machine, place in self._machines.items()
        }
        return Gathering(at, asked_at, {**answers, **nameless}, {**shown, **{place: str(place) for place in nameless}})

    def _of_those_heard(self, answers: Mapping[Address, Scrape | Silence]) -> dict[Address, Scrape | Silence]:
        """The answers of those that have ever answered; of the first place alone while nobody has."""
        self._heard |= {address for address, answer in answers.items() if isinstance(answer, Scrape)}
        return {address: answers[address] for address in answers if address in (self._heard or list(answers)[:1])}

    def _ask(self, address: Address) -> Scrape | Silence:
        try:
            status, text = self._get(address, "/metrics")
            asked_at = time.monotonic()
            if status != http.HTTPStatus.OK:
                return Silence(f"/metrics answers {status}", stranger=True)
            series = read_metrics(text)
            if isinstance(series, Silence):
                return series
            status, why = self._get(address, "/readyz")
        except (OSError, http.client.HTTPException) as fault:
            return Silence(_reason(fault, self._timeout))
        except ValueError as fault:
            return Silence(f"its answer is not metrics: {str(fault)[:100]}", stranger=True)
        return Scrape(asked_at, series, status == http.HTTPStatus.OK, plain(why.strip()[:MOST_WORDS]))

    def _get(self, address: Address, path: str) -> tuple[int, str]:
        """Status and body. Raises OSError, HTTPException, ValueError (too much, or no text)."""
        until = time.monotonic() + self._timeout
        connection = http.client.HTTPConnection(address.host, address.port, timeout=self._timeout)
        try:
            connection.request("GET", path, headers={"Accept": "text/plain"})
            answer = connection.getresponse()
            body = bytearray()
            while chunk := answer.read1(65_536):
                body += chunk
                if len(body) > MOST_BYTES:
                    raise ValueError(f"more than {MOST_BYTES:,} bytes")
                if time.monotonic() > until:
                    raise TimeoutError
            return answer.status, body.decode()
        finally:
            connection.close()


def parse(text: str) -> dict[str, list[Series]]:
    """Name to the series of an exposition in Prometheus's text format. Raises ValueError.

    A value that is no number, or infinite, says that nothing is known: its series is left out.
    """
    found: dict[str, list[Series]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {name: plain(value) for name, value in sample.labels.items()}
            # A whole number may have hundreds of digits, and is then beyond any float.
            if abs(sample.value) <= sys.float_info.max:
                found.setdefault(sample.name, []).append((labels, float(sample.value)))
    return found


def read_metrics(text: str) -> dict[str, list[Series]] | Silence:
    """As :func:`parse`, or why this is no page of a service of ours. Raises ValueError if it is none at all."""
    series = parse(text)
    if metric_names.BUILD.name not in series:
        return Silence("its metrics are not Deltaplane's", stranger=True)
    for metric in OURS:
        for ending in ("", "_sum", "_count", "_bucket"):
            wanted = {"stream", *metric.labels, *(("le",) if ending == "_bucket" else ())}
            for labels, _ in series.get(metric.name + ending, ()):
                if labels.keys() != wanted or not _is_number(labels.get("le", "0")):
                    return Silence(f"its {metric.name} has not the labels of this version", stranger=True)
    return series


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _machines(place: Address) -> list[Address] | Silence:
    """The addresses that a name stands for."""
    try:
        found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as fault:
        return Silence(f"the name is not known: {getattr(fault, 'strerror', None) or fault}".lower())
    # A machine that has addresses of both kinds is one service, not two.
    families = {family for family, *_ in found}
    chosen = socket.AF_INET if socket.AF_INET in families else min(families)
    hosts = sorted({str(where[0]) for family, _, _, _, where in found if family == chosen})
    return [Address(host, place.port) for host in hosts]


def _reason(fault: Exception, timeout_seconds: float) -> str:
    if isinstance(fault, TimeoutError):
        return f"no answer within {timeout_seconds:g} s"
    if isinstance(fault, ConnectionRefusedError):
        return "connection refused"
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror.lower()
    return str(fault)[:100] or type(fault).__name__
