"""What processes of a container see mounted, by a folder that looks as /proc does."""

from pathlib import Path

import pytest

from tessera_agent.containers.mounts import MOST_MOUNTINFO_BYTES, MOST_PROCESSES, ProcMounts

ID, OTHER = "a" * 64, "b" * 64
ROOT = "90 80 0:50 / / rw - overlay overlay rw"
HOOK = "103 90 8:1 /usr/local/tessera/lib/x /usr/local/tessera/lib/libtessera.so ro - ext4 d rw"
PRELOAD = "104 90 8:1 /usr/local/tessera/etc/ld.so.preload /etc/ld.so.preload ro - ext4 d rw"
LIMITS = "105 90 8:1 /lib/tessera/containers/u/c/limits /usr/local/tessera/limits ro - ext4 d rw"
MOUNTED = (ROOT, HOOK, PRELOAD, LIMITS)
FILE = Path("/var/lib/tessera/containers/u/c/limits")
OWN = (ROOT, "95 90 8:1 /lib /var/lib rw - ext4 d rw")


class Proc:
    """A /proc of these processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process("self", *OWN)

    def process(self, pid: int | str, *lines: str, id_: str = ID) -> None:
        (self.folder / str(pid)).mkdir()
        (self.folder / str(pid) / "cgroup").write_text(f"0::/kubepods/pod1/{id_}\n")
        (self.folder / str(pid) / "mountinfo").write_text("".join(f"{line}\n" for line in lines))

    def changed(self, *pids: int) -> bool:
        return ProcMounts(str(self.folder)).are_changed(ID, FILE, pids)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_as_the_agent_gave_them(proc: Proc) -> None:
    proc.process(1, *MOUNTED)
    assert not proc.changed(1)


@pytest.mark.parametrize("missing", [HOOK, PRELOAD, LIMITS])
def test_one_is_missing_or_writable_or_covered(proc: Proc, missing: str) -> None:
    point = missing.split()[4]
    others = [line for line in MOUNTED if line is not missing]
    proc.process(1, *others)
    proc.process(2, *others, missing.replace(" ro ", " rw "))
    proc.process(3, *MOUNTED, f"120 90 8:1 /mine {Path(point).parent} ro - ext4 d ro")
    proc.process(4, *MOUNTED, f"120 {missing.split()[0]} 8:1 /mine {point} rw - ext4 d rw")
    assert [proc.changed(pid) for pid in (1, 2, 3, 4)] == [True] * 4


def test_limits_of_another_container(proc: Proc) -> None:
    other = LIMITS.replace("/u/c/", "/u/other/")
    proc.process(1, ROOT, HOOK, PRELOAD, other)
    proc.process(2, ROOT, HOOK, PRELOAD, LIMITS.replace(" 8:1 ", " 8:2 "))
    proc.process(3, ROOT, HOOK, PRELOAD, LIMITS.replace("/limits /", "/limits//deleted /"))
    assert [proc.changed(pid) for pid in (1, 2, 3)] == [True] * 3


def test_of_any_of_its_processes(proc: Proc) -> None:
    proc.process(1, *MOUNTED)
    proc.process(2, ROOT)
    assert proc.changed(1, 2)


def test_nobody_elses_process_counts_nor_one_that_has_ended(proc: Proc) -> None:
    proc.process(2, ROOT, id_=OTHER)
    assert not proc.changed(0, 2, 3)


def test_every_process_of_many_has_its_turn(proc: Proc) -> None:
    pids = range(1, 3 * MOST_PROCESSES)
    for pid in pids:
        proc.process(pid, *(MOUNTED if pid != 100 else (ROOT,)))
    looks = ProcMounts(str(proc.folder))
    assert any(looks.are_changed(ID, FILE, pids) for _ in range(3))


def test_more_mounts_than_anybody_has(proc: Proc) -> None:
    line = f"200 90 8:1 /x /{'x' * 4000} rw - ext4 d rw"
    proc.process(1, *MOUNTED, *[line] * (MOST_MOUNTINFO_BYTES // len(line) + 1))
    assert proc.changed(1)
