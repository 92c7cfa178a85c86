"""Under TLS, passwords and ACLs: each role can do its work with what the table gives it, and nothing else.

One broker that denies what is not allowed, one principal for each role. What is allowed is applied as ``deltaplane
topics acls`` prints it, so the table that people read is the table that is tested.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from deltaplane.log.history import History
from deltaplane.log.partial import Partial
from deltaplane.log.records import Query
from deltaplane.reference import Reference
from deltaplane.wire import read_prediction, write_query
from deltaplane.wire.histories import write_history
from deltaplane_services.client import SampleProducer
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings
from deltaplane_services.definition_file.toml_writer import as_toml
from deltaplane_services.kafka.access import ROLES
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.membership import NotAllowed
from deltaplane_services.processors.messages import TOPICS
from kafka.clients import PATIENCE_SECONDS, wait_until
from kafka.rows import Rows
from kafka.secure import SecureKafka, certified
from kafka.services import STREAM, ServiceProcess, Stream

NAME = "guarded"
TABLES: Mapping[str, Any] = {"window": {"length": 700}, "input": {"label": "label", "id": "id", "time": "time"}}
SERVICES = ("worker", "merger", "scorer")


class Guarded:
    """The stream under lock and key; everything is done as somebody."""

    def __init__(self, secure: SecureKafka, stream: Stream) -> None:
        self.secure = secure
        self.stream = stream
        self.reference = Reference(stream.definition)
        self.rows = 0

    def acls(self, *principals: str) -> list[dict[str, Any]]:
        """What ``topics acls`` says that these need."""
        options = [word for principal in principals for word in ("--principal", principal)]
        found: list[dict[str, Any]] = json.loads(self.stream.run("topics", "acls", "--json", *options).stdout)
        return found

    def identity(self, user: str, **others: str) -> dict[str, str]:
        """Variables by which a command comes in as a user."""
        properties = {**self.secure.properties(user), **others}
        return {f"DELTAPLANE_KAFKA_{name.upper().replace('.', '_')}": text for name, text in properties.items()}

    def settings(self, user: str) -> ServiceSettings:
        """The same for a client of this process."""
        service = {"broker": self.secure.bootstrap}
        tables = {"name": NAME, **STREAM, **TABLES, "service": service, "kafka": self.secure.properties(user)}
        return resolve_settings({}, {}, tables)

    def run(self, user: str, *arguments: str | Path, code: int = 0) -> str:
        """A command as a user, to its end: all that it said."""
        ended = self.stream.run(*arguments, code=code, **self.identity(user))
        return ended.stdout + ended.stderr

    def start(self, role: str, user: str | None = None) -> ServiceProcess:
        return self.stream.start(role, **self.identity(user or role))

    def publish(self, rows: Rows, directory: Path) -> None:
        """Publish rows as the producer."""
        self.rows += len(rows)
        self.run("producer", "produce", rows.write(directory / f"{self.rows}.csv"))
        rows.tell(self.reference)

    def produce(self, count: int, directory: Path) -> None:
        """Publish new rows as the producer, and wait until a model has them."""
        self.publish(Rows(count, seed=self.rows, ids_from=self.rows), directory)
        self.stream.wait_for_digest(self.digest, f"after {count} rows")

    def retire(self, sample_id: str) -> str:
        self.reference.retire(sample_id)
        said = self.run("retirer", "retire", sample_id)
        self.stream.wait_for_digest(self.digest, f"{sample_id} is out")
        return said

    @property
    def digest(self) -> str:
        return self.reference.statistics().digest(self.stream.definition.data_fingerprint)

    def ends(self) -> dict[tuple[str, int], int]:
        """The end of every partition of the stream, as a super user sees it."""
        with Consumer({**self.secure.inside, "group.id": "looks"}) as consumer:
            partitions = {topic: 1 if TOPICS[topic].single else self.stream.definition.partitions for topic in TOPICS}
            return {
                (topic, partition): consumer.get_watermark_offsets(
                    TopicPartition(f"{NAME}.{topic}", partition), timeout=PATIENCE_SECONDS
                )[1]
                for topic, count in partitions.items()
                for partition in range(count)
            }

    def ended_for_want_of_a_right(self, service: ServiceProcess) -> str:
        """The one line by which it ended with exit code 2; nothing secret is in what it said, and no traceback."""
        assert service.wait() == 2, service.tail()
        if service in self.stream.processes:
            self.stream.processes.remove(service)
        assert "Traceback" not in service.log
        assert not [name for name, word in self.secure.passwords.items() if word in service.log]
        last = service.log.strip().splitlines()[-1]
        assert last.startswith("deltaplane: "), service.tail()
        return last


@pytest.fixture(scope="module")
def guarded(secure_kafka: SecureKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The stream with its topics, its rights, and its services, each as a principal of its own."""
    secure_kafka.add_users([*ROLES, "nobody"])
    directory = tmp_path_factory.mktemp("guarded")
    service = {"checkpoint_seconds": 0.3, "metrics_address": "127.0.0.1:0", "trim_seconds": 0.5}
    with Stream.of(
        directory, NAME, secure_kafka.bootstrap, service=service, kafka=secure_kafka.properties("viewer"), **TABLES
    ) as stream:
        made = Guarded(secure_kafka, stream)
        secure_kafka.allow(made.acls(*(f"{role}=User:{role}" for role in ROLES)))
        made.run("administrator", "topics", "create")
        for role in SERVICES:
            made.start(role)
        yield made


