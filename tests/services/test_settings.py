"""Settings: which place wins, and what is refused."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from deltaplane.errors import DefinitionError
from deltaplane_services.cli.application import app
from deltaplane_services.definition_file import kafka_properties
from deltaplane_services.definition_file.kafka_properties import ClusterName
from deltaplane_services.definition_file.knobs import Knobs
from deltaplane_services.definition_file.settings import SETTING_NAMES, ServiceSettings
from services.settings_stream import resolve

OTHER_VALUES: dict[str, list[Any]] = {
    "broker": ["a:1", "b:2,c:3", "[::1]:9092"],
    "central_broker": ["d:4", "SSL://e:5", "f:6"],
    "site": ["Paris", "Oslo", "Rome-2"],
    "instance": ["w1", "w2", "w3"],
    "state_directory": ["a", "b/c", "/d"],
    "registry": ["http://a:1", "https://b.example/c/d", "http://e:2,http://f:3"],
    "registry_properties": ["a.toml", "b/c.toml", "/d"],
    "metrics_address": ["0.0.0.0:1", "[::]:2", "host:0"],
    "log_level": ["debug", "warning", "error"],
    "blas_threads": [2, 3, 0],
    "refresh_seconds": [0.5, 2.0, 0.0],
    "checkpoint_seconds": [1.0, 2.5, 60.0],
    "poll_records": [1, 2, 10_000],
    "poll_timeout_seconds": [0.25, 1.0, 2.0],
    "session_timeout_milliseconds": [7000, 8000, 45_000],
    "shutdown_timeout_seconds": [1.0, 5.0, 60.0],
    "worst_lag_seconds": [3600.0, 86_400.0, 60.0],
    "trim_seconds": [0.0, 60.0, 3600.0],
    "replication_factor": [1, 3, 2],
}
"""Three values of every setting, none of them its default."""


def value_of(settings: ServiceSettings, name: str) -> Any:
    """A setting by the name it has in [service]."""
    if name == "broker":
        return settings.site_cluster.broker
    if name == "central_broker":
        return settings.central_cluster.broker
    return settings.site if name == "site" else getattr(settings.knobs, name)


def given_properties(settings: ServiceSettings, cluster: ClusterName = "site") -> dict[str, Any]:
    return dict(settings.cluster(cluster).properties)


# Which place wins ----------------------------------------------------------------------------------------------------


def test_every_setting_has_values_in_these_tests() -> None:
    assert OTHER_VALUES.keys() == set(SETTING_NAMES)


@pytest.mark.parametrize("name", SETTING_NAMES)
@given(places=st.sets(st.sampled_from(["flag", "environment", "table"]), min_size=1))
def test_a_flag_beats_the_environment_and_that_the_file(name: str, places: set[str]) -> None:
    by_flag, by_environment, by_table = OTHER_VALUES[name]
    settings = resolve(
        {name: by_flag} if "flag" in places else {},
        {f"DELTAPLANE_{name.upper()}": str(by_environment)} if "environment" in places else {},
        {"service": {name: by_table}} if "table" in places else {},
    )
    expected = by_flag if "flag" in places else by_environment if "environment" in places else by_table
    assert value_of(settings, name) == expected
    assert type(value_of(settings, name)) is type(expected)


def test_without_any_setting_there_are_defaults_for_one_machine() -> None:
    settings = resolve()
    assert (settings.site_cluster.broker, settings.site, settings.one_cluster) == ("127.0.0.1:9092", "local", True)
    assert settings.knobs == Knobs()
    assert settings.knobs.metrics_host_and_port() == ("127.0.0.1", 9108)


def test_deltas_go_to_the_sites_own_brokers_unless_central_ones_are_named() -> None:
    together = resolve({"broker": "a:1"})
    assert (together.central_cluster.broker, len(together.clusters)) == ("a:1", 1)
    apart = resolve({"broker": "a:1", "central_broker": "b:2"})
    assert [cluster.broker for cluster in apart.clusters] == ["a:1", "b:2"]
    assert resolve({"broker": "a:1, b:2", "central_broker": "b:2,a:1"}).one_cluster, "their order means nothing"


def test_a_flag_that_was_not_given_and_an_empty_variable_are_not_settings() -> None:
    settings = resolve(dict.fromkeys([*SETTING_NAMES, "kafka"]), {"DELTAPLANE_SITE": "", "DELTAPLANE_KAFKA_ACKS": ""})
    assert settings == resolve()


def test_the_name_of_the_host_may_be_part_of_the_instance() -> None:
    assert resolve({}, {"DELTAPLANE_INSTANCE": "worker-{hostname}"}, {}, "rack7").knobs.instance == "worker-rack7"


def test_variables_of_kubernetes_and_of_the_tests_are_left_alone() -> None:
    environment = {
        "DELTAPLANE_SERVICE_HOST": "10.0.0.1",
        "DELTAPLANE_SERVICE_PORT_METRICS": "9108",
        "DELTAPLANE_PORT": "tcp://10.0.0.1:9108",
        "DELTAPLANE_PORT_9108_TCP_ADDR": "10.0.0.1",
        "DELTAPLANE_KAFKA_SERVICE_HOST": "10.0.0.2",
        "DELTAPLANE_KAFKA_PORT_9092_TCP": "tcp://10.0.0.2:9092",
        "DELTAPLANE_BROKER_PORT": "tcp://10.0.0.2:9092",
        "DELTAPLANE_TEST_KAFKA": "a:1",
        "DELTAPLANE_DEFINITION": "deltaplane.toml",
        "PATH": "/bin",
    }
    assert resolve({}, environment) == resolve()


# Properties of librdkafka --------------------------------------------------------------------------------------------


def test_a_property_may_come_from_any_place_and_the_nearest_wins() -> None:
    tables = {"kafka": {"client.id": "table", "linger.ms": 1, "socket.keepalive.enable": False, "debug": "all"}}
    environment = {"DELTAPLANE_KAFKA_CLIENT_ID": "environment", "DELTAPLANE_KAFKA_LINGER_MS": "2"}
    settings = resolve({"kafka": ["client.id=flag"]}, environment, tables)
    assert given_properties(settings) == {
        "client.id": "flag",
        "linger.ms": "2",
        "socket.keepalive.enable": "false",
        "debug": "all",
    }
    assert given_properties(settings, "central") == given_properties(settings)


def test_a_property_of_one_cluster_beats_that_of_all_in_the_same_place() -> None:
    tables = tomllib.loads("""
        [kafka]
        "client.id" = "all"
        security.protocol = "SSL"
        [kafka.site]
        "client.id" = "of the site"
        [kafka.central]
        client.rack = "r1"
    """)
    settings = resolve({}, {}, tables)
    assert given_properties(settings, "site") == {"client.id": "of the site", "security.protocol": "SSL"}
    assert given_properties(settings, "central") == {
        "client.id": "all",
        "security.protocol": "SSL",
        "client.rack": "r1",
    }
    settings = resolve(
        {"kafka": ["central.client.id=by flag"]}, {"DELTAPLANE_KAFKA_SITE_CLIENT_ID": "by variable"}, tables
    )
    assert given_properties(settings, "site")["client.id"] == "by variable"
    assert given_properties(settings, "central")["client.id"] == "by flag"
    assert len(settings.clusters) == 2, "the same brokers reached in two ways are two"


VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(values=st.lists(VALUES, min_size=1, max_size=4))
def test_a_list_of_properties_holds_any_value_when_its_semicolons_are_doubled(values: list[str]) -> None:
    names = ["sasl.username", "sasl.password", "client.id", "log_level"][: len(values)]
    text = ";".join(f"{name}={value.replace(';', ';;')}" for name, value in zip(names, values, strict=True))
    settings = resolve({}, {"DELTAPLANE_KAFKA_PROPERTIES": text})
    assert given_properties(settings) == dict(zip(names, values, strict=True))


def test_a_variable_of_its_own_beats_the_list_of_properties() -> None:
    environment = {
        "DELTAPLANE_KAFKA_PROPERTIES": "client.id=list;site.client.rack=r1",
        "DELTAPLANE_KAFKA_CLIENT_ID": "own",
    }
    settings = resolve({}, environment)
    assert given_properties(settings, "site") == {"client.id": "own", "client.rack": "r1"}
    assert given_properties(settings, "central") == {"client.id": "own"}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("enable.idempotence", "false", "twice or out of order"),
        ("acks", "1", "can be lost"),
        ("acks", "0", "can be lost"),
        ("request.required.acks", "1", "can be lost"),
        ("max.in.flight.requests.per.connection", "6", "lose their order"),
        ("enable.auto.commit", "true", "skips records"),
        ("auto.commit.enable", "true", "skips records"),
        ("auto.offset.reset", "latest", "not skipped over"),
        ("group.id", "mine", "named after the stream"),
        ("group.instance.id", "mine", "instance"),
        ("group.protocol", "consumer", "45 s"),
        ("partition.assignment.strategy", "cooperative-sticky", "part the retirements"),
        ("session.timeout.ms", "10000", "session_timeout_milliseconds"),
        ("isolation.level", "read_uncommitted", "aborted"),
        ("transactional.id", "mine", "order of the log"),
        ("partitioner", "murmur2_random", "same partition"),
        ("bootstrap.servers", "a:1", "--broker"),
        ("metadata.broker.list", "a:1", "--broker"),
    ],
)
def test_what_would_break_exactness_is_refused_by_name_with_the_reason(name: str, value: str, reason: str) -> None:
    spellings: list[tuple[dict[str, Any], dict[str, str], dict[str, Any]]] = [
        ({"kafka": [f"{name}={value}"]}, {}, {}),
        ({"kafka": [f"site.{name} = {value}".replace(" ", "")]}, {}, {}),
        ({}, {f"DELTAPLANE_KAFKA_{name.upper().replace('.', '_')}": value}, {}),
        ({}, {f"DELTAPLANE_KAFKA_CENTRAL_{name.upper().replace('.', '_')}": value}, {}),
        ({}, {"DELTAPLANE_KAFKA_PROPERTIES": f"client.id=a;{name}={value}"}, {}),
        ({}, {}, {"kafka": {name: value}}),
        ({}, {}, {"kafka": {"central": {name: value}}}),
    ]
    for flags, environment, tables in spellings:
        with pytest.raises(DefinitionError, match=reason) as refusal:
            resolve(flags, environment, tables)
        assert kafka_properties.ALIASES.get(name, name) in str(refusal.value)


def test_what_exactness_needs_may_be_said_again() -> None:
    tables = {"kafka": {"enable.idempotence": True, "acks": "all", "enable.auto.commit": False, "max.in.flight": 1}}
    assert given_properties(resolve({}, {}, tables))["acks"] == "all"


@pytest.mark.parametrize("name", ["message.max.bytes", "queue.buffering.max.kbytes", "receive.message.max.bytes"])
def test_a_buffer_too_small_for_the_largest_record_is_refused_with_the_size_it_needs(name: str) -> None:
    least = kafka_properties.floors(resolve().definition)[name]
    assert given_properties(resolve({"kafka": [f"{name}={least}"]}))[name] == str(least)
    for too_small in (str(least - 1), "a lot"):
        with pytest.raises(DefinitionError, match=rf"--kafka, number 1: {name} must be at least {least}"):
            resolve({"kafka": [f"{name}={too_small}"]})


# What is passed over -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("DELTAPLANE_BROKR", "if DELTAPLANE_BROKER is meant, set that"),
        ("DELTAPLANE_REFRESH_SECS", "if DELTAPLANE_REFRESH_SECONDS is meant, set that"),
        ("DELTAPLANE_DEFINITIONS", "if DELTAPLANE_DEFINITION is meant, set that"),
        ("DELTAPLANE_KAFKA_VERSION", "there is no such setting, and it is passed over"),
        ("DELTAPLANE_VERSION", "there is no such setting, and it is passed over"),
        ("DELTAPLANE_", "known are DELTAPLANE_BROKER, "),
    ],
)
def test_a_variable_of_somebody_else_stops_nothing_and_is_warned_of(variable: str, says: str) -> None:
    settings = resolve({}, {variable: "x y z"})
    assert settings == resolve()
    (warning,) = settings.warnings
    assert warning.startswith(f"{variable}: ")
    assert says in warning
    assert "x y z" not in warning, "what is in it may be a secret"


def test_a_command_warns_of_a_strange_variable_once_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('features.names = ["a"]\ngrid.steps = [1.0]\nwindow.length = 9\nsolver.C = 1.0\n', "utf-8")
    result = CliRunner().invoke(
        app, ["topics", "acls", "--definition", str(file), "--json"], env={"DELTAPLANE_TEAM_OF_OURS": "blue"}
    )
    assert result.exit_code == 0
    assert result.stderr.count("DELTAPLANE_TEAM_OF_OURS: there is no such setting") == 1


# By one declaration --------------------------------------------------------------------------------------------------


def commands(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with the words that call it."""
    inner: dict[str, Any] = getattr(group, "commands", {})
    for word, command in inner.items():
        yield from commands(command, f"{name} {word}".strip())
    if not inner:
        yield name, group


