"""Whatever stands in annotations and quantities: an answer, never an error."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tests.dialects.volcano.setting import (
    IDS,
    INDEX,
    MEMORY,
    NUMBER,
    REGISTER,
    UNHEALTHY,
    VGPU_CORES,
    VGPU_MEMORY,
    VGPU_NUMBER,
    VGPU_PERCENT,
    admitted,
    made,
)

WORDS = st.text(alphabet="GPU-ab019,:;[]-+ .eEkMi\u0663", max_size=24)
AMOUNTS = st.one_of(WORDS, st.integers(-(2**70), 2**70), st.floats())
LIMITS = st.dictionaries(
    st.sampled_from([MEMORY, NUMBER, VGPU_NUMBER, VGPU_MEMORY, VGPU_CORES, VGPU_PERCENT]),
    AMOUNTS,
    max_size=3,
)
CARDS = [a_card("GPU-a", 0, vendor="nvidia"), a_card("GPU-b", 1, vendor="nvidia")]


@settings(deadline=None)
@given(capacity=LIMITS, register=WORDS, unhealthy=WORDS)
def test_a_node_always_has_an_inventory(
    capacity: dict[str, str | int | float], register: str, unhealthy: str
) -> None:
    node = a_node(
        "n1",
        capacity={VGPU_NUMBER: 1, VGPU_MEMORY: 1, VGPU_CORES: 1, NUMBER: 2} | capacity,
        annotations={REGISTER: register, UNHEALTHY: unhealthy},
    )
    for inventory in made().inventory(node, ()):
        assert inventory.cards or inventory.warnings
        assert all(c.memory_bytes >= 0 and c.slots > 0 for c in inventory.cards)


@settings(deadline=None)
@given(limits=LIMITS, requests=LIMITS, index=WORDS, ids=WORDS, mode=WORDS)
def test_a_pod_always_has_an_answer(
    limits: dict[str, str | int | float],
    requests: dict[str, str | int | float],
    index: str,
    ids: str,
    mode: str,
) -> None:
    pod = a_pod(
        a_container(limits, requests),
        annotations={INDEX: index, IDS: ids, "volcano.sh/vgpu-mode": mode},
    )
    admitted(pod)
    held = made().recorded(pod, CARDS)
    assert held is None or bool(held.problem) is not bool(held.shares)
