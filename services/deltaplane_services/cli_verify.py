"""``deltaplane verify-receipt``: whether what a receipt says is what the log gives."""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane_services.cli_options import Broker, CentralBroker, DefinitionFile, KafkaProperty, Site, check, resolve
from deltaplane_services.plain import echo


def verify_receipt(
    ids: Annotated[list[str], typer.Argument(help="Ids of samples that were retired.")],
    definition: DefinitionFile,
    broker: Broker = None,
    central_broker: CentralBroker = None,
    site: Site = None,
    kafka: KafkaProperty = None,
) -> None:
    """Replay the tiles that retired these ids, and hold digests and outcomes against the receipts; 1 if one differs."""
    from deltaplane_services.kafka.verify_receipt import verify_receipts

    settings = resolve(definition, broker=broker, central_broker=central_broker, site=site, kafka=kafka)
    check(settings, "auditor")
    differs = False
    for sample_id in ids:
        for verified in verify_receipts(settings, sample_id):
            receipt = verified.receipt
            where = f"source {receipt.source}, tile {receipt.sequence}, retirement at offset {receipt.offset}"
            echo(f"{sample_id}: {receipt.outcome}; {where}")
            echo(f"  digest before {receipt.digest_before}")
            echo(f"  digest after  {receipt.digest_after}")
            if verified.equal:
                version = verified.model_version
                model = "no model contains it yet" if version is None else f"model {version} contains it"
                echo(f"  verified: the log gives the same; {model}", typer.colors.GREEN)
            else:
                differs = True
                echo(f"  NOT VERIFIED: the log gives {verified.found}", typer.colors.RED)
    if differs:
        raise typer.Exit(1)
