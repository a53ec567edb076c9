"""What becomes of a pod when it is created: defaults, quantities, extended resources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.client import Json
from tests.contract.cluster import OpenCluster
from tests.contract.objects import GPU, a_pod


def resources(pod: Json, at: int = 0, kind: str = "containers") -> Any:
    return pod["spec"][kind][at]["resources"]


async def test_a_short_pod_becomes_a_whole_one(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
    spec = made["spec"]
    assert spec["containers"] == [{
        "name": "main", "image": "pause", "resources": {}, "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    }]  # fmt: skip
    del spec["containers"], spec["tolerations"]
    assert spec == {
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler", "priority": 0,
        "enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority",
    }  # fmt: skip


async def test_a_pod_tolerates_a_lost_node_for_five_minutes(open_cluster: OpenCluster) -> None:
    mine = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
        other = await cluster.pod("q", tolerations=[mine])
    wanted = [
        {**mine, "key": f"node.kubernetes.io/{key}", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    assert made["spec"]["tolerations"] == wanted
    assert other["spec"]["tolerations"] == [mine, wanted[0]]


@pytest.mark.parametrize(
    ("image", "policy"),
    [("busybox", "Always"), ("busybox:latest", "Always"), ("busybox:1.36", "IfNotPresent"),
     ("r:5000/busybox", "Always")],
)  # fmt: skip
async def test_a_tagged_image_is_pulled_once(
    open_cluster: OpenCluster, image: str, policy: str
) -> None:
    async with open_cluster() as cluster:
        body = a_pod("p")
        body["spec"]["containers"][0]["image"] = image
        made = await cluster.make(cluster.pods, body)
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1500m", "1500m"), ("0.5", "500m"), (1, "1"), ("1", "1"), ("1.0", "1"), ("2000m", "2"),
        (0.25, "250m"), ("1e3", "1e3"), ("0", "0"), ("100u", "1m"), ("1k", "1k"),
        ("1000", "1k"), ("1500", "1500"),
    ],
)  # fmt: skip
async def test_cpu_comes_back_in_its_canonical_form(
    open_cluster: OpenCluster, written: Any, stored: str
) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p", limits={"cpu": written})
    assert resources(made) == {"limits": {"cpu": stored}, "requests": {"cpu": stored}}


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1Gi", "1Gi"), ("1024Mi", "1Gi"), ("1536Mi", "1536Mi"), ("1048576", "1048576"),
        ("1000000", "1M"), ("0.5Gi", "512Mi"), ("1G", "1G"), ("1024Ki", "1Mi"), ("1.5Gi", "1536Mi"),
        (1073741824, "1073741824"), ("1e9", "1e9"), ("128974848", "128974848"),
        ("1000Gi", "1000Gi"),
    ],
)  # fmt: skip
async def test_memory_comes_back_in_its_canonical_form(
    open_cluster: OpenCluster, written: Any, stored: str
) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p", limits={"memory": written})
    assert resources(made)["limits"] == {"memory": stored}


@pytest.mark.parametrize("written", ["", "x", "1X", "1 Gi", "--1", "1GiB", "0x10", [], {}, True])
async def test_a_quantity_that_is_none_is_refused(open_cluster: OpenCluster, written: Any) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.post(cluster.pods, a_pod("p", limits={"cpu": written}))
    answer.refused(400, "BadRequest")


async def test_a_negative_quantity_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.post(cluster.pods, a_pod("p", limits={"cpu": "-1"}))
    assert "must be greater than or equal to 0" in answer.refused(422, "Invalid")


async def test_limits_fill_in_requests(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        body = a_pod("p", limits={"cpu": "2", "memory": "1Gi", GPU: 1})
        body["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
        body["spec"]["initContainers"] = [
            {"name": "init", "image": "i", "resources": {"limits": {GPU: "2"}}}
        ]
        made = await cluster.make(cluster.pods, body)
    assert resources(made) == {
        "limits": {"cpu": "2", "memory": "1Gi", GPU: "1"},
        "requests": {"cpu": "1", "memory": "1Gi", GPU: "1"},
    }
    assert resources(made, kind="initContainers") == {"limits": {GPU: "2"}, "requests": {GPU: "2"}}


async def test_requests_do_not_fill_in_limits(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        body = a_pod("p")
        body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        made = await cluster.make(cluster.pods, body)
    assert resources(made) == {"requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"requests": {GPU: "1"}}, "Limit must be set for non overcommitable resources"),
        ({"limits": {GPU: "2"}, "requests": {GPU: "1"}}, "must be equal to"),
        ({"limits": {GPU: "1500m"}}, "must be an integer"),
        ({"limits": {GPU: "0.5"}}, "must be an integer"),
        ({"limits": {GPU: "-1"}}, "must be greater than or equal to 0"),
        ({"limits": {"gpu": "1"}}, "must be a standard resource"),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, "must be less than or equal to cpu"),
    ],
)
async def test_extended_resources_are_whole_and_requested_exactly(
    open_cluster: OpenCluster, wanted: Json, why: str
) -> None:
    async with open_cluster() as cluster:
        body = a_pod("p")
        body["spec"]["containers"][0]["resources"] = wanted
        answer = await cluster.admin.post(cluster.pods, body)
    assert why in answer.refused(422, "Invalid")
    assert answer.body["details"]["causes"][0]["field"].startswith("spec.containers[0].resources")


@pytest.mark.parametrize(
    ("written", "stored"),
    [("1k", "1k"), ("2000", "2k"), (3000, "3k"), ("1Ki", "1Ki"), ("1024", "1024"), ("0", "0"),
     ("4.0", "4"), ("2e1", "20")],
)  # fmt: skip
async def test_extended_amounts_are_quantities_too(
    open_cluster: OpenCluster, written: Any, stored: str
) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p", limits={GPU: written})
    assert resources(made)["limits"] == {GPU: stored}


async def test_resource_names_of_every_system_are_taken(open_cluster: OpenCluster) -> None:
    limits = {
        "nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30,
        "nvidia.com/gpumem-percentage": 50, "iluvatar.ai/vcuda-memory": 64,
        "mthreads.com/vgpu": 1, "volcano.sh/vgpu-number": 1, "koordinator.sh/gpu-core": 50,
        "tencent.com/vcuda-core": 20, "inspur.com/gpu": 1,
    }  # fmt: skip
    async with open_cluster() as cluster:
        made = await cluster.pod("p", limits=limits)
    assert resources(made)["limits"].keys() == limits.keys()


async def test_a_pods_class_follows_from_what_it_requests(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        classes = {
            name: (await cluster.pod(name, limits=limits))["status"]["qosClass"]
            for name, limits in {
                "none": {}, "both": {"cpu": "1", "memory": "1Gi"}, "half": {"cpu": "1"},
                "cards": {GPU: "1"},
            }.items()
        }  # fmt: skip
    assert classes == {
        "none": "BestEffort", "both": "Guaranteed", "half": "Burstable", "cards": "BestEffort",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        ({"containers": [{"image": "a"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "A", "image": "a"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "a", "image": "a"}] * 2}, "spec.containers[1].name"),
        ({"containers": [{"name": "a", "image": "a"}], "restartPolicy": "Now"},
         "spec.restartPolicy"),
    ],
)  # fmt: skip
async def test_a_pod_that_cannot_run_is_refused(
    open_cluster: OpenCluster, spec: Json, field: str
) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.post(cluster.pods, {"metadata": {"name": "p"}, "spec": spec})
    answer.refused(422, "Invalid")
    assert field in {cause["field"] for cause in answer.body["details"]["causes"]}


async def test_a_running_pods_resources_are_fixed(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p", limits={GPU: "1"})
        made["spec"]["containers"][0]["resources"] = {"limits": {GPU: "2"}, "requests": {GPU: "2"}}
        answer = await cluster.admin.put(f"{cluster.pods}/p", made)
    answer.refused(422, "Invalid")


async def test_a_pods_image_and_tolerations_may_change(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
        made["spec"]["containers"][0]["image"] = "other"
        made["spec"]["tolerations"].append({"key": "k", "operator": "Exists"})
        changed = (await cluster.admin.put(f"{cluster.pods}/p", made)).done
    assert changed["spec"]["containers"][0]["image"] == "other"
    assert changed["spec"]["tolerations"][-1] == {"key": "k", "operator": "Exists"}
