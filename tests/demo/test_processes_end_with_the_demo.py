"""The demo's processes are kept running, and none of them outlives it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tessera_demo.processes import open_programs

ENV = {"PATH": os.defpath}
SLOW = 'trap "sleep 2; exit" TERM; echo ready; while :; do sleep 0.1; done'
ENDS_ONCE = "echo $$ >> lives; test $(wc -l < lives) = 1 || exec sleep 60"


async def test_one_that_was_to_be_started_again_is_not_when_all_ends(tmp_path: Path) -> None:
    reported: list[str] = []
    async with asyncio.timeout(60):
        async with open_programs(tmp_path, reported.append) as programs:
            slow = await programs.start("slow", ["sh", "-c", SLOW], ENV)
            while "ready" not in slow.tail():
                await asyncio.sleep(0.02)
            once = ENDS_ONCE.replace("lives", str(tmp_path / "lives"))
            await programs.start("once", ["sh", "-c", once], ENV)
            while not reported:
                await asyncio.sleep(0.02)
        assert "once ended" in reported[0]
    assert living(tmp_path / "lives") == []


def living(lives: Path) -> list[str]:
    return [pid for pid in lives.read_text().split() if Path(f"/proc/{pid}").exists()]
