"""What `kubectl get nodes,pods -A -o yaml` prints of clusters that run the other systems: the
shares that their schedulers gave are counted where they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.cluster import bound, node, pod, text
from tests.cli.conftest import Tessera

DUMP = """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    annotations:
      hami.io/node-handshake: Reported 2024-05-20 10:02:05.1 +0000 UTC
      hami.io/node-nvidia-register: 'GPU-aa,10,16384,100,NVIDIA-Tesla
        T4,0,true:GPU-bb,10,16384,100,NVIDIA-Tesla T4,0,true:'
      node.alpha.kubernetes.io/ttl: "0"
    creationTimestamp: "2024-05-01T08:00:00Z"
    labels:
      kubernetes.io/hostname: worker-1
      kubernetes.io/os: linux
    name: worker-1
    resourceVersion: "123456"
    uid: 7f5d3f5e-6f5b-4c7f-9f57-000000000001
  spec:
    podCIDR: 10.244.1.0/24
    podCIDRs:
    - 10.244.1.0/24
  status:
    addresses:
    - address: 192.168.1.10
      type: InternalIP
    allocatable:
      cpu: "16"
      ephemeral-storage: "95089346850"
      hugepages-1Gi: "0"
      memory: 65563252Ki
      nvidia.com/gpu: "20"
      pods: "110"
    capacity:
      cpu: "16"
      memory: 65665652Ki
      nvidia.com/gpu: "20"
      pods: "110"
    conditions:
    - lastHeartbeatTime: "2024-05-20T10:02:05Z"
      status: "True"
      type: Ready
    nodeInfo:
      kubeletVersion: v1.30.0
- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      hami.io/bind-phase: success
      hami.io/bind-time: "1716199325"
      hami.io/vgpu-devices-allocated: GPU-aa,NVIDIA,12000,60:;
      hami.io/vgpu-devices-to-allocate: ;
      hami.io/vgpu-node: worker-1
      hami.io/vgpu-time: "1716199325"
    creationTimestamp: "2024-05-20T10:02:04Z"
    generateName: train-7c9d-
    labels:
      app: train
    name: train-7c9d-x2v4q
    namespace: ml
    ownerReferences:
    - apiVersion: apps/v1
      blockOwnerDeletion: true
      controller: true
      kind: ReplicaSet
      name: train-7c9d
      uid: 11111111-2222-3333-4444-555555555555
    uid: 7f5d3f5e-6f5b-4c7f-9f57-000000000002
  spec:
    containers:
    - image: train:1
      name: train
      resources:
        limits:
          cpu: "2"
          nvidia.com/gpu: "1"
          nvidia.com/gpucores: "60"
          nvidia.com/gpumem: 12k
        requests:
          cpu: "2"
          nvidia.com/gpu: "1"
          nvidia.com/gpucores: "60"
          nvidia.com/gpumem: 12k
    nodeName: worker-1
    priority: 0
    schedulerName: hami-scheduler
    tolerations:
    - effect: NoExecute
      key: node.kubernetes.io/not-ready
      operator: Exists
      tolerationSeconds: 300
  status:
    conditions:
    - lastProbeTime: null
      status: "True"
      type: Ready
    containerStatuses:
    - name: train
      state:
        running:
          startedAt: "2024-05-20T10:02:10Z"
    phase: Running
- apiVersion: v1
  kind: Pod
  metadata:
    creationTimestamp: "2024-05-20T10:03:04Z"
    name: waits
    namespace: ml
    uid: 7f5d3f5e-6f5b-4c7f-9f57-000000000003
  spec:
    containers:
    - image: train:1
      name: train
      resources:
        limits:
          nvidia.com/gpu: "1"
          nvidia.com/gpumem: "8000"
    schedulerName: hami-scheduler
  status:
    phase: Pending
kind: List
metadata:
  resourceVersion: ""
