"""A release follows another while pods run: agent and hook are replaced by a rollout, the scheduler
with them, and what the former ones wrote is read.

Grants and files have had one version each so far, and have grown within it. So what stands for the
former release is a grant without the fields that were added since, written by hand as a scheduler
of then would have, and the files of a container with zeros where those of today say more.
"""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import msgspec

from tessera_core.hook import limits_file, usage_file
from tessera_core.hook.paths import HOOK_LIBRARY
from tessera_core.hook.records import CARDS, RecordLayout
from tessera_core.trust.grants import Signer
from tessera_schema.cards import MIB
from tessera_schema.grants import GRANT_KEY
from tests.contract.client import Json
from tests.e2e import pods
from tests.e2e.cluster import HOME, OVERLAY, Cluster, a_kustomization
from tests.e2e.node import NODE
from tests.e2e.stage import Stage, report

SCHEDULER = f"system:serviceaccount:{HOME}:tessera-scheduler"
FORMER_MIB = 512
AFTER = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{overlay}]
images:
  - {{name: registry.invalid/tessera/agent, newTag: next}}
patches:
  - patch: |
      apiVersion: apps/v1
      kind: Deployment
      metadata: {{name: tessera-scheduler, namespace: tessera-system}}
      spec:
        template:
          spec:
            initContainers:
              - name: scheduler
                env:
                  - {{name: TESSERA_BOOKS_AUDIT_S, value: "3"}}
                  - {{name: TESSERA_KUBE_CALL_S, value: "2"}}
                  - {{name: TESSERA_LEASE_DURATION_S, value: "4"}}
                  - {{name: TESSERA_LEASE_RENEW_S, value: "1"}}
                  - {{name: TESSERA_LEASE_RETRY_S, value: "0.3"}}
  - patch: |
      apiVersion: apps/v1
      kind: DaemonSet
      metadata: {{name: tessera-agent-nvidia, namespace: tessera-system}}
      spec:
        template:
          spec:
            containers:
              - name: agent
                env:
                  - {{name: TESSERA_NRI_KEEP_FILES_S, value: "2"}}
