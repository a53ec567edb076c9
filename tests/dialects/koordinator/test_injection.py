"""What the node gives a container: visible cards, and limits where a pod asks for isolation."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import Placed
from tessera_core.dialects.koordinator import Options, dialect
from tessera_core.hook.paths import HOOK_LIBRARY_HOST
from tessera_schema.cards import Card
from tessera_schema.injections import Injection, Mount
from tessera_testing.builders import a_card, a_node
from tessera_testing.plan import plan
from tests.dialects.koordinator.spoken import HALF, KOORDINATOR, a_koord_pod, flat, shares

GI = 1 << 30
LIBRARY = "/usr/local/vgpu/libvgpu.so"
BASE_MOUNTS = (
    Mount(destination=LIBRARY, source=HOOK_LIBRARY_HOST),
    Mount(destination="/tmp/vgpulock", source="/tmp/vgpulock", read_only=False),  # noqa: S108
)


def given(
    text: str, isolation: str, *held: tuple[int, int, float], gib: tuple[int, ...] = (16,) * 4
) -> Injection:
    """What c0 is given for (index, bytes, cores) on cards of so many GiB."""
    cards: dict[str, Card] = {
        f"card-{i}": a_card(f"card-{i}", i, mib=n * 1024, vendor="nvidia")
        for i, n in enumerate(gib)
    }
    pod = a_koord_pod(text, "cpu=1", isolation=isolation)
    placed = Placed(pod=pod, node="n1", shares=shares(*held), cards=cards, now_ns=0)
    assert KOORDINATOR.inject(placed, pod.spec.containers[1]) == Injection()
    return KOORDINATOR.inject(placed, pod.spec.containers[0])


@pytest.mark.parametrize("spelling", [pytest.param("HAMi-core", id="J1"), "hami-core", "HAMI-CORE"])
def test_isolation_gives_limits_and_library(spelling: str) -> None:
    injection = given(HALF, spelling, (1, 8 * GI, 50))
    assert injection.env == {
        "NVIDIA_VISIBLE_DEVICES": "1",
        "CUDA_DEVICE_MEMORY_LIMIT": "8589934592",
        "CUDA_DEVICE_SM_LIMIT": "50",
        "LD_PRELOAD": LIBRARY,
    }
    assert injection.mounts == BASE_MOUNTS


@pytest.mark.parametrize("label", ["", "MPS"])
def test_without_isolation_only_the_cards_are_reported(label: str) -> None:
    injection = given(HALF, label, (1, 8 * GI, 50))
    assert injection == Injection(env={"NVIDIA_VISIBLE_DEVICES": "1"})


@pytest.mark.parametrize("_case", [pytest.param(0, id="J2")])
def test_the_seeds_spelling_isolates(_case: int) -> None:
    assert given(HALF, "hami-core", (1, 8 * GI, 50)).mounts == BASE_MOUNTS


@pytest.mark.parametrize("text", [pytest.param("sh=1 ratio=100", id="J3"), "nv=1", "mem=16Gi"])
def test_a_whole_card_needs_no_limits(text: str) -> None:
    injection = given(text, "HAMi-core", (0, 16 * GI, 0))
    assert injection == Injection(env={"NVIDIA_VISIBLE_DEVICES": "0"})


@pytest.mark.parametrize("_case", [pytest.param(0, id="J4")])
def test_without_cores_there_is_no_sm_limit(_case: int) -> None:
    injection = given("sh=1 mem=8Gi", "HAMi-core", (0, 8 * GI, 0), gib=(23,))
    assert injection.env == {
        "NVIDIA_VISIBLE_DEVICES": "0",
        "CUDA_DEVICE_MEMORY_LIMIT": "8589934592",
        "LD_PRELOAD": LIBRARY,
    }
    assert injection.mounts == BASE_MOUNTS


@pytest.mark.parametrize("_case", [pytest.param(0, id="J7")])
def test_several_cards_have_the_firsts_limit_and_each_its_own(_case: int) -> None:
    injection = given(
        "sh=2 core=100 ratio=100", "HAMi-core", (3, 8 * GI, 50), (0, 12 * GI, 50),
        gib=(24, 24, 24, 16),
    )  # fmt: skip
    assert injection.env == {
        "NVIDIA_VISIBLE_DEVICES": "3,0",
        "CUDA_DEVICE_MEMORY_LIMIT": "8589934592",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "8589934592",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "12884901888",
        "CUDA_DEVICE_SM_LIMIT": "50",
        "LD_PRELOAD": LIBRARY,
    }


@pytest.mark.parametrize("_case", [pytest.param(0, id="J10")])
def test_less_than_a_percent_is_isolated(_case: int) -> None:
    injection = given("sh=1 mem=1Gi", "HAMi-core", (0, GI, 0), gib=(200,))
    assert injection.env["CUDA_DEVICE_MEMORY_LIMIT"] == "1073741824"
    assert injection.env["LD_PRELOAD"] == LIBRARY


def test_the_librarys_place_can_be_configured() -> None:
    other = dialect(Options(isolation_library="/opt/vgpu/lib.so"))
    pod = a_koord_pod(HALF, isolation="HAMi-core")
    placed = Placed(
        pod=pod, node="n1", shares=shares((0, 8 * GI, 50)), now_ns=0,
        cards={"card-0": a_card("card-0", 0, vendor="nvidia")},
    )  # fmt: skip
    injection = other.inject(placed, pod.spec.containers[0])
    assert injection.env["LD_PRELOAD"] == "/opt/vgpu/lib.so"
    assert injection.mounts[0].destination == "/opt/vgpu/lib.so"


def test_cards_are_reported_by_minor_number() -> None:
    pod = a_koord_pod(HALF)
    cards = {"card-0": a_card("card-0", 0, vendor="nvidia", minor=7)}
    placed = Placed(pod=pod, node="n1", shares=shares((0, GI, 50)), cards=cards, now_ns=0)
    env = KOORDINATOR.inject(placed, pod.spec.containers[0]).env
    assert env == {"NVIDIA_VISIBLE_DEVICES": "7"}


@pytest.mark.parametrize("_case", [pytest.param(0, id="H3")])
def test_a_node_labelled_in_the_other_spelling_takes_the_pod(_case: int) -> None:
    node = a_node(labels={"koordinator.sh/gpu-isolation-provider": "HAMi-core"})
    (outcome,) = plan([a_koord_pod(HALF, isolation="hami-core")], [node], customs=[flat(1, "16Gi")])
    assert outcome.verdict == "placed"
    assert outcome.injections["c0"].env["CUDA_DEVICE_MEMORY_LIMIT"] == str(8 * GI)