"""


def test_a_dump_as_kubectl_prints_it(tessera: Tessera) -> None:
    ran = tessera("place", "-f", "-", "-o", "json", stdin=DUMP)
    (answer,) = ran.pods
    assert (ran.status, ran.err) == (0, "")
    assert (answer["namespace"], answer["name"], answer["node"]) == ("ml", "waits", "worker-1")
    assert answer["cards"][0]["id"] == "GPU-bb", "12000 of GPU-aa's 16384 MiB are taken"
    assert answer["mutated"]["train"]["limits"]["nvidia.com/gpumem"] == "8000"
    assert json.loads(answer["annotations"]["tessera.dev/grant"])["uid"].endswith("0003")


COUNTED = node("v", 0, capacity={"volcano.sh/gpu-memory": "20000", "volcano.sh/gpu-number": "2"})
TENCENT = node(
    "t", 0, capacity={"tencent.com/vcuda-core": "200", "tencent.com/vcuda-memory": "120"}
)
ALIYUN = node("a", 0, capacity={"aliyun.com/gpu-mem": "30", "aliyun.com/gpu-count": "2"})
KOORDINATOR = node("k", 0)
DEVICE = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device",
    "metadata": {"name": "k"},
    "spec": {"devices": [
        {"type": "gpu", "id": f"GPU-{i}", "minor": i, "health": True, "resources": {
            "koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi",
            "koordinator.sh/gpu-memory-ratio": "100",
        }} for i in (0, 1)
    ]},
}  # fmt: skip


def running(on: str, limits: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    manifest = bound("runs", "", on)
    manifest["metadata"]["annotations"] = annotations
    manifest["spec"]["containers"][0]["resources"]["limits"] = limits
    return manifest


ALLOCATED = json.dumps(
    {
        "gpu": [
            {
                "minor": 1,
                "resources": {
                    "koordinator.sh/gpu-core": "50",
                    "koordinator.sh/gpu-memory": "8Gi",
                    "koordinator.sh/gpu-memory-ratio": "50",
                },
            }
        ]
    }
)


@pytest.mark.parametrize(
    ("cluster", "holds", "asks", "index"),
    [
        pytest.param(
            [COUNTED],
            running(
                "v",
                {"volcano.sh/gpu-memory": "8000"},
                {"volcano.sh/gpu-index": "0", "volcano.sh/predicate-time": "1593764466550835304"},
            ),
            {"volcano.sh/gpu-memory": "4000"},
            1,
            id="volcano",
        ),
        pytest.param(
            [TENCENT],
            running(
                "t",
                {"tencent.com/vcuda-core": "60", "tencent.com/vcuda-memory": "10"},
                {
                    "tencent.com/predicate-gpu-idx-0": "1",
                    "tencent.com/predicate-node": "t",
                    "tencent.com/gpu-assigned": "true",
                    "tencent.com/predicate-time": "1593764466550835304",
                },
            ),
            {"tencent.com/vcuda-core": "60", "tencent.com/vcuda-memory": "10"},
            0,
            id="gpumanager",
        ),
        pytest.param(
            [ALIYUN],
            running(
                "a",
                {"aliyun.com/gpu-mem": "10"},
                {
                    "ALIYUN_COM_GPU_MEM_IDX": "0",
                    "ALIYUN_COM_GPU_MEM_POD": "10",
                    "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
                },
            ),
            {"aliyun.com/gpu-mem": "6"},
            1,
            id="aliyun",
        ),
        pytest.param(
            [KOORDINATOR, DEVICE],
            running(
                "k",
                {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"},
                {"scheduling.koordinator.sh/device-allocated": ALLOCATED},
            ),
            {"koordinator.sh/gpu-core": "60", "koordinator.sh/gpu-memory-ratio": "60"},
            0,
            id="koordinator",
        ),
    ],
)
def test_what_other_schedulers_gave_is_counted_where_it_is(
    tessera: Tessera,
    cluster: list[dict[str, Any]],
    holds: dict[str, Any],
    asks: dict[str, str],
    index: int,
) -> None:
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(*cluster, holds, pod("p", asks)))
    assert (ran.status, ran.err) == (0, "")
    assert [c["index"] for c in ran.pods[0]["cards"]] == [index]


def labelled(name: str, capacity: dict[str, str], **labels: str) -> dict[str, Any]:
    """A node of two T4 as NVIDIA's plugin and GPU Feature Discovery show it."""
    made = node(name, 0, capacity=capacity)
    made["metadata"]["labels"] = {
        f"nvidia.com/gpu.{label.replace('_', '-')}": value
        for label, value in {
            "count": "2",
            "memory": "15360",
            "product": "Tesla-T4",
            **labels,
        }.items()
    }
    return made


