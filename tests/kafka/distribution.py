"""What a broker is run from: Apache Kafka's jars, a formatted data directory to copy, and classes ready to load.

All of it is made once and kept outside the checkout, in ``$XDG_CACHE_HOME`` or ``~/.cache``, under
``deltaplane/kafka-<version>/<digest of pom.xml>``:

``jars``
    what Maven resolves pom.xml to;
``formatted``
    a data directory as Kafka's own ``StorageTool format`` leaves it. Nodes copy it and put in their own identity, which
    saves a second of Java for each;
``classes-<digest of the Java version>.jsa``
    Java's archive of the classes that a starting broker loads (class data sharing), which halves the work of a start.
    Java ignores an archive that does not fit, so it can be stale but never wrong.

Each is made beside its place and renamed into it, so two runs that begin together do each other no harm.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka.errors import KafkaNotStarted, KafkaUnavailable
from kafka.properties import NodePorts, broker_properties

POM = Path(__file__).with_name("pom.xml")
OLDEST_JAVA = 17
DOWNLOAD_TIMEOUT_SECONDS = 900.0

JAVA_FLAGS = (
    "-Xms32m",
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


@dataclass(frozen=True)
class Distribution:
    """Apache Kafka, ready to run: the ``java`` to run it with, its jars, and where the rest of the cache is."""

    java: str
    jars: tuple[Path, ...]
    formatted: Path
    class_archive: Path

    def command(self, directory: Path, main: Sequence[str], flags: Sequence[str] | None = None) -> list[str]:
        """Return the command line of ``main`` (a class and its arguments), whose litter falls into ``directory``.

        ``flags`` replace those that use the class archive.
        """
        if flags is None:
            flags = [f"-XX:SharedArchiveFile={self.class_archive}"] if self.class_archive.exists() else []
        # Native libraries are unpacked there; a killed broker does not clear them up.
        litter = [f"-Djava.io.tmpdir={directory}", f"-XX:ErrorFile={directory}/java-error-%p.log"]
        # A wildcard would be put in the order of the file system, and the class archive is for one order only.
        class_path = os.pathsep.join(str(jar) for jar in self.jars)
        return [self.java, *JAVA_FLAGS, *flags, *litter, "-cp", class_path, *main]


def kafka_version() -> str:
    """Return the version of Kafka that pom.xml asks for."""
    found = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", POM.read_text(encoding="utf-8"))
    assert found is not None, f"{POM} names no kafka.version"
    return found[1]


@functools.cache
def prepare() -> Distribution:
    """Return the distribution, fetched and formatted if this is the first time on this machine.

    Raises :class:`KafkaUnavailable` where Java is missing or old, or where the jars are not in the cache and Maven is
    missing or cannot fetch them.
    """
    java, java_version = find_java()
    home = cache() / f"kafka-{kafka_version()}" / _digest(POM.read_bytes())
    jars = home / "jars"
    if not jars.is_dir():
        _fetch(jars)
    distribution = Distribution(
        java=java,
        jars=tuple(sorted(jars.glob("*.jar"))),
        formatted=home / "formatted",
        class_archive=home / f"classes-{_digest(java_version.encode())}.jsa",
    )
    if not distribution.formatted.is_dir():
        _format(distribution)
    return distribution


def find_java() -> tuple[str, str]:
    """Return the path of ``java`` and all it says of its version. Raises :class:`KafkaUnavailable`."""
    java = shutil.which("java")
    if java is None:
        raise KafkaUnavailable(f"there is no java on PATH: install Java {OLDEST_JAVA} or newer")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = said.stderr + said.stdout
    found = re.search(r'version "(\d+)', version)
    if found is None or int(found[1]) < OLDEST_JAVA:
        raise KafkaUnavailable(
            f"{java} is not Java {OLDEST_JAVA} or newer, it says {version.strip()!r}: put a newer one first on PATH"
        )
    return java, version


def cache() -> Path:
    """The directory in which what is fetched is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deltaplane"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]


def _fetch(jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(
            f"there is no mvn on PATH and no Kafka in {jars}: install Maven (it is needed once, to fetch Kafka's jars)"
        )
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="fetching-") as name:
        work = Path(name)
        # Maven keeps to the directory of its project file; the checkout is none of its business.
        shutil.copy(POM, work / "pom.xml")
        command = [maven, "--batch-mode", "--quiet", "--strict-checksums", "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={work / 'jars'}"]
        try:
            done = subprocess.run(
                command, cwd=work, capture_output=True, text=True, check=False, timeout=DOWNLOAD_TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise KafkaUnavailable(
                f"Maven did not fetch Kafka {kafka_version()} in {DOWNLOAD_TIMEOUT_SECONDS:.0f} s: look at the network"
            ) from None
        if done.returncode != 0 or not any((work / "jars").glob("kafka_*.jar")):
            said = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise KafkaUnavailable(f"Maven could not fetch Kafka {kafka_version()}; it said:\n{said}")
        place(work / "jars", jars)


def artifact(name: str, coordinates: str) -> Path:
    """Return the directory ``name`` of the cache with one artifact, which Maven copies there, once.

    ``coordinates``: ``group:artifact:version``, and packaging and classifier where they are needed. Raises
    :class:`KafkaUnavailable` where Maven is missing or cannot fetch it.
    """
    home = cache() / name
    if home.is_dir():
        return home
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(f"there is no mvn on PATH and no {coordinates} in {home}: install Maven")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetching-") as directory:
        made = Path(directory) / "made"
        line = [maven, "--batch-mode", "--quiet", "--strict-checksums"]
        line += ["org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy", f"-Dartifact={coordinates}"]
        line += [f"-DoutputDirectory={made}"]
        done = subprocess.run(
            line, cwd=directory, capture_output=True, text=True, check=False, timeout=DOWNLOAD_TIMEOUT_SECONDS
        )
        if done.returncode != 0 or not made.is_dir():
            said = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise KafkaUnavailable(f"Maven could not fetch {coordinates}; it said:\n{said}")
        place(made, home)
    return home


def _format(distribution: Distribution) -> None:
    with tempfile.TemporaryDirectory(dir=distribution.formatted.parent, prefix="formatting-") as name:
        work = Path(name)
        properties = broker_properties(1, {1: NodePorts(client=1, broker=2, controller=3)})
        (work / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        # Any identity will do: each node puts in its own.
        main = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", "server.properties"]
        done = subprocess.run(
            distribution.command(work, main, flags=[]), cwd=work, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise KafkaNotStarted(f"Kafka's StorageTool could not format a data directory; it said:\n{said}")
        place(work / "data", distribution.formatted)


def place(made: Path, place: Path) -> None:
    """Rename ``made`` to ``place``, unless another run has been quicker."""
    try:
        made.rename(place)
    except OSError:
        if not place.is_dir():
            raise
