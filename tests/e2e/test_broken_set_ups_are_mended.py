"""Set-ups that are broken on a real cluster and node: `tessera check` names each, and once what its
remedy says is done, it finds everything right. tests/cli/test_check_finds_what_is_wrong.py has
clocks, and more of each kind."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

from tests.contract.client import Json
from tests.e2e import pods
from tests.e2e.checked import everything_is_right, faults
from tests.e2e.cluster import HOME, OVERLAYS, Cluster, a_kustomization
from tests.e2e.conftest import OpenCluster
from tests.e2e.dockerfile import REPOSITORY
from tests.e2e.node import NODE
from tests.e2e.stage import timed

OVERLAY = OVERLAYS / "single-node"
RUNTIME_CLASS = OVERLAYS.parent / "components" / "runtime-class"
UNDER_A_CLASS = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{overlay}]
components: [{component}]
"""
NRI_IS_ON, NRI_IS_OFF = (
    "disable = false\nplugin_request_timeout",
    "disable = true\nplugin_request_timeout",
)
REQUIRED, NOT_REQUIRED = 'required_plugins = ["tessera"]', "required_plugins = []"
RUNC = '[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc'
NVIDIA = RUNC.replace("runc", "nvidia")


async def test_each_remedy_mends_what_it_is_for(open_installed: OpenCluster) -> None:
    async with open_installed(overlay=OVERLAY) as cluster:
        _write_kubectl(cluster)
        await everything_is_right(cluster)
        for step in (
            a_policy_is_missing, there_are_two_installations, another_plugin_hands_out_cards,
            kube_scheduler_is_old, the_passwords_are_gone, no_label_and_nobody_requires_the_agent,
            nri_is_off, the_runtime_class_is_wrong,
        ):  # fmt: skip
            await timed(step, cluster)
            await everything_is_right(cluster)


async def a_policy_is_missing(cluster: Cluster) -> None:
    await cluster.kubectl("delete", "validatingadmissionpolicy", "tessera-nodes")
    await _run(cluster, await _remedy(cluster, "policies", "there is no policy tessera-nodes"))


async def there_are_two_installations(cluster: Cluster) -> None:
    second = await cluster.get("deployment", "tessera-quota", "-n", HOME)
    second["metadata"] = {
        "name": "tessera-quota", "namespace": "default", "labels": second["metadata"]["labels"],
    }  # fmt: skip
    second["spec"]["replicas"] = 0
    await cluster.apply(second)
    await _run(cluster, await _remedy(cluster, "only-once", "default/tessera-quota"))


async def another_plugin_hands_out_cards(cluster: Cluster) -> None:
    labels = {"name": "nvidia-device-plugin-ds"}
    main = {"name": "main", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.4"}
    await cluster.apply({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin-daemonset", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [main]}},
        },
    })  # fmt: skip
    await _run(cluster, await _remedy(cluster, "other-plugins", "NVIDIA's device plugin"))


async def kube_scheduler_is_old(cluster: Cluster) -> None:
    image = "registry.k8s.io/kube-scheduler:v1.31.0"
    await cluster.kubectl(
        "set", "image", "deployment/tessera-scheduler", "-n", HOME, f"kube-scheduler={image}",
        f"image-of-kube-scheduler={image}",
    )  # fmt: skip
    await _run(cluster, await _remedy(cluster, "kube-scheduler", "is v1.31.0"))
    await _rolled_out(cluster)


async def the_passwords_are_gone(cluster: Cluster) -> None:
    await cluster.kubectl("delete", "secret", "tessera-bus", "-n", HOME)
    await _run(cluster, await _remedy(cluster, "secrets", "there is no Secret"))
    await _rolled_out(cluster)
    await pods.start(cluster, "with-new-passwords", pods.HAMI)


