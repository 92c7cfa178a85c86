"""A real Prometheus for the tests: started on a free port, asked over HTTP, and ended."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from dashboards.distribution import tools

TOP = Path(__file__).resolve().parents[2]
DEPLOY = TOP / "deploy"
PATIENCE_SECONDS = 180.0
"""How long a test waits for what must come. Nothing is judged by how soon it does."""


class Prometheus:
    """A running server."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.url = url
        self._process = process
        self._log = log

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of one answer of the API. Raises AssertionError with what Prometheus said."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own server.
                return json.load(answer)["data"]
        except urllib.error.HTTPError as fault:
            raise AssertionError(f"{path} {parameters}: {fault.read().decode()}") from None

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the series of an instant query, sorted labels to value."""
        data = self.ask("query", query=expression)
        assert data["resultType"] == "vector", f"{expression}: expected series, got a {data['resultType']}"
        return {tuple(sorted(series["metric"].items())): float(series["value"][1]) for series in data["result"]}

    def value(self, expression: str) -> float | None:
        """Return the value of a query of at most one series."""
        found = list(self.query(expression).values())
        assert len(found) <= 1, f"{expression}: expected one series, got {len(found)}"
        return found[0] if found else None

    def finite(self, expression: str) -> list[float]:
        """Return the values of a query that are numbers."""
        return [value for value in self.query(expression).values() if math.isfinite(value)]

    def alerts(self, name: str) -> list[dict[str, Any]]:
        """Return the alerts of a name that fire now."""
        found = self.ask("alerts")["alerts"]
        return [alert for alert in found if alert["labels"]["alertname"] == name and alert["state"] == "firing"]

    def wait_for(self, what: str, answered: Callable[[], bool]) -> None:
        """Return once it is so."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not answered():
            assert self._process.poll() is None, f"Prometheus ended; it said:\n{self._log.read_text('utf-8')}"
            assert time.monotonic() < until, f"waited {PATIENCE_SECONDS:.0f} s for {what}"
            time.sleep(0.1)


@contextlib.contextmanager
def running(
    directory: Path, targets: Sequence[str], alerts: Path = DEPLOY / "alerts.yml", pace: str = "1s"
) -> Iterator[Prometheus]:
    """Run the project's own configuration, but for the targets, the paths, and the pace of scrapes and rules."""
    yaml = YAML(typ="safe", pure=True)
    settings: dict[str, Any] = yaml.load(DEPLOY / "prometheus.yml")
    settings["global"] |= {"scrape_interval": pace, "evaluation_interval": pace}
    settings["rule_files"] = [str(alerts)]
    for job in settings["scrape_configs"]:
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": list(targets)}]
    file, log = directory / "prometheus.yml", directory / "prometheus.log"
    yaml.dump(settings, file)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [tools().prometheus, f"--config.file={file}", f"--storage.tsdb.path={directory / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=directory)
    prometheus = Prometheus(f"http://127.0.0.1:{port}", process, log)
    try:
        prometheus.wait_for("Prometheus", lambda: _is_ready(prometheus.url))
        yield prometheus
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:  # noqa: S310 - the same.
            return bool(answer.status == 200)
    except OSError:
        return False


def promtool(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool; its verdict is the return code."""
    return subprocess.run([tools().promtool, *arguments], input=text, capture_output=True, text=True, check=False)


# Dashboards ----------------------------------------------------------------------------------------------------------


def boards() -> dict[str, dict[str, Any]]:
    """Return every dashboard, by the name of its file."""
    return {file.stem: json.loads(file.read_text("utf-8")) for file in sorted(DEPLOY.glob("grafana/dashboards/*.json"))}


def panels(board: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a dashboard that show something."""
    found = []
    for panel in board["panels"]:
        found += [panel, *panel.get("panels", ())]
    return [panel for panel in found if panel["type"] != "row"]


def expressions() -> dict[tuple[str, str, str], str]:
    """Return the queries of all panels by (dashboard, title, number), as they are written."""
    return {
        (name, panel["title"], target["refId"]): target["expr"]
        for name, board in boards().items()
        for panel in panels(board)
        for target in panel["targets"]
    }


def as_grafana_sends_it(expression: str, stream: str) -> str:
    """Return a query with Grafana's variables filled in, for a scrape a second and a quarter of an hour."""
    for name, value in {"$stream": stream, "$__rate_interval": "1m", "$__range": "15m"}.items():
        expression = expression.replace(name, value)
    assert "$_" not in expression, f"another variable of Grafana's in {expression}"
    return expression
