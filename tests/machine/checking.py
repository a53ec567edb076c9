"""What must be true: after every step, and when everything has come to rest."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tessera_core.fleet.charges import Charge
from tessera_core.inventory.agent_liveness import PROOF_S
from tessera_core.machines.allocation import AllocationPhase
from tessera_scheduler.cache.outlived import OCCUPIED
from tessera_scheduler.explain.explanation import Explainer
from tessera_scheduler.scheduler import Scheduler
from tessera_schema.grants import Grant, encode_grant
from tessera_schema.reasons import Reason
from tests.core.reckoning import counts
from tests.core.reference import ObservedPod, sums
from tests.machine.agents import HEARTBEAT
from tests.machine.cluster import RECEIVED_S, SETTINGS, SHAPES
from tests.machine.replicas import Replica
from tests.machine.simulation import Simulation

LEAD_S = 120.0
REST_S = 5 + max(
    RECEIVED_S + 3 * SETTINGS.kube.retry_most_s, SETTINGS.bind.late_s + SETTINGS.ledger.retry_most_s
)
"""Until all that is under way has come, and what was lost is given up."""
BACK_S = PROOF_S + HEARTBEAT.renew_s
"""Within which pods are placed on the cards of an agent that renews its Lease again, whatever it
did before."""
RELEASE_S = 5.0
"""Within which the cards of a pod that is gone are free."""


def always(world: Simulation) -> None:
    """After every step."""
    truth, leader = world.cluster.truth, world.leader
    assert not truth.wrong, truth.wrong
    assert not world.placing.wrong, world.placing.wrong
    assert not truth.overfull(overtaken=False), "granted twice, by writers in their turn"
    for node in world.nodes.values():
        node.check()
    if leader is not None and leader.scheduler is not None:
        for pod, bound in truth.living():
            if not bound.overtaken:
                entry = leader.scheduler.ledger.entry(pod.metadata.uid)
                assert entry is not None, f"{leader.name} has lost the grant of {pod.name}"
                assert entry.phase is not AllocationPhase.RESERVED, pod.name
                known = [_what(g) for g in (entry.grant, entry.pending) if g is not None]
                assert _what(bound.grant) in known, pod.name


async def at_rest(world: Simulation, *, bus: bool) -> Scheduler:
    """All faults end; in the end the ledger is the truth. With `bus` false NATS stays away.

    Answers the scheduler that leads.
    """
    _mend(world, bus=bus)
    await world.until("somebody leads", lambda: world.leader is not None, LEAD_S)
    await world.until("all calls are answered", lambda: world.placing.under_way == 0, LEAD_S)
    await world.advance(REST_S)
    leader = await _leader(world)
    assert leader.scheduler is not None
    fleet = leader.scheduler.ledger.fleet
    await world.until("all agents count", lambda: not any(fleet.silent.values()), BACK_S)
    await _rest(world)
    always(world)
    await _place_all(world, leader)
    await _one_more_is_placed(world, leader)
    await _ledger_is_true(world, leader.scheduler)
    _overfull_is_known(world, leader.scheduler)
    await _all_waiting_are_explained(world, leader.scheduler)
    await _a_fresh_one_agrees(world, leader.scheduler)
    return leader.scheduler


async def released(world: Simulation, uids: list[str]) -> None:
    """Pods are deleted, and every replica's ledger lets go of them in time."""
    for uid in uids:
        if node := world.cluster.truth.pods[uid].spec.node_name:
            world.nodes[node].ends(uid, well=True)
        world.cluster.delete(uid, 0)
    await world.advance(RELEASE_S)
    for replica in world.alive:
        assert replica.scheduler is not None
        for uid in uids:
            assert replica.scheduler.ledger.entry(uid) is None, (replica.name, uid)


def _mend(world: Simulation, *, bus: bool) -> None:
    for replica in world.alive:
        replica.mend()
    if bus:
        world.cluster.bus.back()
    if not world.alive:
        world.start()
    for name, node in world.nodes.items():
        world.cluster.join(name)
        node.agent.mend()


async def _leader(world: Simulation) -> Replica:
    await world.until("somebody leads", lambda: world.leader is not None, LEAD_S)
    leader = world.leader
    assert leader is not None
    return leader


async def _rest(world: Simulation) -> None:
    """Nodes have reconciled until nothing changes, and reported it."""
    for _ in range(3):
        for node in world.nodes.values():
            node.reconcile()
        await world.advance(0.5)


async def _place_all(world: Simulation, leader: Replica) -> None:
    """kube-scheduler does its work, as long as anything fits."""
    placing = world.placing
    while True:
        before = len(placing.waiting())
        for uid in placing.waiting():
            placing.show(uid)
            if placing.filter(leader, uid, world.cluster.node_names()):
                placing.bind(leader, placing.offers[-1])
                await world.until("bind answers", lambda: placing.under_way == 0, 30)
                assert not placing.wrong, placing.wrong
                assert uid not in placing.waiting(), f"{uid} was offered a node, and not bound"
        await _rest(world)
        if len(placing.waiting()) == before:
            return


