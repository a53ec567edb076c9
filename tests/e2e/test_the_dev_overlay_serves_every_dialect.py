"""`kubectl apply -k` on a real cluster of one node, pods as users write them, and what may happen
to an installation. One cluster for all of it, as it takes a minute to make."""

import asyncio
from collections import defaultdict

import pytest
import yaml

from tests.contract.client import Json
from tests.e2e import pods
from tests.e2e.cluster import HOME, OVERLAY, Cluster
from tests.e2e.conftest import OpenCluster, SetStage
from tests.e2e.faults import FAULTS
from tests.e2e.node import NODE
from tests.e2e.plane import KubectlFailed
from tests.e2e.stage import timed
from tests.e2e.vendors import EXAMPLES, vendors_plugins_give_their_cards
from tests.node.dialects import DIALECTS, ISOLATED, RESULTS

SERVED = ("volcano.yaml", "koordinator.yaml", "gpumanager.yaml")
"""Examples whose cards a node of simulated NVIDIA cards can stand for."""


async def test_an_installation_serves_every_dialect_and_outlives_what_happens(
    open_installed: OpenCluster, set_stage: SetStage
) -> None:
    async with open_installed() as cluster:
        for step in (
            every_dialect_gets_its_part, two_dialects_share_a_card, the_smoke_test_shows_its_part,
            examples_run_unchanged, nonsense_is_refused, what_does_not_fit_is_explained,
            use_is_measured_and_no_card_is_shared_out_twice,
        ):  # fmt: skip
            await timed(step, cluster)
        stage = await set_stage(cluster, long=False)
        for fault in FAULTS:
            await timed(fault, stage)
        await stage.crowd.leave()
        for step in (
            vendors_plugins_give_their_cards, without_the_webhook_only_pods_with_requests_wait,
            pods_run_on_without_tessera,
        ):  # fmt: skip
            await timed(step, cluster)


async def every_dialect_gets_its_part(cluster: Cluster) -> None:
    for name, (limits, mib) in DIALECTS.items():
        labels = ISOLATED if name == "koordinator" else {}
        found, took = await pods.start(cluster, name, limits, labels=labels)
        print(f"{name}: running {took:.1f} s after it was created")  # noqa: T201  (a figure)
        assert RESULTS[name] in found["metadata"]["annotations"]
        said = await pods.work(cluster, name)
        assert abs(said["total_mib"] - mib) <= 1, name
        assert (said["over_result"], said["taken_result"]) == (pods.OUT_OF_MEMORY, 0), name


async def two_dialects_share_a_card(cluster: Cluster) -> None:
    seen = [(await pods.environment(cluster, name))[pods.CARDS] for name in DIALECTS]
    assert set(seen) <= set(cluster.node.cards)
    assert len(set(seen)) < len(seen)


async def the_smoke_test_shows_its_part(cluster: Cluster) -> None:
    """As install.md has it. `nvidia-smi` comes with the simulated driver."""
    smoke = str(EXAMPLES / "smoke.yaml")
    await cluster.kubectl("apply", "-f", smoke)

    async def over() -> bool:
        pod = await cluster.get("pod", "tessera-smoke")
        return bool(pod["status"]["phase"] == "Succeeded")

    await cluster.until(over, "the smoke test ends well")
    said = await pods.work(cluster, "tessera-smoke")
    assert abs(said["total_mib"] - 2000) <= 1
    allocated = (await cluster.get("pod", "tessera-smoke"))["metadata"]["annotations"]
    assert allocated["hami.io/vgpu-devices-allocated"].endswith(",NVIDIA,2000,20:;")
    await cluster.kubectl("delete", "-f", smoke)


async def examples_run_unchanged(cluster: Cluster) -> None:
    for file in SERVED:
        listed = [d for d in yaml.safe_load_all((EXAMPLES / file).read_text()) if d]
        asked = [d for d in listed if d["kind"] in {"Pod", "Job"}]
        namespace = asked[0]["metadata"]["namespace"]
        host = next(d["metadata"]["name"] for d in listed if d["kind"] == "Node")
        await cluster.namespace(namespace)
        await cluster.kubectl(
            "label", "node", NODE, "--overwrite", f"kubernetes.io/hostname={host}"
        )
        await cluster.apply(*asked)
        async with asyncio.TaskGroup() as group:
            for pod in [d for d in asked if d["kind"] == "Pod"]:
                name = pod["metadata"]["name"]
                group.create_task(_it_runs(cluster, name, namespace), name=name)
        for what in ("jobs", "pods"):  # the next ones wait until these have ended
            await cluster.kubectl(
                "delete", what, "--all", "-n", namespace, "--grace-period=1", "--wait=false"
            )
        await cluster.kubectl("delete", "namespace", namespace, "--wait=false")


