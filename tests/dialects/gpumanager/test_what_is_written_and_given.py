"""Results for the node agent, and what a container is given."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tessera_core.dialect_kit.contract import Placed
from tessera_core.dialects.gpumanager.inventory import advertised
from tessera_core.dialects.gpumanager.names import PrefixNames
from tessera_schema.grants import Share
from tessera_schema.injections import Injection, Mount
from tessera_schema.kube import Container, Pod
from tessera_schema.requests import Role
from tessera_testing.builders import a_card, a_container, a_pod
from tests.dialects.gpumanager.node_agent import (
    assigned,
    minor_of,
    predicate_time_ns,
    predicated,
)
from tests.dialects.gpumanager.setting import (
    ASSIGNED,
    BLOCK,
    CORE,
    INDEX,
    LIMIT,
    MEMORY,
    NODE,
    TIME,
    P,
    asking,
    made,
)

CARDS = {
    f"u{i}": a_card(f"u{i}", i, vendor="nvidia", minor=minor)
    for i, minor in enumerate((-1, 3, -1, -1))
}


def a_share(container: str, position: int, card: int, role: Role = Role.APP) -> Share:
    return Share(
        container=container, position=position, role=role, vendor="nvidia", dialect="gpumanager",
        card=f"u{card}", index=card, memory_bytes=BLOCK,
    )  # fmt: skip


def placed(pod: Pod, *shares: Share) -> Placed:
    return Placed(pod=pod, node="n1", shares=shares, cards=CARDS, now_ns=1_700_000_000_000_000_001)


@pytest.mark.parametrize("prefix", [P, "inspur.com"])
def test_the_keys_of_the_scheduler_are_written(prefix: str) -> None:
    pod = a_pod(asking(200, prefix=prefix), a_container(), asking(10, 1, prefix))
    written = made().annotate(
        placed(pod, a_share("c0", 0, 2), a_share("c0", 0, 1), a_share("c2", 2, 0))
    )
    assert written == {
        f"{prefix}/predicate-time": "1700000000000000001",
        f"{prefix}/predicate-node": "n1",
        f"{prefix}/predicate-gpu-idx-0": "2,1",
        f"{prefix}/predicate-gpu-idx-2": "0",
        f"{prefix}/gpu-assigned": "false",
    }


def test_containers_are_numbered_without_the_init_containers() -> None:
    pod = a_pod(asking(10, 1), init=(asking(100), a_container()))
    written = made().annotate(placed(pod, a_share("init0", 0, 1, Role.INIT), a_share("c0", 2, 3)))
    assert {k: v for k, v in written.items() if k.startswith(INDEX)} == {f"{INDEX}0": "3"}


def test_nothing_is_written_for_a_pod_that_holds_nothing() -> None:
    assert made().annotate(placed(a_pod(asking(0, 0)))) == {}


def test_only_schedulers_may_write_the_results() -> None:
    keys = made().result_keys
    assert {TIME, NODE, f"{INDEX}*", ASSIGNED} <= set(keys)
    assert LIMIT not in keys
    assert "inspur.com/gpu-mod-idx-*" in keys


# -- what the node agent reads


def annotated(notes: Mapping[str, str], core: int = 50, memory: int = 1) -> Pod:
    return a_pod(asking(core, memory), annotations=notes)


@pytest.mark.parametrize(
    ("notes", "core", "memory", "is_assigned", "is_predicated"),
    [
        pytest.param({ASSIGNED: "false"}, 50, 1, False, False, id="D23"),
        pytest.param({TIME: "1"}, 50, 1, False, False, id="D24"),
        pytest.param({TIME: "1", ASSIGNED: "yes"}, 50, 1, True, True, id="D25"),
        pytest.param({TIME: "1", ASSIGNED: "false"}, 100, 0, False, False, id="D26"),
        pytest.param({TIME: "1", ASSIGNED: "false"}, 50, 1, False, True, id="as written"),
        pytest.param({TIME: "1", ASSIGNED: "true"}, 50, 1, True, False, id="given"),
        pytest.param({TIME: "1", ASSIGNED: ""}, 50, 1, True, True, id="empty"),
        pytest.param({}, 50, 1, False, False, id="nothing"),
        pytest.param({TIME: "1", ASSIGNED: "false"}, 0, 1, False, False, id="no cores"),
    ],
)
def test_the_agent_knows_how_far_a_pod_is(
    notes: dict[str, str], core: int, memory: int, *, is_assigned: bool, is_predicated: bool
) -> None:
    pod = annotated(notes, core, memory)
    assert (assigned(pod, PrefixNames(P)), predicated(pod, PrefixNames(P))) == (
        is_assigned,
        is_predicated,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1700000000000000001", 1700000000000000001, id="D30"),
        pytest.param("abc", 0, id="D31"),
        pytest.param("-1", 0, id="D32"),
        pytest.param(None, 7, id="D33"),
        pytest.param("", 0, id="empty"),
        pytest.param("99999999999999999999", 0, id="beyond 64 bits"),
    ],
)
def test_the_time_of_the_choice_is_read(text: str | None, expected: int) -> None:
    pod = annotated({} if text is None else {TIME: text})
    assert predicate_time_ns(pod, PrefixNames(P), created_ns=7) == expected


@pytest.mark.parametrize(
    ("path", "minor"),
    [
        pytest.param("/dev/nvidia0", 0, id="D40"),
        pytest.param("/dev/nvidia", 0, id="D42"),
        pytest.param("/dev/nvidia-uvm", None, id="D44"),
        pytest.param("/dev/nvidia0,1", None, id="D46"),
        pytest.param("/dev/nvidia15", 15, id="two digits"),
        pytest.param("/dev/nvidiactl", None, id="control node"),
        pytest.param("dev/nvidia1", None, id="relative"),
    ],
)
def test_device_nodes_of_cards_are_distinguished(path: str, minor: int | None) -> None:
    assert minor_of(path) == minor


def test_two_cards_of_8191_mib_advertise_the_floor_of_their_sum() -> None:  # E08
    cards = [a_card(f"u{i}", i, mib=8191) for i in range(2)]
    assert advertised(cards, PrefixNames(P)) == {CORE: 200, MEMORY: 63}


# -- what a container is given


def given(pod: Pod, *shares: Share, container: int = 0, **options: str) -> Injection:
    return made(**options).inject(placed(pod, *shares), pod.spec.containers[container])


def test_a_part_of_a_card_is_given_as_gpu_manager_gives_it() -> None:  # E13
    pod = a_pod(asking(50, 30), uid="X")
    assert given(pod, a_share("c0", 0, 1)) == Injection(
        env={"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64", "NVIDIA_VISIBLE_DEVICES": "u1"},
        mounts=(
            Mount(destination="/usr/local/nvidia", source="/etc/gpu-manager/vdriver/nvidia"),
            Mount(destination="/etc/vcuda", source="/etc/gpu-manager/vm/X"),
        ),
        devices=("/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm"),
        annotations={CORE: "50", MEMORY: "8053063680", f"{P}/vcuda-device": "/dev/nvidia3"},
    )


def test_whole_cards_get_the_plain_driver() -> None:
    pod = a_pod(asking(200, 60, "inspur.com"), uid="X")
    answer = given(pod, a_share("c0", 0, 0), a_share("c0", 0, 1))
    assert answer.devices == ("/dev/nvidia0", "/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm")
    assert answer.env["NVIDIA_VISIBLE_DEVICES"] == "u0,u1"
    assert answer.mounts[0].source == "/etc/gpu-manager/vdriver/origin"
    assert all(mount.read_only for mount in answer.mounts)
    assert answer.annotations == {
        "inspur.com/vcuda-core": "200",
        "inspur.com/vcuda-memory": "16106127360",
        "inspur.com/vcuda-device": "/dev/nvidia0,/dev/nvidia3",
    }


@pytest.mark.parametrize(
    ("env", "directory"),
    [
        pytest.param({"compat32": "TRUE"}, "lib", id="E12"),
        pytest.param({"compat32": "true"}, "lib", id="lower case"),
        pytest.param({"compat32": "1"}, "lib64", id="another value"),
        pytest.param({"COMPAT32": "true"}, "lib64", id="another name"),
        pytest.param({}, "lib64", id="none"),
    ],
)
def test_32_bit_containers_get_the_other_libraries(env: dict[str, str], directory: str) -> None:
    pod = a_pod(asking(50, 30, env=env))
    found = given(pod, a_share("c0", 0, 0)).env["LD_LIBRARY_PATH"]
    assert found == f"/usr/local/nvidia/{directory}"


@pytest.mark.parametrize(
    ("core", "memory", "ceiling", "expected"),
    [
        pytest.param(50, 30, None, ("50", "8053063680", None), id="F-vcuda hard"),
        pytest.param(50, 30, "80", ("50", "8053063680", "80"), id="F-vcuda elastic"),
        pytest.param(50, 30, "150", ("50", "8053063680", "100"), id="F-vcuda cut at 100"),
        pytest.param(200, 60, None, ("200", "16106127360", None), id="F-vcuda whole cards"),
        pytest.param(200, 60, "80", ("200", "16106127360", None), id="whole cards, no ceiling"),
        pytest.param(100, None, None, ("100", "0", None), id="memory not named"),
        pytest.param(50, 30, "x", ("50", "8053063680", None), id="malformed, not admitted here"),
    ],
)
def test_limits_are_given_to_the_container(
    core: int, memory: int | None, ceiling: str | None, expected: tuple[str, str, str | None]
) -> None:
    notes = {} if ceiling is None else {LIMIT: ceiling}
    pod = a_pod(asking(core, memory), annotations=notes)
    cards = [a_share("c0", 0, i) for i in range(max(core // 100, 1))]
    found = given(pod, *cards).annotations
    assert (found[CORE], found[MEMORY], found.get(LIMIT)) == expected


def test_directories_on_the_node_are_configurable() -> None:
    pod = a_pod(asking(50, 30), uid="X")
    answer = given(pod, a_share("c0", 0, 0), driver_directory="/opt/d", pod_directory="/run/p")
    assert [mount.source for mount in answer.mounts] == ["/opt/d/nvidia", "/run/p/X"]


@pytest.mark.parametrize("container", [a_container(), asking(0, 0), asking(50, 1)])
def test_a_container_without_shares_is_given_nothing(container: Container) -> None:
    assert given(a_pod(container)) == Injection()


def test_no_second_hook_is_preloaded() -> None:
    answer = given(a_pod(asking(50, 30)), a_share("c0", 0, 0))
    assert "LD_PRELOAD" not in answer.env
    assert not any("preload" in mount.destination for mount in answer.mounts)
