"""Whatever was granted, what runs on a card never exceeds it."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from tessera_core.fleet.charges import Charge, charges
from tessera_core.node.container_admission import (
    ContainerCreation,
    Granted,
    NodeContext,
    admit_container,
)
from tessera_core.trust.grants import Verifier, published_key
from tessera_kubelet.errors import ContainerRefused
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Share
from tessera_schema.requests import Role
from tests.agent.nri.runtime_node import (
    DIALECTS,
    NODE,
    SIGNER,
    a_grant,
    a_node,
    a_share,
    granted,
    signed,
)

CROWDS = {
    "memory": ([a_share(mib=10_000), a_share(mib=10_000)], "10000 MiB wanted, 10000 of 16384 MiB"),
    "cores": (
        [a_share(cores_percent=60), a_share(cores_percent=60)],
        "60 % of cores wanted, 60 of 100 %",
    ),
    "slots": ([a_share(mib=1)] * 5, "all 4 slots in use"),
    "exclusive first": ([a_share(exclusive=True), a_share(mib=1)], "exclusive"),
    "exclusive last": ([a_share(mib=1), a_share(exclusive=True)], "exclusive"),
}


@pytest.mark.parametrize(("shares", "message"), CROWDS.values(), ids=CROWDS)
async def test_the_last_one_waits_for_another(
    tmp_path: Path, shares: list[Share], message: str
) -> None:
    pods = [granted(f"job-{i}", share) for i, share in enumerate(shares)]
    async with a_node(tmp_path) as node, node.agent():
        for pod in pods[:-1]:
            await node.run(pod)
        with pytest.raises(ContainerRefused, match=message):
            await node.create(pods[-1])
        await node.stop(pods[0])
        await node.create(pods[-1])


async def test_a_container_may_take_its_own_place_again(tmp_path: Path) -> None:
    pod = granted("job", a_share(mib=16_000))
    async with a_node(tmp_path) as node, node.agent():
        await node.create(pod)  # its creation fails later on, and nobody says so
        await node.run(pod, attempt=1)
        await node.run(pod, attempt=2)


async def test_what_was_never_started_holds_until_its_sandbox_ends(tmp_path: Path) -> None:
    first, second = granted("a", a_share(mib=16_000)), granted("b", a_share(mib=16_000))
    async with a_node(tmp_path) as node, node.agent():
        await node.create(first)
        with pytest.raises(ContainerRefused, match="CardOverfull"):
            await node.create(second)
        await node.end(first)
        await node.create(second)


async def test_init_and_app_containers_take_turns(tmp_path: Path) -> None:
    init = a_share("init", mib=16_000, role=Role.INIT)
    app = a_share("main", mib=16_000, position=1)
    async with a_node(tmp_path) as node, node.agent():
        pod = granted("job", init, app)
        await node.run(pod, "init")
        await node.run(pod, "main")  # although nobody said that the other one ended


async def test_sidecars_and_app_containers_do_not(tmp_path: Path) -> None:
    sidecar = a_share("side", mib=9_000, role=Role.SIDECAR)
    app = a_share("main", mib=9_000, position=1)
    async with a_node(tmp_path) as node, node.agent():
        pod = granted("job", sidecar, app)
        await node.run(pod, "side")
        with pytest.raises(ContainerRefused, match="18000 MiB wanted, 0 of 16384 MiB"):
            await node.create(pod)


SHARES = st.builds(
    a_share,
    mib=st.sampled_from([0, 1, 4000, 8000, 16_384]),
    cores_percent=st.sampled_from([0, 25, 50, 100]),
    exclusive=st.booleans(),
    card=st.integers(0, 1),
    lent=st.sampled_from([UNSET, UNSET, True]),
)
STEPS = st.lists(
    st.one_of(st.tuples(st.integers(0, 5), st.none()), st.tuples(st.integers(0, 5), SHARES)),
    max_size=40,
)  # fmt: skip
CARDS = {
    f"GPU-{i}": Card(id=f"GPU-{i}", index=i, vendor="nvidia", memory_bytes=16_384 * MIB, slots=3)
    for i in range(2)
}
VERIFIER = Verifier(dict([published_key(SIGNER.public)]))


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_no_order_of_events_overfills_a_card(steps: list[tuple[int, Share | None]]) -> None:
    running: dict[str, list[Share]] = {}
    for number, share in steps:
        uid = f"uid-pod-{number}"
        running.pop(uid, None)
        if share is None:
            continue
        text = signed(a_grant(f"pod-{number}", share))
        scene = NodeContext(
            node=NODE, vendor=DIALECTS.vendors["nvidia"], vendors=DIALECTS.vendors,
            verifier=VERIFIER, cards=CARDS, held=running, reclaims=True,
        )  # fmt: skip
        verdict = admit_container(
            ContainerCreation(uid=uid, container="main", texts=(text,)), scene
        )
        if isinstance(verdict, Granted):
            running[uid] = list(verdict.shares)
    _check(running)


def _check(running: dict[str, list[Share]]) -> None:
    for card in CARDS.values():
        total = Charge()
        for shares in running.values():
            charge = charges(shares).get(card.id, Charge())
            assert charge.lent_bytes <= card.memory_bytes
            total = total.plus(charge)
        assert total.memory_bytes <= card.memory_bytes
        assert total.cores_percent <= card.cores_percent
        assert total.slots <= card.slots
        assert not total.exclusive or total.slots == 1
        assert total.lent_slots <= card.slots


def test_admission_never_fails_on_what_an_annotation_says() -> None:
    scene = NodeContext(
        node=NODE,
        vendor=DIALECTS.vendors["nvidia"],
        vendors=DIALECTS.vendors,
        verifier=VERIFIER,
        cards=CARDS,
    )
    for text in ("", "{", "\ud800", "[" * 100_000, SIGNER.sign("{}"), SIGNER.sign("[[")):
        verdict = admit_container(ContainerCreation(uid="u", container="c", texts=(text,)), scene)
        assert not isinstance(verdict, Granted)
    nobody = replace(scene, cards=None)
    assert not isinstance(
        admit_container(ContainerCreation(uid="u", container="c"), nobody), Granted
    )
