"""The table of rights: what it says is what the page on security shows, and what must never be in it is not."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path

import pytest

from deltaplane.errors import DefinitionError
from deltaplane_services.definition_file.definition_tables import load_tables
from deltaplane_services.definition_file.settings import resolve_settings
from deltaplane_services.kafka.access import (
    MERGERS,
    ROLES,
    SCORERS,
    WORKERS,
    acls,
    group_name,
    principals_named,
    rights_table,
)
from deltaplane_services.kafka.clients import merger_clients, scorer_clients, worker_clients
from deltaplane_services.kafka.membership import Principal
from deltaplane_services.processors.topics import CENTRAL_TOPICS, SITE_TOPICS, TOPICS
from services.settings_stream import resolve
from services.test_replay import run_main

TOP = Path(__file__).parents[2]
DEFINITION = TOP / "examples" / "deltaplane.toml"


def who_may(operation: str, topic: str) -> set[str]:
    return {
        role
        for role, described in ROLES.items()
        for right in described.rights
        if right.resource == "topic" and right.name == topic and operation in right.operations
    }


def test_every_topic_is_written_by_those_who_answer_for_it_and_nobody_else() -> None:
    assert {topic: who_may("Write", topic) for topic in TOPICS} == {
        "samples": {"producer", "intake"},
        "retirements": {"retirer", "intake"},
        "deltas": {"worker", "operator", "historian"},
        "checkpoints": {"merger"},
        "models": {"merger"},
        "queries": {"client"},
        "predictions": {"scorer"},
        "receipts": {"worker", "historian"},
        "dead-letters": {"worker", "merger", "scorer", "intake"},
    }


def test_raw_rows_are_read_by_workers_auditors_judges_and_by_the_intake_that_publishes_them() -> None:
    assert who_may("Read", "samples") == {"worker", "auditor", "intake", "judge"}
    assert who_may("Read", "retirements") == {"worker", "auditor"}
    assert who_may("Read", "queries") == {"scorer"}
    assert who_may("Read", "dead-letters") == {"inspector"}
    assert not any({"Read", "Write"} & set(right.operations) for right in ROLES["administrator"].rights)


def test_a_right_is_on_the_cluster_where_its_topic_lies() -> None:
    for described in ROLES.values():
        for right in described.rights:
            if right.resource == "topic":
                assert right.name in (SITE_TOPICS if right.cluster == "site" else CENTRAL_TOPICS)


def test_topics_that_come_from_outside_are_those_that_no_service_writes() -> None:
    services = {"worker", "merger", "scorer"}
    for name, topic in TOPICS.items():
        assert topic.from_outside == (not who_may("Write", name) & services), name


@pytest.mark.parametrize("role", ["worker", "merger", "scorer", "intake", "judge"])
def test_a_service_may_see_the_settings_of_every_topic_that_it_works_on_and_does_without(role: str) -> None:
    for cluster in ("site", "central"):
        seen = [
            right.name
            for right in ROLES[role].rights
            if right.cluster == cluster and right.operations == ("DescribeConfigs",) and right.optional
        ]
        assert seen == list(ROLES[role].topics(cluster))


def test_groups_are_those_that_the_services_join() -> None:
    settings = resolve({"site": "north"})
    of = {
        WORKERS: worker_clients(settings).party,
        MERGERS: merger_clients(settings).party,
        SCORERS: scorer_clients(settings).party,
    }
    names = {group: group_name(settings, group) for group in of}
    assert {group: party.group for group, party in of.items()} == names
    assert names == {
        "workers": "electricity.workers.north",
        "mergers": "electricity.mergers",
        "scorers": "electricity.scorers",
    }


def test_a_client_is_called_by_its_name_and_never_by_its_password() -> None:
    word = "sesame" * 2
    named = Principal.of({"sasl.username": "w", "sasl.password": word, "group.id": "g"})
    certified = Principal.of({"ssl.certificate.location": "/etc/w.pem", "ssl.key.password": word})
    assert (named.who, named.group) == ("user 'w'", "g")
    assert certified.who == "the holder of /etc/w.pem"
    assert "which gave no name" in Principal.of({"sasl.password": word}).who
    assert word not in f"{named}{certified}{named.not_allowed('Read', 'topic t')}"


def test_commands_and_json_say_the_same_and_survive_a_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = "User:CN=w $(reboot);'x', O=y z"
    options = ("--definition", DEFINITION, "--principal", f"worker={odd}", "--central-broker", "far:9")
    assert run_main(("topics", "acls", *options, "--kafka", "central.security.protocol=SSL"), monkeypatch) == 0
    lines = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    assert run_main(("topics", "acls", *options, "--json"), monkeypatch) == 0
    found = json.loads(capsys.readouterr().out)
    named = {(right.cluster, right.resource, right.name) for right in ROLES["worker"].rights}
    assert len(lines) == len(found) == len(named)
    for words, acl in zip(lines, found, strict=True):
        assert words[0] == "kafka-acls.sh"
        assert words[words.index("--bootstrap-server") + 1] == acl["broker"]
        assert ("--command-config" in words) == (acl["cluster"] == "central")
        assert words[words.index("--allow-principal") + 1] == acl["principal"] == odd
        assert [words[at + 1] for at, word in enumerate(words) if word == "--operation"] == acl["operations"]
        assert words[-2:] == [f"--{acl['resource']}", acl["name"]]
        assert (acl["broker"] == "far:9") == (acl["cluster"] == "central")


def test_a_right_that_may_be_left_out_is_printed_and_not_asked_for_at_the_start() -> None:
    (acl,) = [one for one in acls(resolve({}), [("worker", "User:w")]) if one.name == "electricity.samples"]
    assert acl.operations == ("Read", "DescribeConfigs")
    assert ROLES["worker"].topics("site")["samples"] == ("Read",)


def test_records_are_deleted_by_whoever_was_told_to_trim_and_by_nobody_else() -> None:
    assert {topic: who_may("Delete", topic) for topic in TOPICS if who_may("Delete", topic)} == {
        "samples": {"trimmer"},
        "retirements": {"trimmer"},
    }


def test_on_one_cluster_what_lies_on_both_is_allowed_once() -> None:
    together = acls(resolve({"broker": "a:1"}), [("inspector", "User:i")])
    apart = acls(resolve({"broker": "a:1", "central_broker": "b:2"}), [("inspector", "User:i")])
    assert [acl.name for acl in together] == ["electricity.dead-letters"]
    assert [acl.broker for acl in apart] == ["a:1", "b:2"]


@pytest.mark.parametrize("text", ["", "worker", "worker=", "worker=w", "worker=User:", "worker=User:*", "boss=User:b"])
def test_a_principal_that_is_none_is_refused_with_the_roles_there_are(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"--principal: expected ROLE=User:NAME with a role of producer, retirer"):
        principals_named([text])


def test_the_page_on_security_shows_the_table_as_it_is() -> None:
    settings = resolve({}, {}, tomllib.loads(DEFINITION.read_text("utf-8")))
    assert rights_table(settings.definition) in (TOP / "SECURITY.md").read_text("utf-8")


def test_an_intake_may_read_the_topics_that_its_definition_names_and_they_keep_their_names() -> None:
    labels = {"topic": "charge.backs", "id": "payment", "value": "1"}
    tables = {**load_tables(DEFINITION), "intake": {"topic": "payments", "id": "ref", "labels": labels}}
    settings = resolve_settings({"site": "north"}, {}, tables)
    found = {(one.resource, one.name): one.operations for one in acls(settings, [("intake", "User:i")])}
    assert found["topic", "payments"] == found["topic", "charge.backs"] == ("Read",)
    assert found["group", "electricity.intakes.north"] == ("Read",)
    assert ("topic", "payments") not in {(one.resource, one.name) for one in acls(settings, [("worker", "User:w")])}
