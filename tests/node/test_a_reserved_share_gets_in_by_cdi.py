"""A real runtime gives a container the CDI device of a share that `tessera share` reserved: nothing
of a cluster is there."""

import asyncio
import json
import os
import stat
from pathlib import Path

from tests.local.conftest import Machine
from tests.node.agents import until
from tests.node.conftest import OpenRuntime
from tests.node.runtime import WORK

NAME = "train"
OUT_OF_MEMORY = 2
NODES = {"/dev/nvidia0": 200, "/dev/nvidia1": 201, "/dev/nvidiactl": 3}
"""Path -> minor number, of devices that no driver has; the last one is the null device."""
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


async def test_a_container_has_the_device_nodes_of_its_card_alone(
    open_runtime: OpenRuntime, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    (root / "dev").mkdir(parents=True)
    for path, minor in NODES.items():
        os.mknod(f"{root}{path}", stat.S_IFCHR | 0o666, os.makedev(1 if minor == 3 else 10, minor))
    machine = await asyncio.to_thread(Machine, tmp_path / "local", root=root)
    try:
        made = await asyncio.to_thread(
            machine.tessera, "share", "create", NAME, "--memory", "4Gi", "--card", "1",
            "--cdi-folder", str(tmp_path / "cdi"),
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        async with open_runtime(nri=False, required=()) as runtime:
            (written,) = (tmp_path / "cdi").iterdir()
            await runtime.island.run("install", "-D", written, f"/var/run/cdi/{written.name}")
            pod = await runtime.pod("job")
            container = await pod.run(
                image=WORK, env={**WORKING, "NVIDIA_VISIBLE_DEVICES": "all"},
                annotations={"cdi.k8s.io/tessera": f"tessera.dev/share={NAME}"},
            )  # fmt: skip
            assert "10, 201" in await container.reads("ls", "-l", "/dev/nvidia1")
            assert await container.reads("cat", "/dev/nvidiactl") == "", "it is the null device"
            assert (await container.env())["NVIDIA_VISIBLE_DEVICES"] == "none"
            linux = (await container.spec())["linux"]
            assert {d["path"]: d["minor"] for d in linux["devices"]} == {
                "/dev/nvidia1": 201, "/dev/nvidiactl": 3,
            }  # fmt: skip
            allowed = {
                (d.get("major"), d.get("minor")): d["access"]
                for d in linux["resources"]["devices"] if d["allow"]
            }  # fmt: skip
            assert allowed[10, 201] == "rw"
            assert (10, 200) not in allowed
            await pod.end()
    finally:
        await asyncio.to_thread(machine.end)