def test_the_whole_pipeline_runs_with_one_principal_for_each_role(guarded: Guarded, tmp_path: Path) -> None:
    stream = guarded.stream
    guarded.produce(900, tmp_path)
    assert "row-899: retired, model" in guarded.retire("row-899")
    with SampleProducer(guarded.settings("producer")) as samples:
        row = Rows.single("by hand", "yes", np.array([[1.0, 2.0, 3.0]]))
        samples.send(row.ids[0], int(row.times[0]), row.labels[0], row.features[0].tolist())
    row.tell(guarded.reference)
    stream.wait_for_digest(guarded.digest, "a sample sent from Python")

    query = write_query(Query("who", np.array([1.0, 2.0, 3.0]), stream.definition.data_fingerprint))
    assert refusals_of_writing(guarded, "client", {"queries": query}) == {}
    predictions = reader(guarded.settings("client"), "central")
    wait_until(lambda: predictions.bounds("predictions", 0)[1] == 1, "the query is answered")
    assert [read_prediction(one.value).id for one in predictions.read("predictions", 0, 0, 1)] == ["who"]
    predictions.close()

    assert guarded.run("auditor", "audit").endswith("equal\n")
    assert "elsewhere/0: removed" in guarded.run("operator", "source", "remove", "elsewhere/0", "--force")


def test_the_brokers_give_each_role_what_the_table_says_and_no_more(guarded: Guarded) -> None:
    for role, described in ROLES.items():
        client = AdminClient({"bootstrap.servers": guarded.secure.bootstrap, **guarded.secure.properties(role)})
        wanted: dict[str, set[str]] = {topic: set() for topic in TOPICS}
        for cluster in ("site", "central"):
            for right in described.rights:
                if (right.cluster, right.resource) == (cluster, "topic"):
                    # Who may read or write may, by Kafka's own rule, see that the topic is there.
                    seen = {"Describe"} if {"Read", "Write"} & set(right.operations) else set()
                    wanted[right.name] |= {*right.operations, *seen}
        names = TopicCollection([f"{NAME}.{topic}" for topic in TOPICS])
        for name, future in client.describe_topics(names, include_authorized_operations=True).items():
            error = future.exception(PATIENCE_SECONDS)
            found = set() if error else {one.name for one in future.result().authorized_operations or ()}
            expected = {
                {"DescribeConfigs": "DESCRIBE_CONFIGS", "AlterConfigs": "ALTER_CONFIGS"}.get(one, one.upper())
                for one in wanted[name.removeprefix(f"{NAME}.")]
            }
            assert found == expected, f"{role} on {name}"


def refusals_of_writing(guarded: Guarded, user: str, records: Mapping[str, bytes]) -> dict[str, str]:
    """Try to write a record to each topic as a user: topic to the name of the error, where there was one."""
    refused: dict[str, str] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused[str(message.topic()).removeprefix(f"{NAME}.")] = error.name()

    producer = Producer({"bootstrap.servers": guarded.secure.bootstrap, **guarded.secure.properties(user)})
    for topic, value in records.items():
        producer.produce(f"{NAME}.{topic}", value, key=b"forged", partition=0, on_delivery=delivered)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return refused


def test_what_a_role_may_not_write_is_refused_and_nothing_changes(guarded: Guarded, tmp_path: Path) -> None:
    before = guarded.ends()
    forged = read_genuine_records(guarded)
    attempts = 0
    for role, described in ROLES.items():
        allowed = {right.name for right in described.rights if "Write" in right.operations}
        records = {topic: forged.get(topic, b"forged") for topic in TOPICS if topic not in allowed}
        assert refusals_of_writing(guarded, role, records) == dict.fromkeys(records, "TOPIC_AUTHORIZATION_FAILED"), role
        attempts += len(records)
    assert attempts == 118, "all that the table leaves out"

    written = {place: end for place, end in guarded.ends().items() if end != before[place]}
    assert all(topic in {"checkpoints", "models"} for topic, _ in written), "only what the merger writes by itself"
    guarded.produce(100, tmp_path)


