"""The node: containerd with NRI set as the documentation says, kubelet, simulated cards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from string import Template

from tests.e2e.network import NETWORK, NODE_IP, PLUGINS
from tests.e2e.plane import Plane
from tests.node import images, runtime
from tests.node.cri import NotDone, open_cri
from tests.node.island import Island, Process

NODE = "worker-1"
CARDS = "cards=6 memory=16g"
READY_S = 120.0


class Node:
    """What runs on it."""

    def __init__(
        self, island: Island, containerd: Process, kubelet: Process, programs: Path
    ) -> None:
        """Made by `open_node`."""
        self._programs = programs
        self.island = island
        self.containerd = containerd
        self.kubelet = kubelet
        self.cards: tuple[str, ...] = ()

    async def remembers(self, uid: str) -> bool:
        """Whether the runtime still has containers of that pod, dead ones included, which kubelet
        removes once a minute."""
        of_the_pod = f'labels."io.kubernetes.pod.uid"=={uid}'
        return bool(await _ctr(self.island, self._programs, "containers", "ls", "-q", of_the_pod))

    async def runtime_configured(self, was: str, wanted: str) -> None:
        """Write other words into the runtime's configuration, and start it again."""
        config = self.island.folder / "containerd.toml"
        text = config.read_text()
        assert was in text, was
        config.write_text(text.replace(was, wanted))
        await self.containerd.stop()
        await self.containerd.start()
        await _answers(self.containerd, self.island.folder / "containerd.sock")

    async def both_killed(self) -> None:
        """End kubelet and the runtime as a machine that fails would, and start them again; kubelet
        ends by itself where it finds no runtime, so that comes first."""
        await self.kubelet.stop()
        await self.containerd.stop()
        await self.containerd.start()
        await _answers(self.containerd, self.island.folder / "containerd.sock")
        await self.kubelet.start()


@asynccontextmanager
async def open_node(island: Island, plane: Plane, registry: str) -> AsyncGenerator[Node]:
    """A node until the block ends, registered."""
    folder = island.folder
    await asyncio.to_thread(_write_files, folder, registry)
    env = {"PATH": f"{plane.programs}:/usr/sbin:/usr/bin:/sbin:/bin"}
    containerd = await island.start(
        "containerd", plane.programs / "containerd", f"--config={folder}/containerd.toml", env=env
    )
    socket = folder / "containerd.sock"
    await _answers(containerd, socket)
    archive = images.archive(folder / "pause.tar", images.pause_image(folder))
    await _ctr(island, plane.programs, "images", "import", archive)
    kubelet = await island.start(
        "kubelet", plane.programs / "kubelet", f"--kubeconfig={plane.kubeconfig}",
        f"--config={folder}/kubelet.json", "--root-dir=/var/lib/kubelet",
        f"--cert-dir={folder}/certificates", f"--hostname-override={NODE}",
        f"--node-ip={NODE_IP}", env=env,
    )  # fmt: skip
    node = Node(island, containerd, kubelet, plane.programs)
    node.cards = await asyncio.to_thread(runtime.make_machine, folder / "machine", CARDS)
    yield node
    kubelet.check()
    containerd.check()


async def _ctr(island: Island, programs: Path, *words: str | Path) -> str:
    address = f"--address={island.folder}/containerd.sock"
    return await island.run(programs / "ctr", address, "--namespace=k8s.io", *words)


async def _answers(containerd: Process, socket: Path) -> None:
    async with asyncio.timeout(READY_S), open_cri(socket) as cri:
        while True:
            containerd.check()
            try:
                await cri.call("Version")
            except NotDone:
                await asyncio.sleep(0.1)
            else:
                return


def _write_files(folder: Path, registry: str) -> None:
    runtime.write_files(folder, folder / "unused.toml", nri=True, required=("tessera",))
    (folder / "net" / "10-test.conflist").write_text(NETWORK)
    hosts = folder / "hosts" / "_default"
    hosts.mkdir(parents=True)
    (hosts / "hosts.toml").write_text(
        f'[host."{registry}"]\ncapabilities = ["pull", "resolve"]\nskip_verify = true\n'
    )
    config = Template(_CONFIG).substitute(
        folder=folder, own=folder / "own", pause=images.PAUSE, plugins=PLUGINS,
        tolerate=runtime.TOLERATE,
    )  # fmt: skip
    (folder / "containerd.toml").write_text(config)
    (folder / "kubelet.json").write_text(json.dumps({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "address": NODE_IP, "port": 10250, "healthzPort": 0, "readOnlyPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "clusterDNS": [NODE_IP], "clusterDomain": "cluster.local",
        "failCgroupV1": False, "cgroupDriver": "cgroupfs", "cgroupRoot": f"/tessera-{folder.name}",
        "oomScoreAdj": 0, "failSwapOn": False, "localStorageCapacityIsolation": False,
        "podLogsDir": f"{folder}/logs", "resolvConf": "",
        "evictionHard": {"memory.available": "1Mi"}, "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "1s", "syncFrequency": "2s", "maxPods": 500,
        # What is killed again and again is started again at once, not after five minutes.
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    }))  # fmt: skip


_CONFIG = """\
version = 3
root = "$own/root"
state = "$own/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.internal.v1.tracing",
]
[grpc]
address = "$folder/containerd.sock"
[ttrpc]
address = "$folder/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "$own/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "$pause"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "$folder/hosts"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["$plugins"]
conf_dir = "$folder/net"
use_internal_loopback = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "$folder/toolkit"
[plugins."io.containerd.nri.v1.nri"]
disable = false
plugin_request_timeout = "30s"
socket_path = "/var/run/nri/nri.sock"
plugin_path = "$own/nri-plugins"
plugin_config_path = "$own/nri-conf"
[plugins."io.containerd.nri.v1.nri".default_validator]
enable = true
required_plugins = ["tessera"]
tolerate_missing_plugins_annotation = "$tolerate"
"""
