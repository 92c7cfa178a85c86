"""The container files are what they claim, as far as can be told without a container engine.

``compose.yaml`` is held against the Compose specification's own schema, each service's command line against the real
command line, its environment against the real settings, and all files that are mounted or copied must exist.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
from ruamel.yaml import YAML

from deltaplane_services.cli.application import app
from deltaplane_services.definition_file.definition_tables import load_tables
from deltaplane_services.definition_file.settings import SETTING_NAMES, ServiceSettings, resolve_settings
from deltaplane_services.observe.health import PORTS_OF_A_MACHINE

TOP = Path(__file__).resolve().parents[2]
COMPOSE_FILE = TOP / "compose.yaml"
DOCKERFILE = (TOP / "deploy" / "Dockerfile").read_text("utf-8")
COMPOSE_TEXT = COMPOSE_FILE.read_text("utf-8")
VARIABLES = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", COMPOSE_TEXT))
"""The variables of the file, and what each is where nobody gives it."""


def composed(**given: str) -> dict[str, Any]:
    """The file as Compose reads it, with some variables given."""
    said = VARIABLES | given
    text = re.sub(r"\$\{(\w+):-[^}]*\}", lambda found: said[found[1]], COMPOSE_TEXT)
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return loaded


COMPOSE = composed()
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)
THEIRS = sorted(SERVICES.keys() - OURS)
LONG_RUNNING = ["intake", "judge", "merger", "merger-standby", "scorer", "worker"]
METRICS_PORT = 9108


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Path in the container → path here, of what is mounted from the checkout."""
    pairs = [volume.split(":") for volume in service.get("volumes", ())]
    return {target: source for source, target, *_ in pairs if source.startswith(".")}


def arguments(name: str) -> list[str]:
    """The command line of a service as it would be here: paths in the container are those of the mounted files."""
    paths = mounts(SERVICES[name])
    return [str(TOP / paths[word]) if word in paths else str(word) for word in SERVICES[name]["command"]]


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The command that Deltaplane's command line makes of the words, and its parameters; nothing is run."""
    command: Any = typer.main.get_command(app)
    rest, names = list(words), []
    while hasattr(command, "commands"):
        names.append(rest.pop(0))
        assert names[-1] in command.commands, f"there is no command {' '.join(names)}"
        command = command.commands[names[-1]]
    return " ".join(names), command.make_context(names[-1], rest).params


def settings_of(name: str) -> ServiceSettings:
    """The settings that a service would run with."""
    _, parameters = parsed(arguments(name))
    flags = {key: value for key, value in parameters.items() if key in SETTING_NAMES or key == "kafka"}
    return resolve_settings(flags, SERVICES[name]["environment"], load_tables(parameters["definition"]), "0123456789ab")


# The file as a whole -------------------------------------------------------------------------------------------------


