"""The chart on a real API server: installed, upgraded and removed, and what a failure leaves."""

from __future__ import annotations

from typing import Final

import pytest

from tessera_core.admission.exempt_pods import ManagedPods
from tessera_core.registry import registry
from tessera_scheduler.webhook.registration import (
    RegistrationInput,
    RegistrationSettings,
    configurations,
)
from tests.contract.client import Client, Json
from tests.helm.chart import NAMESPACE, installed, rendered
from tests.helm.release import APISERVICES, EXPLANATIONS, WEBHOOKS, Release, everything

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCHEDULER: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/tessera-scheduler"
AGENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/tessera-agent-nvidia"
SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"
MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
STAYS: Final = {
    ("Namespace", NAMESPACE), ("Secret", "tessera-bus"),
    ("CustomResourceDefinition", "acceleratorquotas.tessera.dev"),
    ("CustomResourceDefinition", "rebalanceplans.tessera.dev"),
    ("APIService", "v1alpha1.tessera.dev"),  # the API server's own, of the definitions
}  # fmt: skip


async def register(admin: Client) -> None:
    """What the scheduler writes when it runs: its webhooks, its API, its keys."""
    terms = RegistrationInput(
        namespace=NAMESPACE, settings=RegistrationSettings(), writers=frozenset(), port=8443,
        scope=ManagedPods(schedulers=frozenset({"tessera-scheduler"}), take_default=True),
    )  # fmt: skip
    for path, (place, webhooks) in zip(
        WEBHOOKS, configurations(registry.load(), terms, b"bundle"), strict=True
    ):
        (await admin.post(path, {**place.object(), "webhooks": webhooks})).done  # noqa: B018  (checks)
    service = {"name": "tessera-scheduler", "namespace": NAMESPACE, "port": 8444}
    spec: Json = {
        "group": "visibility.tessera.dev", "version": "v1alpha1", "groupPriorityMinimum": 100,
        "versionPriority": 100, "service": service, "insecureSkipTLSVerify": True,
    }  # fmt: skip
    await admin.post(APISERVICES, {"metadata": {"name": EXPLANATIONS}, "spec": spec})
    for name in ("tessera-grant-signing", "tessera-webhook-certificate"):
        await admin.post(SECRETS, {"metadata": {"name": name}})
    await admin.post(MAPS, {"metadata": {"name": "tessera-grant-keys"}})


async def is_backed(admin: Client) -> bool:
    """Whether the webhooks that are registered have a Service, and that has pods to come."""
    for path in WEBHOOKS:
        for hook in (await admin.get(f"{path}/tessera")).done["webhooks"]:
            service = hook["clientConfig"]["service"]
            where = f"/api/v1/namespaces/{service['namespace']}/services/{service['name']}"
            selector = (await admin.get(where)).done["spec"]["selector"]
            deployment = (await admin.get(SCHEDULER)).done["spec"]
            if not deployment["replicas"]:
                return False
            if not selector.items() <= deployment["template"]["metadata"]["labels"].items():
                return False
    return True


async def password(admin: Client) -> Json:
    found: Json = (await admin.get(f"{SECRETS}/tessera-bus")).done["data"]
    return found


async def test_it_comes_changes_and_goes(release: Release) -> None:
    async with release.admin() as admin:
        said = await release.install({})
        assert "rollout status daemonset/tessera-agent-nvidia" in said
        assert "pod-security.kubernetes.io/enforce=privileged" in said
        there = await everything(admin)
        wanted = {(kind, name) for kind, _, name in installed(rendered())}
        assert {pair for pair in wanted if "tessera" in pair[1]} <= there
        first = await password(admin)
        assert set(first) == {
            "scheduler", "agent", "quota", "rebalancer", "viewer", "operator", "cluster",
        }  # fmt: skip
        await register(admin)

        await release.upgrade({
            "components": {"ha": True}, "images": {"tag": "2"},
            "vendors": {"iluvatar": {"enabled": False}},
        })  # fmt: skip
        scheduler = (await admin.get(SCHEDULER)).done["spec"]
        assert scheduler["replicas"] == 2
        images = {c["image"] for c in scheduler["template"]["spec"]["initContainers"]}
        assert "registry.invalid/tessera/scheduler:2" in images
        there = await everything(admin)
        assert ("PodDisruptionBudget", "tessera-scheduler") in there
        assert ("DaemonSet", "tessera-agent-iluvatar") not in there
        assert await password(admin) == first
        assert await is_backed(admin)

        await release.uninstall()
        assert "the scheduler has ended" in release.said
        assert await everything(admin) == STAYS

        await release.install({})
        assert await password(admin) == first
        await release.uninstall()
        assert await everything(admin) == STAYS


