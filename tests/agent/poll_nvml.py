"""Polls NVML in a process of its own, because a process has one NVML: a line of what it saw for
each line that comes in."""

import asyncio
import sys

import msgspec

from tessera_agent.readers import ReaderSettings
from tessera_agent.readers.nvidia import open_reader
from tessera_core.registry.registry import load
from tessera_runtime.clock import SystemClock

TIMES = "times"
"""How lines begin that want no more than times of processes."""


class _NoNode:
    node: None = None


async def main() -> None:
    settings = ReaderSettings(
        library=sys.argv[1], call_s=float(sys.argv[3]), system_folder=sys.argv[2]
    )
    async with open_reader(settings, _NoNode(), load(), SystemClock()) as reader:
        while line := await asyncio.to_thread(sys.stdin.readline):
            read = await reader.poll(times_only=line.startswith(TIMES))
            answer = msgspec.json.encode({line.strip(): read})
            print(answer.decode(), flush=True)  # noqa: T201  (its output)


asyncio.run(main())
