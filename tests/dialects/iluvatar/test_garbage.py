"""Whatever stands in a manifest or on a node: an answer, never a traceback."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_schema.kube import Quantity
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tests.dialects.garbage import AMOUNTS, device_lists
from tests.dialects.iluvatar.setting import LEGACY_LIST, made

Amounts = dict[str, Quantity]
Notes = dict[str, str]

NAMES = st.sampled_from(sorted(made().resources))
LIMITS = st.dictionaries(NAMES, AMOUNTS, max_size=4)
LISTS = device_lists("iluvatar")
POD_KEYS = st.sampled_from(
    [LEGACY_LIST, "hami.io/MR-V100-devices-allocated", "iluvatar.ai/predicate-gpu-idx-0"]
)
NODE_KEYS = st.sampled_from(["hami.io/node-MR-V100-register", "hami.io/node-BI-V150-register"])
CARDS = [a_card(f"n-iluvatar-{i}", i, vendor="iluvatar") for i in range(2)]


@settings(max_examples=150, deadline=None)
@given(LIMITS, st.dictionaries(POD_KEYS, LISTS, min_size=1))
def test_every_bound_pod_has_an_answer(limits: Amounts, notes: Notes) -> None:
    held = made().recorded(a_pod(a_container(limits), annotations=notes, node="n"), CARDS)
    assert held is None or not (held.shares and held.problem)


@settings(max_examples=150, deadline=None)
@given(LIMITS, st.dictionaries(NODE_KEYS, LISTS))
def test_every_node_has_an_answer(capacity: Amounts, notes: Notes) -> None:
    for found in made().inventory(a_node("n", capacity=capacity, annotations=notes), ()):
        assert all(card.memory_bytes >= 0 for card in found.cards)
