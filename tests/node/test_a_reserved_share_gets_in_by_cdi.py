"""A real runtime gives a container the CDI device of a share that `tessera share` reserved: nothing
of a cluster is there."""

import asyncio
import json
from pathlib import Path

from tests.local.conftest import Machine
from tests.node.agents import until
from tests.node.conftest import OpenRuntime
from tests.node.runtime import WORK

NAME = "train"
OUT_OF_MEMORY = 2
WORKING = {"WORK_BUSY": "0", "WORK_MEMORY_PERCENT": "50"}


async def test_a_container_has_the_share_until_it_is_removed(
    open_runtime: OpenRuntime, tmp_path: Path
) -> None:
    machine = await asyncio.to_thread(Machine, tmp_path / "local")
    cdi = ("--cdi-folder", str(tmp_path / "cdi"))
    try:
        made = await asyncio.to_thread(
            machine.tessera, "share", "create", NAME, "--memory", "4Gi", "--cores", "30", *cdi
        )
        assert made.stdout == f"tessera.dev/share={NAME}\n", made.stderr
        async with open_runtime(nri=False, required=()) as runtime:
            (written,) = (tmp_path / "cdi").iterdir()
            await runtime.island.run("install", "-D", written, f"/var/run/cdi/{written.name}")
            pod = await runtime.pod("job")
            container = await pod.run(
                image=WORK, env=WORKING,
                annotations={"cdi.k8s.io/tessera": f"tessera.dev/share={NAME}"},
            )  # fmt: skip
            await until(lambda: bool(container.printed()))

            (card,) = (json.loads(line) for line in container.printed())
            assert (card["total_mib"], card["over_result"]) == (4096, OUT_OF_MEMORY)
            assert (card["taken_mib"], card["taken_result"]) == (2047, 0)
            listed = json.loads(
                (await asyncio.to_thread(machine.tessera, "ps", "-o", "json")).stdout
            )
            (share,) = listed["shares"]
            assert (share["name"], share["pid"], share["cores_percent"]) == (NAME, 0, 30)
            assert share["used_bytes"] >= 2047 << 20

            busy = await asyncio.to_thread(machine.tessera, "share", "remove", NAME, *cdi)
            assert (busy.returncode, "processes use it" in busy.stderr) == (1, True), busy.stderr
            await pod.end()
        removed = await asyncio.to_thread(machine.tessera, "share", "remove", NAME, *cdi)
        assert removed.returncode == 0, removed.stderr
        assert not list((tmp_path / "cdi").iterdir())
        assert not list(machine.folder.glob("containers/*"))
    finally:
        await asyncio.to_thread(machine.end)