async def no_label_and_nobody_requires_the_agent(cluster: Cluster) -> None:
    """A pod starts meanwhile, without limits."""
    await cluster.node.runtime_configured(REQUIRED, NOT_REQUIRED)
    await cluster.kubectl("label", "node", NODE, "nvidia-device-enable-")
    await pods.start(cluster, "unlimited", pods.HAMI)
    await _run(cluster, await _remedy(cluster, "labels", "has nvidia cards and no label"))
    remedy = await _remedy(cluster, "required-plugin", "default/unlimited")
    assert REQUIRED in remedy
    await cluster.node.runtime_configured(NOT_REQUIRED, REQUIRED)
    await cluster.kubectl("delete", "pod", "unlimited", "--wait=true")
    await _run(cluster, remedy.rpartition(": ")[2])
    await pods.start(cluster, "limited", pods.HAMI)
    assert (await pods.work(cluster, "limited"))["total_mib"] == 1000


async def nri_is_off(cluster: Cluster) -> None:
    await cluster.node.runtime_configured(NRI_IS_ON, NRI_IS_OFF)
    remedy = await _remedy(cluster, "nri", "the container runtime does not ask")
    assert "disable = false" in remedy
    await cluster.node.runtime_configured(NRI_IS_OFF, NRI_IS_ON)


async def the_runtime_class_is_wrong(cluster: Cluster) -> None:
    """It is not there; then the runtime does not have its handler."""
    overlay = a_kustomization(
        cluster.folder / "under-a-class", UNDER_A_CLASS, overlay=OVERLAY, component=RUNTIME_CLASS
    )
    await cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(overlay))
    await _run(cluster, await _remedy(cluster, "runtime-class", "which is not there"))
    remedy = await _remedy(cluster, "runtime-class", "has no handler nvidia")
    assert "nvidia-ctk runtime configure --runtime=containerd" in remedy
    await cluster.node.runtime_configured(*_with_handler(cluster.node.island.folder))
    await _rolled_out(cluster)


def _with_handler(folder: Path) -> tuple[str, str]:
    """What `nvidia-ctk` writes, with what stands for NVIDIA's runtime here."""
    text = (folder / "containerd.toml").read_text()
    runc = text[text.index(f"{RUNC}]") : text.index('[plugins."io.containerd.nri.v1.nri"]')]
    return runc, runc + runc.replace(RUNC, NVIDIA)


async def _remedy(cluster: Cluster, check: str, found: str) -> str:
    """Of a check, once it has found this."""

    async def is_named() -> Json | None:
        one = (await faults(cluster)).get(check)
        return one if one and found in one["found"] else None

    named = await cluster.until(is_named, f"tessera check names {check}: {found}")
    assert named["state"] == "failed"
    return str(named["remedy"])


def _write_kubectl(cluster: Cluster) -> None:
    """A command of that name, for what people paste."""
    file = cluster.folder / "bin" / "kubectl"
    file.parent.mkdir()
    program, config = cluster.plane.programs / "kubectl", cluster.plane.kubeconfig
    file.write_text(f'#!/bin/sh\nexec {program} --kubeconfig={config} "$@"\n')
    file.chmod(0o755)


async def _run(cluster: Cluster, remedy: str) -> None:
    """As an administrator would paste it, into a shell at the root of a checkout."""
    command = remedy.replace("<your overlay>", str(OVERLAY))
    ran = await asyncio.create_subprocess_exec(
        "bash", "-o", "pipefail", "-c", command, cwd=REPOSITORY, stdout=PIPE, stderr=STDOUT,
        env={"PATH": f"{cluster.folder}/bin:/usr/bin:/bin", "HOME": str(cluster.folder)},
    )  # fmt: skip
    said, _ = await ran.communicate()
    assert ran.returncode == 0, (command, said.decode())


async def _rolled_out(cluster: Cluster) -> None:
    for kind in ("deployment", "statefulset", "daemonset"):
        await cluster.kubectl("rollout", "status", kind, "-n", HOME, "--timeout=200s")
    await cluster.all_ready()
