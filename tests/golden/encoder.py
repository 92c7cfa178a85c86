"""An encoder and records whose features every machine must reproduce: the committed table is ``encoder.json``.

To write it anew: ``cd tests && python -m golden.encoder``, in the project's environment. If the features change, a
stream with ``[columns]`` must be started anew: ``VERSION`` of :mod:`deltaplane.columns.encoder` goes up, which changes
its fingerprint, and the change log says so.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from column_rows import ENCODER, GOOD
from deltaplane.table_values import canonical_json

FILE = Path(__file__).parent / "encoder.json"

_RECORDS: tuple[dict[str, Any], ...] = (
    {},
    {"amount": 0.1, "balance": 1e-9, "merchant": "Käserei", "begun": 0},
    {"amount": "-1e300", "balance": 1e300, "merchant": "🧀", "begun": "2024-02-29T23:59:59.999Z"},
    {"amount": 3, "balance": 3, "merchant": "", "begun": "0001-01-03", "country": "de"},
    {"amount": 3, "balance": -123456.789, "merchant": "a b", "begun": "9999-12-29 12:34", "country": 5411.0},
)
RECORDS = tuple({**GOOD, **record} for record in _RECORDS)


def table() -> dict[str, object]:
    """What this machine makes of the records, with the identity of the encoder and the SHA-256 that stands for it."""
    identity = canonical_json(ENCODER.identity)
    encoded = ENCODER.encode_records(RECORDS)
    assert not encoded.refused, encoded.refused
    rows = [" ".join(value.hex() for value in row) for row in encoded.features.tolist()]
    return {"identity": ENCODER.identity, "sha256": hashlib.sha256(identity.encode()).hexdigest(), "rows": rows}


def main() -> None:
    """Write the table anew."""
    FILE.write_text(json.dumps(table(), indent=1, sort_keys=True) + "\n", "ascii")


if __name__ == "__main__":
    main()
