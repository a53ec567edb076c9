"""What kube-scheduler would evict for processor or memory is refused where a pod may not go."""

from __future__ import annotations

import msgspec
import pytest

from tessera_core.gangs.gang import Gang, GangMember, GangMembers, GangOrigin, MatchPolicy
from tessera_core.preemption.eviction_vetoes import veto
from tessera_core.preemption.potential_victims import PotentialVictim, PreemptionRules
from tessera_scheduler.scheduler import Scheduler
from tessera_schema.endpoints.extender import ExtenderPreemptionResult
from tessera_schema.kube import ObjectMeta, Pod, PodSpec
from tests.scheduler.fake_cluster import FakeCluster, leading, until

RULES = PreemptionRules()


def refused(cluster: FakeCluster, scheduler: Scheduler, name: str, victim: str) -> bool:
    meta = {"Pods": [{"UID": cluster.read(victim).metadata.uid}], "NumPDBViolations": 0}
    pod = cluster.call("GET", cluster.path(name))
    body = msgspec.json.encode({"Pod": pod, "NodeNameToMetaVictims": {"n0": meta}})
    answer = msgspec.json.decode(scheduler.extender.preempt(body), type=ExtenderPreemptionResult)
    return not answer.node_name_to_meta_victims


@pytest.mark.looptime
@pytest.mark.parametrize("mib", [0, 1000])
async def test_a_pod_stays_whose_owner_forbids_its_eviction(mib: int) -> None:
    cluster = FakeCluster(1)
    cluster.pod("forbidden", annotations={"tessera.dev/preemptible": "false"})
    cluster.pod("allowed")
    cluster.pod("high", mib, priority=10)
    async with leading(cluster) as scheduler:
        for name in ("forbidden", "allowed"):
            await cluster.place(scheduler, name)
        await until(lambda: scheduler.preemption is not None and len(scheduler.preemption.pods) > 1)
        assert refused(cluster, scheduler, "high", "forbidden")
        assert not refused(cluster, scheduler, "high", "allowed")


def members(
    priority: int, bound: int = 3, least: int = 2
) -> tuple[list[PotentialVictim], GangMembers]:
    pods = [
        Pod(
            metadata=ObjectMeta(name=f"m{i}", namespace="a", uid=f"m{i}"),
            spec=PodSpec(priority=priority, node_name="n0"),
        )
        for i in range(bound)
    ]
    gang = Gang(
        origin=GangOrigin.VOLCANO, namespace="a", name="g", min=least, match=MatchPolicy.PRESENT
    )
    victims = [PotentialVictim(pod=pod, owner_kind="Job") for pod in pods]
    return victims, GangMembers(gang=gang, bound=tuple(GangMember(pod=pod) for pod in pods))


def vetoed(victims: list[PotentialVictim], gang: GangMembers, priority: int) -> str:
    return veto(victims, {victim.uid: gang for victim in victims}, priority, RULES)


def test_a_gang_of_no_lower_priority_is_not_broken() -> None:
    victims, gang = members(priority=5)
    assert vetoed(victims[:2], gang, 5) == "gang a/g of no lower priority would stop"
    assert vetoed(victims, gang, 5) != ""


def test_its_surplus_may_go() -> None:
    victims, gang = members(priority=5)
    assert vetoed(victims[:1], gang, 5) == ""


def test_a_gang_of_lower_priority_may_go() -> None:
    victims, gang = members(priority=5)
    assert vetoed(victims[:2], gang, 6) == ""