def validated(path: Path) -> subprocess.CompletedProcess[str]:
    """Hold a file against the schema that check-jsonschema carries."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_the_compose_file_is_valid_by_the_specifications_own_schema() -> None:
    verdict = validated(COMPOSE_FILE)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


def test_a_compose_file_with_a_misspelt_key_is_not_valid(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE_FILE.read_text("utf-8").replace("stop_grace_period:", "stop_grace_perod:"), "utf-8")
    assert "stop_grace_perod" in validated(wrong).stdout


def test_the_services_are_those_of_the_pipeline_and_what_watches_it() -> None:
    assert sorted(["topics", "market", *LONG_RUNNING]) == OURS
    assert THEIRS == ["grafana", "kafka", "prometheus"]


def test_every_image_is_pinned_to_a_version() -> None:
    images = [SERVICES[name]["image"] for name in THEIRS]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(images) == 5
    assert all(re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*", image) for image in images), images


def test_kafka_is_the_one_that_the_tests_run_on() -> None:
    pom = (TOP / "tests" / "kafka" / "pom.xml").read_text("utf-8")
    (version,) = re.findall(r"<kafka.version>([\d.]+)</kafka.version>", pom)
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{version}"


def test_nothing_is_published_beyond_this_machine() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(published) == 3 + len(LONG_RUNNING)
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+(-\d+)?:\d+", port) for port in published), published


def test_ports_of_this_machine_are_chosen_by_variables_and_kafka_says_the_one_it_has() -> None:
    assert VARIABLES.keys() == {"KAFKA_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT", "DELTAPLANE_DEFINITION_FILE"}
    other = composed(KAFKA_PORT="19999", PROMETHEUS_PORT="19998", GRAFANA_PORT="19997")["services"]
    assert other["kafka"]["ports"] == ["127.0.0.1:19999:9092"]
    assert "OUTSIDE://127.0.0.1:19999" in other["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert other["prometheus"]["ports"] == ["127.0.0.1:19998:9090"]
    assert other["grafana"]["ports"] == ["127.0.0.1:19997:3000"]


def test_top_finds_every_service_at_ports_of_this_machine_that_no_other_has() -> None:
    found: list[int] = []
    for name in LONG_RUNNING:
        (port,) = SERVICES[name]["ports"]
        first, _, last = port.removeprefix("127.0.0.1:").removesuffix(f":{METRICS_PORT}").partition("-")
        found += range(int(first), int(last or first) + 1)
    assert len(set(found)) == len(found)
    assert set(found) <= set(range(METRICS_PORT, METRICS_PORT + PORTS_OF_A_MACHINE))
    assert sum(port >= METRICS_PORT for port in found) >= settings_of("worker").definition.partitions


def test_the_memory_that_is_needed_is_said() -> None:
    limits = [service["deploy"]["resources"]["limits"]["memory"] for service in SERVICES.values()]
    megabytes = sum(int(limit[:-1]) * {"M": 1, "G": 1024}[limit[-1]] for limit in limits)
    page = (TOP / "docs" / "how-to" / "deploy.md").read_text("utf-8")
    assert f"add up to {megabytes / 1024:g} GB" in COMPOSE_TEXT
    assert f"{megabytes / 1024:g} GB" in page


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_container_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["user"].split(":")[0] not in {"root", "0"}
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service.get("read_only", False) or name == "kafka"
    assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}
    assert not service.keys() & {"privileged", "network_mode", "pid", "container_name"}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_container_that_stays_has_a_health_check_and_comes_back(name: str) -> None:
    service = SERVICES[name]
    if name == "topics":
        assert service["healthcheck"] == {"disable": True}, "the exit code of a container that ends is its health"
    else:
        assert {"test", "interval", "timeout", "retries"} <= service["healthcheck"].keys()
    assert service["restart"] == ("no" if name == "topics" else "unless-stopped")


@pytest.mark.parametrize(
    ("state", "healthy"),
    [
        ("S (sleeping)", True),
        ("R (running)", True),
        ("T (stopped)", False),
        ("t (tracing stop)", False),
        ("Z (zombie)", False),
    ],
)
def test_the_market_is_alive_unless_it_is_stopped_or_a_zombie(tmp_path: Path, state: str, healthy: bool) -> None:  # noqa: FBT001
    kind, line = SERVICES["market"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    (tmp_path / "status").write_text(f"Name:\tdeltaplane\nUmask:\t0022\nState:\t{state}\nTgid:\t1\n", "ascii")
    code = subprocess.run(["sh", "-c", line.replace("/proc/1/", f"{tmp_path}/")], check=False).returncode
    assert (code == 0) is healthy


@pytest.mark.parametrize("name", LONG_RUNNING)
def test_a_service_is_asked_for_its_own_health_where_it_serves_it(name: str) -> None:
    address = SERVICES[name]["environment"]["DELTAPLANE_METRICS_ADDRESS"].replace("0.0.0.0", "127.0.0.1")  # noqa: S104
    kind, *command = SERVICES[name]["healthcheck"]["test"]
    assert kind == "CMD"
    assert f"http://{address}/healthz" in command[-1]
    compile(command[-1], "healthcheck", "exec")


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_what_is_mounted_from_the_checkout_is_there_and_read_only(name: str) -> None:
    for volume in SERVICES[name].get("volumes", ()):
        source, _, *options = volume.split(":")
        if source.startswith("."):
            assert options == ["ro"], volume
            assert (TOP / source).exists(), volume
        else:
            assert source in COMPOSE["volumes"], volume


def test_services_wait_for_the_broker_to_be_well_and_for_the_topics_to_be_made() -> None:
    assert SERVICES["topics"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}
    for name in ["market", *LONG_RUNNING]:
        assert SERVICES[name]["depends_on"] == {
            "kafka": {"condition": "service_healthy"},
            "topics": {"condition": "service_completed_successfully"},
        }


def test_any_number_of_workers_can_run_side_by_side() -> None:
    worker = SERVICES["worker"]
    assert not worker.keys() & {"container_name", "hostname"}
    partitions = settings_of("worker").definition.partitions
    first, last = worker["ports"][0].split(":")[1].split("-")
    assert int(last) - int(first) + 1 >= partitions, "each has a port of this machine"
    assert partitions >= 4
    one, other = (
        resolve_settings({}, worker["environment"], load_tables(TOP / "deploy" / "deltaplane.toml"), host)
        for host in ("0123456789ab", "ba9876543210")
    )
    assert one.knobs.instance != other.knobs.instance, "two of the same name would throw each other out"


# Command lines and settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("topics", "topics create"),
        ("intake", "intake"),
        ("judge", "judge"),
        ("worker", "worker"),
        ("merger", "merger"),
        ("merger-standby", "merger"),
        ("scorer", "scorer"),
    ],
)
def test_each_command_line_is_one_that_deltaplane_takes(name: str, command: str) -> None:
    found, parameters = parsed(arguments(name))
    assert found == command
    assert parameters["definition"].resolve() == TOP / "deploy" / "deltaplane.toml"


def test_the_market_is_played_by_the_example_with_options_that_it_takes() -> None:
    market = SERVICES["market"]
    paths = mounts(market)
    words = [
        str(TOP / paths[word]) if word in paths else word for word in (*market["entrypoint"][1:], *market["command"])
    ]
    helped = subprocess.run([sys.executable, words[0], "--help"], check=True, capture_output=True, text=True).stdout
    assert all(word in helped for word in words if word.startswith("--"))
    assert words[1:3] == [str(TOP / "examples" / "electricity.csv.gz"), "--definition"]
    assert words[-1] == "kafka:19092"


@pytest.mark.parametrize("words", [["worker", "--definition", "x", "--no-such-option"], ["worker", "--definition"]])
def test_a_command_line_that_deltaplane_does_not_take_is_told_apart(words: list[str]) -> None:
    with pytest.raises(Exception, match=r"(?i)no such option|requires an argument"):
        parsed(words)


def test_a_command_that_deltaplane_does_not_have_is_told_apart() -> None:
    with pytest.raises(AssertionError, match="there is no command workers"):
        parsed(["workers"])


@pytest.mark.parametrize("name", ["topics", *LONG_RUNNING])
def test_each_environment_is_one_that_the_settings_take_and_leads_to_the_broker(name: str) -> None:
    settings = settings_of(name)
    listeners = dict(
        listener.split("://") for listener in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    )
    assert settings.one_cluster
    assert settings.site_cluster.broker == listeners["INSIDE"] == "kafka:19092"
    assert SERVICES["kafka"]["ports"] == [f"{listeners['OUTSIDE']}:9092"]
    # From outside the container, and on the port that is scraped.
    assert settings.knobs.metrics_host_and_port() == ("0.0.0.0", METRICS_PORT)  # noqa: S104


@pytest.mark.parametrize("name", LONG_RUNNING)
def test_a_service_is_given_the_time_it_allows_itself_to_end(name: str) -> None:
    grace = SERVICES[name]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > settings_of(name).knobs.shutdown_timeout_seconds


def test_the_stream_of_the_containers_is_that_of_the_example_in_more_partitions() -> None:
    example, deployed = (
        tomllib.loads((TOP / place / "deltaplane.toml").read_text("utf-8")) for place in ("examples", "deploy")
    )
    assert deployed.pop("intake")["topic"] == "market-events"
    assert deployed.pop("partitions") > example.pop("partitions", 1)
    assert deployed == example


# What is beside the file ---------------------------------------------------------------------------------------------


def test_prometheus_scrapes_every_service_on_its_port() -> None:
    (job,) = YAML(typ="safe", pure=True).load(TOP / "deploy" / "prometheus.yml")["scrape_configs"]
    (discovery,) = job["dns_sd_configs"]
    assert sorted(discovery["names"]) == LONG_RUNNING
    assert (discovery["type"], discovery["port"]) == ("A", METRICS_PORT)
    assert all(SERVICES[name]["expose"] == [str(METRICS_PORT)] for name in LONG_RUNNING)


def test_grafana_asks_the_prometheus_that_is_beside_it() -> None:
    path = TOP / "deploy" / "grafana" / "provisioning" / "datasources" / "prometheus.yml"
    (source,) = YAML(typ="safe", pure=True).load(path)["datasources"]
    assert source["url"] == "http://prometheus:9090"


def test_the_image_is_built_in_one_stage_and_runs_in_another_as_nobody_in_particular() -> None:
    build, run = re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)[1:]
    assert build.split()[1] == run.split()[1], "what is built for one Python may not run on another"
    assert "--constraint constraints.txt" in build
    assert re.search(r"^USER 10001:10001$", run, re.MULTILINE)
    assert all(SERVICES[name]["user"] == "10001:10001" for name in OURS)
    assert not re.search(r"\b(install|apt-get|gcc|curl)\b", run), "the image that runs is made of what was built"
    assert 'ENTRYPOINT ["deltaplane"]' in run


def test_everything_the_image_is_made_of_is_in_the_checkout_and_reaches_the_builder() -> None:
    let_through = {line[1:] for line in (TOP / ".dockerignore").read_text("utf-8").splitlines() if line[:1] == "!"}
    copied = {
        word for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]
    }
    assert copied == let_through
    assert all((TOP / path).exists() for path in copied)
    assert all(SERVICES[name]["build"] == {"context": ".", "dockerfile": "deploy/Dockerfile"} for name in OURS)
