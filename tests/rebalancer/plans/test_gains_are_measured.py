"""What a plan gained is measured where it can be seen, and written on it."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from tessera_core.rebalance.cluster_view import WorthRules
from tessera_core.rebalance.plan_gains import GainRules
from tessera_rebalancer.plan_settings import PaceSettings
from tessera_runtime.kube.timestamps import format_time
from tessera_schema.plans import PlanKind, PlanPhase
from tests.rebalancer.plans.cluster import Cluster, planning, settings, two_half_full, until

pytestmark = pytest.mark.looptime
HOUR = settings(
    approve=(PlanKind.DEFRAGMENT, PlanKind.MOVE), worth=WorthRules(times=0, wait_s=5, horizon_s=600)
)


async def test_the_pod_that_got_its_place_is_the_gain() -> None:
    cluster = two_half_full()
    async with planning(cluster, HOUR):
        await until(lambda: cluster.plans() and cluster.status().phase is PlanPhase.DONE)
        await asyncio.sleep(150)
        pod = cluster.pod("w")
        assert pod is not None
        cluster.bind("w", pod["metadata"]["uid"], "n1")
        await until(lambda: cluster.status().placed)
        assert cluster.status().gained is None
        await until(lambda: cluster.status().gained is not None)
    _, spec, status = cluster.the_plan()
    assert spec.gain == 600
    assert status.gained == pytest.approx(450, abs=20)
    assert cluster.metric("plans_paused") == 0


async def test_a_pod_that_never_came_is_no_gain() -> None:
    cluster = two_half_full()
    async with planning(cluster, HOUR):
        await until(lambda: cluster.plans() and cluster.status().phase is PlanPhase.DONE)
        cluster.end("w")
        await until(lambda: cluster.status().gained is not None)
    assert cluster.status().gained == 0


def crowded() -> Cluster:
    cluster = Cluster()
    cluster.runs("a", "n0", mib=4000)
    cluster.runs("b", "n0", mib=4000)
    cluster.hint("n0", "n0-0", contended_percent=80, busy_percent=100)
    cluster.hint("n1", "n1-0", contended_percent=0, busy_percent=5)
    return cluster


async def test_a_move_is_measured_by_what_hints_say_afterwards() -> None:
    cluster = crowded()
    async with planning(cluster, HOUR):
        await until(lambda: cluster.plans() and cluster.status().phase is PlanPhase.DONE)
        _, spec, status = cluster.the_plan()
        assert (spec.kind, len(spec.steps), status.before) == (PlanKind.MOVE, 1, 80)
        cluster.hint("n0", "n0-0", contended_percent=20, busy_percent=90)
        await until(lambda: cluster.status().gained is not None)
    assert spec.gain == 480
    assert cluster.status().gained == 360
    assert len(cluster.evictions()) == 1


async def test_proposing_stops_when_gains_do_not_come_and_says_so() -> None:
    cluster = two_half_full()
    ended = format_time(cluster.clock.time() - 10)
    pod = {"namespace": "default", "name": "x", "uid": "x", "node": "n0"}
    spec = {"kind": "Move", "reason": "r", "steps": [{"pod": pod}], "gain": 100}
    for n in range(2):
        cluster.write_plan(f"move-{n}", spec, phase="Done", ended=ended, gained=10)
    rules = GainRules(plans=2, share=0.5, pause_s=300)
    async with planning(cluster, replace(HOUR, gain=rules)) as plans:
        await asyncio.sleep(200)
        assert len(cluster.plans()) == 2
        assert plans.planner.paused is not None
        assert "gained 20 of 200 card-seconds" in plans.planner.paused.why
        assert cluster.metric("plans_paused") == 1
        notes = [status.message for _, _, status in cluster.plans()]
        assert any("nothing is proposed until" in note for note in notes)
        await until(lambda: len(cluster.plans()) == 3)
        assert cluster.metric("plans_paused") == 0


async def test_who_carries_out_a_resize_requests_the_scheduler() -> None:
    cluster = Cluster()
    uid = cluster.runs("a", "n0", mib=8000, cores=30)
    pod = {"namespace": "default", "name": "a", "uid": uid, "node": "n0"}
    step = {"pod": pod, "container": "c", "card": "n0-0", "memory": "4000Mi", "cores": 50}
    spec = {"kind": "Resize", "reason": "r", "steps": [step], "decision": "approved"}
    cluster.write_plan("resize-1", spec)
    async with planning(cluster, settings(pace=PaceSettings(resize_s=30))):
        await until(lambda: "tessera.dev/resize" in _notes(cluster))
        asked = _notes(cluster)["tessera.dev/resize"]
        assert '"memory_bytes":4194304000' in asked
        cluster.note(
            "a", {"tessera.dev/resize": None, "tessera.dev/resize-refused": "the card is full"}
        )
        await until(lambda: cluster.status().phase is PlanPhase.FAILED)
    assert cluster.status().message == "default/a: the card is full"


async def test_a_resize_that_is_granted_is_done() -> None:
    cluster = Cluster()
    uid = cluster.runs("a", "n0", mib=8000)
    pod = {"namespace": "default", "name": "a", "uid": uid, "node": "n0"}
    step = {"pod": pod, "container": "c", "card": "n0-0", "memory": "4000Mi"}
    spec = {"kind": "Resize", "reason": "r", "steps": [step], "decision": "approved"}
    cluster.write_plan("resize-1", spec)
    async with planning(cluster):
        await until(lambda: "tessera.dev/resize" in _notes(cluster))
        cluster.note(
            "a", {"tessera.dev/resize": None, "tessera.dev/grant": cluster.grant("a", uid, 4000)}
        )
        await until(lambda: cluster.status().phase is PlanPhase.DONE)
    assert cluster.status().message == "the scheduler has granted it"


async def test_a_scheduler_that_does_not_answer_ends_the_resize() -> None:
    cluster = Cluster()
    uid = cluster.runs("a", "n0", mib=8000)
    pod = {"namespace": "default", "name": "a", "uid": uid, "node": "n0"}
    step = {"pod": pod, "container": "c", "card": "n0-0", "memory": "4000Mi"}
    spec = {"kind": "Resize", "reason": "r", "steps": [step], "decision": "approved"}
    cluster.write_plan("resize-1", spec)
    async with planning(cluster, settings(pace=PaceSettings(resize_s=30))):
        await until(lambda: cluster.status().phase is PlanPhase.FAILED)
    assert "did not answer within 30 s" in cluster.status().message
    assert "tessera.dev/resize" not in _notes(cluster)


def _notes(cluster: Cluster) -> dict[str, str]:
    pod = cluster.pod("a")
    return dict(pod["metadata"].get("annotations", {})) if pod else {}