"""
"""The next release. Its scheduler compares its ledger and takes over sooner than it would, and its
agent keeps files of the dead for less long, so that a test need not wait."""


async def a_release_follows_another(stage: Stage) -> None:
    """Also right after the former agent was killed, as its node might be."""
    cluster = stage.cluster
    former = await _a_pod_of_the_former_release(stage)
    for name in ("hami", "former"):
        await _with_files_of_the_former_release(stage, name)
    await stage.kill("tessera_agent")
    before = await mounted_libraries(stage, "hami")
    async with stage.crowd.moving():
        overlay = a_kustomization(cluster.folder / "next", AFTER, overlay=OVERLAY)
        began = time.monotonic()
        await cluster.kubectl("apply", "-k", str(overlay))
        for what in ("deployment/tessera-scheduler", "daemonset/tessera-agent-nvidia"):
            await cluster.kubectl("rollout", "status", what, "-n", HOME, "--timeout=200s")
        report(f"the next release is there after {time.monotonic() - began:.1f} s")
    await cluster.all_ready()
    await stage.checker.in_the_end("a release followed another")
    await stage.crowd.create("after-upgrade", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "64"})
    await cluster.running("after-upgrade")
    after = await mounted_libraries(stage, "hami", "after-upgrade")
    assert after["hami"] == before["hami"] != after["after-upgrade"]
    for name, mib in (("hami", 3000), ("former", FORMER_MIB)):
        said = await pods.work_again(cluster, name)
        assert (said["total_mib"], said["over_result"]) == (mib, pods.OUT_OF_MEMORY), (name, said)
    assert (await cluster.get("pod", "former"))["metadata"]["annotations"][GRANT_KEY] == former
    await cluster.kubectl("delete", "pod", "former", "after-upgrade", "--grace-period=1")
    await stage.checker.at_once()


async def _a_pod_of_the_former_release(stage: Stage) -> str:
    """Its grant. No scheduler places the pod, as its node is said to be in no zone; it is bound in
    the scheduler's name, once that has nobody to place on the same card."""
    cluster = stage.cluster
    nowhere = {
        "maxSkew": 1, "topologyKey": "e2e/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }  # fmt: skip
    asked = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(FORMER_MIB)}
    pod = await stage.crowd.create("former", asked, topologySpreadConstraints=[nowhere])
    seen = await stage.checker.rest()
    free = seen.free_mib
    card = max(free, key=lambda one: free[one])
    assert free[card] >= FORMER_MIB, free
    grant = await _signed(cluster, {
        "version": 1, "uid": pod["metadata"]["uid"], "namespace": "default", "name": "former",
        "node": NODE, "shares": [{
            "container": "main", "position": 0, "role": "app", "vendor": "nvidia",
            "dialect": "hami", "card": card, "index": seen.cards[card].index,
            "memory_bytes": FORMER_MIB * MIB, "cores_percent": 0, "exclusive": False,
        }],
    })  # fmt: skip
    binding = {
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {
            "name": "former", "namespace": "default", "uid": pod["metadata"]["uid"],
            "annotations": {GRANT_KEY: grant},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    }  # fmt: skip
    path = "/api/v1/namespaces/default/pods/former/binding"
    await cluster.kubectl(
        "create", "--raw", path, "-f", "-", f"--as={SCHEDULER}", given=json.dumps(binding)
    )
    await cluster.running("former")
    return grant


async def _signed(cluster: Cluster, grant: Json) -> str:
    """As the scheduler signs, with its key."""
    secret = await cluster.get("secret", "tessera-grant-signing", "-n", HOME)
    keys = msgspec.json.decode(base64.b64decode(secret["data"]["keys.json"]))
    return Signer(base64.b64decode(keys[0]["private"])).sign(json.dumps(grant))


async def _with_files_of_the_former_release(stage: Stage, name: str) -> None:
    """Nobody writes meanwhile: the agent stands still until it is killed."""
    running = {one.pod: one for one in stage.checker.containers.running()}
    island = stage.cluster.node.island
    await island.run("pkill", "-STOP", "-o", "-f", "--", "tessera_agent")
    for destination, since in (
        (limits_file.PATH, _since_limits()),
        (usage_file.PATH, _since_usage()),
    ):
        path = island.outside(running[name].mounts[destination])
        data = bytearray(path.read_bytes())
        for at, size in since:
            data[at : at + size] = bytes(size)
        path.write_bytes(data)
        grants = path.with_name("grant")
        assert not grants.exists(), grants


def _since_limits() -> list[tuple[int, int]]:
    """Offset and size of what the first release with a limits file did not know."""
    return [_field(limits_file.FILE, "hold_until_ns")]


def _since_usage() -> list[tuple[int, int]]:
    """The same of usage files."""
    new = ("longest_ns", "balance_at_ns", "balance_measured_ns", "balance_gpu_ns")
    cards = [usage_file.CARD_AT + i * usage_file.CARD.size for i in range(CARDS)]
    fields = [_field(usage_file.CARD, name) for name in new]
    return [(base + at, size) for base in cards for at, size in fields]


def _field(record: RecordLayout, name: str) -> tuple[int, int]:
    return record.offsets[name], record.field_size(name)


async def mounted_libraries(stage: Stage, *names: str) -> dict[str, str]:
    """Pod -> the file of the hook that its container has mounted; of these pods, which run: others
    come and go meanwhile."""
    found = {}
    for one in stage.checker.containers.running():
        if one.pod not in names:
            continue
        text = stage.cluster.node.island.outside(f"/proc/{one.pid}/mountinfo").read_text()
        for words in map(str.split, text.splitlines()):
            if words[4] == HOOK_LIBRARY:
                found[one.pod] = Path(words[3]).name
    return found
