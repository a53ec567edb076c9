"""The agent as a process, on simulated cards, with neither API server nor message bus."""

import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_core.hook.limits_file import PATH, decode_limits
from tessera_kubelet.errors import ContainerRefused
from tessera_schema.cards import MIB
from tests.agent.nri.agent_process import a_machine, a_process
from tests.agent.nri.runtime_node import VISIBLE, a_node, a_share, granted


async def test_kill_9_and_what_runs_stays_and_is_known_again(tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    card = a_machine(machine)
    share = replace(a_share(mib=10_000), card=card)
    async with a_node(tmp_path) as node:
        async with a_process(node, machine) as process:
            given = await node.run(granted("job", share))
            assert given.env[VISIBLE] == card
            file = next(Path(m.source) for m in given.mounts if m.destination == PATH)
            process.send_signal(signal.SIGKILL)
            await process.wait()
        await node.runtime.until()
        assert decode_limits(file.read_bytes()).cards[0].memory_bytes == 10_000 * MIB
        async with a_process(node, machine) as process:
            with pytest.raises(ContainerRefused, match="10000 MiB wanted, 10000 of 16384 MiB"):
                await node.create(granted("other", share))
            process.terminate()
            assert await process.wait() == 0
