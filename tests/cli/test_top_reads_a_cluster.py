"""`tessera top`, the real command: against the embedded API server and a real nats-server."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
import os
import pty
import struct
import sys
import termios
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tessera_embedded.apiserver import Account, Rule
from tessera_embedded.ports import reserved_ports
from tessera_schema.messages.device_reports import DeviceState
from tessera_schema.subjects import DEVICES_BUCKET
from tests.bus.buses import CLUSTER, OnNats, on_nats
from tests.cli.card_cluster import (
    GIB,
    a100,
    card_node,
    holding_pod,
    node_usage,
    part,
    signed,
    use,
    waiting_pod,
)
from tests.cli.conftest import Ran, Tessera
from tests.cli.real_cluster import CommandCluster, command_cluster

NODE = card_node("gpu-1", [a100("gpu-1", i) for i in range(2)])
OTHER = card_node("gpu-2", [a100("gpu-2", 0)])
TRAIN = holding_pod("ml", "train", part("gpu-1", 0, 24, 30))
WEB = holding_pod("shop", "web", part("gpu-2", 0, 8, 10, dialect="koordinator"))
WAITS = waiting_pod("ml", "waits", 90000, "0/2 nodes are available: 2 Insufficient memory.")
NO_BUS = "use is not known: name the message bus by --nats, or add --agents"


@asynccontextmanager
async def a_cluster(
    folder: Path, tessera: Tessera, *accounts: Account
) -> AsyncGenerator[CommandCluster]:
    async with command_cluster(folder / "api", tessera, accounts) as cluster:
        await cluster.put(NODE, OTHER, TRAIN, WEB, WAITS)
        yield cluster


async def test_without_a_bus_it_shows_what_is_granted(tmp_path: Path, tessera: Tessera) -> None:
    async with a_cluster(tmp_path, tessera) as cluster:
        ran = await cluster.run("top")
    lines = ran.out.splitlines()
    assert (ran.status, ran.err) == (0, "")
    assert "nodes 2  cards 3/3  memory 13 % granted, - % used" in lines[0]
    assert lines[1] == NO_BUS
    assert lines[3].startswith("gpu-1   0 A100-80 ▓▓▓▓▓▓▓░")
    assert "24.0/80.0 used -" in lines[3]
    assert lines[-1].split()[:2] == ["ml/waits", lines[-1].split()[1]]
    assert lines[-1].endswith("1 x 87.9 GiB: 0/2 nodes are available: 2 Insufficient memory.")
    assert "\x1b" not in ran.out


async def test_without_agents_to_read_it_says_that_use_is_not_known(
    tmp_path: Path, tessera: Tessera
) -> None:
    async with a_cluster(tmp_path, tessera) as cluster:
        ran = await cluster.run("top", "--agents")
    assert ran.out.splitlines()[1] == "use is not known: no agent has a port for metrics there"
    assert "24.0/80.0 used -" in ran.out


async def test_json_has_every_figure_with_its_unit(tmp_path: Path, tessera: Tessera) -> None:
    async with a_cluster(tmp_path, tessera) as cluster:
        ran = await cluster.run("top", "-o", "json", "--node=gpu-1")
        same = await cluster.run("top", "-o", "yaml", "--node=gpu-1")
    found = json.loads(ran.out)
    [node] = found["nodes"]
    [share] = node["cards"][0]["shares"]
    assert found["status"] == NO_BUS
    assert found["totals"]["memory_granted_bytes"] == 32 * GIB << 20
    assert (node["name"], node["measured"]) == ("gpu-1", False)
    assert (share["pod"], share["memory_granted_bytes"]) == ("train", 24 * GIB << 20)
    assert (share["memory_used_bytes"], share["cores_granted_percent"]) == (None, 30)
    assert found["waiting"][0]["requests"][0]["memory_bytes"] == 90000 << 20
    assert "memory_granted_bytes: 25769803776" in same.out


async def test_wide_lists_the_pods_of_each_card(tmp_path: Path, tessera: Tessera) -> None:
    async with a_cluster(tmp_path, tessera) as cluster:
        ran = await cluster.run("top", "-o", "wide", "-n", "shop", "--dialect", "koordinator")
    assert "gpu-1" not in ran.out
    assert any(line.startswith(" shop/web ") and "koordinator" in line
               for line in ran.out.splitlines())  # fmt: skip


@pytest.mark.timeout(60)
async def test_use_is_read_from_the_bus(tmp_path: Path, tessera: Tessera) -> None:
    async with a_cluster(tmp_path, tessera) as cluster, on_nats(tmp_path) as nats:
        await nats.bus.put(
            DEVICES_BUCKET, "gpu-2.nvidia",
            *signed(DeviceState(node="gpu-2", vendor="nvidia", problems=("XID 79",)), CLUSTER)[1:],
        )  # fmt: skip
        ran = await reported(cluster, nats, "--nats-cluster", CLUSTER, "-o", "json", "--wait=40")
    nodes = {node["name"]: node for node in json.loads(ran.out)["nodes"]}
    assert (nodes["gpu-1"]["measured"], nodes["gpu-2"]["measured"]) == (True, True)
    card = nodes["gpu-1"]["cards"][0]
    assert (card["memory_used_bytes"], card["cores_used_percent"]) == (20 * GIB << 20, 29)
    assert card["shares"][0]["throttled_percent"] == 4
    assert nodes["gpu-2"]["problems"] == ["XID 79"]


async def test_a_report_that_its_agent_did_not_sign_does_not_count(
    tmp_path: Path, tessera: Tessera
) -> None:
    async with a_cluster(tmp_path, tessera) as cluster, on_nats(tmp_path) as nats:
        ran = await reported(cluster, nats, "-o", "json", "--wait=1", forged=True)
    assert [node["measured"] for node in json.loads(ran.out)["nodes"]] == [False, False]


async def reported(
    cluster: CommandCluster, nats: OnNats, *arguments: str, forged: bool = False
) -> Ran:
    """The command's answer while agents report, as they do, again and again."""
    async with asyncio.TaskGroup() as group:
        running = group.create_task(
            cluster.run("top", "--nats", nats.server.url, *arguments), name="top"
        )
        for number in itertools.count(1):
            for usage in (
                node_usage("gpu-1", use(TRAIN, 20, 29, limit=30, throttled=4)),
                node_usage("gpu-2", use(WEB, 1, 2, limit=10)),
            ):
                subject, envelope, data = signed(usage, CLUSTER, number)
                if forged:
                    data = data.replace(b'"interval_s":2', b'"interval_s":3')
                await nats.bus.publish(subject, envelope, data)
            if running.done():
                break
            await asyncio.sleep(0.1)
    return running.result()


