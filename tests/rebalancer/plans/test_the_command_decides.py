"""`tessera plan`: the same plans for people and for programs; decisions by users who may."""

from __future__ import annotations

import asyncio
import json

import pytest

from tessera_cli import screen
from tessera_cli.__main__ import run
from tessera_cli.plan import plans
from tessera_embedded.apiserver.faults import Answer, InjectedFault
from tessera_schema.plans import PLANS, PlanPhase
from tests.rebalancer.plans.cluster import Cluster, planning, settings, two_half_full, until

looptime = pytest.mark.looptime


@looptime
async def test_a_plan_is_displayed_approved_and_displayed_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = two_half_full()
    console = screen.console(sized=False)
    async with planning(cluster):
        await until(cluster.plans)
        name = cluster.the_plan()[0]
        plans.show(console, await plans.read_all(cluster.kube))
        text = capsys.readouterr().out
        assert f"{name}  Defragment  Proposed" in text.replace("   ", "  ").replace("   ", "  ")
        assert "default/b" in text
        assert "default/w has waited" in text
        await plans.write(cluster.kube, name, "approved")
        await until(lambda: cluster.status().phase is PlanPhase.DONE)
    plans.detail(console, await plans.read_one(cluster.kube, name))
    text = capsys.readouterr().out
    assert f"{name}: Defragment, Done, approved by " in text
    assert "step 1 (done): default/b leaves n1; there is room for it on n0" in text
    whole = json.loads(plans.document(await plans.read_all(cluster.kube)))
    assert whole["plans"][0]["spec"]["decision"] == "approved"
    assert whole["plans"][0]["status"]["stepsDone"] == 1


@looptime
async def test_a_plan_is_declined() -> None:
    cluster = two_half_full()
    async with planning(cluster):
        await until(cluster.plans)
        await plans.write(cluster.kube, cluster.the_plan()[0], "declined")
        await until(lambda: cluster.status().phase is PlanPhase.DECLINED)
        with pytest.raises(plans.NoPlan, match="only a plan that is Proposed can be approved"):
            await plans.write(cluster.kube, cluster.the_plan()[0], "approved")
    assert cluster.evictions() == []


@looptime
async def test_a_dry_run_of_a_decision_decides_nothing() -> None:
    cluster = two_half_full()
    async with planning(cluster):
        await until(cluster.plans)
        shown = await plans.write(cluster.kube, cluster.the_plan()[0], "approved", dry_run=True)
        assert shown.spec.decision == "approved"
        await asyncio.sleep(60)
    assert cluster.the_plan()[1].decision == ""


@looptime
async def test_a_plan_that_is_a_dry_run_is_not_approved() -> None:
    cluster = two_half_full()
    async with planning(cluster, settings(dry_run=True)):
        await until(cluster.plans)
        with pytest.raises(plans.NoPlan, match="is a dry run and never carried out"):
            await plans.write(cluster.kube, cluster.the_plan()[0], "approved")


@looptime
async def test_what_is_not_there_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    plans.show(screen.console(sized=False), await plans.read_all(cluster.kube))
    assert capsys.readouterr().out == "no plans\n"
    with pytest.raises(plans.NoPlan, match="plan x: there is none: `tessera plan list`"):
        await plans.read_one(cluster.kube, "x")
    with pytest.raises(plans.NoPlan, match="not installed"):
        await plans.read_all(Cluster(defined=False).kube)


def test_a_server_that_is_not_there_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    for verb in (["list"], ["show", "p"], ["approve", "p"], ["decline", "p", "--dry-run"]):
        assert run(["plan", *verb, "--kubeconfig", f"{tmp_path}/none"]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("tessera: error: ")
        assert len(said.err.splitlines()) == 1


@looptime
async def test_a_decision_outlives_that_the_plan_is_written_to_meanwhile() -> None:
    cluster = two_half_full()
    async with planning(cluster):
        await until(cluster.plans)
        name = cluster.the_plan()[0]
        cluster.kube.faults.add(InjectedFault("PATCH", f"{PLANS}/{name}", Answer(409), 2))
        shown = await plans.write(cluster.kube, name, "approved")
        assert shown.spec.decision == "approved"
        await until(lambda: cluster.status().phase is PlanPhase.DONE)


@looptime
async def test_a_plan_that_is_always_written_to_is_reported() -> None:
    cluster = two_half_full()
    async with planning(cluster):
        await until(cluster.plans)
        name = cluster.the_plan()[0]
        cluster.kube.faults.add(InjectedFault("PATCH", f"{PLANS}/{name}", Answer(409), 5))
        with pytest.raises(plans.NoPlan, match="written to all the time"):
            await plans.write(cluster.kube, name, "approved")
