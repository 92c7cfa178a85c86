"""Threads that hold memory share a few arenas, where the C library has arenas at all; what is free is given back."""

from __future__ import annotations

import platform
import subprocess
import sys

from deltaplane_services.system.arenas import ARENAS

THREADS = 12
PROGRAM = f"""
import ctypes, re, sys, threading
from deltaplane_services.system.arenas import keep_few_arenas

limited = keep_few_arenas() if sys.argv[1] == "few" else None
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
held, done = threading.Barrier({THREADS + 1}), threading.Barrier({THREADS + 1})

def hold():
    malloc(1000)
    held.wait()
    done.wait()

threads = [threading.Thread(target=hold) for _ in range({THREADS})]
for thread in threads:
    thread.start()
held.wait()
# An arena beside the first begins at a multiple of 64 MB.
maps = [line for line in open("/proc/self/maps") if " rw-p " in line and line.endswith(" 0 \\n")]
begins = [int(line.split("-")[0], 16) for line in maps]
print(limited, sum(begin % 2**26 == 0 for begin in begins))
done.wait()
"""


def said_by(program: str, *arguments: str) -> list[str]:
    """The words that a program prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_threads_share_a_few_arenas() -> None:
    if platform.libc_ver()[0] != "glibc":
        assert said_by("from deltaplane_services.system.arenas import keep_few_arenas as keep; print(keep())") == [
            "False"
        ]
        return
    limited, beside_the_first = said_by(PROGRAM, "few")
    assert limited == "True"
    assert int(beside_the_first) <= ARENAS - 1
    assert int(said_by(PROGRAM, "many")[1]) > ARENAS


RELEASING = """
import re
from deltaplane_services.system.arenas import trim_memory

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1])

parts = [bytearray(20_000) for _ in range(2000)]
last, whole = bytearray(20_000), resident()
del parts
freed = resident()
print(trim_memory(), whole - freed, freed - resident())
"""


def test_what_was_freed_in_the_midst_of_what_is_held_is_given_back() -> None:
    if platform.libc_ver()[0] != "glibc":
        assert said_by("from deltaplane_services.system.arenas import trim_memory as give; print(give())") == ["False"]
        return
    could, of_itself, kilobytes = said_by(RELEASING)
    assert could == "True"
    assert int(of_itself) < 10_000
    assert int(kilobytes) > 30_000