async def test_what_cannot_be_reached_is_named(tmp_path: Path, tessera: Tessera) -> None:
    with reserved_ports(1) as [port]:
        ran = await asyncio.to_thread(tessera, "top", "--kubeconfig", f"{tmp_path}/none")
        assert (ran.status, ran.out) == (1, "")
        assert f"{tmp_path}/none" in ran.err
        async with a_cluster(tmp_path, tessera) as cluster:
            ran = await cluster.run("top", f"--nats=nats://127.0.0.1:{port}", "--nats-cluster=x y")
            assert (ran.status, ran.out) == (1, "")
            assert "--nats-cluster: 'x y': write up to 63 letters" in ran.err


async def test_a_bus_of_another_cluster_is_refused(tmp_path: Path, tessera: Tessera) -> None:
    async with a_cluster(tmp_path, tessera) as cluster, on_nats(tmp_path) as nats:
        ran = await cluster.run("top", "--nats", nats.server.url, "--nats-cluster=another")
    assert (ran.status, ran.out) == (1, "")
    assert f"--nats-cluster: another: this bus serves cluster {CLUSTER}" in ran.err


async def test_a_user_who_may_not_list_nodes_gets_a_remedy(
    tmp_path: Path, tessera: Tessera
) -> None:
    tenant = Account("tenant", (Rule(("get", "list"), ("pods",), namespaces=("ml",)),))
    async with a_cluster(tmp_path, tessera, tenant) as cluster:
        ran = await cluster.run("top", user="tenant")
    assert (ran.status, ran.out) == (1, "")
    assert "you may not list nodes: `tessera pods -n NAMESPACE` needs those of one" in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-o", "name"), "invalid choice: 'name'"),
        (("--sort", "age"), "invalid choice: 'age'"),
        (("--wait", "long"), "invalid float value: 'long'"),
        (("--dialect", ","), "dialect=,: write a value after ="),
    ],
)
def test_a_wrong_call_is_status_2(tessera: Tessera, arguments: tuple[str, ...], says: str) -> None:
    ran = tessera("top", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert says in ran.err


@pytest.mark.timeout(60)
async def test_on_a_terminal_it_draws_and_answers_keys(tmp_path: Path, tessera: Tessera) -> None:
    async with a_cluster(tmp_path, tessera) as cluster:
        screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tessera_cli", "top", f"--kubeconfig={cluster.server.kubeconfig}",
            stdin=terminal, stdout=terminal, stderr=terminal,
            env={"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "HOME": str(tmp_path)},
        )  # fmt: skip
        os.close(terminal)
        drawn = Terminal(screen)
        try:
            await drawn.until("gpu-2")
            assert "\x1b[?1049h" in drawn.text  # the alternate screen
            await cluster.put(holding_pod("ml", "late", part("gpu-1", 1, 40)))
            await drawn.until("40.0/80.0")
            os.write(screen, b"w")
            await drawn.until("ml/waits")
            os.write(screen, b"q")
            assert await process.wait() == 0
            await drawn.until("\x1b[?1049l")
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            os.close(screen)


class Terminal:
    """What a program has written to the other end of a terminal."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.text = ""

    async def until(self, text: str) -> None:
        while text not in self.text:
            data = await asyncio.to_thread(os.read, self._file, 1 << 16)
            self.text += data.decode(errors="replace")
