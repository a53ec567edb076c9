"""The published examples of the five systems, in the spelling in which they were published:
unquoted amounts, an unquoted annotation, numbers in a command."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Tessera

NODES = """
apiVersion: v1
kind: Node
metadata: {name: ilu}
status:
  capacity: {iluvatar.ai/vcuda-core: 100, iluvatar.ai/vcuda-memory: 128}
---
apiVersion: v1
kind: Node
metadata: {name: mt}
status:
  capacity: {mthreads.com/sgpu-core: 16, mthreads.com/sgpu-memory: 96}
---
"""

ILUVATAR = """
apiVersion: v1
kind: Pod
metadata:
  name: poddemo
spec:
  restartPolicy: Never
  containers:
  - name: poddemo
    image: example/corex
    command:
    - bash
    args:
    - -c
    - |
      set -ex
      sleep 360000
    resources:
      requests:
        iluvatar.ai/vgpu: 1
        iluvatar.ai/vcuda-core: 50
        iluvatar.ai/vcuda-memory: 64
      limits:
        iluvatar.ai/vgpu: 1
        iluvatar.ai/vcuda-core: 50
        iluvatar.ai/vcuda-memory: 64
"""

MTHREADS = """
apiVersion: v1
kind: Pod
metadata:
  name: gpushare-pod-default
spec:
  restartPolicy: OnFailure
  containers:
    - image: example/lm-qy2
      imagePullPolicy: IfNotPresent
      name: gpushare-pod-1
      command: ["sleep"]
      args: ["100000"]
      resources:
        limits:
          mthreads.com/vgpu: 1
          mthreads.com/sgpu-memory: 32
          mthreads.com/sgpu-core: 8
"""

VOLCANO = """
apiVersion: v1
kind: Node
metadata: {name: volcano-control-plane}
status:
  allocatable: &all
    cpu: "4"
    memory: 8174332Ki
    volcano.sh/gpu-memory: "89424"
    volcano.sh/gpu-number: "8"    # GPU resource
  capacity: *all
---
apiVersion: v1
kind: Pod
metadata:
  name: gpu-pod1
spec:
  schedulerName: volcano
  containers:
    - name: cuda-container
      image: nvidia/cuda:9.0-devel
      command: ["sleep"]
      args: ["100000"]
      resources:
        limits:
          volcano.sh/gpu-memory: 1024 # requesting 1024MB GPU memory
---
apiVersion: v1
kind: Pod
metadata:
  name: gpu-pod2
spec:
  schedulerName: volcano
  containers:
    - name: cuda-container
      image: nvidia/cuda:9.0-devel
      command: ["sleep"]
      args: ["100000"]
      resources:
        limits:
          volcano.sh/gpu-memory: 1024
"""

KOORDINATOR = """
apiVersion: v1
kind: Node
metadata: {name: k}
---
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Device
metadata: {name: k}
spec:
  devices:
  - {type: gpu, id: GPU-a, minor: 1, health: true, resources: {koordinator.sh/gpu-core: 100,
     koordinator.sh/gpu-memory: 23040Mi, koordinator.sh/gpu-memory-ratio: 100}}
---
apiVersion: v1
kind: Pod
metadata:
  name: pod-example
  namespace: default
  labels:
    koordinator.sh/gpu-isolation-provider: hami-core
spec:
  schedulerName: koord-scheduler
  containers:
  - command:
    - sleep
    - 365d
    image: busybox
    imagePullPolicy: IfNotPresent
    name: curlimage
    resources:
      limits:
        cpu: 40m
        memory: 40Mi
        koordinator.sh/gpu.shared: 1
        koordinator.sh/gpu-core: 50
        koordinator.sh/gpu-memory-ratio: 50
      requests:
        cpu: 40m
        memory: 40Mi
        koordinator.sh/gpu.shared: 1
        koordinator.sh/gpu-core: 50
        koordinator.sh/gpu-memory-ratio: 50
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
  restartPolicy: Always
"""

GPUMANAGER_NODE = """
apiVersion: v1
kind: Node
metadata: {name: g}
status:
  capacity: {inspur.com/vcuda-core: 300, inspur.com/vcuda-memory: 180}
"""

GPUMANAGER = """
apiVersion: v1
kind: Pod
metadata:
  name: vcuda
  annotations:
    inspur.com/vcuda-core-limit: 50
spec:
  restartPolicy: Never
  containers:
  - image: <test-image>
    name: nvidia
    command:
    - /usr/local/nvidia/bin/nvidia-smi
    - pmon
    - -d
    - 10
    resources:
      requests:
        inspur.com/vcuda-core: 50
        inspur.com/vcuda-memory: 30
      limits:
        inspur.com/vcuda-core: 50
        inspur.com/vcuda-memory: 30
"""

TWO_CARDS = """
apiVersion: v1
kind: Pod
metadata:
  name: vcuda-2
spec:
  restartPolicy: Never
  containers:
  - image: <test-image>
    name: nvidia
    resources:
      requests:
        inspur.com/vcuda-core: 200
        inspur.com/vcuda-memory: 60
      limits:
        inspur.com/vcuda-core: 200
        inspur.com/vcuda-memory: 60
