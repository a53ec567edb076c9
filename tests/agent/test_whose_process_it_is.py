"""A process is found to be a container's by its cgroup, or by its ancestors."""

from pathlib import Path

import pytest

from tessera_agent.usage.process_owners import ProcOwners
from tessera_core.node.cgroups import container_of

ID = "0123456789abcdef" * 4
OTHER = "f" * 64
POD = "8c4f2f3e-1111-2222-3333-444455556666"


@pytest.mark.parametrize(
    ("text", "id_"),
    [
        (f"0::/kubepods/burstable/pod{POD}/{ID}\n", ID),
        (
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
            f"{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n",
            ID,
        ),
        (f"12:memory:/kubepods/pod{POD}/{ID}\n1:name=systemd:/kubepods/pod{POD}/{ID}\n", ID),
        (f"0::/kubepods.slice/kubepods-pod{POD}.slice/crio-{ID}.scope/container\n", ID),
        (f"0::/docker/{OTHER}/kubepods/pod{POD}/{ID}\n", ID),
        (f"0::/kubepods/pod{POD}/{ID}/nested\n", ID),
        ("0::/user.slice/user-0.slice\n", ""),
        (f"0::/kubepods/pod{POD}\n", ""),
        ("", ""),
        ("nonsense", ""),
    ],
)
def test_cgroups_of_both_versions_and_drivers(text: str, id_: str) -> None:
    assert container_of(text) == id_


def a_process(proc: Path, pid: int, parent: int, cgroup: str = "0::/\n", name: str = "x") -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cgroup").write_text(cgroup)
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0\n")


def test_a_process_is_its_cgroups(tmp_path: Path) -> None:
    a_process(tmp_path, 10, 1, f"0::/kubepods/pod{POD}/{ID}\n")
    assert ProcOwners(str(tmp_path), dict).container_of(10) == ID


def test_a_plain_process_is_its_ancestors(tmp_path: Path) -> None:
    a_process(tmp_path, 10, 1)
    a_process(tmp_path, 11, 10, name="a) S 99 (b")
    a_process(tmp_path, 12, 11)
    a_process(tmp_path, 20, 1)
    owners = ProcOwners(str(tmp_path), lambda: {10: "c-1"})
    assert [owners.container_of(pid) for pid in (10, 12, 20)] == ["c-1", "c-1", ""]


def test_a_process_that_is_gone_is_nobodys(tmp_path: Path) -> None:
    a_process(tmp_path, 12, 11)
    owners = ProcOwners(str(tmp_path), lambda: {10: "c-1"})
    assert [owners.container_of(pid) for pid in (12, 99)] == ["", ""]