def read_genuine_records(guarded: Guarded) -> dict[str, bytes]:
    """One record of each topic as it lies there: a forgery that would do harm if it were let in."""
    with Consumer({**guarded.secure.inside, "group.id": "looks", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(f"{NAME}.{topic}", 0, 0) for topic in TOPICS])
        found: dict[str, bytes] = {}

        def enough() -> bool:
            for message in consumer.consume(500, timeout=0.1):
                if message.error() is None and message.topic() is not None:
                    found[str(message.topic()).removeprefix(f"{NAME}.")] = bytes(message.value() or b"")
            return {"samples", "deltas", "models", "checkpoints", "queries"} <= found.keys()

        wait_until(enough, "a record of each topic that matters")
    return found


@pytest.mark.parametrize(
    ("role", "topic"),
    [
        ("worker", "queries"),
        ("scorer", "samples"),
        ("producer", "samples"),
        ("merger", "samples"),
        ("retirer", "retirements"),
        ("client", "queries"),
        ("intake", "queries"),
        ("judge", "queries"),
        ("administrator", "samples"),
    ],
)
def test_what_a_role_may_not_read_is_refused_by_name(guarded: Guarded, role: str, topic: str) -> None:
    ends = guarded.ends()
    partition = next(partition for (of, partition), end in ends.items() if of == topic and end)
    log = reader(guarded.settings(role), "site")
    try:
        with pytest.raises(NotAllowed, match=rf"user '{role}' may not Read topic {NAME}\.{topic} \(TOPIC_AUTHORIZ"):
            list(log.read(topic, partition, 0, 1))
    finally:
        log.close()


def test_whoever_may_read_models_alone_sees_raw_weights_and_is_told_why(guarded: Guarded) -> None:
    shown = guarded.run("viewer", "model", "show")
    assert "weights are in raw units" in shown
    assert f"may not Read topic {NAME}.checkpoints" in shown
    assert "intercept" in shown
    assert "raw units" not in guarded.run("viewer", "model", "show", "--raw")
    # Whoever may read the statistics, too, sees weights that can be ranked.
    ranked = guarded.run("auditor", "model", "show")
    assert "weight times deviation" in ranked
    assert "intercept" not in ranked


def test_a_merger_that_may_delete_no_records_says_so_once_and_goes_on(guarded: Guarded, tmp_path: Path) -> None:
    guarded.produce(10, tmp_path)
    (merger,) = [process for process in guarded.stream.processes if "merger" in process.name]
    (said,) = merger.wait_for(rf"WARNING .*trim: kafka: user 'merger' may not .* topic {NAME}\.samples .*")
    assert "trying again every 0.5 s" in said[0]
    guarded.produce(10, tmp_path)
    assert merger.running
    assert len(merger.wait_for("trim: kafka")) == 1


def test_whoever_may_trim_may_do_it_and_a_dry_run_needs_no_more(guarded: Guarded, tmp_path: Path) -> None:
    guarded.produce(1500, tmp_path)
    logs = json.loads(guarded.run("trimmer", "topics", "trim", "--json", "--margin-records", "0", "--dry-run"))["logs"]
    assert {(log["topic"], log["let_go"]) for log in logs} == {("samples", False), ("retirements", False)}
    log = reader(guarded.settings("auditor"), "site")
    assert [log.bounds("samples", partition)[0] for partition in (0, 1)] == [0, 0]
    said = guarded.run("trimmer", "topics", "trim", "--margin-records", "0", "--margin-share", "0")
    assert "local/0 samples: 0 to " in said
    log.close()
    guarded.produce(100, tmp_path)


def test_settings_that_a_service_may_not_see_are_said_once_and_keep_nobody_from_work(
    guarded: Guarded, tmp_path: Path
) -> None:
    acls = [
        {**acl, "operations": [one for one in acl["operations"] if one != "DescribeConfigs"]}
        for acl in (guarded.acls("scorer=User:blind"))
    ]
    guarded.secure.add_users(["blind"])
    guarded.secure.allow([acl for acl in acls if acl["operations"]])
    seeing, blind = guarded.start("scorer"), guarded.start("scorer", "blind")
    blind.wait_for(r"the settings of .*models.* could not be checked: that needs the right to DescribeConfigs")
    guarded.produce(20, tmp_path)
    for scorer in (seeing, blind):
        assert "Traceback" not in scorer.log
        scorer.terminate()
    assert "could not be checked" not in seeing.log


