"""The examples in Java and JavaScript: ordinary clients, and nothing of ours but what the definition says."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import deltaplane_schemas
import not_run
from deltaplane.wire.frame import header
from kafka.distribution import DOWNLOAD_TIMEOUT_SECONDS, artifact, cache, place, prepare
from kafka.errors import KafkaUnavailable
from kafka.made_shop import INPUT, MadeShop
from kafka.selection import RunningKafka
from kafka.services import Stream
from kafka.test_pipeline_intake import replayed, stream_of

EXAMPLES = Path(__file__).parents[2] / "examples" / "languages"
SCHEMAS = Path(deltaplane_schemas.__file__).parent
AVRO = "1.12.2"
PATIENCE_SECONDS = 180.0


def java() -> list[str]:
    """The command line of the example in Java but for its arguments."""
    distribution = prepare()
    avro = artifact(f"avro-{AVRO}", f"org.apache.avro:avro:{AVRO}")
    jars = [*distribution.jars, *avro.glob("*.jar")]
    return [distribution.java, "-cp", ":".join(map(str, jars)), str(EXAMPLES / "Shop.java")]


def node() -> list[str]:
    """The same in JavaScript, with its packages in the cache, which npm fetches once."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if found is None or npm is None:
        not_run.give_up("NODE", "there is no node, or no npm, on PATH", on_continuous_integration=False)
    packages = EXAMPLES / "package.json"
    home = cache() / f"node-{hashlib.sha256(packages.read_bytes()).hexdigest()[:8]}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetching-") as name:
            made = Path(name) / "made"
            made.mkdir()
            shutil.copy(packages, made)
            line = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"]
            done = subprocess.run(
                line, cwd=made, capture_output=True, text=True, check=False, timeout=DOWNLOAD_TIMEOUT_SECONDS
            )
            if done.returncode != 0:
                not_run.give_up("NODE", f"npm could not fetch {packages.name}: {done.stderr[-500:]}")
            place(made, home)
    # Packages are looked for beside the program.
    shutil.copy(EXAMPLES / "shop.mjs", home)
    return [found, str(home / "shop.mjs")]


@pytest.fixture
def shop(kafka: RunningKafka, stream_name: str) -> MadeShop:
    return MadeShop(kafka.bootstrap, stream_name, seed=3)


@pytest.fixture
def stream(kafka: RunningKafka, tmp_path: Path, stream_name: str, shop: MadeShop) -> Iterator[Stream]:
    with stream_of(tmp_path, stream_name, kafka.bootstrap, shop.intake(), input=INPUT) as opened:
        text = opened.definition_file.read_text()
        opened.definition_file.write_text(text.replace("[intake]\n", "[intake]\nqueries = true\n"))
        yield opened


@pytest.mark.parametrize("language", [java, node])
def test_a_program_of_another_language_sends_an_event_reads_its_prediction_and_sends_a_sample(
    kafka: RunningKafka, stream: Stream, shop: MadeShop, language: Callable[[], list[str]]
) -> None:
    try:
        line = language()
    except KafkaUnavailable as reason:
        not_run.give_up("KAFKA", str(reason))
    for command in ("worker", "merger", "intake"):
        stream.start(command)
    stream.start("scorer", "--kafka", "compression.type=gzip")
    shop.sell(300)
    shop.let_pass(31)
    model = stream.wait_for_digest(replayed(stream, shop), "there is a model")
    before = sum(model.counts.values())
    shown = json.loads(stream.run("definition", "show", "--json").stdout)
    said = [kafka.bootstrap, shop.payments, stream.definition.name, shown["data_fingerprint"], str(SCHEMAS)]
    done = subprocess.run(
        [*line, *said, "from-afar"], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert re.search(r"^from-afar: (fraud|ok)$", done.stdout, re.MULTILINE), done.stdout
    stream.wait_for_model(lambda one: sum(one.counts.values()) == before + 1, "the sample that was sent directly")
    assert not json.loads(stream.run("dead-letters", "list", "--reason", "wrong partition", "--json").stdout)


def test_the_marks_that_the_example_in_javascript_knows_are_those_of_the_schemas() -> None:
    text = (EXAMPLES / "shop.mjs").read_text("utf-8")
    for constant, name in (("PREDICTION", "prediction"), ("NAMED_SAMPLE", "named_sample")):
        assert f'const {constant} = Buffer.from("{header(name).hex()}", "hex")' in text
