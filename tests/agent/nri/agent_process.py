"""The agent as a process, on simulated cards, with neither API server nor message bus."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tessera_core.trust.grants import published_key
from tessera_embedded.parent import ends_with_parent
from tests.agent.machine import NVML, built, polling
from tests.agent.nri.runtime_node import NODE, SIGNER, Node

NOWHERE = "127.0.0.1:9"


def a_machine(folder: Path) -> str:
    """One simulated card, found by TMPDIR as where the agent runs; its id."""
    built("libtessera.so")
    folder.mkdir()
    environ = {
        "TESSERA_SIM_STATE": str(folder / f"tessera-sim-{os.getuid()}"),
        "TESSERA_SIM_CONFIG": "cards=1 memory=16g",
    }
    with polling(NVML, environ) as poller:
        return str(poller.poll()["cards"][0]["id"])


@asynccontextmanager
async def a_process(node: Node, machine: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """An agent that the runtime asks; its opener ends it."""
    (node.folder / "agent").mkdir(exist_ok=True)
    keys = dict([published_key(SIGNER.public)])
    (node.folder / "agent" / "grant-keys.json").write_bytes(msgspec.json.encode(keys))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tessera_agent",
        env={
            "PATH": os.defpath, "TMPDIR": str(machine), "TESSERA_NODE": NODE,
            "TESSERA_VENDOR": "nvidia", "TESSERA_FOLDER": str(node.folder / "agent"),
            "TESSERA_NRI_SOCKET": str(node.socket), "TESSERA_READER_LIBRARY": str(NVML),
            "TESSERA_KUBE_URL": f"http://{NOWHERE}", "TESSERA_BUS_URL": f"nats://{NOWHERE}",
        },
        preexec_fn=ends_with_parent(),
    )  # fmt: skip
    try:
        await node.runtime.until("10-tessera")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
