"""Files that commands write: refused before the work, whole or not there, and private where rows are in them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deltaplane_services.definition_file.settings import without_secrets_of
from deltaplane_services.replay.run import _as_line
from deltaplane_services.system.output_files import PRIVATE, OutputFile, OutputRefused, check_output, write_text

ROWS = "a,b,label\n" + "".join(f"{n % 7},{n % 5},{n % 2}\n" for n in range(400))
LEAST = ("--label", "label", "--window", "100", "--C", "1")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    with OutputFile(path, "json") as output:
        output.file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "old", "it was not kept"
    write_text(path, "newer", "json")
    assert path.read_text() == "newer"
    assert names_in(tmp_path) == ["x"]


def test_a_failure_while_it_is_written_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with OutputFile(tmp_path / "x", "json") as output:
            output.file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("check", [check_output, lambda path, what: write_text(path, "", what)])
def test_a_place_that_cannot_be_is_refused_by_name(tmp_path: Path, check: object) -> None:
    assert callable(check)
    (tmp_path / "file").write_text("")
    for path, words in (
        (tmp_path / "no" / "x", "No such file or directory; make the directory first"),
        (tmp_path, "expected a file, got the directory"),
        (tmp_path / "file" / "x", "Not a directory"),
    ):
        with pytest.raises(OutputRefused, match=f"json: .*{words}"):
            check(path, "json")
    assert names_in(tmp_path) == ["file"]


def test_a_link_and_a_mode_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write_text(tmp_path / "link", "new", "json")
    assert (tmp_path / "link").is_symlink()
    assert ((tmp_path / "real").read_text(), mode(tmp_path / "real")) == ("new", 0o640)


def test_new_files_have_the_mode_of_new_files_and_private_ones_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_text(tmp_path / "public", "", "json")
        write_text(tmp_path / "private", "", "backup", PRIVATE)
    finally:
        os.umask(before)
    assert (mode(tmp_path / "public"), mode(tmp_path / "private")) == (0o644, 0o600)


def test_devices_are_written_to_and_stay_devices(tmp_path: Path) -> None:
    check_output(Path(os.devnull), "json")
    write_text(Path(os.devnull), "text", "json")
    assert not Path(os.devnull).is_file()
    with pytest.raises(OutputRefused, match="No space left on device; make room"):
        write_text(Path("/dev/full"), "text", "json")
    assert names_in(tmp_path) == []


def command(*arguments: str | Path, within: str = "{}") -> subprocess.CompletedProcess[str]:
    line = " ".join(f"'{word}'" for word in (sys.executable, "-m", "deltaplane_services", *map(str, arguments)))
    return subprocess.run(["bash", "-c", within.format(line)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("option", ["--json", "--report", "--retired-ids", "--write-definition", "--write-model"])
def test_a_replay_asks_for_its_outputs_before_it_begins(tmp_path: Path, option: str) -> None:
    extra = ("--retire-fraction", "0.3") if option == "--retired-ids" else ()
    # There is no such file of rows: whoever looks at that first has not asked for the output.
    ended = command("replay", tmp_path / "rows.csv", *LEAST, *extra, option, tmp_path / "no" / "x")
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
    assert f"{option[2:]}: '{tmp_path}/no/x' cannot be written" in ended.stderr


@pytest.mark.parametrize("option", ["--json", "--report", "--retired-ids", "--write-definition", "--write-model"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, option: str) -> None:
    rows, target = tmp_path / "rows.csv", tmp_path / "target"
    rows.write_text(ROWS)
    target.write_text("old and good")
    extra = ("--retire-fraction", "0.3") if option == "--retired-ids" else ()
    # No file may grow beyond a limit, which ends a write as a full disk does.
    ended = command("replay", rows, *LEAST, *extra, option, target, within="ulimit -f 0; {}")
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False), ended.stderr
    assert f"{option[2:]}: '{target}' cannot be written" in ended.stderr
    assert target.read_text() == "old and good"
    assert names_in(tmp_path) == ["rows.csv", "target"]


def test_pictures_are_all_there_or_none_is_and_their_directory_neither(tmp_path: Path) -> None:
    rows, plots = tmp_path / "rows.csv", tmp_path / "deep" / "plots"
    rows.write_text(ROWS)
    # Some pictures are smaller than this, and some are larger.
    ended = command("replay", rows, *LEAST, "--plots", plots, within="ulimit -f 40; {}")
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False), ended.stderr
    assert "plots: " in ended.stderr
    assert "cannot be written" in ended.stderr
    assert names_in(tmp_path) == ["rows.csv"]
    (tmp_path / "bad.csv").write_text("a,b,label\n1,2,x\n")
    for file in ("bad.csv", "there is none.csv"):
        assert command("replay", tmp_path / file, *LEAST, "--plots", plots).returncode == 2
        assert names_in(tmp_path) == ["bad.csv", "rows.csv"]


def test_files_are_whole_though_nobody_reads_what_is_printed(tmp_path: Path) -> None:
    rows, summary, page = tmp_path / "rows.csv", tmp_path / "s.json", tmp_path / "page.html"
    rows.write_text(ROWS)
    ended = command("replay", rows, *LEAST, "--json", summary, "--report", page, within="{} | head -c 0")
    assert "Traceback" not in ended.stderr
    assert json.loads(summary.read_text("utf-8"))["rows"] == 400
    assert page.read_text("utf-8").rstrip().endswith("</html>")


def test_standard_output_that_is_full_or_closed_is_no_traceback(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(ROWS)
    full = command("replay", rows, *LEAST, "--json", "-", within="{} > /dev/full")
    assert full.returncode == 2
    assert "standard output cannot be written: No space left on device" in full.stderr
    for ended in (full, command("replay", rows, *LEAST, "--json", "-", within="{} | head -c 1")):
        assert "Traceback" not in ended.stderr
        assert "Exception ignored" not in ended.stderr


def test_a_disk_that_is_full_in_the_end_does_not_cost_the_figures_of_the_run(tmp_path: Path) -> None:
    rows, page = tmp_path / "rows.csv", tmp_path / "page.html"
    rows.write_text(ROWS)
    ended = command("replay", rows, *LEAST, "--report", page, within="ulimit -f 40; {}")
    assert ended.returncode == 2
    assert "report: " in ended.stderr
    assert "G-mean" in ended.stdout
    assert "digest" in ended.stdout
    assert names_in(tmp_path) == ["rows.csv"]


@pytest.mark.parametrize("to_json", [(), ("--json", "-")])
@pytest.mark.parametrize(("label", "code"), [("label", 0), ("sorted", 1)])
def test_who_reads_only_the_head_gets_the_exit_code_of_the_run(
    tmp_path: Path, label: str, code: int, to_json: tuple[str, ...]
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b,label,sorted\n" + "".join(f"{n % 7},{n % 5},{n % 2},{n // 200}\n" for n in range(400)))
    ignored = ("--ignore", "sorted" if label == "label" else "label")
    options = ("--label", label, *LEAST[2:], *ignored, *to_json)
    ended = command("replay", rows, *options, within="set -o pipefail; {} | head -c 0")
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False), ended.stderr
    assert "Exception ignored" not in ended.stderr


def test_who_reads_only_the_head_of_a_comparison_sees_no_failure(tmp_path: Path) -> None:
    rows, files = tmp_path / "rows.csv", [tmp_path / "a.json", tmp_path / "b.json"]
    rows.write_text(ROWS)
    for file in files:
        assert command("replay", rows, *LEAST, "--json", file, "-q").returncode == 0
    ended = command("compare", *files, within="set -o pipefail; {} | head -c 0")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_id_that_is_no_line_is_one_line_of_json() -> None:
    assert [_as_line(one) for one in ("a-1", "é", "two\nlines", "\x1b[2J", '"', "")] == [
        "a-1", "é", '"two\\nlines"', '"\\u001b[2J"', '"\\""', "",
    ]  # fmt: skip


def test_secrets_of_a_definition_are_left_out_and_named() -> None:
    tables = {
        "name": "s",
        "kafka": {
            "security.protocol": "SASL_SSL",
            "sasl.password": "hunter2",
            "site": {"sasl.password": "hunter3", "client.id": "me"},
            "ssl": {"ca": {"location": "ca.pem"}, "key": {"password": "hunter4"}},
        },
    }
    public, hidden = without_secrets_of(tables)
    assert "hunter" not in repr(public)
    assert hidden == ["kafka.sasl.password", "kafka.site.sasl.password", "kafka.ssl.key.password"]
    assert public["kafka"]["security.protocol"] == "SASL_SSL"
    assert public["kafka"]["site"] == {"client.id": "me"}
    assert public["kafka"]["ssl"] == {"ca": {"location": "ca.pem"}}
    assert without_secrets_of({"name": "s"}) == ({"name": "s"}, [])
