"""What a pod could try to see or take more than its share: refused or corrected by the API server's
own word, reported to the user who tried, and counted for operators."""

from __future__ import annotations

import copy
from typing import Any, Final

from tessera_schema.grants import GRANT_KEY
from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.objects import a_share, a_share_pod
from tests.cluster.test_tenants_cannot_take_more import without_webhook
from tests.contract.client import Json
from tests.contract.objects import a_binding

PRESET: Final = {
    GRANT_KEY: "mine", "hami.io/vgpu-devices-allocated": "mine", "volcano.sh/gpu-index": "0",
    "scheduling.koordinator.sh/device-allocated": "{}", "tencent.com/predicate-gpu-idx-0": "0",
    "iluvatar.ai/predicate-gpu-idx-0": "0", "mthreads.com/gpu-index": "0",
}  # fmt: skip
OWN: Final = (
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "0"},
    {"name": "CUDA_DISABLE_CONTROL", "value": "true"},
)


def mounted(at: str, host: str = "", **more: Any) -> Json:
    """A pod with a volume there; of the node's folder, or of nothing."""
    volume: Json = {"name": "v", "hostPath": {"path": host}} if host else {
        "name": "v", "emptyDir": {},
    }  # fmt: skip
    pod = a_share_pod("p", a_share(), volumes=[volume])
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": at, **more}]
    return pod


def with_context(**context: Any) -> Json:
    pod = a_share_pod("p", a_share())
    pod["spec"]["containers"][0]["securityContext"] = context
    return pod


REFUSED: Final[dict[str, Json]] = {
    "securityContext.privileged: true": with_context(privileged=True),
    "capabilities.add: SYS_ADMIN": with_context(capabilities={"add": ["SYS_ADMIN"]}),
    "spec.hostPID: true": a_share_pod("p", a_share(), hostPID=True),
    "spec.hostIPC: true": a_share_pod("p", a_share(), hostIPC=True),
    "spec.nodeName: somewhere": a_share_pod("p", a_share(), nodeName="somewhere"),
    "hostPath.path: /dev": mounted("/d", "/dev"),
    "hostPath.path: /var/run/nri": mounted("/n", "/var/run/nri", readOnly=True),
    "hostPath.path: /run/containerd/containerd.sock": mounted(
        "/c", "/run/containerd/containerd.sock"
    ),
    "hostPath.path: /var/lib/kubelet/device-plugins": mounted(
        "/k", "/var/lib/kubelet/device-plugins"
    ),
    "volumeMounts[0].mountPath: /usr/local/tessera/limits": mounted("/usr/local/tessera/limits"),
    "volumeMounts[0].mountPath: /etc/ld.so.preload": mounted("/etc/ld.so.preload"),
    "annotations[tolerate-missing-plugins.noderesource.dev]: true": a_share_pod(
        "p", a_share(), annotations={"tolerate-missing-plugins.noderesource.dev": "true"}
    ),
}


async def test_what_would_defeat_a_share_is_refused_by_name(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        for message, body in REFUSED.items():
            answer = await cluster.admin.post(cluster.pods_path(), copy.deepcopy(body))
            assert message in answer.refused(403, "Forbidden"), message
        assert await admissions(cluster, "refused") == len(REFUSED)
        [node] = await cluster.nodes()
        await its_own_words_count_nothing(cluster)
        await a_debugging_container_gets_no_more(cluster)
        await a_grant_stays_where_it_was_given(cluster, node)


async def admissions(cluster: RealCluster, outcome: str) -> float:
    _, text = await cluster.scheduler.get("/metrics")
    rows = [
        row for row in text.splitlines()
        if row.startswith("tessera_scheduler_admissions_total{") and f'"{outcome}"' in row
    ]  # fmt: skip
    return sum(float(row.rpartition(" ")[2]) for row in rows)


async def its_own_words_count_nothing(cluster: RealCluster) -> None:
    """Keys of results, and variables by which it would give itself cards."""
    pod = a_share_pod("real", a_share(), annotations=dict(PRESET))
    pod["spec"]["containers"][0]["env"] = [*OWN, {"name": "MODE", "value": "train"}]
    answer = await cluster.admin.post(cluster.pods_path(), pod)
    made = answer.done
    assert not PRESET.keys() & made["metadata"].get("annotations", {}).keys()
    assert made["spec"]["containers"][0]["env"] == [{"name": "MODE", "value": "train"}]
    warned = "\n".join(answer.warnings)
    for word in (*PRESET, *(variable["name"] for variable in OWN)):
        assert word in warned, word
    await cluster.until_bound("real")


async def a_debugging_container_gets_no_more(cluster: RealCluster) -> None:
    debug = {
        "name": "debug", "image": "pause", "securityContext": {"capabilities": {"add": ["ALL"]}},
    }  # fmt: skip
    body: Json = {"spec": {"ephemeralContainers": [debug]}}
    answer = await cluster.admin.patch(f"{cluster.pods_path('real')}/ephemeralcontainers", body)
    assert "ephemeralContainers[0].securityContext" in answer.refused(403, "Forbidden")


async def a_grant_stays_where_it_was_given(cluster: RealCluster, node: str) -> None:
    """Edited through the status; then copied, signature and all, while the webhook was away."""
    path = cluster.pods_path("real")
    text = (await cluster.admin.get(path)).done["metadata"]["annotations"][GRANT_KEY]
    for value in (text.replace(node, "elsewhere"), None):
        notes: Json = {"metadata": {"annotations": {GRANT_KEY: value}}}
        answer = await cluster.admin.patch(f"{path}/status", notes)
        assert GRANT_KEY in answer.refused(403, "Forbidden")
    await without_webhook(cluster)
    await cluster.pod("copier", a_share(), schedulerName="nobody")
    body = a_binding("copier", node, annotations={GRANT_KEY: text})
    (await cluster.admin.post(f"{cluster.pods_path('copier')}/binding", body)).done  # noqa: B018  (checks)

    async def reported() -> list[str]:
        events = await cluster.admin.get(f"/api/v1/namespaces/{cluster.own}/events")
        return [
            e["reason"] for e in events.done["items"] if e["involvedObject"]["name"] == "copier"
        ]  # fmt: skip

    assert "ForgedGrant" in await cluster.until(reported, "an event on the copier")
    await cluster.pod("honest", a_share(20000), schedulerName="tessera-scheduler")
    await cluster.until_bound("honest")