async def _it_runs(cluster: Cluster, name: str, namespace: str) -> None:
    await cluster.running(name, namespace)
    cards = (await pods.environment(cluster, name, namespace))[pods.CARDS].split(",")
    assert set(cards) <= set(cluster.node.cards), (name, cards)


async def nonsense_is_refused(cluster: Cluster) -> None:
    limits = {"tencent.com/vcuda-core": "150", "tencent.com/vcuda-memory": "8"}
    with pytest.raises(KubectlFailed, match=r"tencent\.com/vcuda-core.*150"):
        await cluster.apply(pods.asking("odd", limits))


async def what_does_not_fit_is_explained(cluster: Cluster) -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "90000"}
    await cluster.apply(pods.asking("large", limits))

    async def reported() -> Json | None:
        found = await cluster.get("pod", "large")
        conditions = found["status"].get("conditions", ())
        return next(
            (c for c in conditions if c["type"] == "PodScheduled" and c.get("message")), None
        )

    said = await cluster.until(reported, "it is said why a pod waits")
    assert (said["status"], said["reason"]) == ("False", "Unschedulable")
    await cluster.kubectl("delete", "pod", "large")


async def use_is_measured_and_no_card_is_shared_out_twice(cluster: Cluster) -> None:
    async def measured() -> bool:
        used = cluster.gauges(await cluster.metrics_of_agent(), "container_gpu_utilization")
        return all(used[name, "total"] > 0 for name in DIALECTS)

    await cluster.until(measured, "the use of every container is measured")
    used = cluster.gauges(await cluster.metrics_of_agent(), "container_gpu_utilization")
    by_card: defaultdict[str, float] = defaultdict(float)
    for (_, card), percent in used.items():
        by_card[card] += percent
    assert all(percent < 110 for card, percent in by_card.items() if card != "total"), by_card
    unenforced = await cluster.get("events", "-A", "--field-selector=reason=LimitsNotEnforced")
    assert unenforced["items"] == []


async def without_the_webhook_only_pods_with_requests_wait(cluster: Cluster) -> None:
    await cluster.kubectl("scale", "deployment/tessera-scheduler", "-n", HOME, "--replicas=0")
    await cluster.kubectl(
        "wait", "pod", "-n", HOME, "-l", "app.kubernetes.io/name=tessera-scheduler",
        "--for=delete", "--timeout=200s",
    )  # fmt: skip
    with pytest.raises(KubectlFailed, match="failed calling webhook"):
        await cluster.apply(pods.asking("asks", pods.HAMI))  # its author tries again
    await pods.start(cluster, "plain", {})
    assert (await pods.environment(cluster, "plain"))[pods.CARDS] == "void"
    await cluster.kubectl("scale", "deployment/tessera-scheduler", "-n", HOME, "--replicas=1")
    await cluster.all_ready()
    await pods.start(cluster, "asks", pods.HAMI)


async def pods_run_on_without_tessera(cluster: Cluster) -> None:
    before = {name: pods.starts(await cluster.get("pod", name)) for name in DIALECTS}
    await cluster.uninstall(OVERLAY)
    await asyncio.sleep(3)
    after = {name: pods.starts(await cluster.running(name)) for name in DIALECTS}
    assert after == before
    amounts = (await cluster.get("node", NODE))["status"]["capacity"]
    assert not [name for name in amounts if name.startswith(("nvidia.com/", "volcano.sh/"))]
    limits = {"nvidia.com/gpu": "1"}
    await cluster.apply(pods.asking("nobodys", limits))  # no webhook is left that would refuse it
    assert (await cluster.get("pod", "nobodys"))["spec"]["schedulerName"] == "default-scheduler"