async def test_a_failure_leaves_no_webhook_that_nobody_answers(release: Release) -> None:
    bad = {
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "tessera-scheduler", "namespace": NAMESPACE},
        "spec": {"ports": [{"name": "webhook", "port": 443000}]},
    }  # fmt: skip
    async with release.admin() as admin:
        with pytest.raises(AssertionError, match="443000"):
            await release.install({"patches": [bad]}, "--atomic", "--timeout=20s")
        assert await everything(admin) == STAYS

        await release.install({})
        await register(admin)
        before = (await admin.get(SCHEDULER)).done["spec"]

        with pytest.raises(AssertionError, match="nothing"):
            await release.upgrade({"components": {"nothing": True}})
        assert (await admin.get(SCHEDULER)).done["spec"] == before

        with pytest.raises(AssertionError, match="443000"):
            await release.upgrade({"patches": [bad]})
        assert await is_backed(admin)

        with pytest.raises(AssertionError, match="443000"):
            await release.upgrade(
                {"images": {"tag": "3"}, "patches": [bad]}, "--atomic", "--timeout=5s"
            )
        assert await is_backed(admin)
        assert (await admin.get(SCHEDULER)).done["spec"] == before
        await release.uninstall()
        assert await everything(admin) == STAYS


async def test_it_is_not_removed_while_runtimes_require_the_agent(release: Release) -> None:
    async with release.admin() as admin:
        await release.install({"uninstall": {"runtimeRequiresAgent": True}})
        await register(admin)
        with pytest.raises(AssertionError, match="tessera-uninstall failed"):
            await release.uninstall()
        assert "required_plugins" in release.said
        assert await is_backed(admin)
        (await admin.delete(f"{MAPS}/tessera-agent-required")).done  # noqa: B018  (checks)
        await release.uninstall()
        assert await everything(admin) == STAYS


async def test_it_is_not_removed_before_containerd_is_as_it_was(release: Release) -> None:
    daemonset = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/tessera-containerd"

    async def is_refused() -> None:
        with pytest.raises(AssertionError, match="tessera-uninstall failed"):
            await release.uninstall()
        assert "TESSERA_MODE=remove" in release.said

    async def says(ready: int) -> None:
        """As the DaemonSet controller writes it."""
        generation = (await admin.get(daemonset)).done["metadata"]["generation"]
        status = {
            "observedGeneration": generation, "desiredNumberScheduled": 2, "numberReady": ready,
            "updatedNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0,
        }  # fmt: skip
        (await admin.patch(f"{daemonset}/status", {"status": status})).done  # noqa: B018  (checks)

    async with release.admin() as admin:
        await release.install({"components": {"containerd": True}})
        await says(2)
        await is_refused()
        found = (await admin.get(daemonset)).done
        env = found["spec"]["template"]["spec"]["containers"][0]["env"]
        (way,) = [one for one in env if one["name"] == "TESSERA_MODE"]
        way["value"] = "remove"
        (await admin.put(daemonset, found)).done  # noqa: B018  (checks)
        await is_refused()
        await says(1)
        await is_refused()
        await says(2)
        await release.uninstall()
        assert await everything(admin) == STAYS


async def test_agents_let_go_before_they_go(release: Release) -> None:
    """What an agent advertises is on its Node until it is set not to."""
    node = "/api/v1/nodes/one"
    note = {"cards.tessera.dev/nvidia": '{"advertises":{"nvidia.com/gpu":1}}'}
    async with release.admin() as admin:
        await release.install({})
        await admin.post("/api/v1/nodes", {"metadata": {"name": "one", "annotations": note}})
        await release.uninstall()
        assert "tessera-agent-nvidia lets go of what it advertises" in release.said
        assert "amounts stay in the status of nodes whose agents do not answer: one" in release.said
        await admin.delete(node)
        assert await everything(admin) == STAYS
