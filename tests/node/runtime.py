"""A real containerd with runc, on an island of its own: its configuration, and its calls.

Pods get an address that nobody can reach: a network plugin of three lines answers for one. Their
cards are simulated, and given to them by `toolkit.py`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.agent.machine import NVML, SIM, built, polling
from tests.node import images
from tests.node.cri import Cri, NotDone, Pod, a_pod_config, open_cri
from tests.node.island import Island, Process

TOLERATE = "tolerate-missing-plugins.noderesource.dev"
WORK = "localhost/tessera/work:1"
GREEDY = "localhost/tessera/greedy:1"
"""An image that asks for every card."""
WORKING = ("sh", "-c", "tessera-work; exec sleep 100000")
"""It stays where there is no card to work on, to be looked into."""
READY_S = 60.0
POLL_S = 0.02
CONFIG = "etc/containerd.toml"
"""The configuration, in the folder of the island."""
OLDER = "containerd-2.1"
"""Programs of a release that cannot require plugins."""
HERE = Path(__file__).parent


class Containerd:
    """The runtime."""

    def __init__(self, island: Island, programs: Path, process: Process, cri: Cri) -> None:
        self.island = island
        self.process = process
        self.cri = cri
        self.nri = island.folder / "nri.sock"
        self.machine = island.folder / "machine"
        """Where the simulated cards are, as an agent's TMPDIR."""
        self.cards: tuple[str, ...] = ()
        """Their ids."""
        self.programs = programs

    async def pod(
        self, name: str, *, uid: str = "", namespace: str = "team",
        annotations: Mapping[str, str] | None = None,
    ) -> Pod:  # fmt: skip
        """A sandbox. Raises NotDone."""
        config = a_pod_config(
            name, self.island.folder, self.island.cgroup, uid=uid, namespace=namespace,
            annotations=annotations,
        )  # fmt: skip
        made = await self.cri.call("RunPodSandbox", config=config)
        return Pod(self.cri, config, made["pod_sandbox_id"])

    async def load(self, archive: Path) -> None:
        """Know the images of an archive."""
        await self.island.run(
            self.programs / "ctr", f"--address={address(self.island)}", "--namespace=k8s.io",
            "images", "import", archive,
        )  # fmt: skip

    async def restart(self) -> None:
        """Kill it and start it again; containers run on."""
        await self.process.stop()
        await self.process.start()
        await self.ready()

    async def ready(self) -> None:
        """Wait until it answers."""
        async with asyncio.timeout(READY_S):
            while True:
                self.process.check()
                try:
                    await self.cri.call("Version")
                except NotDone:
                    await asyncio.sleep(POLL_S)
                else:
                    return


def address(island: Island) -> Path:
    """Where containerd listens."""
    return island.folder / "containerd.sock"


@asynccontextmanager
async def real_containerd(
    island: Island, programs: Path, archive: Path, *, nri: bool = True,
    required: Sequence[str] = ("tessera",), cards: str = "cards=2 memory=16g", release: str = "",
    written: Callable[[str], str] = str,
) -> AsyncGenerator[Containerd]:  # fmt: skip
    """containerd until the block ends, with the images of that archive and a simulated machine.
    `release`: the folder of its programs among the others, if not the usual ones. `written`: its
    configuration as an administrator made it of the usual one."""
    folder = island.folder
    config = folder / CONFIG
    config.parent.mkdir()
    await asyncio.to_thread(write_files, folder, config, nri=nri, required=required)
    config.write_text(written(config.read_text()))
    own = programs / release
    process = await island.start("containerd", own / "containerd", f"--config={config}",
                                 env=_environment(own))  # fmt: skip
    async with open_cri(address(island)) as cri:
        containerd = Containerd(island, programs, process, cri)
        await containerd.ready()
        await containerd.load(archive)
        containerd.cards = await asyncio.to_thread(make_machine, containerd.machine, cards)
        yield containerd


def _environment(programs: Path) -> dict[str, str]:
    return {"PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin"}


def make_images(folder: Path) -> Path:
    """An archive of the images that pods of the tests are made of."""
    work = images.with_programs({"/bin/tessera-work": built("tessera-work")})
    greedy = {"NVIDIA_VISIBLE_DEVICES": "all"}
    return images.archive(
        folder / "images.tar",
        images.pause_image(folder),
        images.Image(WORK, work, WORKING),
        images.Image(GREEDY, work, WORKING, greedy),
    )


def make_machine(folder: Path, cards: str) -> tuple[str, ...]:
    """Simulated cards in a folder, which an agent has as its TMPDIR; their ids."""
    folder.mkdir(exist_ok=True)
    state = str(folder / f"tessera-sim-{os.getuid()}")
    with polling(NVML, {"TESSERA_SIM_STATE": state, "TESSERA_SIM_CONFIG": cards}) as poller:
        return tuple(card["id"] for card in poller.poll()["cards"])


def write_files(folder: Path, config: Path, *, nri: bool, required: Sequence[str]) -> None:
    """Configure containerd, the toolkit that stands before runc, and a network without peers."""
    built("libtessera.so")
    runc = shutil.which("runc") or "/usr/sbin/runc"
    toolkit = [sys.executable, "-IS", HERE / "toolkit.py", runc, SIM, folder / "machine"]
    _executable(folder / "toolkit", "exec " + " ".join(f"'{word}'" for word in toolkit) + ' "$@"')
    for name in ("net", "cni"):
        (folder / name).mkdir()
    (folder / "net" / "10-test.conflist").write_text(_NETWORK)
    _executable(folder / "cni" / "nobody", _PLUGIN)
    config.write_text(
        _CONFIG.format(
            folder=folder, own=folder / "own", pause=images.PAUSE, disabled=str(not nri).lower(),
            enable=str(bool(required)).lower(), required=list(required), tolerate=TOLERATE,
        )
    )  # fmt: skip


def _executable(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


_NETWORK = '{"cniVersion": "1.0.0", "name": "test", "plugins": [{"type": "nobody"}]}'
_PLUGIN = """\
[ "$CNI_COMMAND" = ADD ] || exit 0
printf '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"%s"}],' "$CNI_NETNS"
printf '"ips":[{"address":"10.77.0.2/24","interface":0}]}'"""

_CONFIG = """\
version = 3
root = "{own}/root"
state = "{own}/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.internal.v1.tracing",
]
[grpc]
address = "{folder}/containerd.sock"
[ttrpc]
address = "{folder}/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "{own}/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{folder}/cni"]
conf_dir = "{folder}/net"
use_internal_loopback = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{folder}/toolkit"
[plugins."io.containerd.nri.v1.nri"]
disable = {disabled}
plugin_request_timeout = "30s"
socket_path = "{folder}/nri.sock"
plugin_path = "{own}/nri-plugins"
plugin_config_path = "{own}/nri-conf"
[plugins."io.containerd.nri.v1.nri".default_validator]
enable = {enable}
required_plugins = {required}
tolerate_missing_plugins_annotation = "{tolerate}"
"""