def test_whoever_may_not_make_topics_is_told_so_for_each_and_none_is_made(guarded: Guarded, tmp_path: Path) -> None:
    tables = tomllib.loads(guarded.stream.definition_file.read_text("utf-8")) | {"name": f"{NAME}-unmade"}
    file = tmp_path / "unmade.toml"
    file.write_text(as_toml(tables), "utf-8")
    unmade = replace(guarded.stream, definition_file=file, settings=resolve_settings({}, {}, tables))
    acls = json.loads(unmade.run("topics", "acls", "--json", "--principal", "administrator=User:onlooker").stdout)
    guarded.secure.add_users(["onlooker"])
    guarded.secure.allow([{**acl, "operations": ["Describe", "DescribeConfigs"]} for acl in acls])
    said = unmade.run("topics", "create", code=1, **guarded.identity("onlooker")).stderr
    assert said.count("user 'onlooker' may not Create it: deltaplane topics acls --principal administrator=") == len(
        TOPICS
    )
    assert unmade.run("topics", "check", code=1, **guarded.identity("onlooker")).stderr.count("existence") == len(
        TOPICS
    )


def test_nobody_takes_a_place_in_a_group_that_is_not_theirs(guarded: Guarded) -> None:
    for role, group in {"scorer": "workers.local", "worker": "mergers", "client": "scorers"}.items():
        properties = guarded.settings(role).consumer_properties("site", f"{NAME}.{group}")
        consumer = Consumer({**properties, "log_level": 0})
        consumer.subscribe([f"{NAME}.{next(iter(ROLES[role].topics('central')))}"])
        errors: list[str] = []

        def heard(consumer: Consumer = consumer, errors: list[str] = errors) -> bool:
            errors.extend(error.name() for one in consumer.consume(10, timeout=0.1) if (error := one.error()))
            return bool(errors)

        wait_until(heard, f"{role} is refused")
        assert "GROUP_AUTHORIZATION_FAILED" in errors
        consumer.close()


def test_a_command_without_rights_says_which_are_missing_and_ends(guarded: Guarded, tmp_path: Path) -> None:
    file = Rows(5, seed=1).write(tmp_path / "rows.csv")
    other = tmp_path / "other.toml"
    other.write_text(guarded.stream.definition_file.read_text("utf-8").replace(NAME, f"{NAME}-other"), "utf-8")
    out, history = tmp_path / "out.toml", tmp_path / "history.stats"
    samples = Rows(5, seed=1).samples()
    partial = Partial.of(guarded.stream.definition, samples)
    history.write_bytes(write_history(History(guarded.stream.definition, partial)))
    commands: dict[tuple[str, ...], str] = {
        ("worker",): "worker",
        ("merger",): "merger",
        ("scorer",): "scorer",
        ("produce", str(file)): "producer",
        ("retire", "row-1"): "retirer",
        ("model", "show"): "viewer",
        ("audit",): "auditor",
        ("source", "remove", "local"): "operator",
        ("bootstrap", "publish", str(history)): "historian",
        ("bootstrap", "follow", str(history)): "historian",
        ("topics", "trim"): "trimmer",
        ("copy", "--to", str(other)): "auditor",
        ("repartition", "--partitions", "3", "--out", str(out)): "auditor",
        ("grid", "refit", "--out", str(out)): "auditor",
    }
    before = guarded.ends()
    ignore_delivery = guarded.identity("nobody")
    started = [(role, guarded.stream.start(*words, **ignore_delivery)) for words, role in commands.items()]
    for role, process in started:
        said = guarded.ended_for_want_of_a_right(process)
        assert "user 'nobody' may not" in said
        rights = [right for right in ROLES[role].rights if right.resource == "topic"]
        first = [right for right in rights if right.cluster == rights[0].cluster and not right.optional]
        for right in first:
            for operation in right.operations:
                assert f"{operation} topic {NAME}.{right.name}" in said, role
        assert f"--principal {role}=User:NAME" in said
    assert not out.exists()
    assert {p: e for p, e in guarded.ends().items() if p[0] not in {"checkpoints", "models"}} == {
        p: e for p, e in before.items() if p[0] not in {"checkpoints", "models"}
    }


