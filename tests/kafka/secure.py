"""A Kafka that lets nobody in without a name, and allows nothing that was not allowed to that name.

One node. Clients must speak TLS and log in by SCRAM-SHA-512; StandardAuthorizer denies what no ACL allows. Key and
certificate are made by Java's own keytool for each run, and nothing is trusted but that certificate. The listener that
brokers talk by stays in the clear on this machine: whoever comes in there is the super user, which is how users and
ACLs are made.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from kafka.clients import PATIENCE_SECONDS
from kafka.cluster import KafkaCluster
from kafka.distribution import find_java

_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Delete": AclOperation.DELETE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "AlterConfigs": AclOperation.ALTER_CONFIGS,
}
_RESOURCES = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}


@dataclass
class SecureKafka:
    """A running one; users are made with :meth:`add_users`."""

    cluster: KafkaCluster
    certificate: Path
    super_user: AdminClient
    passwords: dict[str, str] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def start(cls, directory: Path) -> Iterator[SecureKafka]:
        """Make a certificate, and start a broker that shows it."""
        password = secrets.token_hex(16)
        store, certificate = certified(directory, password)
        client, scram = "listener.name.client", "org.apache.kafka.common.security.scram.ScramLoginModule"
        properties = {
            f"{client}.ssl.keystore.location": str(store),
            f"{client}.ssl.keystore.password": password,
            f"{client}.ssl.keystore.type": "PKCS12",
            f"{client}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{client}.scram-sha-512.sasl.jaas.config": f"{scram} required;",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": "User:ANONYMOUS",
        }
        with KafkaCluster.start(directory / "kafka", client_protocol="SASL_SSL", properties=properties) as cluster:
            yield cls(cluster, certificate, AdminClient({"bootstrap.servers": cluster.bootstrap_inside}))

    @property
    def bootstrap(self) -> str:
        """Where clients come in."""
        return self.cluster.bootstrap

    @property
    def inside(self) -> dict[str, Any]:
        """Properties of a client that may do anything."""
        return {"bootstrap.servers": self.cluster.bootstrap_inside}

    def add_users(self, names: Iterable[str]) -> None:
        """Make users, each with a password of its own."""
        self.passwords |= {name: secrets.token_hex(16) for name in names}
        credentials: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(
                name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), self.passwords[name].encode()
            )
            for name in names
        ]
        for future in self.super_user.alter_user_scram_credentials(credentials).values():
            future.result(PATIENCE_SECONDS)

    def properties(self, user: str) -> dict[str, str]:
        """What a client must be told to come in as a user, beside the address."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self.passwords.get(user, "no password"),
            "ssl.ca.location": str(self.certificate),
        }

    def allow(self, acls: Iterable[Mapping[str, Any]]) -> None:
        """Allow what ``deltaplane topics acls --json`` says."""
        bindings = [
            _binding(AclBinding, acl, _OPERATIONS[operation]) for acl in acls for operation in acl["operations"]
        ]
        for future in self.super_user.create_acls(bindings).values():
            future.result(PATIENCE_SECONDS)

    def take_back(self, acl: Mapping[str, Any]) -> None:
        """Allow no more what was allowed."""
        filters = [_binding(AclBindingFilter, acl, _OPERATIONS[operation]) for operation in acl["operations"]]
        for future in self.super_user.delete_acls(filters).values():
            assert len(future.result(PATIENCE_SECONDS)) == 1, f"there was no such right: {acl}"


def _binding(kind: Any, acl: Mapping[str, Any], operation: AclOperation) -> Any:
    assert (acl["pattern"], acl["permission"], acl["host"]) == ("literal", "allow", "*")
    return kind(
        _RESOURCES[acl["resource"]],
        acl["name"],
        ResourcePatternType.LITERAL,
        acl["principal"],
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


def certified(
    directory: Path, password: str, name: str = "ip:127.0.0.1", begins: str = "-0d", days: int = 2
) -> tuple[Path, Path]:
    """A new key store with a key for this machine, and its certificate in PEM; keytool lies beside java.

    ``name``: what the certificate is for; ``begins`` and ``days``: from when on it is valid, as keytool has it.
    """
    java = Path(find_java()[0]).resolve()
    store, certificate = directory / "broker.p12", directory / "broker.pem"
    of_store = ["-alias", "broker", "-keystore", str(store), "-storepass", password]
    make = ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=test broker"]
    for arguments in (
        [*make, "-startdate", begins, "-validity", str(days), "-ext", f"san={name}", "-storetype", "PKCS12", *of_store],
        ["-exportcert", "-rfc", "-file", str(certificate), *of_store],
    ):
        # Two short lives of Java: compiling well what runs once takes longer than running it.
        command = [str(java.with_name("keytool")), "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return store, certificate
