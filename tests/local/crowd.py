"""Processes of several users that take shares with `tessera run`, and are killed at any moment.

`crowd.py FOLDER ROUNDS PROGRAM UID...` prints what it saw as one line of JSON. Each process is
forked from here, becomes the user, and runs the command itself: only Python's start is saved.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tessera_cli.__main__ import run
from tessera_cli.errors import CommandError
from tessera_cli.local_run import amounts
from tessera_cli.local_run import run as starting
from tessera_cli.local_run.client import answer_to
from tessera_core.hook.limits_file import BadLimits, decode_limits
from tessera_schema.local_shares import SharesListed, SharesWanted

LOADED = (amounts, starting)
"""What the command loads when it runs: once for all."""
PROCESSES = 20
MEMORY = 16 << 30
DAEMON_DIES = 25
"""Rounds between two deaths of the daemon."""


class Crowd:
    """The processes."""

    def __init__(self, folder: Path, program: Sequence[str], uids: Sequence[int]) -> None:
        self.folder = folder
        self.program = program
        self.uids = uids
        self.random = random.Random(7)  # noqa: S311  (the same each time)
        self.children: set[int] = set()
        self.statuses: Counter[int] = Counter()
        self.over: list[str] = []
        self.most = 0
        self.users: set[str] = set()
        self.options = argparse.Namespace(simulated=True, folder=folder, environ={})

    def fill(self) -> None:
        """Start processes until there are as many as there should be."""
        while len(self.children) < PROCESSES:
            amount, cores = self.random.randint(1, 6), self.random.choice((0, 10, 25, 40))
            uid, waits = self.random.choice(self.uids), self.random.random() < 0.5
            child = os.fork()
            if child:
                self.children.add(child)
                continue
            os.setgroups([]) if os.getuid() == 0 else None
            os.setgid(uid) if os.getuid() == 0 else None
            os.setuid(uid) if os.getuid() == 0 else None
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(2, 1)
            arguments = ["run", "--simulated", "--folder", str(self.folder)]
            arguments += ["--memory", f"{amount}Gi", *(["--cores", str(cores)] if cores else [])]
            arguments += ["--wait=60s"] if waits else []
            os._exit(run([*arguments, "--", *self.program]))

    def kill_some(self) -> None:
        """kill -9 of a few, some of which have only just begun."""
        for child in self.random.sample(sorted(self.children), self.random.randint(1, 4)):
            os.kill(child, signal.SIGKILL)
        time.sleep(self.random.random() * 0.2)  # noqa: TID251  (real processes)

    def reap(self, *, all_of_them: bool = False) -> None:
        """Forget those that have ended."""
        for child in sorted(self.children):
            done, status = os.waitpid(child, 0 if all_of_them else os.WNOHANG)
            if done:
                self.children.discard(child)
                self.statuses[os.waitstatus_to_exitcode(status)] += 1

    def add_up(self) -> None:
        """Add up what is held: in the daemon's ledger, and by the limits files themselves."""
        sums: Counter[str] = Counter()
        for path in self.folder.glob("containers/*/process/limits"):
            try:
                limits = decode_limits(path.read_bytes())
            except (OSError, BadLimits):  # removed meanwhile
                continue
            for limit in limits.cards:
                sums[f"memory {limit.uuid}"] += limit.memory_bytes
                sums[f"cores {limit.uuid}"] += limit.cores_permille
        listed = self.listed()
        for card in listed.cards:
            sums[f"booked {card.id}"] = card.held_bytes
            sums[f"booked cores {card.id}"] = round(card.held_percent * 10)
        self.users |= {share.user for share in listed.shares}
        self.most = max(self.most, len(listed.shares))
        self.over += [
            f"{what} {found}" for what, found in sums.items()
            if found > (1000 if "cores" in what else MEMORY)
        ]  # fmt: skip

    def listed(self) -> SharesListed:
        """What the daemon says; it is started where it is gone."""
        answer = answer_to(self.options, SharesWanted())
        assert isinstance(answer, SharesListed)
        return answer

    def kill_daemon(self) -> None:
        """kill -9 of the daemon: the next call starts another."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                line = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"tessera_agent.local" in line and os.fsencode(self.folder) in line:
                os.kill(int(process.name), signal.SIGKILL)


def main(folder: Path, rounds: int, program: Sequence[str], uids: Sequence[int]) -> dict[str, Any]:
    """All rounds; what was seen."""
    crowd = Crowd(folder, program, uids)
    crowd.listed()
    for number in range(1, rounds + 1):
        crowd.fill()
        crowd.kill_some()
        crowd.reap()
        if number % DAEMON_DIES == 0:
            crowd.kill_daemon()
        crowd.add_up()
    for child in crowd.children:
        os.kill(child, signal.SIGKILL)
    crowd.reap(all_of_them=True)
    until = time.monotonic() + 30
    while crowd.listed().shares and time.monotonic() < until:
        time.sleep(0.05)  # noqa: TID251  (real processes)
    left = crowd.listed()
    crowd.kill_daemon()
    return {
        "over": crowd.over, "most": crowd.most, "users": len(crowd.users),
        "killed": crowd.statuses[-signal.SIGKILL], "statuses": crowd.statuses,
        "shares": len(left.shares), "waiting": left.waiting,
        "held": sum(card.held_bytes for card in left.cards),
        "files": [str(path) for path in folder.glob("containers/*")],
    }  # fmt: skip


if __name__ == "__main__":
    try:
        seen = main(
            Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(), list(map(int, sys.argv[4:]))
        )
    except CommandError as e:
        sys.exit(f"{e}")
    print(msgspec.json.encode(seen).decode())  # noqa: T201  (its answer)
