"""An agent runs on every node: libraries that only other services or modes use cost it nothing."""

import asyncio
import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

from tests.agent.nri.agent_process import a_machine, a_process
from tests.agent.nri.runtime_node import a_node, a_share, granted

OTHERS = ("numpy", "grpc", "kubernetes_asyncio", "opentelemetry")


def test_no_module_of_them_is_imported() -> None:
    program = (
        "import sys, tessera_agent.main, tessera_agent.readers.nvidia\n"
        "from tessera_core.registry import registry\n"
        "registry.load()\n"
        f"print([m for m in {OTHERS} if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


async def test_a_process_that_gives_cards_through_the_runtime_has_none_loaded(
    tmp_path: Path,
) -> None:
    machine = tmp_path / "machine"
    share = replace(a_share(mib=10_000), card=a_machine(machine))
    async with a_node(tmp_path) as node, a_process(node, machine) as process:
        await node.run(granted("job", share))
        maps = await asyncio.to_thread(Path(f"/proc/{process.pid}/maps").read_text)
        process.terminate()
        assert await process.wait() == 0
    assert "msgspec/_core" in maps
    assert not [name for name in OTHERS if f"/{name}/" in maps]
