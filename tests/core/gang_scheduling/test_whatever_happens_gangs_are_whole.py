"""Random walks: whatever ends, is late or is lost, no gang is partly started beyond the rule, no
reservation leaks, and every gang that fits starts in the end."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from tessera_core.gangs.gang import MatchPolicy
from tessera_core.gangs.gates import is_gated
from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueSpec
from tessera_core.gangs.quorum import minimum_members
from tessera_core.gangs.reservation import GangReserved, reserve_gang
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.machines.gang import GangPhase
from tessera_schema.kube import Pod
from tests.core.gang_scheduling.gang_cluster import GangCluster
from tests.core.gang_scheduling.gang_pods import gated, request_of
from tests.core.gangs.setting import a_group, a_koord_member, a_member, a_queue

WALKS, STEPS = 20, 2000
SIZES = {"a": 2, "b": 3, "c": 4, "k": 3, "o": 2}
"""Gang -> its minimum; `k` and `o` are Koordinator's, of the policies once and arriving."""
QUEUES = {"a": "capped", "b": "capped", "c": "free"}
CAP = 5
"""Cards that gangs of the first queue may have together."""
CAPPED = ("volcano/default/a", "volcano/default/b")
FREE = a_queue("free")
HOLDS = (GangPhase.RESERVED, GangPhase.BINDING, GangPhase.COMMITTED)


def a_cap(cards: int) -> QueueSpec:
    return a_queue("capped", spec={"capability": {"nvidia.com/gpu": cards}})


