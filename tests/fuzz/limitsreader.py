"""The hook's reader of limits files, in C and under the sanitizers: no crash, and no file is taken
whose head is not that of a limits file at rest."""

from __future__ import annotations

import fcntl
import struct
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

from tessera_core.hook.limits_file import MAGIC, SIZE, CardLimit, HookLimits, encode_limits
from tessera_core.hook.records import CARDS, HEAD, LAYOUT
from tests.fuzz.fuzzer import Fuzzer, mutated

HOOK: Final = Path(__file__).parents[2] / "libs/hook"
READER: Final = HOOK / "build/limits-fuzz"
FILES: Final = 100
"""Files of one input: a process of the reader takes longer to begin than to read one."""
Reader = Callable[[list[bytes]], list[bool]]

SAMPLES: Final = tuple(
    encode_limits(
        HookLimits(
            container="team/job/main",
            cards=tuple(
                CardLimit(uuid=f"GPU-{i}", memory_bytes=2**30, cores_permille=300)
                for i in range(cards)
            ),
        ), 2, 10**18,
    )
    for cards in (0, 1, 2, CARDS)
)  # fmt: skip


def make(random: Random) -> list[bytes]:
    """Files near valid ones: most change is in the head and the first card."""
    return [_file(random) for _ in range(FILES)]


def _file(random: Random) -> bytes:
    whole = random.choice(SAMPLES)
    front = random.choice((HEAD.size, 512, len(whole)))
    changed = bytearray(mutated(random, whole[:front]) + whole[front:])
    if random.random() < 0.9:  # of another size it is not looked at
        changed = (changed + bytes(SIZE))[:SIZE]
    return bytes(changed)


@cache
def built() -> Path:
    """The reader, built if anything changed."""
    with (HOOK / "Makefile").open() as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)  # others may build here, too
        subprocess.run(["make", "-s", "-C", HOOK, "build/limits-fuzz"], check=True)
    return READER


def read(files: list[bytes]) -> list[bool]:
    """Which of them the hook's reader takes."""
    reported = b"".join(struct.pack("=I", len(data)) + data for data in files)
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [built(), f"{folder}/limits"],
            input=reported,
            capture_output=True,
            check=False,
            timeout=60,
        )
    assert ran.returncode == 0, ran.stderr.decode(errors="replace")[-3000:]
    return [answer == ord("1") for answer in ran.stdout]


def check(reader: Reader, files: list[bytes]) -> None:
    """Valid ones are taken, those with another head are not."""
    taken = reader([*SAMPLES, *files])
    assert len(taken) == len(SAMPLES) + len(files), "the reader ended early"
    assert all(taken[: len(SAMPLES)]), "a valid file is not taken"
    for data, one in zip(files, taken[len(SAMPLES) :], strict=True):
        if one:
            head = HEAD.read(data)
            assert len(data) >= SIZE, f"taken: {len(data)} bytes"
            assert (head["magic"], head["layout"], head["size"]) == (MAGIC, LAYOUT, SIZE)
            assert head["sequence"] % 2 == 0, "taken while it is written"
            assert head["cards"] <= CARDS, f"taken with {head['cards']} cards"


def limitsreader(reader: Reader = read) -> Fuzzer:
    """With the reader that is tested."""
    return Fuzzer("limitsreader", make, lambda files: check(reader, files), 20)