async def _one_more_is_placed(world: Simulation, leader: Replica) -> None:
    """With NATS and without: where a card is idle, a pod that asks for little gets it."""
    cluster, placing = world.cluster, world.placing
    idle = [
        card
        for name, node in world.nodes.items()
        for card in cluster.cards[name]
        if (name, card) not in cluster.truth.granted() and card not in node.taken()
    ]
    if not set(idle) - cluster.ever_unhealthy:
        return
    uid = cluster.create("one-more", "default", SHAPES[0])
    placing.show(uid)
    assert placing.filter(leader, uid, cluster.node_names()), f"not placed, and {idle} are idle"
    placing.bind(leader, placing.offers[-1])
    await world.until("bind answers", lambda: placing.under_way == 0, 30)
    assert uid not in placing.waiting()
    await released(world, [uid])


async def _ledger_is_true(world: Simulation, scheduler: Scheduler) -> None:
    truth = world.cluster.truth
    for uid, where in world.placing.promised.items():
        if uid in truth.pods and not truth.pods[uid].terminal:
            assert truth.bound[uid].grant.node == where, f"{uid} was said to be bound to {where}"
    living = {pod.metadata.uid: bound.grant for pod, bound in truth.living()}
    entries = {e.grant.uid: e for e in scheduler.ledger.entries()}
    own = {uid: e for uid, e in entries.items() if not uid.startswith(OCCUPIED)}
    granted = {uid: _what(e.grant) for uid, e in own.items()}
    api = {uid: _what(grant) for uid, grant in living.items()}
    assert granted == api, f"ledger: {granted}, API server: {api}"
    assert {e.phase for e in own.values()} <= {AllocationPhase.BOUND}
    held = truth.granted()
    shown = (
        ObservedPod(encode_grant(bound.grant), msgspec.json.encode(pod).decode())
        for pod, bound in truth.living()
    )
    assert sums(shown).ids == {place: counts(charge) for place, charge in held.items()}
    if world.cluster.bus.connected:
        for name, node in world.nodes.items():
            for card, charge in node.taken_by_orphans().items():
                key = name, card
                held[key] = held.get(key, Charge()).plus(charge)
        assert held == {
            (name, card): charge
            for name in world.nodes
            for card, charge in scheduler.ledger.charges_on(name).items()
        }
    found = await scheduler.audit.with_api()
    assert not found.ledger_only, found
    assert not found.api_only, found
    assert await scheduler.audit.with_columns() == 0


def _overfull_is_known(world: Simulation, scheduler: Scheduler) -> None:
    """What a writer that came back did is measured, and does not start."""
    truth, overfull = world.cluster.truth, world.cluster.truth.overfull()
    if not overfull:
        return
    assert scheduler.ledger.fleet.cards.overgranted() >= 1, overfull
    for node, card in overfull:
        sharing = [
            pod for pod, bound in truth.living()
            if bound.grant.node == node and card in {s.card for s in bound.grant.shares}
        ]  # fmt: skip
        if not any(pod.spec.init_containers for pod in sharing):  # those are reserved for longer
            idle = [p.name for p in sharing if not world.nodes[node].runs(p.metadata.uid)]
            assert idle, f"all of {[p.name for p in sharing]} run on {card}"


async def _all_waiting_are_explained(world: Simulation, scheduler: Scheduler) -> None:
    explainer = Explainer(
        registry=scheduler.registry, ledger=scheduler.ledger, decisions=scheduler.decisions,
        clock=world.cluster.clock,
    )  # fmt: skip
    for uid in world.placing.waiting():
        explanation = await explainer.explain(world.cluster.truth.pods[uid])
        decision = explanation.decision
        assert decision.verdict == "waiting", (uid, decision)
        assert re.search(r"\d", decision.message), decision.message
        assert decision.reasons, decision
        for why in decision.reasons:
            plain = why.reason in (
                Reason.NODE_UNREGISTERED,
                Reason.NODE_HAS_NO_CARDS,
                Reason.NODE_BLOCKED,
            )
            assert plain or re.search(r"\d", why.message), why


async def _a_fresh_one_agrees(world: Simulation, leader: Scheduler) -> None:
    fresh = world.start()
    try:
        await world.until("a fresh one has started", lambda: fresh.scheduler is not None, 30)
        assert fresh.scheduler is not None
        watching = fresh.scheduler.watches
        await watching.synced()
        await world.advance(1)
        bus = world.cluster.bus.connected
        new, old = _contents(fresh.scheduler, bus=bus), _contents(leader, bus=bus)
        for what, was in old.items():
            assert new[what] == was, f"{what}: a fresh one has {new[what]}, the leader {was}"
    finally:
        fresh.end()
    await world.advance(1)


def _contents(scheduler: Scheduler, *, bus: bool) -> dict[str, Any]:
    """What it knows; without the bus no replica can know what was published there before."""
    ledger = scheduler.ledger
    pages = sorted(
        (
            (
                e.grant.uid.rpartition("/")[2], e.grant.node, e.grant.shares, e.phase,
                dict(e.charges), dict(e.uses), e.init_over,
            )
            for e in ledger.entries()
            if bus or not e.grant.uid.startswith(OCCUPIED)
        ),
        key=lambda page: page[0],
    )  # fmt: skip
    if not bus:
        return {"pages": pages}
    return {
        "pages": pages,
        "nodes": {n: ledger.fleet.facts[row] for n, row in sorted(ledger.fleet.rows.items())},
        "held": {n: dict(ledger.charges_on(n)) for n in sorted(ledger.fleet.rows)},
    }


def _what(grant: Grant) -> tuple[object, ...]:
    return grant.uid, grant.namespace, grant.name, grant.node, grant.shares