class Walk:
    """One cluster, and steps in it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  (a walk that can be repeated)
        groups = [a_group(name, minMember=SIZES[name], queue=QUEUES[name]) for name in "abc"]
        self.cluster = GangCluster({"n0": 2, "n1": 2, "n2": 3}, groups, [a_cap(CAP), FREE])
        self.cluster.outcome = self.outcome
        self.made = 0
        self.checked = 0
        self.allowed: set[str] = set()
        """Uids of pods whose gates might be opened when it was decided."""

    def outcome(self, uid: str) -> bool | None:
        return self.random.choices((True, False, None), (12, 1, 1))[0]

    def a_pod_of(self, name: str) -> Pod:
        self.made += 1
        if name in ("k", "o"):
            policy = {"match_policy": "only-waiting"} if name == "o" else {}
            return a_koord_member(
                f"{name}{self.made}", name, min_available=str(SIZES[name]), **policy
            )
        return a_member(f"{name}{self.made}", name)

    # -- what may happen

    def create(self) -> None:
        name = self.random.choice(sorted(SIZES))
        if len(self.cluster.pods) < 16:
            made = [self.a_pod_of(name) for _ in range(self.random.randint(1, 4))]
            webhook = self.random.random() < 0.8  # else it is away, or somebody takes the gate off
            self.cluster.create(*(gated(*made) if webhook else made))

    def delete(self) -> None:
        if self.cluster.pods:
            self.cluster.delete(self.random.choice(sorted(self.cluster.pods)))

    def end(self) -> None:
        """A gang has done its work."""
        bound = sorted(uid for uid, pod in self.cluster.pods.items() if pod.spec.node_name)
        if bound:
            name = self.cluster.pods[self.random.choice(bound)].metadata.name[0]
            for uid in [u for u in bound if self.cluster.pods[u].metadata.name[0] == name]:
                self.cluster.delete(uid)

    def node(self) -> None:
        name = self.random.choice(("n0", "n1", "n2"))
        if name in self.cluster.cards:
            self.cluster.lose_node(name)
        else:
            self.cluster.add_node(name, self.random.randint(1, 3))

    def watch(self) -> None:
        self.cluster.watch(self.random.randint(1, 4))

    def try_pod(self) -> None:
        waiting = self.cluster.waiting()
        if waiting:
            self.cluster.try_pod(self.random.choice(waiting))

    def time(self) -> None:
        seconds = self.random.choices((0.1, 1, 5, 30, 70), (4, 4, 4, 1, 1))[0]
        self.cluster.now += seconds
        self.cluster.ledger.expire(self.cluster.now - 30)

    def settle(self) -> None:
        if self.cluster.unknown:
            self.cluster.settle_unknown(written=self.random.random() < 0.5)

    def gates(self) -> None:
        self.cluster.open_gates(self.random.randint(1, 3))

    def minimum(self) -> None:
        name = self.random.choice("abc")
        self.cluster.put_group(
            a_group(
                name,
                minMember=max(SIZES[name] + self.random.randint(-1, 1), 2),
                queue=QUEUES[name],
            )
        )

    def queue(self) -> None:
        """The queue is closed, or opened again."""
        spec = self.cluster.queues.spec(VOLCANO_QUEUE, "capped")
        shut = spec is not None and spec.open
        self.cluster.specs = (replace(a_cap(CAP), open=not shut), FREE)
        self.cluster.queues.put_queue(self.cluster.specs[0])

    def go(self) -> None:
        happens = self.random.choices(
            (
                self.create, self.delete, self.end, self.node, self.watch, self.try_pod, self.time,
                self.settle, self.gates, self.minimum, self.queue, self.cluster.step,
                self.cluster.lose_lease, self.cluster.start_scheduler,
                self.cluster.restart_kube_scheduler,
            ),
            (10, 1, 2, 0.5, 40, 60, 6, 6, 40, 0.5, 0.5, 40, 0.5, 0.5, 0.5),
        )[0]  # fmt: skip
        before = len(self.cluster.released)
        happens()
        self.check_released(self.cluster.released[before:])
        self.check_opened(self.cluster.opening)
        self.check()

    # -- what has to be true

    def check_released(self, released: list[str]) -> None:
        """Nobody passes the barrier but with enough others."""
        cluster = self.cluster
        for gang_id in {cluster.gangs.gang_of(uid) for uid in released} - {""}:
            passed = {uid for uid in released if cluster.gangs.gang_of(uid) == gang_id}
            members = cluster.gangs.bundle(gang_id).gangs[0]
            there = {m.pod.metadata.uid for m in members.bound}
            if members.gang.match is MatchPolicy.ARRIVING:
                there = set()
            assert len(passed | there) >= members.gang.min, (gang_id, released)
            self.checked += 1

    def check_opened(self, opening: list[str]) -> None:
        """No gate is opened of a gang that waits and never had cards."""
        cluster = self.cluster
        for uid in set(opening) - self.allowed:
            gang_id = cluster.gangs.gang_of(uid)
            phase = cluster.coordinator.phase(gang_id, cluster.now)
            assert not gang_id or phase in (*HOLDS, GangPhase.STARTED, GangPhase.OVER), phase
            self.allowed.add(uid)

    def check(self) -> None:
        cluster = self.cluster
        used: dict[tuple[str, str], str] = {}
        for uid, grant in cluster.grants.items():
            for share in grant.shares:
                key = (grant.node, share.card)
                assert used.setdefault(key, uid) == uid, "a card is held twice"
        capped = [
            entry for entry in cluster.ledger.entries()
            if cluster.gangs.gang_of(entry.grant.uid) in CAPPED
        ]  # fmt: skip
        assert len(capped) <= CAP, "gangs have more cards than their queue's cap"
        gangs = {gang_id for uid in cluster.pods if (gang_id := cluster.gangs.gang_of(uid))}
        phases = {gang_id: cluster.coordinator.phase(gang_id, cluster.now) for gang_id in gangs}
        for entry in cluster.ledger.entries():
            phase = phases.get(cluster.gangs.gang_of(entry.grant.uid))
            if entry.phase is AllocationPhase.RESERVED and phase in (
                GangPhase.GATHERING,
                GangPhase.QUEUED,
                GangPhase.BROKEN,
            ):
                raise AssertionError(f"{entry.grant.name} holds cards while its gang is {phase}")

    def calm(self) -> None:
        """Nothing more goes wrong: in bounded time all that fits has started."""
        cluster = self.cluster
        cluster.outcome = lambda uid: True
        cluster.specs = (a_cap(CAP), FREE)
        cluster.queues.put_queue(cluster.specs[0])
        while cluster.unknown:
            cluster.settle_unknown(written=False)
        cluster.run(rounds=40, seconds=20)
        assert cluster.calling == set()
        for name in SIZES:
            gang_id = f"{'koordinator' if name in 'ko' else 'volcano'}/default/{name}"
            phase = cluster.coordinator.phase(gang_id, cluster.now)
            assert phase not in HOLDS, (name, phase)
            if phase in (GangPhase.QUEUED, GangPhase.BROKEN):
                self.check_it_does_not_fit(gang_id)
            if phase is GangPhase.STARTED:
                pods = [cluster.pods[uid] for uid in cluster.pods if self.in_gang(uid, gang_id)]
                assert not any(map(is_gated, pods)), f"{gang_id} has started, and a gate is left"

    def in_gang(self, uid: str, gang_id: str) -> bool:
        return self.cluster.gangs.gang_of(uid) == gang_id

    def check_it_does_not_fit(self, gang_id: str) -> None:
        cluster = self.cluster
        bundle = cluster.gangs.bundle(gang_id)
        if bundle.lacks:
            return
        if cluster.queues.problem(bundle, [m for g in bundle.gangs for m in minimum_members(g)]):
            return
        least = [m for each in bundle.gangs for m in minimum_members(each)]
        wanted = [MemberRequest(m.pod, request_of(m.pod)) for m in least]
        found = reserve_gang(cluster.ledger, cluster.filters(), wanted, cluster.now)
        assert not isinstance(found, GangReserved), f"{gang_id} fits and does not start"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(WALKS))
def test_a_walk(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.go()
    walk.calm()
    assert walk.checked > 0, "no gang ever started in this walk"


def test_all_walks_are_ten_thousand_steps_and_more() -> None:
    assert WALKS * STEPS > 10_000