def of_kai(name: str, fraction: str) -> dict[str, Any]:
    made = pod(name, {}, namespace="ml", annotations={"gpu-fraction": fraction})
    made["metadata"]["labels"] = {"kai.scheduler/queue": "ml"}
    made["spec"]["schedulerName"] = "kai-scheduler"
    return made


def test_a_cluster_of_kai_is_planned(tessera: Tessera) -> None:
    holds = bound("gpu-reservation-k-x7", "", "k")
    holds["metadata"] = {
        "name": "gpu-reservation-k-x7", "namespace": "kai-resource-reservation",
        "labels": {"app": "kai-resource-reservation", "runai-gpu-group": "x7"},
        "annotations": {"run.ai/reserve_for_gpu_index": "GPU-aa"},
    }  # fmt: skip
    holds["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    runs = of_kai("runs", "0.5")
    runs["metadata"]["labels"]["runai-gpu-group"] = "x7"
    runs["spec"]["nodeName"], runs["status"] = "k", {"phase": "Running"}
    parts = {"large": "0.75", "small": "0.25", "half": "0.5", "waits": "0.25"}
    asks = [of_kai(name, part) for name, part in parts.items()]
    cluster = labelled("k", {"nvidia.com/gpu": "2"}, replicas="1", sharing_strategy="none")
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(cluster, holds, runs, *asks))
    assert ran.verdicts == {**dict.fromkeys(parts, "placed"), "waits": "waiting"}
    cards = {answer["name"]: answer["cards"] for answer in ran.pods if answer["cards"]}
    assert {name: (c["index"], c["memory_mib"]) for name, (c,) in cards.items()} == {
        "large": (1, 11520), "small": (1, 3840), "half": (0, 7680),
    }  # fmt: skip


def test_a_cluster_of_replicas_is_planned(tessera: Tessera) -> None:
    """Two cards of four replicas each, three of which run and are written on no pod."""
    cluster = labelled("r", {"nvidia.com/gpu.shared": "8"}, replicas="4", sharing_strategy="mps")
    runs = []
    for i in range(3):
        one = pod(f"runs-{i}", {"nvidia.com/gpu.shared": "1"})
        one["spec"]["nodeName"], one["status"] = "r", {"phase": "Running"}
        runs.append(one)
    asks = [pod(f"p{i}", {"nvidia.com/gpu.shared": "1"}) for i in range(6)]
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(cluster, *runs, *asks))
    assert ran.verdicts == {**{f"p{i}": "placed" for i in range(5)}, "p5": "waiting"}
    cards = [c for answer in ran.pods for c in answer["cards"]]
    assert [c["memory_mib"] for c in cards] == [3840] * 5
    assert {c["cores_percent"] for c in cards} == {25}


def test_our_own_grant_is_read_back(tessera: Tessera) -> None:
    first = tessera("place", "-f", "-", "-o", "json", stdin=text(node(), pod("a", uid="u1")))
    placed = pod("a", uid="u1", annotations=first.pods[0]["annotations"])
    placed["spec"]["nodeName"] = "n1"
    second = tessera(
        "place", "-f", "-", "-o", "json",
        stdin=text(node(cards=1), node("n2", 1), placed, pod("b", {"nvidia.com/gpu": 2})),
    )  # fmt: skip
    assert second.verdicts == {"b": "waiting"}


def test_a_plugin_of_whole_cards_alone_is_reported_next_to_a_pod_that_waits(
    tessera: Tessera,
) -> None:
    plain = node(cards=0, capacity={"nvidia.com/gpu": "8"})
    plain["metadata"]["labels"] = {"nvidia.com/gpu.product": "A100", "nvidia.com/gpu.count": "8"}
    ran = tessera("place", "-f", "-", "-o", "json", stdin=text(plain, pod()))
    assert ran.verdicts == {"p": "waiting"}
    assert "node n1: status.capacity[nvidia.com/gpu]: 8, and nothing on the node says" in ran.err
    assert "they are planned once Tessera's agent runs in its place" in ran.err
