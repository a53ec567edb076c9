"""What was used in between two looks is held against the time in between, however busy the node."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tessera_agent.usage.settings import UsageSettings
from tessera_core.hook.records import padded
from tessera_core.hook.usage_file import PATH
from tests.agent.nri.runtime_node import a_node, a_share, granted, until
from tests.agent.usagefile import a_usage

HELD_S = 0.1
SECOND = 1_000_000_000


async def test_a_measurement_that_is_late_does_not_show_more_than_was_used(tmp_path: Path) -> None:
    loop, may_go_on = asyncio.get_running_loop(), threading.Event()
    by_hand = UsageSettings(interval_s=1000, proc_folder=str(tmp_path))
    with ThreadPoolExecutor(1) as one_at_a_time:
        loop.set_default_executor(one_at_a_time)
        async with a_node(tmp_path) as node, node.agent(usage=by_hand) as agent:
            await until(lambda: agent.measurement.latest)
            pod = granted("job", a_share())
            given = await node.create(pod)
            await node.start(pod, pid=700)
            usage = next(Path(m.source) for m in given.mounts if m.destination == PATH)
            await asyncio.to_thread(write, usage, 0)
            await agent.measurement.measure()
            looked = loop.time()
            held_up = loop.run_in_executor(None, may_go_on.wait)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(agent.measurement.measure(), name="second look")
                await asyncio.sleep(HELD_S)
                write(usage, int(HELD_S / 2 * SECOND))
                most = 100 * HELD_S / 2 / (loop.time() - looked)
                may_go_on.set()
            await held_up
            latest = agent.measurement.latest
    assert latest is not None
    [container] = latest.containers
    assert 0 < container.cards[0].cores_percent <= most


def write(usage: Path, gpu_ns: int) -> None:
    with usage.open("r+b") as file:
        file.write(a_usage({"uuid": padded("GPU-0", 64), "gpu_ns": gpu_ns}))
