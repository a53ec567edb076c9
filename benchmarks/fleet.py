"""A made-up cluster for benchmarks: nodes as agents publish them, pods as users write them.

Nothing is drawn from a real cluster; sizes are those of the budgets in the design: 5,000 nodes of
8 cards, one in ten with Iluvatar and one in ten with Mthreads cards, half of all memory granted.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

CARDS = 8
MIB = 1 << 20
Json = dict[str, Any]

WHOLE_CARD_MIB = {"nvidia": 81920, "iluvatar": 32768, "mthreads": 49152}


def vendor_of(number: int) -> str:
    """One node in ten is Iluvatar's, one in ten Mthreads'."""
    return {0: "iluvatar", 1: "mthreads"}.get(number % 10, "nvidia")


def a_node(number: int) -> Json:
    """A node with the annotation or the capacity that the vendor's own agent writes."""
    name, vendor = f"node-{number:05}", vendor_of(number)
    node: Json = {"metadata": {"name": name}, "status": {"capacity": {}, "allocatable": {}}}
    if vendor == "nvidia":
        cards = [
            {
                "id": f"GPU-{number:05}-{i}", "index": i, "count": 10, "devmem": 81920,
                "devcore": 100, "type": "NVIDIA-A100-SXM4-80GB", "numa": i // 4,
                "mode": "hami-core", "health": True,
            }
            for i in range(CARDS)
        ]  # fmt: skip
        node["metadata"]["annotations"] = {"hami.io/node-nvidia-register": json.dumps(cards)}
    elif vendor == "iluvatar":
        capacity = {"iluvatar.ai/vcuda-core": "800", "iluvatar.ai/vcuda-memory": str(8 * 128)}
        node["status"] = {"capacity": capacity, "allocatable": capacity}
    else:
        capacity = {"mthreads.com/sgpu-core": "128", "mthreads.com/sgpu-memory": str(8 * 96)}
        node["status"] = {"capacity": capacity, "allocatable": capacity}
    return node


def _container(limits: Json, name: str = "main") -> Json:
    limits = {k: str(v) for k, v in limits.items()}
    return {
        "name": name, "image": "registry.example/team/trainer:1.2.3",
        "command": ["python", "-m", "train"], "args": ["--config", "/etc/train/config.yaml"],
        "env": [{"name": f"SETTING_{i}", "value": "x" * 24} for i in range(8)],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi", **limits},
                      "requests": {"cpu": "4", "memory": "16Gi", **limits}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
    }  # fmt: skip


def kinds() -> list[Json]:
    """Pods of every dialect: spec and metadata that differ; the rest is filled by `a_pod`."""
    nv = "nvidia.com/"
    share = {nv + "gpu": 1, nv + "gpumem": 8192, nv + "gpucores": 20}
    two = [{nv + "gpu": 1, nv + "gpumem": 4096}, {nv + "gpu": 1, nv + "gpumem-percentage": 10}]
    koord = "koordinator.sh/"
    return [
        {"limits": [share]},
        {"limits": [{nv + "gpu": 1}]},
        {"limits": [{nv + "gpu": 2, nv + "gpumem": 10000, nv + "gpucores": 30}],
         "annotations": {"hami.io/gpu-scheduler-policy": "topology-aware"}},
        {"limits": [share], "annotations": {"nvidia.com/use-gputype": "A100,H100",
                                            "hami.io/node-scheduler-policy": "spread"}},
        {"limits": two},
        {"limits": [{"volcano.sh/gpu-memory": 1024}], "scheduler": "volcano"},
        {"limits": [{"volcano.sh/gpu-memory": 2048}, {"volcano.sh/gpu-memory": 512}]},
        {"limits": [{"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000,
                     "volcano.sh/vgpu-cores": 10}]},
        {"limits": [{koord + "gpu.shared": 1, koord + "gpu-core": 50,
                     koord + "gpu-memory-ratio": 50}], "scheduler": "koord-scheduler"},
        {"limits": [{koord + "gpu-memory": "6Gi", koord + "gpu.shared": 1}]},
        {"limits": [{"tencent.com/vcuda-core": 30, "tencent.com/vcuda-memory": 30}]},
        {"limits": [{"inspur.com/vcuda-core": 200, "inspur.com/vcuda-memory": 60}]},
        {"limits": [{"iluvatar.ai/vgpu": 1, "iluvatar.ai/vcuda-core": 50,
                     "iluvatar.ai/vcuda-memory": 64}]},
        {"limits": [{"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 32,
                     "mthreads.com/sgpu-core": 8}]},
        {"limits": [{nv + "gpu": 9}]},
        {"limits": [{nv + "gpu": 1, nv + "gpumem": 90000}]},
    ]  # fmt: skip


def a_pod(number: int, kind: Json) -> Json:
    """A pod as the API server hands it on, with the fields nobody here reads."""
    name = f"pod-{number:06}"
    return {
        "metadata": {
            "name": name, "namespace": f"team-{number % 50}", "uid": f"uid-{number:08}",
            "resourceVersion": str(number), "creationTimestamp": None,
            "labels": {"app": "trainer", "team": f"t{number % 50}"},
            "annotations": kind.get("annotations", {}),
            "managedFields": [{"manager": "kubectl", "operation": "Update",
                               "fieldsV1": {f"f:field{i}": {"f:name": {}} for i in range(30)}}],
        },
        "spec": {
            "schedulerName": kind.get("scheduler", "tessera-scheduler"),
            "containers": [_container(c, f"c{i}") for i, c in enumerate(kind["limits"])],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                             "effect": "NoExecute", "tolerationSeconds": 300}],
        },
        "status": {"phase": "Pending", "qosClass": "Guaranteed"},
    }  # fmt: skip


def bound_pods(nodes: int, pods: int, card_ids: dict[str, list[str]]) -> Iterator[Json]:
    """Running pods with our grant, spread so that nearly half of the memory is granted."""
    rng = random.Random(7)
    per_node = pods // nodes
    for n in range(nodes):
        node, vendor = f"node-{n:05}", vendor_of(n)
        mib = WHOLE_CARD_MIB[vendor] * CARDS // 2 // per_node
        for k in range(per_node):
            number = n * per_node + k
            pod = a_pod(number, {"limits": [{}]})
            card = card_ids[node][k % CARDS]
            share = {
                "container": "c0", "position": 0, "vendor": vendor, "dialect": "hami",
                "card": card, "index": k % CARDS, "cores_percent": rng.choice((0, 10, 20)),
                "memory_bytes": (mib + rng.randrange(-mib // 2, mib // 4)) * MIB,
            }  # fmt: skip
            grant = {
                "version": 1, "uid": pod["metadata"]["uid"],
                "namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"],
                "node": node, "shares": [share],
            }  # fmt: skip
            pod["metadata"]["annotations"] = {"tessera.dev/grant": json.dumps(grant)}
            pod["spec"]["nodeName"] = node
            pod["status"]["phase"] = "Running"
            yield pod
