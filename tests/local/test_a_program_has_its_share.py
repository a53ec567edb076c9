"""A program that `tessera run` starts sees its share, cannot take more, and frees it by ending."""

import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agent.hooked import SCRIPT
from tests.agent.machine import built
from tests.contract.session_fixtures import CI
from tests.local.conftest import Machine

GIB = 1 << 30
LOOKS = """
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
context, at = ctypes.c_void_p(), ctypes.c_uint64()
free, total, cards = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
assert cu.cuInit(0) == 0 and cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cu.cuDeviceGetCount(ctypes.byref(cards)) == 0
assert cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
taken = cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(3 << 30))
beyond = cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(2 << 30))
print(cards.value, total.value, taken, beyond, flush=True)
sys.stdin.read()
"""
OUT_OF_MEMORY = 2
WAITS = ("--", "sh", "-c", "echo ready; exec cat")
NOBODY, OTHER = 20001, 20002


def test_it_sees_its_part_and_is_refused_more(machine: Machine) -> None:
    program = machine.start("run", "--memory", "4Gi", "--cores", "30", "--", *python(LOOKS))
    assert machine.run_of(program) == f"1 {4 * GIB} 0 {OUT_OF_MEMORY}"

    (share,) = shares(machine)
    assert (share["pid"], share["memory_bytes"], share["cores_percent"]) == (
        program.pid, 4 * GIB, 30,
    )  # fmt: skip
    assert share["used_bytes"] >= 3 * GIB