"""

QUOTE_IT = 'is a number and the API server wants text: quote it: "'


def plan(tessera: Tessera, manifest: str) -> list[dict[str, Any]]:
    ran = tessera("place", "-f", "-", "-o", "json", stdin=manifest)
    assert ran.status == 0, ran.err
    return ran.pods


@pytest.mark.parametrize(
    ("pod", "dialect", "node", "mib", "percent"),
    [
        pytest.param(ILUVATAR, "iluvatar", "ilu", 16384, 50, id="iluvatar"),
        pytest.param(MTHREADS, "mthreads", "mt", 16384, 50, id="mthreads"),
    ],
)
def test_a_part_of_a_card(
    tessera: Tessera, pod: str, dialect: str, node: str, mib: int, percent: int
) -> None:
    (answer,) = plan(tessera, NODES + pod)
    (card,) = answer["cards"]
    assert (answer["dialect"], answer["node"]) == (dialect, node)
    assert (card["memory_mib"], card["cores_percent"]) == (mib, percent)
    assert answer["warnings"] == []


def test_volcano_puts_both_pods_on_one_card(tessera: Tessera) -> None:
    answers = plan(tessera, VOLCANO)
    assert [(a["cards"][0]["index"], a["cards"][0]["memory_mib"]) for a in answers] == [
        (0, 1024),
        (0, 1024),
    ]
    for answer in answers:
        assert answer["annotations"]["volcano.sh/gpu-index"] == "0"
        assert answer["inject"]["cuda-container"]["env"]["VOLCANO_GPU_ALLOCATED"] == "1024"
        assert answer["inject"]["cuda-container"]["env"]["VOLCANO_GPU_MEMORY_TOTAL"] == "11178"


def test_koordinator_writes_what_its_document_shows(tessera: Tessera) -> None:
    (answer,) = plan(tessera, KOORDINATOR)
    allocated = json.loads(answer["annotations"]["scheduling.koordinator.sh/device-allocated"])
    (gpu,) = allocated["gpu"]
    assert gpu["minor"] == 1
    assert gpu["resources"] == {
        "koordinator.sh/gpu-core": "50",
        "koordinator.sh/gpu-memory": "11520Mi",
        "koordinator.sh/gpu-memory-ratio": "50",
    }


def test_gpu_manager_runs_with_a_word_on_quotes(tessera: Tessera) -> None:
    half, two = plan(tessera, f"{GPUMANAGER_NODE}---{GPUMANAGER}---{TWO_CARDS}")
    (card,) = half["cards"]
    assert (card["memory_mib"], card["cores_percent"]) == (7680, 50)
    assert half["warnings"][:2] == [
        f'metadata.annotations[inspur.com/vcuda-core-limit]: 50 {QUOTE_IT}50"',
        f'spec.containers[0].command[3]: 10 {QUOTE_IT}10"',
    ]
    assert [c["memory_mib"] for c in two["cards"]] == [15360, 15360]


def test_gpu_manager_refuses_150(tessera: Tessera) -> None:
    manifest = f"{GPUMANAGER_NODE}---{GPUMANAGER.replace('vcuda-core: 50', 'vcuda-core: 150')}"
    ran = tessera("place", "-f", "-", "-o", "json", stdin=manifest)
    assert (ran.status, ran.verdicts) == (2, {"vcuda": "rejected"})


def test_everything_loose_is_mended_and_reported_once_each(tessera: Tessera) -> None:
    manifest = f"""{NODES}
apiVersion: v1
kind: Pod
metadata:
  name: loose
  labels: {{app: true, gone: null}}
  annotations: {{a: 1.5, b: yes}}
  creationTimestamp: null
spec:
  nodeSelector: {{gpu: 1}}
  initContainers:
  - name: first
    args: [1, null, two]
  containers:
  - name: main
    env:
    - {{name: RANK, value: 0}}
    - {{name: FROM, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
    resources:
      limits: {{mthreads.com/vgpu: 1, cpu: null}}
      requests: null
status: null
"""
    ran = tessera("place", "-f", "-", "-o", "json", stdin=manifest)
    (answer,) = ran.pods
    assert [w.partition(":")[0] for w in answer["warnings"]] == [
        "spec.containers[0].resources.limits[cpu]",
        "metadata.annotations[a]",
        "metadata.annotations[b]",
        "metadata.labels[app]",
        "spec.nodeSelector[gpu]",
        "spec.initContainers[0].args[0]",
        "spec.containers[0].env[RANK].value",
    ]
    assert {r["code"] for r in answer["reasons"]} == {"NodeNotSelected"}


def test_a_node_with_unquoted_labels_is_read_with_a_word_on_quotes(tessera: Tessera) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {gpu: 1}}"
    ran = tessera("place", "-f", "-", stdin=node)
    assert f'Node n: metadata.labels[gpu]: 1 {QUOTE_IT}1"' in ran.err
