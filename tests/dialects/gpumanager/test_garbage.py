"""Nothing that a user or a node may write makes the dialect fail."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from tessera_core.dialect_kit.contract import Admitted, Placed, Rejected
from tessera_core.topology.link_matrix import BadMatrix, parse
from tessera_schema.kube import Quantity
from tessera_testing.builders import a_card, a_node, a_pod
from tests.dialects.gpumanager.setting import CORE, INDEX, LIMIT, MEMORY, admitted, asking, made

QUANTITIES = st.one_of(
    st.none(),
    st.integers(-200, 1 << 70),
    st.floats(allow_nan=True),
    st.text(max_size=8),
    st.sampled_from(["100", "50", "1Ei", "1e3", "0.5", "-0", "\u0661\u0660\u0660"]),
)
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(["0", "0,1", "9" * 400, "1,", "true", "80"]))
CARDS = tuple(a_card(f"u{i}", i, vendor="nvidia") for i in range(2))


@given(QUANTITIES, QUANTITIES, TEXTS)
def test_a_pod_is_admitted_or_refused(
    core: Quantity | None, memory: Quantity | None, text: str
) -> None:
    answer = admitted(a_pod(asking(core, memory), annotations={LIMIT: text}))
    match answer:
        case Rejected():
            assert answer.field
            assert answer.remedy
        case Admitted():
            for request in (r for c in answer.containers for r in c.requests):
                assert request.count > 0
                assert request.exclusive or request.memory_bytes > 0


@given(QUANTITIES, QUANTITIES, TEXTS, TEXTS)
def test_a_bound_pod_is_read_or_a_problem(
    core: Quantity | None, memory: Quantity | None, text: str, assigned: str
) -> None:
    notes = {f"{INDEX}0": text, "tencent.com/gpu-assigned": assigned, LIMIT: text}
    pod = a_pod(asking(core, memory), node="n1", annotations=notes)
    held = made().recorded(pod, CARDS)
    shares = () if held is None else held.shares
    placed = Placed(pod=pod, node="n1", shares=shares, cards={c.id: c for c in CARDS}, now_ns=1)
    made().annotate(placed)
    made().inject(placed, pod.spec.containers[0])


@given(QUANTITIES, QUANTITIES)
def test_a_node_has_cards_or_a_warning(core: Quantity | None, memory: Quantity | None) -> None:
    named = {CORE: core, MEMORY: memory, "inspur.com/vcuda-core": memory}
    node = a_node(capacity={k: v for k, v in named.items() if v is not None})
    for inventory in made().inventory(node, ()):
        assert inventory.cards or inventory.warnings


@given(st.text(alphabet="GPUXIBNVSY012 \n\x1b[m", max_size=60))
def test_a_table_is_read_or_refused(text: str) -> None:
    with suppress(BadMatrix):
        assert parse(text).count > 0
