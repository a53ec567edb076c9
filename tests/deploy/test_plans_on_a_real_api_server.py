"""RebalancePlans as the rebalancer's account writes them, on a real API server."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tessera_rebalancer.plan_settings import PaceSettings
from tessera_rebalancer.plans.eviction import Evictor
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.plans.plan_store import PlanGone, PlanStore
from tessera_schema.plans import (
    PLANS,
    REBALANCING,
    PlanKind,
    PlanPhase,
    PlanSpec,
    PlanStatus,
    PlanStep,
    PodOfPlan,
)
from tests.contract.objects import a_pod
from tests.deploy.installed import PODS, Installed

POD = PodOfPlan(namespace="default", name="a", uid="u", node="one", owner="o")
SPEC = PlanSpec(
    kind=PlanKind.DEFRAGMENT, reason="because", for_pod=POD, cost=1.5, gain=3600,
    steps=(
        PlanStep(pod=POD, to_node="two"),
        PlanStep(pod=POD, container="c", card="GPU-0", memory="4Gi", cores=50),
    ),
)  # fmt: skip
EMPTY = PlanSpec(kind=PlanKind.MOVE, reason="", steps=())


@asynccontextmanager
async def as_rebalancer(installed: Installed, folder: Path) -> AsyncGenerator[Any]:
    token = folder / "token"
    token.write_text(installed.tokens["rebalancer"])
    plane = installed.plane
    settings = KubeSettings(url=plane.url, token_file=token, ca_file=plane.ca_path)
    async with open_kube(settings, name="tessera-rebalancer") as kube:
        yield kube


def a_name() -> str:
    return f"defragment-{secrets.token_hex(4)}"


async def test_a_plan_runs_and_is_removed(installed: Installed, tmp_path: Path) -> None:
    async with as_rebalancer(installed, tmp_path) as kube:
        plans, name = PlanStore(kube, REBALANCING), a_name()
        assert await plans.create(name, SPEC)
        assert not await plans.create(name, SPEC)
        made = await plans.read(name)
        assert (made.spec, made.status) == (SPEC, PlanStatus())
        await plans.approve(made, "policy")
        with pytest.raises(PlanGone):
            await plans.write_status(made, PlanStatus(phase=PlanPhase.DECLINED), exact=True)
        approved = await plans.read(name)
        assert (approved.spec.decision, approved.spec.decided_by) == ("approved", "policy")
        status = PlanStatus(phase=PlanPhase.STARTED, started="2026-11-21T00:00:00Z", before=40)
        started = await plans.write_status(approved, status, exact=True)
        ended = msgspec.structs.replace(status, phase=PlanPhase.DONE, gained=12.5)
        await plans.write_status(started, ended)
        assert (await plans.read(name)).status == ended
        await plans.delete(started)
        with pytest.raises(PlanGone):
            await plans.read(name)


async def test_a_plan_with_nothing_in_it_is_taken(installed: Installed, tmp_path: Path) -> None:
    async with as_rebalancer(installed, tmp_path) as kube:
        plans, name = PlanStore(kube, REBALANCING), a_name()
        assert await plans.create(name, EMPTY)
        made = await plans.read(name)
        assert made.spec == EMPTY
        await plans.delete(made)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"kind": "Burn"}, "spec.kind"), ({"decision": "maybe"}, "spec.decision"),
        ({"steps": [{"toNode": "n"}]}, "spec.steps[0].pod"), ({"steps": None}, "spec.steps"),
        ({"forPod": {"name": "p"}}, "spec.forPod.namespace"),
    ],
)  # fmt: skip
async def test_nonsense_is_refused(
    installed: Installed, changed: dict[str, Any], field: str
) -> None:
    spec = {**msgspec.to_builtins(SPEC), **changed}
    body = {
        "apiVersion": "tessera.dev/v1alpha1", "kind": "RebalancePlan",
        "metadata": {"name": a_name()}, "spec": spec,
    }  # fmt: skip
    async with installed.clients() as clients:
        answer = await clients["admin"].post(PLANS, body)
    assert field in answer.refused(422, "Invalid")


async def test_the_account_evicts(installed: Installed, tmp_path: Path) -> None:
    name = f"p-{secrets.token_hex(4)}"
    async with installed.clients() as clients, as_rebalancer(installed, tmp_path) as kube:
        made = (await clients["admin"].post(PODS, a_pod(name))).done
        key = PodKey("default", name, made["metadata"]["uid"])
        assert await Evictor(kube, PaceSettings()).evict(key) == ""
        gone = await clients["admin"].get(f"{PODS}/{name}")
    gone.refused(404, "NotFound")