def test_every_setting_is_a_flag_of_each_command_that_heeds_it() -> None:
    flags = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands(typer.main.get_command(app))
    }
    for knob in fields(Knobs):
        heeded_by = knob.metadata["heeded_by"]
        assert heeded_by, knob.name
        for command in heeded_by:
            assert f"--{knob.name.replace('_', '-')}" in flags[command], (command, knob.name)
    asking = [name for name, options in flags.items() if "--definition" in options and "--broker" in options]
    assert len(asking) > 15
    for name in asking:
        assert "--kafka" in flags[name], name
        assert {"--central-broker"} <= flags[name] or name == "replay", name


@pytest.mark.parametrize("name", [knob.name for knob in fields(Knobs)])
def test_every_setting_is_a_flag_a_variable_and_a_key(name: str) -> None:
    _, by_environment, _ = OTHER_VALUES[name]
    by_flag = resolve({name: by_environment}).knobs
    assert by_flag != Knobs()
    assert resolve({}, {f"DELTAPLANE_{name.upper()}": str(by_environment)}).knobs == by_flag
    assert resolve({}, {}, {"service": {name: by_environment}}).knobs == by_flag


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "environment", "tables", "says"),
    [
        ({}, {}, {"service": {"brokers": "a:1"}}, "service.brokers: .*'broker'"),
        ({"refreshing": 1}, {}, {}, "--refreshing: .*'refresh_seconds'"),
        ({}, {}, {"service": []}, r"service: expected a table \[service\]"),
        ({}, {}, {"kafka": "a=b"}, r"kafka: expected a table \[kafka\]"),
        ({}, {}, {"kafka": {"client.id": ["a"]}}, "kafka.client.id: expected a text"),
        ({}, {}, {"service": {"poll_records": 1.5}}, "service.poll_records: expected a whole number, got 1.5"),
        ({}, {}, {"service": {"poll_records": True}}, "service.poll_records: expected a whole number, got True"),
        ({}, {}, {"service": {"metrics_address": 9108}}, "service.metrics_address: expected a text, got 9108"),
        ({}, {"DELTAPLANE_POLL_RECORDS": "0"}, {}, "DELTAPLANE_POLL_RECORDS: expected from 1 to 10000, got 0"),
        ({}, {"DELTAPLANE_POLL_RECORDS": "many"}, {}, "DELTAPLANE_POLL_RECORDS: expected a whole number, got 'many'"),
        ({}, {"DELTAPLANE_REFRESH_SECONDS": "nan"}, {}, "DELTAPLANE_REFRESH_SECONDS: expected from 0 to 3600, got nan"),
        ({"refresh_seconds": -1.0}, {}, {}, "--refresh-seconds: expected from 0 to 3600, got -1.0"),
        ({}, {}, {"service": {"refresh_seconds": 10**400}}, "service.refresh_seconds: expected a number"),
        ({}, {}, {"service": {"poll_records": 10**400}}, "service.poll_records: expected from 1 to 10000"),
        ({"replication_factor": 0}, {}, {}, "replication_factor: expected -1"),
        ({"instance": "a b"}, {}, {}, "instance: expected at most 249 letters.*'a b'"),
        ({}, {"DELTAPLANE_INSTANCE": "worker/{hostname}"}, {}, "instance: .*'worker/"),
        ({}, {"DELTAPLANE_LOG_LEVEL": "loud"}, {}, "DELTAPLANE_LOG_LEVEL: expected one of debug, info.*'loud'"),
        ({"site": "New York"}, {}, {}, "site: expected letters"),
        ({"metrics_address": "localhost"}, {}, {}, "metrics_address: expected HOST:PORT"),
        ({"metrics_address": "localhost:70000"}, {}, {}, "metrics_address: expected HOST:PORT"),
        ({"broker": "localhost"}, {}, {}, "--broker: expected HOST:PORT.*'localhost'"),
        ({"broker": "a:1,,b:2"}, {}, {}, "--broker: expected HOST:PORT"),
        ({"broker": "a:0"}, {}, {}, "--broker: expected HOST:PORT"),
        ({}, {"DELTAPLANE_CENTRAL_BROKER": "a:1 b:2"}, {}, "DELTAPLANE_CENTRAL_BROKER: expected HOST:PORT"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_was_expected(
    flags: dict[str, Any], environment: dict[str, str], tables: dict[str, Any], says: str
) -> None:
    with pytest.raises(DefinitionError, match=says):
        resolve(flags, environment, tables)


def test_a_mistake_in_the_streams_own_tables_is_still_refused() -> None:
    with pytest.raises(DefinitionError, match="windw"):
        resolve({}, {}, {"windw": {}, "service": {"site": "Paris"}})