def test_a_stream_is_copied_and_restored_by_who_may_fill_the_new_one_and_nobody_else_begins(
    guarded: Guarded, tmp_path: Path
) -> None:
    stream, file = guarded.stream, tmp_path / "stream.avro"
    guarded.run("auditor", "backup", file)
    tables = tomllib.loads(stream.definition_file.read_text("utf-8")) | {"name": f"{NAME}-copy"}
    to = tmp_path / "copy.toml"
    to.write_text(as_toml(tables), "utf-8")
    new = replace(stream, definition_file=to, settings=resolve_settings({}, {}, tables))
    copy = ("copy", "--to", to, "--idle-seconds", "0.5")
    guarded.secure.add_users(["copier"])

    def allow(of: Stream, *roles: str, operation: str = "") -> None:
        principals = [word for role in roles for word in ("--principal", f"{role}=User:copier")]
        acls = json.loads(of.run("topics", "acls", "--json", *principals).stdout)
        guarded.secure.allow([acl for acl in acls if operation in ("", *acl["operations"])])

    # The topics cannot be made.
    allow(stream, "auditor")
    assert "does not tell of its topics" in guarded.run("copier", *copy, code=2)
    # They can, and the retirements cannot be written.
    allow(new, "administrator", "producer")
    for of, words in ((stream, copy), (new, ("restore", file))):
        ended = of.run(*words, code=2, **guarded.identity("copier"))
        assert f"user 'copier' may not Write topic {NAME}-copy.retirements; a retirer needs that" in ended.stderr
    # Both can, and the model that is to be waited for cannot be read.
    allow(new, "retirer", operation="Write")
    ended = new.run("restore", file, "--wait", "1", code=2, **guarded.identity("copier"))
    assert f"user 'copier' may not Read topic {NAME}-copy.models; a viewer needs that" in ended.stderr
    # All this while nothing has been written.
    assert "copied: " in guarded.run("copier", *copy)


def test_a_right_that_is_taken_away_ends_the_service_with_its_name_and_given_back_nothing_is_lost(
    guarded: Guarded, tmp_path: Path
) -> None:
    rights = {
        "worker": f"{NAME}.deltas",
        "merger": f"{NAME}.models",
        "scorer": f"{NAME}.predictions",
    }
    acls = guarded.acls(*(f"{role}=User:{role}" for role in rights))
    needed = {acl["role"]: acl for acl in acls if acl["name"] == rights[acl["role"]]}
    # What a worker writes is what a merger has to write about, so not all of them at once.
    for roles in (("merger", "scorer"), ("worker",)):
        taken = [{**needed[role], "operations": ["Write"]} for role in roles]
        running = {one.name.split("-")[1]: one for one in guarded.stream.processes if one.running}
        for acl in taken:
            guarded.secure.take_back(acl)
        provoke(guarded, tmp_path)
        for role in roles:
            said = guarded.ended_for_want_of_a_right(running[role])
            assert f"user '{role}' may not Write topic {rights[role]} (TOPIC_AUTHORIZATION_FAILED)" in said
        guarded.secure.allow(taken)
        for role in roles:
            guarded.start(role)
    guarded.produce(50, tmp_path)
    assert guarded.run("auditor", "audit").endswith("equal\n")


def provoke(guarded: Guarded, directory: Path) -> None:
    """Give every service something to write."""
    query = write_query(Query("again", np.array([1.0, 2.0, 3.0]), guarded.stream.definition.data_fingerprint))
    assert refusals_of_writing(guarded, "client", {"queries": query}) == {}
    guarded.publish(Rows(60, seed=guarded.rows, ids_from=guarded.rows), directory)


def test_a_group_that_is_closed_to_a_service_ends_it(guarded: Guarded) -> None:
    groups = [acl for acl in guarded.acls(*(f"{role}=User:{role}" for role in SERVICES)) if acl["resource"] == "group"]
    for acl in groups:
        guarded.secure.take_back(acl)
    started = [(acl, guarded.start(acl["role"])) for acl in groups]
    for acl, service in started:
        said = guarded.ended_for_want_of_a_right(service)
        assert f"user '{acl['role']}' may not Read group {acl['name']} (GROUP_AUTHORIZATION_FAILED)" in said
    guarded.secure.allow(groups)


def test_a_door_that_does_not_open_says_why_and_no_secret(guarded: Guarded, tmp_path: Path) -> None:
    _, stranger = certified(tmp_path, "not the broker's")
    wrong = "a-password-that-is-wrong"
    attempts = {
        "Authentication failed": guarded.identity("worker", **{"sasl.password": wrong}),
        "certificate verify failed": guarded.identity("worker", **{"ssl.ca.location": str(stranger)}),
    }
    started = {said: guarded.stream.start("worker", **identity) for said, identity in attempts.items()}
    for expected, process in started.items():
        said = guarded.ended_for_want_of_a_right(process)
        assert expected in said
        assert wrong not in process.log
        assert len(process.log.splitlines()) < 20, "what is tried again and again is said once"