def test_its_status_and_output_are_its_own(machine: Machine) -> None:
    done = machine.tessera("run", "--memory", "1Gi", "--", "sh", "-c", "echo out; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert_soon(lambda: not shares(machine))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_its_share_is_freed_however_it_ends(machine: Machine, number: signal.Signals) -> None:
    program = machine.start("run", "--memory", "16Gi", "--card", "0", *WAITS)
    assert machine.run_of(program) == "ready"
    refused = machine.tessera("run", "--memory", "1Gi", "--card", "0", "--", "true")
    assert refused.returncode == 125
    assert "card 0 has 0 GiB and 100 % free" in refused.stderr

    program.send_signal(number)
    program.wait(30)
    waited = machine.tessera("run", "--memory", "16Gi", "--card", "0", "--wait=60s", "--", "true")
    assert waited.returncode == 0, waited.stderr
    assert_soon(lambda: not list(machine.folder.glob("containers/*")))


def test_its_share_stays_while_a_process_of_it_uses_the_card(machine: Machine) -> None:
    script = f"import os\nif os.fork(): os._exit(0)\n{SCRIPT}"
    program = machine.start("run", "--memory", "8Gi", "--", *python(script))
    assert machine.run_of(program) == "ready"
    assert program.wait(30) == 0
    time.sleep(0.5)  # noqa: TID251  (the daemon has looked twice)
    assert [share["memory_bytes"] for share in shares(machine)] == [8 * GIB]

    assert program.stdin is not None
    program.stdin.close()
    program.stdin = None
    assert_soon(lambda: not shares(machine))


def test_one_waits_for_room_and_one_that_never_fits_does_not(machine: Machine) -> None:
    first = machine.start("run", "--memory", "10Gi", "--card", "1", *WAITS)
    assert machine.run_of(first) == "ready"
    second = machine.start("run", "--memory", "10Gi", "--card", "1", "--wait", *WAITS)
    assert_soon(lambda: listed(machine)["waiting"] == 1)
    first.kill()
    assert machine.run_of(second) == "ready"

    never = machine.tessera("run", "--memory", "17Gi", "--wait", "--", "true")
    assert (never.returncode, "17 GiB of 1 card" in never.stderr) == (125, True)


def test_a_daemon_that_was_killed_finds_what_runs(machine: Machine) -> None:
    program = machine.start("run", "--memory", "12Gi", "--cores", "40", "--card", "0", *WAITS)
    assert machine.run_of(program) == "ready"
    before = shares(machine)
    machine.kill_daemon()

    assert shares(machine) == before
    refused = machine.tessera("run", "--memory", "5Gi", "--card", "0", "--", "true")
    assert "card 0 has 4 GiB and 60 % free" in refused.stderr
    program.kill()
    assert_soon(lambda: not shares(machine))


@pytest.mark.skipif(os.getuid() != 0 and not CI, reason="only root becomes other users")
def test_users_cannot_touch_each_others_shares(machine: Machine) -> None:
    program = machine.start("run", "--memory", "2Gi", *WAITS, uid=NOBODY)
    assert machine.run_of(program) == "ready"
    (share,) = shares(machine)
    assert (share["user"], share["pid"]) == (str(NOBODY), program.pid)

    (folder,) = machine.folder.glob("containers/*/process")
    limits, usage, above = (path.stat() for path in (folder / "limits", folder / "usage", folder))
    assert (limits.st_uid, stat.S_IMODE(limits.st_mode)) == (0, 0o644)
    assert (usage.st_uid, stat.S_IMODE(usage.st_mode)) == (NOBODY, 0o600)
    assert (above.st_uid, stat.S_IMODE(above.st_mode)) == (0, 0o755)

    others = machine.tessera("ps", "-o", "json", uid=OTHER)
    (seen,) = msgspec.json.decode(others.stdout)["shares"]
    assert (seen["name"], seen["command"]) == (share["name"], "")
    assert share["command"] == "sh -c echo ready; exec cat"


@pytest.mark.skipif(os.getuid() != 0 and not CI, reason="only root becomes other users")
def test_a_reserved_share_is_removed_by_its_owner_alone(
    machine: Machine, open_folder: Path
) -> None:
    cdi = open_folder / "cdi"
    cdi.mkdir()
    cdi.chmod(0o777)
    where = ("--cdi-folder", str(cdi))
    made = machine.tessera("share", "create", "mine", "--memory", "3Gi", *where, uid=NOBODY)
    assert made.stdout == "tessera.dev/share=mine\n", made.stderr
    again = machine.tessera("share", "create", "mine", "--memory", "3Gi", *where)
    assert "share 'mine' is there already" in again.stderr

    others = machine.tessera("share", "remove", "mine", *where, uid=OTHER)
    assert (others.returncode, f"is {NOBODY}'s" in others.stderr) == (1, True), others.stderr
    machine.kill_daemon()
    assert [share["name"] for share in shares(machine)] == ["mine"]
    owners = machine.tessera("share", "remove", "mine", *where, uid=NOBODY)
    assert owners.returncode == 0, owners.stderr
    assert (shares(machine), list(cdi.iterdir())) == ([], [])


def test_what_others_leave_is_lent_to_a_best_effort_program(machine: Machine) -> None:
    work = built("tessera-work")
    machine.start("run", "--memory", "1Gi", "--class", "best-effort", "--", str(work))
    assert_soon(lambda: any(share["lent_percent"] > 50 for share in shares(machine)))
    (share,) = shares(machine)
    assert (share["best_effort"], share["cores_percent"]) == (True, 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--memory", "x"], "--memory: 'x' is not a quantity"),
        (["--cores", "30"], "--memory: it is missing"),
        (["--memory", "1Gi", "--cores", "130"], "--cores: '130': write a percentage"),
        (["--memory", "1Gi", "--wait=soon"], "--wait: 'soon': write a duration"),
    ],
)
def test_a_wrong_call_names_the_option(machine: Machine, arguments: list[str], said: str) -> None:
    done = machine.tessera("run", *arguments, "--", "true")
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_program_that_is_not_there_takes_no_share(machine: Machine) -> None:
    assert machine.tessera("run", "--memory", "1Gi", "--", "no-such-program").returncode == 127


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def listed(machine: Machine) -> dict[str, Any]:
    done = machine.tessera("ps", "-o", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found


def shares(machine: Machine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = listed(machine)["shares"]
    return found


def assert_soon(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until
