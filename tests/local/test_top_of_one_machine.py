"""`tessera top` of a machine without Kubernetes, and `tessera ps -w`."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

import msgspec
import pytest

from tessera_cli.local_run.machine_rows import MachineRows
from tessera_core.occupancy.rows import MeasuredShare
from tessera_schema.local_shares import (
    LocalCard,
    LocalShare,
    LocalWaiting,
    SharesListed,
    ShareWanted,
)
from tests.agent.machine import built
from tests.contract.session_fixtures import CI
from tests.local.conftest import Machine
from tests.local.test_a_program_has_its_share import GIB, NOBODY, WAITS, assert_soon, listed, shares

CARD = LocalCard(
    id="GPU-0", index=0, model="A100", memory_bytes=16 * GIB, held_bytes=6 * GIB, held_percent=50,
    shares=2, healthy=True,
)  # fmt: skip
HOUR_S = 3600
PROCESSES = "processes"


def a_share(name: str, pid: int, gpu_s: float, lent: float = 0) -> LocalShare:
    return LocalShare(
        name=name, user="ann", pid=pid, card="GPU-0", index=0, memory_bytes=3 * GIB,
        used_bytes=GIB, cores_percent=25, lent_percent=lent, best_effort=False, since=HOUR_S,
        command="train.py" if pid else "", gpu_ns=int(gpu_s * 1e9), throttled_ns=0,
    )  # fmt: skip


def an_answer(at_s: float, *held: LocalShare) -> SharesListed:
    waits = LocalWaiting(
        user="bob", pid=9, wanted=ShareWanted(memory_bytes=12 * GIB, command="eval.py"),
        since=HOUR_S, why="card 0 has 10 GiB",
    )  # fmt: skip
    return SharesListed(cards=(CARD,), shares=held, waiting=1, at_s=at_s, queue=(waits,))


def test_use_of_cores_is_what_lies_between_two_answers() -> None:
    rows = MachineRows(
        node="here",
        before=an_answer(10, a_share("a", 7, 1), a_share("gone", 8, 5)),
        listed=an_answer(12, a_share("a", 7, 1.75, lent=10), a_share("new", 0, 3)),
    )
    ((card,),) = [node.cards for node in rows.rows()]
    assert [(share.pod, share.dialects) for share in card.shares] == [
        ("ann/7 train.py", ("process",)), ("ann/new", ("reserved",)),
    ]  # fmt: skip
    first, second = card.shares
    assert first.measured == MeasuredShare(memory_bytes=GIB, cores_percent=37.5, limit_percent=35)
    assert (first.borrows_percent, first.lends_percent) == (10, 0)
    assert second.measured == MeasuredShare(memory_bytes=GIB, limit_percent=25), "not known yet"
    assert (card.used_bytes, card.memory_bytes) == (2 * GIB, 6 * GIB)
    assert rows.totals().cores_used_percent == 37.5


def test_counters_of_a_new_file_are_no_use() -> None:
    before, now = an_answer(10, a_share("a", 7, 50)), an_answer(11, a_share("a", 7, 1))
    for earlier in (before, now):
        rows = MachineRows(node="here", before=earlier, listed=now)
        (share,) = rows.rows()[0].cards[0].shares
        assert share.measured is not None
        assert share.measured.cores_percent == 0


def test_who_waits_is_said_with_the_reason() -> None:
    rows = MachineRows(node="here", before=an_answer(1), listed=an_answer(2))
    (waits,) = rows.waiting()
    assert (waits.pod, waits.reason, waits.created) == (
        "bob/9 eval.py", "card 0 has 10 GiB", "1970-01-01T01:00:00+00:00",
    )  # fmt: skip
    (part,) = waits.parts
    assert (part.cards, part.memory_bytes) == (1, 12 * GIB)


def test_the_picture_has_cards_processes_and_who_waits(machine: Machine) -> None:
    work = built("tessera-work")
    machine.start("run", "--memory", "8Gi", "--cores", "40", "--card", "0", "--", str(work))
    assert_soon(lambda: any(share["gpu_ns"] for share in shares(machine)))
    machine.start("run", "--memory", "10Gi", "--card", "0", "--wait", *WAITS)
    assert_soon(lambda: listed(machine)["waiting"] == 1)

    drawn = machine.tessera("top", "--once", "-o", "wide")
    assert drawn.returncode == 0, drawn.stderr
    assert "2/2" in drawn.stdout
    assert "waiting 1" in drawn.stdout
    document = msgspec.json.decode(machine.tessera("top", "-o", "json").stdout)
    (node,) = document["nodes"]
    first, second = node["cards"]
    (share,) = first["shares"]
    assert (share["memory_granted_bytes"], second["shares"]) == (8 * GIB, [])
    assert share["cores_used_percent"] > 1
    assert share["pod"].endswith("tessera-work")
    (waits,) = document["waiting"]
    assert "card 0 has 8 GiB and 60 % free" in waits["reason"]

    (queued,) = listed(machine)["queue"]
    assert queued["wanted"]["memory_bytes"] == 10 * GIB
    assert "Waiting" in machine.tessera("ps").stdout


def test_it_is_drawn_until_somebody_quits(machine: Machine) -> None:
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "tessera_cli", "top", "--folder", str(machine.folder)],
        stdin=terminal, stdout=terminal, stderr=terminal,
        env={"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    os.close(terminal)
    try:
        assert_drawn(screen, f"[p]{PROCESSES[1:]}")
        held = machine.start("run", "--memory", "5Gi", *WAITS)
        assert_drawn(screen, f"/{held.pid} sh -c")
        os.write(screen, b"q")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait(30)
        os.close(screen)


def assert_drawn(screen: int, text: str) -> None:
    """Reads what is drawn until the text is there."""
    drawn = ""
    while text not in drawn:
        assert select.select([screen], [], [], 30)[0], drawn
        drawn += os.read(screen, 1 << 16).decode(errors="replace")


def test_ps_goes_on_with_rows_that_change(machine: Machine) -> None:
    watch = machine.start("ps", "-w")
    assert machine.run_of(watch).split()[:4] == ["NAME", "USER", "PID", "STATUS"]
    program = machine.start("run", "--memory", "2Gi", *WAITS)
    row = machine.run_of(watch).split()
    assert row[2:6] == [str(program.pid), "Running", "0", "2Gi"]
    program.kill()
    program.wait(30)
    ended = machine.run_of(watch).split()
    assert (ended[:3], ended[3]) == (row[:3], "Ended")


def test_documents_of_a_watch_are_one_for_each_change(machine: Machine) -> None:
    watch = machine.start("ps", "-w", "-o", "json")
    program = machine.start("run", "--memory", "2Gi", *WAITS)
    found = msgspec.json.decode(machine.run_of(watch))
    assert (found["pid"], found["status"]) == (program.pid, "running")


@pytest.mark.skipif(os.getuid() != 0 and not CI, reason="only root becomes other users")
def test_it_is_of_this_machine_where_there_is_no_cluster(open_folder: Path) -> None:
    built("libtessera.so")
    runtime = open_folder / "runtime"
    runtime.mkdir()
    os.chown(runtime, NOBODY, NOBODY)
    env = {"PATH": os.defpath, "HOME": str(runtime), "XDG_RUNTIME_DIR": str(runtime)}

    def top() -> "subprocess.CompletedProcess[str]":
        as_user = Path(__file__).with_name("as_user.py")
        return subprocess.run(
            [sys.executable, str(as_user), str(NOBODY), "top", "--once"],
            env=env, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    without = top()
    assert (without.returncode, "kubeconfig" in without.stderr) == (1, True), without.stderr
    machine = Machine(runtime / "tessera")
    try:
        of_machine = top()
        assert of_machine.returncode == 0, of_machine.stderr
        assert "TESSERA local  nodes 1  cards 2/2" in of_machine.stdout
        env["KUBECONFIG"] = str(runtime / "none")
        assert top().returncode == 1, "a cluster that is named is asked"
    finally:
        machine.end()
