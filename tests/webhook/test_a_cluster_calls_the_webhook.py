"""Pods as users create them, through an API server that calls the webhook over TLS."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tessera_core.registry.registry import load
from tessera_schema.grants import GRANT_KEY
from tests.contract.client import Json
from tests.contract.objects import a_binding
from tests.webhook.cluster import HOME, KINDS, Cluster, open_cluster, the_webhook

PODS = "/api/v1/namespaces/team/pods"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/tessera"

pytestmark = pytest.mark.parametrize("kind", KINDS)


def a_pod(name: str, limits: Json, **spec: object) -> Json:
    notes = spec.pop("notes", {})
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": notes},
        "spec": {"containers": [container], **spec},
    }  # fmt: skip


async def test_pods_are_completed_or_refused(kind: str, tmp_path: Path) -> None:
    async with open_cluster(kind, tmp_path) as cluster, the_webhook(cluster):
        admin = cluster.admin
        share = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
        answer = await admin.post(PODS, a_pod("a", share, notes={GRANT_KEY: "mine"}))
        spec = answer.done["spec"]
        assert spec["schedulerName"] == "tessera-scheduler"
        resources = spec["containers"][0]["resources"]
        assert resources["requests"] == resources["limits"]
        assert answer.body["metadata"].get("annotations", {}) == {}
        assert any(f"annotation {GRANT_KEY}: " in warning for warning in answer.warnings)

        refused = await admin.post(PODS, a_pod("b", {"inspur.com/vcuda-core": "150"}))
        assert "write a multiple of 100" in refused.refused(422, "Invalid")
        refused = await admin.post(PODS, a_pod("c", share, hostPID=True))
        assert "spec.hostPID: true: " in refused.refused(403, "Forbidden")
        foreign = await admin.post(PODS, a_pod("e", share, schedulerName="theirs"))
        assert foreign.done["spec"]["schedulerName"] == "theirs"
        assert any("left alone" in warning for warning in foreign.warnings)
        plain = (await admin.post(PODS, a_pod("d", {"cpu": "1"}, hostPID=True))).done
        assert plain["spec"]["schedulerName"] == "default-scheduler"


async def test_limits_are_not_mounted_over_unless_the_namespace_allows_it(
    kind: str, tmp_path: Path
) -> None:
    async with open_cluster(kind, tmp_path) as cluster:
        allowing = {"name": "trusted", "labels": {"allow.tessera.dev/limit-mounts": "true"}}
        (await cluster.admin.post("/api/v1/namespaces", {"metadata": allowing})).done  # noqa: B018  (checks)
        async with the_webhook(cluster):
            for path in ("/usr/local", "/etc", "/", "/usr/local/../local//"):
                pod = a_pod("a", {"nvidia.com/gpu": "1"}, volumes=[{"name": "v", "emptyDir": {}}])
                mounts = [{"name": "v", "mountPath": path}]
                pod["spec"]["containers"][0]["volumeMounts"] = mounts
                refused = await cluster.admin.post(PODS, pod, dryRun="All")
                assert f"mountPath: {path}: the limits" in refused.refused(403, "Forbidden")
                trusted = PODS.replace("team", "trusted")
                answer = await cluster.admin.post(trusted, pod, dryRun="All")
                assert answer.status == 201, answer.body


async def test_cards_are_hidden_from_plain_pods_which_never_wait_for_it(
    kind: str, tmp_path: Path
) -> None:
    hidden = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}
    hiding = load({"hami": {"overwrite_env": True}})

    async def variables(name: str) -> object:
        made = (await cluster.admin.post(PODS, a_pod(name, {"cpu": "1"}))).done
        return made["spec"]["containers"][0].get("env")

    async with open_cluster(kind, tmp_path) as cluster:
        async with the_webhook(cluster, registry=hiding):
            assert await variables("a") == [hidden]
        assert await variables("b") is None
        async with the_webhook(cluster):
            async with asyncio.timeout(60):  # API servers take a moment to learn of it
                while len(await webhooks(cluster, "mutating")) != 2:
                    await asyncio.sleep(0.1)
            assert await variables("c") is None


async def test_keys_of_pods_that_exist_are_guarded(kind: str, tmp_path: Path) -> None:
    async with open_cluster(kind, tmp_path) as cluster:
        admin = cluster.admin
        grant = {"metadata": {"annotations": {GRANT_KEY: "forged"}}}
        async with the_webhook(cluster):
            (await admin.post(PODS, a_pod("a", {"nvidia.com/gpu": "1"}))).done  # noqa: B018  (checks)
            mine = await admin.patch(f"{PODS}/a", {"metadata": {"annotations": {"mine": "1"}}})
            assert mine.status == 200
            for path in (f"{PODS}/a", f"{PODS}/a/status"):
                refused = await admin.patch(path, grant)
                assert f"metadata.annotations[{GRANT_KEY}]: " in refused.refused(403, "Forbidden")
            binding = a_binding("a", "n1", annotations={GRANT_KEY: "forged"})
            refused = await admin.post(f"{PODS}/a/binding", binding)
            assert f"metadata.annotations[{GRANT_KEY}]: " in refused.refused(403, "Forbidden")
        async with the_webhook(cluster, kube=cluster.kube):
            async with asyncio.timeout(60):  # API servers take a moment to learn of it
                while (await admin.patch(f"{PODS}/a", grant)).status != 200:
                    await asyncio.sleep(0.2)


async def test_only_pods_that_request_cards_wait_for_a_webhook_that_is_gone(
    kind: str, tmp_path: Path
) -> None:
    async with open_cluster(kind, tmp_path) as cluster:
        async with the_webhook(cluster):
            pass
        admin = cluster.admin
        asking = a_pod("a", {"nvidia.com/gpu": "1"})
        assert "failed calling webhook" in (await admin.post(PODS, asking)).refused(
            500, "InternalError"
        )
        assert (await admin.post(PODS, a_pod("b", {"cpu": "1"}))).status == 201
        foreign = a_pod("c", {"nvidia.com/gpu": "1"}, schedulerName="theirs")
        assert (await admin.post(PODS, foreign)).status == 201
        own = a_pod("d", {"cpu": "1"}, schedulerName="theirs", notes={GRANT_KEY: "mine"})
        assert "failed calling webhook" in (await admin.post(PODS, own)).refused(
            500, "InternalError"
        )
        for namespace in ("kube-system", HOME):
            answer = await admin.post(f"/api/v1/namespaces/{namespace}/pods", asking)
            assert answer.status == 201
        assert (await admin.delete(f"{PODS}/b", gracePeriodSeconds="0")).status == 200


async def webhooks(cluster: Cluster, phase: str) -> list[Json]:
    found = await cluster.admin.get(CONFIGURATION.format(phase))
    listed: list[Json] = found.body.get("webhooks", [])
    return listed


async def test_the_registration_is_restored(kind: str, tmp_path: Path) -> None:
    async with open_cluster(kind, tmp_path) as cluster, the_webhook(cluster):
        before = await webhooks(cluster, "mutating"), await webhooks(cluster, "validating")
        version = (await cluster.admin.get(CONFIGURATION.format("mutating"))).body["metadata"]
        await cluster.admin.delete(CONFIGURATION.format("validating"))
        weaker = {"webhooks": [{**before[0][0], "failurePolicy": "Ignore"}]}
        path = CONFIGURATION.format("mutating")
        assert (await cluster.admin.patch(path, weaker)).status == 200
        async with asyncio.timeout(60):
            while (
                await webhooks(cluster, "mutating"), await webhooks(cluster, "validating"),
            ) != before:  # fmt: skip
                await asyncio.sleep(0.1)
        settled = (await cluster.admin.get(path)).body["metadata"]["resourceVersion"]
        assert settled != version["resourceVersion"]
        await asyncio.sleep(1)
        assert (await cluster.admin.get(path)).body["metadata"]["resourceVersion"] == settled
