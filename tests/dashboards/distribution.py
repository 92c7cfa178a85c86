"""Where the tests get Prometheus and promtool from: the path, or Debian's package, unpacked and not installed.

The package (about 20 MB) is fetched once, with apt's own client and checks, and kept outside the checkout, in
``$XDG_CACHE_HOME`` or ``~/.cache``, under ``deltaplane/prometheus``. That needs no root, and a Debian or an Ubuntu.
Where there is neither, tests are skipped and say so in capitals; on continuous integration (``CI``), or with
``DELTAPLANE_REQUIRE_PROMETHEUS=1``, they fail.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

DOWNLOAD_SECONDS = 600.0
TOOLS = ("prometheus", "promtool")


class PrometheusUnavailable(Exception):
    """This machine has not got Prometheus and cannot fetch it."""


@dataclass(frozen=True)
class Tools:
    """Paths of the two programs."""

    prometheus: str
    promtool: str


@functools.cache
def tools() -> Tools:
    """Return both programs of one origin. Raises :class:`PrometheusUnavailable`."""
    found = [shutil.which(tool) for tool in TOOLS]
    if all(found):
        return Tools(*map(str, found))
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deltaplane" / "prometheus"
    if not home.is_dir():
        _fetch(home)
    return Tools(*(str(home / "usr" / "bin" / tool) for tool in TOOLS))


@functools.cache
def why_none() -> str:
    """Return why there is no Prometheus, or nothing if there is one; fetches it to find out."""
    try:
        tools()
    except PrometheusUnavailable as refusal:
        return str(refusal)
    return ""


def _fetch(home: Path) -> None:
    missing = [tool for tool in ("apt-get", "dpkg") if shutil.which(tool) is None]
    if missing:
        raise PrometheusUnavailable(f"prometheus and promtool are not on PATH, nor {missing} to fetch Debian's package")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetching-") as name:
        work = Path(name)
        _run(["apt-get", "download", "prometheus"], work)
        packages = sorted(work.glob("prometheus_*.deb"))
        if not packages:
            raise PrometheusUnavailable("apt-get download prometheus left no package")
        unpacked = work / "unpacked"
        _run(["dpkg", "-x", str(packages[0]), str(unpacked)], work)
        if not all((unpacked / "usr" / "bin" / tool).is_file() for tool in TOOLS):
            raise PrometheusUnavailable(f"{packages[0].name} holds no {' and no '.join(TOOLS)}")
        try:
            unpacked.rename(home)
        except OSError:
            # Another run has been quicker.
            if not home.is_dir():
                raise


def _run(command: list[str], work: Path) -> None:
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False, timeout=DOWNLOAD_SECONDS)
    except subprocess.TimeoutExpired:
        raise PrometheusUnavailable(f"{' '.join(command)} did not end in {DOWNLOAD_SECONDS:.0f} s") from None
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise PrometheusUnavailable(f"{' '.join(command)} failed: {said}")
