"""Each broken set-up is named by `tessera check`, by the check that is about it and no other, and
what the remedy says mends it."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tessera_core.preflight.checks import CHECKS
from tessera_core.preflight.findings import FindingState
from tests.cli.installed_cluster import (
    CARD_NODE,
    NAMESPACE,
    READER,
    FixedClock,
    InstalledCluster,
    a_daemonset,
    bare_cluster,
    installed_cluster,
    run_agent,
    workload_path,
)

pytestmark = pytest.mark.timeout(60)
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


async def test_all_is_well_where_everything_runs(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        found = await cluster.check()
        assert [one for one in found if one.state is not FindingState.OK] == []
        assert [one.name for one in found] == [check.name for check in CHECKS]


async def test_nri_is_off(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        await run_agent(cluster, conditions=[{"type": "Ready", "status": "False"}])
        await cluster.publish(
            "the container runtime does not ask: /var/run/nri/nri.sock: nothing listens"
        )
        await cluster.renew(ago_s=300)
        faults = await cluster.faults()
        assert list(faults) == ["nri"]
        assert faults["nri"].state is FindingState.FAILED
        assert f"{CARD_NODE}: the container runtime does not ask" in faults["nri"].found
        assert "disable = false" in faults["nri"].remedy
        await run_agent(cluster)  # which the runtime calls again
        assert await cluster.faults() == {}


async def test_the_runtime_class_of_the_agent_is_not_there_or_of_no_use(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path, ["runtime-class"]) as cluster:
        faults = await cluster.faults()
        assert list(faults) == ["runtime-class"]
        assert "names the RuntimeClass nvidia, which is not there" in faults["runtime-class"].found
        await cluster.run(faults["runtime-class"].remedy)
        assert await cluster.faults() == {}
        status = f"/api/v1/nodes/{CARD_NODE}/status"
        await cluster.patch(status, {"status": {"runtimeHandlers": [{"name": ""}]}})
        faults = await cluster.faults()
        assert list(faults) == ["runtime-class"]
        assert (
            f"{CARD_NODE}: the container runtime has no handler nvidia"
            in faults["runtime-class"].found
        )
        assert "nvidia-ctk runtime configure" in faults["runtime-class"].remedy
        handlers = [{"name": ""}, {"name": "nvidia"}]
        await cluster.patch(status, {"status": {"runtimeHandlers": handlers}})
        assert await cluster.faults() == {}


OPERATORS = {"nvidia.com/gpu.deploy.device-plugin": "true"}
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.4"
VOLCANOS = "docker.io/volcanosh/volcano-vgpu-device-plugin:v1.11"
PLUGINS: tuple[tuple[str, dict[str, str], str, str], ...] = (
    (PLUGIN, {}, "", "NVIDIA's device plugin)"),
    (VOLCANOS, {}, "", "Volcano's device plugin"),
    (PLUGIN, OPERATORS, "ClusterPolicy", "which the GPU operator runs"),
    ("docker.io/projecthami/hami:v2.7.0", {"gpu": "on"}, "", "HAMi"),
)


async def test_another_plugin_hands_out_the_cards(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        labels = {"gpu": "on", "tessera.dev/cards": None, **OPERATORS}
        await cluster.patch(f"/api/v1/nodes/{CARD_NODE}", {"metadata": {"labels": labels}})
        for number, (image, selector, owner, named) in enumerate(PLUGINS):
            other = a_daemonset(f"plugin-{number}", "kube-system", image, nodeSelector=selector)
            if owner:
                other["metadata"]["ownerReferences"] = [
                    {"apiVersion": "nvidia.com/v1", "kind": owner, "name": "p", "uid": "1"}
                ]
            await cluster.create(other)
            faults = await cluster.faults()
            assert list(faults) == ["other-plugins"]
            assert named in faults["other-plugins"].found
            await cluster.run(faults["other-plugins"].remedy)
            assert await cluster.faults() == {}


async def test_no_node_has_a_label(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        await cluster.patch(f"/api/v1/nodes/{CARD_NODE}", {"metadata": {"labels": {
            "tessera.dev/cards": None, "feature.node.kubernetes.io/pci-10de.present": "true",
        }}})  # fmt: skip
        faults = await cluster.faults()
        assert faults["labels"].state is FindingState.FAILED
        assert (
            faults["labels"].remedy == f"kubectl label nodes {CARD_NODE} tessera.dev/cards=nvidia"
        )
        await cluster.run(faults["labels"].remedy)
        assert await cluster.faults() == {}


async def test_kube_scheduler_is_old(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        path = workload_path("deployments", "tessera-scheduler")
        there = await cluster.workload("deployments", "tessera-scheduler")
        spec = there["spec"]["template"]["spec"]
        spec["containers"][0]["image"] = "registry.k8s.io/kube-scheduler:v1.32.9"
        await cluster.patch(path, {"spec": there["spec"]})
        faults = await cluster.faults()
        assert list(faults) == ["kube-scheduler"]
        assert "v1.32.9, the API server v1.34.3" in faults["kube-scheduler"].found
        assert (
            "kube-scheduler=registry.k8s.io/kube-scheduler:v1.34.3"
            in faults["kube-scheduler"].remedy
        )
        await cluster.apply("Deployment")
        assert await cluster.faults() == {}


async def test_a_policy_is_missing_or_only_warns(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        await cluster.delete(f"{ADMISSION}/validatingadmissionpolicies/tessera-nodes")
        await cluster.delete(f"{ADMISSION}/validatingadmissionpolicybindings/tessera-leases")
        path = f"{ADMISSION}/validatingadmissionpolicybindings/tessera-pods"
        await cluster.patch(path, {"spec": {"validationActions": ["Warn"]}})
        found = [one for one in await cluster.check() if one.state is not FindingState.OK]
        assert [(one.name, one.state, one.found.partition(":")[0]) for one in found] == [
            ("policies", FindingState.FAILED, text)
            for text in (
                "there is no policy tessera-nodes", "nothing binds the policy tessera-leases",
                "the binding of tessera-pods does not deny",
            )
        ]  # fmt: skip
        assert all(one.remedy.startswith("kubectl apply --server-side") for one in found)
        await cluster.apply("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        assert await cluster.faults() == {}


async def test_two_installations(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        second = await cluster.workload("deployments", "tessera-scheduler")
        second["metadata"] = {
            "name": "tessera-scheduler", "namespace": "default",
            "labels": second["metadata"]["labels"],
        }  # fmt: skip
        await cluster.create(second)
        faults = await cluster.faults()
        assert list(faults) == ["only-once"]
        assert "default/tessera-scheduler" in faults["only-once"].found
        assert (
            faults["only-once"].remedy == "kubectl -n default delete deployment tessera-scheduler"
        )
        await cluster.run(faults["only-once"].remedy)
        assert await cluster.faults() == {}


async def test_the_clock_of_a_node_is_ahead(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        await cluster.renew(ago_s=-90)
        faults = await cluster.faults()
        assert list(faults) == ["node-clocks"]
        assert faults["node-clocks"].state is FindingState.FAILED
        assert f"the clock of node {CARD_NODE} is" in faults["node-clocks"].found
        assert "timedatectl set-ntp true" in faults["node-clocks"].remedy
        await cluster.renew()
        assert await cluster.faults() == {}


async def test_the_clock_here_is_off(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        for ahead_s, state in ((-90, FindingState.FAILED), (10, FindingState.WARNING)):
            faults = await cluster.faults(clock=FixedClock(ahead_s))
            assert {name: one.state for name, one in faults.items()} == {"clock": state}
        assert await cluster.faults(clock=FixedClock(2)) == {}


async def test_the_passwords_are_gone(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        await cluster.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/tessera-bus")
        faults = await cluster.faults()
        assert list(faults) == ["secrets"]
        assert faults["secrets"].found == "there is no Secret tessera-system/tessera-bus"
        create, _, restart = faults["secrets"].remedy.partition(" && ")
        assert restart.startswith(f"kubectl -n {NAMESPACE} rollout restart")
        await cluster.run(create)
        assert await cluster.faults() == {}
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets/tessera-bus"
        await cluster.patch(path, {"data": {"agent": None}})
        faults = await cluster.faults()
        assert "has no key agent" in faults["secrets"].found
        await cluster.run(faults["secrets"].remedy.partition(" && ")[0])
        assert await cluster.faults() == {}


async def test_a_container_started_without_the_agent(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        event = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "train"},
            "reason": "StartedWithoutAgent", "type": "Warning", "message": "container main: ...",
            "source": {"component": "tessera-agent", "host": CARD_NODE},
        }  # fmt: skip
        events = "/api/v1/namespaces/default/events"
        (await cluster.admin.post(events, event)).done  # noqa: B018  (checks)
        faults = await cluster.faults()
        assert list(faults) == ["required-plugin"]
        assert faults["required-plugin"].state is FindingState.FAILED
        assert "default/train" in faults["required-plugin"].found
        assert 'required_plugins = ["tessera"]' in faults["required-plugin"].remedy
        await cluster.run(faults["required-plugin"].remedy.rpartition(": ")[2])
        assert await cluster.faults() == {}


async def test_nobody_has_said_that_the_plugin_is_required(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        await cluster.delete(f"{CONFIG_MAPS}/tessera-agent-required")
        faults = await cluster.faults()
        assert list(faults) == ["required-plugin"]
        assert faults["required-plugin"].state is FindingState.WARNING
        await cluster.run(faults["required-plugin"].remedy.rpartition(": ")[2])
        assert await cluster.faults() == {}


# -- what else is named

Breaking = Callable[[InstalledCluster], Awaitable[None]]


async def without_webhook(cluster: InstalledCluster) -> None:
    await cluster.delete(f"{ADMISSION}/mutatingwebhookconfigurations/tessera")


async def without_grant_keys(cluster: InstalledCluster) -> None:
    await cluster.delete(f"{CONFIG_MAPS}/tessera-grant-keys")


async def without_signing_key(cluster: InstalledCluster) -> None:
    await cluster.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/tessera-grant-signing")


async def with_a_service_down(cluster: InstalledCluster) -> None:
    path = workload_path("deployments", "tessera-quota")
    await cluster.patch(path, {"status": {"readyReplicas": 0}})


async def with_a_silent_agent(cluster: InstalledCluster) -> None:
    await cluster.renew(ago_s=300)


async def without_agent(cluster: InstalledCluster) -> None:
    await cluster.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/tessera-agent-nvidia-x")


async def without_hook(cluster: InstalledCluster) -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    await run_agent(cluster, initContainerStatuses=[
        {"name": "hook", "state": waiting, "image": "agent", "imageID": "", "ready": False,
         "restartCount": 3},
    ])  # fmt: skip


async def with_other_resources(cluster: InstalledCluster) -> None:
    await cluster.publish(advertises={"tencent.com/vcuda-core": 100})


async def with_hamis_webhook(cluster: InstalledCluster) -> None:
    there = (await cluster.admin.get(f"{ADMISSION}/mutatingwebhookconfigurations/tessera")).done
    there["metadata"] = {"name": "hami-webhook"}
    there["webhooks"][0]["name"] = "vgpu.hami.io"
    await cluster.create(there)


def with_configuration(change: Callable[[str], str]) -> Breaking:
    async def broken(cluster: InstalledCluster) -> None:
        (name,) = [
            i["metadata"]["name"] for i in cluster.rendered
            if i["kind"] == "ConfigMap" and "kube-scheduler" in i["metadata"]["name"]
        ]  # fmt: skip
        there = (await cluster.admin.get(f"{CONFIG_MAPS}/{name}")).done["data"]
        text = change(there["kube-scheduler.yaml"])
        assert text != there["kube-scheduler.yaml"]
        await cluster.patch(f"{CONFIG_MAPS}/{name}", {"data": {"kube-scheduler.yaml": text}})

    return broken


ALL: tuple[tuple[Breaking, str, str], ...] = (
    (without_webhook, "webhooks", "there is no mutatingwebhookconfiguration tessera"),
    (without_grant_keys, "grant-keys", "has no key"),
    (without_signing_key, "secrets", "there is no Secret tessera-grant-signing"),
    (with_a_service_down, "services", "tessera-system/tessera-quota: 0 of 1 replicas"),
    (with_a_silent_agent, "leases", "has been silent for"),
    (with_other_resources, "resources", "advertises tencent.com/vcuda-core"),
    (without_hook, "hook", f"{CARD_NODE}: the hook is not installed: CrashLoopBackOff"),
    (without_agent, "agents", f"{CARD_NODE}: no nvidia agent runs there"),
)


async def test_hamis_webhook_is_named(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        await with_hamis_webhook(cluster)
        faults = await cluster.faults()
        assert [(n, one.state) for n, one in faults.items()] == [
            ("other-webhooks", FindingState.WARNING)
        ]
        assert "hami-webhook of HAMi" in faults["other-webhooks"].found
        await cluster.run(faults["other-webhooks"].remedy)
        assert await cluster.faults() == {}


async def test_each_is_named_whatever_else_is_wrong(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        for broken, check, found in ALL:
            assert check not in await cluster.faults()
            await broken(cluster)
            one = (await cluster.faults())[check]
            assert (one.state, bool(one.remedy)) == (FindingState.FAILED, True)
            assert found in one.found
        assert len(await cluster.faults("gpu-1")) < len(ALL)


async def test_what_kube_scheduler_reads_is_compared(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        for change, found in (
            (lambda t: t.replace("Score: 100", "Score: 50"), "percentageOfNodesToScore is 50"),
            (lambda t: t.replace("nvidia.com/gpumem\n", "nvidia.com/other\n"),
             "managedResources lacks nvidia.com/gpumem"),
            (lambda t: t.replace("127.0.0.1", "10.0.0.1"), "is called at http://10.0.0.1:8888"),
            (lambda t: t.replace("Name: tessera-scheduler", "Name: other"),
             "no profile serves tessera-scheduler"),
            (lambda t: t.replace("bindVerb: bind", "bindVerb: no"), "no extender with bindVerb"),
            (lambda _: "profiles: [", "no ConfigMap"),
        ):  # fmt: skip
            await with_configuration(change)(cluster)
            named = [one for one in await cluster.check() if one.name == "configuration"]
            assert {one.state for one in named} == {FindingState.FAILED}
            assert any(found in one.found for one in named)
        await cluster.apply("ConfigMap")
        assert await cluster.faults() == {}


async def test_what_may_not_be_read_is_unknown(tmp_path: Path) -> None:
    async with installed_cluster(tmp_path) as cluster:
        found = await cluster.check(who=READER)
        states = {one.name: one.state for one in found}
        assert (states["kubernetes"], states["clock"]) == (FindingState.OK, FindingState.OK)
        assert {states[name] for name in ("policies", "labels", "leases", "other-webhooks")} == {
            FindingState.UNKNOWN
        }
        policies = next(one for one in found if one.name == "policies")
        assert "cannot list resource" in policies.found


async def test_before_an_installation(tmp_path: Path) -> None:
    async with bare_cluster(tmp_path) as cluster:
        found = await cluster.check()
        assert [one.name for one in found] == [
            "kubernetes", "policy-api", "clock", "other-webhooks", "left-behind", "secrets",
            "labels", "container-runtime", "other-plugins",
        ]  # fmt: skip
        (passwords,) = (one for one in found if one.name == "secrets")
        assert "the component `passwords` and the chart create it" in passwords.found
        assert await cluster.faults() == {}
