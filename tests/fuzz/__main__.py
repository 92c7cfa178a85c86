"""``python -m fuzz``: so many damaged inputs, what came of them, and an exit code that says whether any did harm."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fuzz.every import every_target
from fuzz.lines import LinesSeen
from fuzz.run import NO_DECODERS, Crash, Findings, bounded, decoders, run, try_input

REPORT_EVERY_SECONDS = 30.0


def main() -> int:
    """Run once, or try one input again; 0 if nothing crashed."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Damaged messages and files: refused, and nothing else.")
    parser.add_argument("--inputs", type=int, default=100_000, help="how many (default 100,000)")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run; a new one by default")
    parser.add_argument("--only", default="", help="targets whose name begins so")
    parser.add_argument("--crashes", type=Path, default=Path("fuzz-crashes"), help="where inputs that crash are put")
    parser.add_argument("--input", type=Path, default=None, help="try this file again, with the one target of --only")
    parser.add_argument("--unseen", action="store_true", help="list the lines that no input reached")
    given = parser.parse_args()
    targets = [target for target in every_target() if target.name.startswith(given.only)]
    console = Console(width=120, highlight=False)
    if given.input is not None:
        with bounded():
            came = try_input(targets[0], given.input.read_bytes())
        console.print(came.trace if isinstance(came, Crash) else f"{targets[0].name}: {came}", markup=False)
        return int(isinstance(came, Crash))
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    console.print(
        f"fuzz: seed {seed}, {given.inputs:,} inputs; repeat with: make fuzz INPUTS={given.inputs} SEED={seed}"
    )
    lines = LinesSeen(decoders(), NO_DECODERS)
    said_at = time.monotonic()

    kept = 0

    def said(findings: Findings) -> None:
        nonlocal said_at, kept
        # A crash is told at once: a long run may be ended before its end.
        for crash in findings.crashes[kept:]:
            keep(console, crash, given.crashes / f"{seed}-{kept}.input")
            kept += 1
        if time.monotonic() - said_at > REPORT_EVERY_SECONDS:
            said_at = time.monotonic()
            console.print(f"{findings.inputs:>9,} inputs, {findings.seconds:.0f} s, {len(findings.crashes)} crashes")

    findings = run(targets, given.inputs, seed, lines, said)
    show(console, findings, lines, unseen=given.unseen)
    return int(bool(findings.crashes))


def show(console: Console, findings: Findings, lines: LinesSeen, *, unseen: bool) -> None:
    """The tables of a run."""
    table = Table(title="What came of the inputs", title_justify="left")
    for name in ("target", "inputs", "outcomes", "slowest"):
        table.add_column(name, justify="right" if name in ("inputs", "slowest") else "left", overflow="fold")
    for name, outcomes in findings.outcomes.items():
        words = ", ".join(f"{word} {count:,}" for word, count in outcomes.most_common())
        table.add_row(name, f"{outcomes.total():,}", words, f"{1000 * findings.slowest.get(name, 0.0):.0f} ms")
    console.print(table)
    table = Table(title="Lines of the decoders that inputs reached", title_justify="left")
    for name in ("module", "lines", "reached", "share"):
        table.add_column(name, justify="left" if name == "module" else "right")
    every = {path: (len(known), len(lines.seen(path))) for path, known in lines.lines.items() if known}
    for path, (known, reached) in every.items():
        table.add_row("/".join(Path(path).parts[-3:]), str(known), str(reached), f"{reached / known:.0%}")
    known, reached = (sum(one[at] for one in every.values()) for at in (0, 1))
    table.add_row("all", str(known), str(reached), f"{reached / known:.1%}", style="bold")
    console.print(table)
    for path, own in lines.lines.items() if unseen else ():
        console.print(f"{'/'.join(Path(path).parts[-2:])}: {sorted(own - lines.seen(path))}")
    console.print(
        f"{findings.inputs:,} inputs in {findings.seconds:.0f} s, {findings.seeds_found:,} of them reached new lines;"
        f" {len(findings.crashes)} kinds of crashes; {findings.peak_bytes / 2**20:.0f} MiB at most"
    )


def keep(console: Console, crash: Crash, path: Path) -> None:
    """Write down an input that crashed, and say how to try it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(crash.data)
    console.print(f"CRASH of {crash.target}: {crash.what} at {crash.where}", style="red", markup=False)
    again = f"PYTHONPATH=tests python -m fuzz --only '{crash.target}' --input {path}"
    console.print(f"  again: {again}", markup=False, soft_wrap=True)
    console.print("".join(crash.trace.splitlines(keepends=True)[-6:]), markup=False)


if __name__ == "__main__":
    sys.exit(main())
