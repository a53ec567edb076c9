"""The component `containerd`: where it runs, what it may do, and that a node has its own turn."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import yaml

from tessera_agent.containerd.host import COMMAND_S
from tessera_agent.containerd.settings import DropInMode, DropInSettings
from tessera_agent.containerd.turn import FAILED, NodeTurn
from tessera_runtime.clock import SystemClock
from tessera_runtime.errors import ApiForbidden
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.settings import load, variables
from tests.deploy.installed import NAMESPACE, SETTLED_S, Installed, token_of
from tests.deploy.manifests import (
    KUSTOMIZE,
    Json,
    combined,
    containers,
    environment,
    kubectl,
    named,
)

NAME = "tessera-containerd"


def rendered(folder: Path) -> list[Json]:
    return combined(folder, ("containerd",))


def test_it_is_off_by_default(tmp_path: Path) -> None:
    assert not named(combined(tmp_path, ()), "DaemonSet", NAME)


def test_it_runs_where_the_agent_runs_that_is_required(tmp_path: Path) -> None:
    objects = rendered(tmp_path)
    (agent,) = named(objects, "DaemonSet", "tessera-agent-nvidia")
    (item,) = named(objects, "DaemonSet", NAME)
    pods = [of["spec"]["template"]["spec"] for of in (agent, item)]
    assert pods[0]["affinity"] == pods[1]["affinity"]
    assert pods[1]["tolerations"] == [{"operator": "Exists"}]
    assert item["spec"]["template"]["metadata"]["annotations"] == {
        "tolerate-missing-plugins.noderesource.dev": "true"
    }


def test_its_settings_make_sense(tmp_path: Path) -> None:
    objects = rendered(tmp_path)
    (container,) = [c for c in containers(objects) if c.spec["name"] == "containerd"]
    env = environment(container, objects)
    assert {n for n in env if n.startswith("TESSERA_")} <= set(variables(DropInSettings))
    settings = load(DropInSettings, env)
    assert (settings.mode, settings.require) == (DropInMode.WRITE, True)
    (agent,) = [
        c for c in containers(objects)
        if c.workload["metadata"]["name"] == "tessera-agent-nvidia" and c.spec["name"] == "agent"
    ]  # fmt: skip
    (port,) = agent.spec["ports"]
    assert settings.agents == (f"http://127.0.0.1:{port['containerPort']}/readyz",)
    grace_s = container.pod["terminationGracePeriodSeconds"]
    assert settings.process.stop_s < grace_s
    # One restart, and another one with the former files.
    assert 2 * (COMMAND_S + settings.answer_s + settings.settle_s) < settings.process.stop_s


def test_it_is_the_only_one_with_privileges(tmp_path: Path) -> None:
    objects = rendered(tmp_path)
    privileged = [
        c.spec["name"] for c in containers(objects) if c.spec["securityContext"].get("privileged")
    ]
    assert privileged == ["containerd"]
    (item,) = named(objects, "DaemonSet", NAME)
    assert "volumes" not in item["spec"]["template"]["spec"]


def test_its_roles_are_the_lease_and_events(tmp_path: Path) -> None:
    objects = rendered(tmp_path)
    rules = [
        rule
        for kind in ("Role", "ClusterRole")
        for role in named(objects, kind, NAME)
        for rule in role["rules"]
    ]
    assert rules == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [NAME],
         "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]  # fmt: skip


@asynccontextmanager
async def turns_of(
    installed: Installed, folder: Path, *nodes: str
) -> AsyncGenerator[list[NodeTurn]]:
    """The component of these nodes, with the tokens that its pods have there."""
    objects = [
        item for item in await asyncio.to_thread(rendered, folder)
        if item["metadata"]["name"] == NAME
    ]  # fmt: skip
    await asyncio.to_thread(apply, installed, objects)
    plane = installed.plane
    async with AsyncExitStack() as stack:
        clients = await stack.enter_async_context(installed.clients())
        made = []
        for node in nodes:
            token = folder / f"token-{node}"
            token.write_text(await token_of(clients["admin"], NAME, node, pod=f"{NAME}-{node}"))
            settings = KubeSettings(url=plane.url, token_file=token, ca_file=plane.ca_path)
            kube = await stack.enter_async_context(open_kube(settings))
            made.append(NodeTurn(kube, NAMESPACE, NAME, node, SystemClock()))
        yield made


def apply(installed: Installed, objects: list[Json]) -> None:
    ran = subprocess.run(
        [kubectl(), f"--kubeconfig={installed.plane.kubeconfig}", "apply", "-f", "-"],
        input=yaml.safe_dump_all(objects), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


async def refused(turn: NodeTurn) -> str:
    """Why an API server refuses to have another node's turn released, once its policy is in
    force."""
    async with asyncio.timeout(SETTLED_S):
        while True:
            lease = await turn.read()
            try:
                await turn.change(lease, {"metadata": {"annotations": {"tried": str(lease)}}})
            except ApiForbidden as e:
                return str(e)
            await asyncio.sleep(0.2)


async def test_a_node_has_its_own_turn_only(installed: Installed, tmp_path: Path) -> None:
    async with turns_of(installed, tmp_path, "one", "two") as (one, two):
        assert await one.take() == ""
        assert await two.take() == "it is the turn of node one"
        why = await refused(two)
        assert "a node takes and releases its own turn only" in why
        await one.fail("containerd did not start")
        assert "containerd did not start" in await two.take()
        with pytest.raises(ApiForbidden, match="its own turn only"):
            await two.change(await two.read(), {"metadata": {"annotations": {FAILED: None}}})
        await one.release()
        assert await two.take() == ""
        await two.release()


def uninstalled(installed: Installed) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            "env", "TESSERA_CONTAINERD_TIMEOUT=1s",
            f"KUBECTL={kubectl()} --kubeconfig={installed.plane.kubeconfig}",
            KUSTOMIZE / "uninstall.sh", KUSTOMIZE / "overlays/dev", "--yes",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


async def test_nothing_is_uninstalled_before_containerd_is_as_it_was(
    installed: Installed, tmp_path: Path
) -> None:
    scheduler = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/tessera-scheduler"
    own = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{NAME}"
    async with turns_of(installed, tmp_path), installed.clients() as clients:
        admin = clients["admin"]
        before = (await admin.get(scheduler)).done["spec"]
        ran = await asyncio.to_thread(uninstalled, installed)
        assert ran.returncode == 1
        assert "not every node's containerd is as it was" in ran.stderr
        template = (await admin.get(own)).done["spec"]["template"]["spec"]
        assert {"name": "TESSERA_MODE", "value": "remove"} in template["containers"][0]["env"]
        assert (await admin.get(scheduler)).done["spec"] == before
        (await admin.delete(own)).done  # noqa: B018  (checks)
