"""The component `containerd` as the process that it is, on a node of a real cluster: API server,
kubelet, agent and containerd. A script in the place of `systemctl` has one unit; all else is as it
is on a machine with systemd."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cluster.plane import HOME
from tests.node.agents import NODE, Agent
from tests.node.conftest import OpenCluster
from tests.node.containerd_unit import LEASE, LEASES
from tests.node.kubelet import Node, a_pod
from tests.node.runtime import CONFIG

SYSTEMCTL = """\
#!{python} -IS
# One unit, which runs containerd: its pid is in a file.
import os, signal, subprocess, sys, time
from pathlib import Path

unit = Path("{folder}/unit.pid")
if sys.argv[1] == "show":
    print(unit.read_text())
if sys.argv[1] == "restart":
    status = Path("/proc", unit.read_text(), "status")
    os.kill(int(unit.read_text()), signal.SIGKILL)
    while status.exists() and "State:\\tZ" not in status.read_text():
        time.sleep(0.05)
    env = {{"PATH": "{programs}:" + os.environ["PATH"]}}
    with Path("{folder}/unit.log").open("ab") as log:
        made = subprocess.Popen(["{programs}/containerd", "--config={config}"], env=env,
                                stdout=log, stderr=log, start_new_session=True)
    unit.write_text(str(made.pid))
"""


def install_unit(node: Node) -> None:
    """A unit of the containerd that runs."""
    runtime = node.runtime
    folder = runtime.island.folder
    script = SYSTEMCTL.format(
        python=sys.executable, folder=folder, programs=runtime.programs, config=folder / CONFIG
    )
    systemctl = runtime.island.outside("/usr/local/sbin/systemctl")
    systemctl.parent.mkdir(parents=True, exist_ok=True)
    systemctl.write_text(script)
    systemctl.chmod(0o755)
    status = Path(f"/proc/{runtime.process.pid}/status").read_text()
    (inside,) = [line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:")]
    (folder / "unit.pid").write_text(inside)


@asynccontextmanager
async def component(node: Node, account: Mapping[str, str], mode: str) -> AsyncGenerator[Agent]:
    """The component until the block ends, once the node is as wanted."""
    folder = node.runtime.island.folder
    ports = folder / f"component-{mode}.json"
    process = await node.runtime.island.start(
        f"component-{mode}", sys.executable, "-m", "tessera_agent.containerd",
        env={
            "PATH": "/usr/bin:/bin", **account, "TESSERA_NODE": NODE, "TESSERA_MODE": mode,
            "TESSERA_CONFIG": str(folder / CONFIG),
            "TESSERA_FOLDER": str(folder / "etc/conf.d"), "TESSERA_POLL_S": "0.5",
            "TESSERA_STATE": str(folder / "state"), "TESSERA_HTTP_PORT": "0",
            "TESSERA_SETTLE_S": "1", "TESSERA_PROCESS_PORTS_FILE": str(ports),
        },
    )  # fmt: skip
    made = Agent(process, ports, folder)
    try:
        await made.ready()
    except TimeoutError:
        pytest.fail(process.words())
    yield made
    await process.close()


async def test_a_node_is_configured_and_goes_back(open_cluster_node: OpenCluster) -> None:
    async with open_cluster_node(required=()) as node:
        await asyncio.to_thread(install_unit, node)
        cluster, limits = node.cluster, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
        account = {k: v for k, v in node.account.items() if k.startswith("TESSERA_KUBE_")}
        account["TESSERA_AGENTS"] = node.agent.url("/readyz")
        lease = {"metadata": {"name": LEASE, "namespace": HOME}}
        (await cluster.admin.post(LEASES, lease)).done  # noqa: B018  (checks)
        original = (node.runtime.island.folder / CONFIG).read_bytes()
        await node.pod("before", limits)
        before = await node.running("before")
        async with component(node, account, "write"):
            assert await before.runs()
            await node.pod("between", limits)
            await node.running("between")
        assert (node.runtime.island.folder / CONFIG).read_bytes() != original
        await node.agent.kill()
        await cluster.make(cluster.pods_path(), a_pod("refused", {}, nodeName=NODE))
        assert "required plugin" in await node.waiting("refused", "CreateContainerError")
        async with component(node, account, "remove"):
            assert (node.runtime.island.folder / CONFIG).read_bytes() == original
            assert await before.runs()
            await node.running("refused")
        await node.agent.restart()
        assert (await cluster.admin.get(f"{LEASES}/{LEASE}")).done["spec"]["holderIdentity"] == ""
