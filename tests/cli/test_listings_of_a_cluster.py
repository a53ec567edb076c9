"""`tessera nodes`, `cards` and `pods`, the real commands: against the embedded API server."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tessera_embedded.apiserver import Account, Rule
from tests.cli.card_cluster import GIB, a100, card_node, holding_pod, part, waiting_pod
from tests.cli.conftest import Tessera
from tests.cli.real_cluster import CommandCluster, command_cluster

TENANT = Account("tenant", (Rule(("get", "list"), ("pods",), namespaces=("ml",)),))


@asynccontextmanager
async def a_cluster(folder: Path, tessera: Tessera) -> AsyncGenerator[CommandCluster]:
    async with command_cluster(folder, tessera, [TENANT]) as cluster:
        await cluster.put(
            card_node("gpu-1", [a100("gpu-1", i, healthy=i < 2) for i in range(3)], pool="a"),
            card_node("gpu-2", [a100("gpu-2", 0)], pool="b"),
            holding_pod(
                "ml", "train", part("gpu-1", 0, 24, 30), part("gpu-1", 1, 8, 10),
                labels={"app": "train"},
            ),
            holding_pod("shop", "web", part("gpu-2", 0, 80, 100, exclusive=True)),
            waiting_pod("ml", "waits", 90000, "0/2 nodes are available."),
        )  # fmt: skip
        yield cluster


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def test_nodes(tmp_path: Path, tessera: Tessera) -> None:
    async with a_cluster(tmp_path, tessera) as cluster:
        ran = await cluster.run("nodes")
        chosen = await cluster.run("nodes", "-l", "pool=b", "--no-headers")
        wide = await cluster.run("nodes", "gpu-1", "-o", "wide")
        names = await cluster.run("nodes", "-o", "name")
        document = await cluster.run("nodes", "-o", "json")
    assert ran.out == (
        "NAME    STATUS   CARDS   MEMORY         CORES      PODS\n"
        "gpu-1   Ready    2/3     32.0/160.0Gi   40/200%    1\n"
        "gpu-2   Ready    1/1     80.0/80.0Gi    100/100%   1\n"
    )
    assert cells(chosen.out) == [["gpu-2", "Ready", "1/1", "80.0/80.0Gi", "100/100%", "1"]]
    assert cells(wide.out)[1][6:] == ["A100-80", "-", "-", "-"]
    assert names.out == "node/gpu-1\nnode/gpu-2\n"
    assert [node["name"] for node in json.loads(document.out)["nodes"]] == ["gpu-1", "gpu-2"]


async def test_cards(tmp_path: Path, tessera: Tessera) -> None:
    async with a_cluster(tmp_path, tessera) as cluster:
        ran = await cluster.run("cards")
        wide = await cluster.run("cards", "gpu-2", "-o", "wide")
        names = await cluster.run("cards", "-l", "pool=a", "-o", "name")
        document = await cluster.run("cards", "-o", "yaml", "gpu-2")
    assert ran.out == (
        "NODE    CARD   MODEL     STATUS      MEMORY        CORES      PODS\n"
        "gpu-1   0      A100-80   Ready       24.0/80.0Gi   30/100%    1\n"
        "gpu-1   1      A100-80   Ready       8.0/80.0Gi    10/100%    1\n"
        "gpu-1   2      A100-80   Unhealthy   0.0/80.0Gi    0/100%     0\n"
        "gpu-2   0      A100-80   Ready       80.0/80.0Gi   100/100%   1\n"
    )
    assert cells(wide.out)[1][-2:] == ["GPU-gpu-2-0", "shop/web"]
    assert names.out == "gpu-1/0\ngpu-1/1\ngpu-1/2\n"
    assert "memory_granted_bytes: 85899345920" in document.out


async def test_pods(tmp_path: Path, tessera: Tessera) -> None:
    async with a_cluster(tmp_path, tessera) as cluster:
        ran = await cluster.run("pods", "-A")
        one = await cluster.run("pods", "-n", "ml", "-o", "wide")
        chosen = await cluster.run("pods", "-n", "ml", "-l", "app=train", "-o", "name")
        document = await cluster.run("pods", "-A", "-o", "json")
    heads, train, waits, web = cells(ran.out)
    assert heads == [
        "NAMESPACE",
        "NAME",
        "STATUS",
        "NODE",
        "CARDS",
        "MEMORY",
        "CORES",
        "DIALECT",
        "AGE",
    ]
    assert train[:8] == ["ml", "train", "Running", "gpu-1", "0,1", "32.0Gi", "40%", "hami"]
    assert waits[:8] == ["ml", "waits", "Waiting", "-", "-", "1x87.9GiB", "-", "hami"]
    assert web[:8] == ["shop", "web", "Running", "gpu-2", "0", "80.0Gi", "whole", "hami"]
    assert [row[0] for row in cells(one.out)] == ["NAME", "train", "waits"]
    assert one.out.splitlines()[2].endswith("0/2 nodes are available.")
    assert chosen.out == "pod/train\n"
    found = json.loads(document.out)
    assert [pod["name"] for pod in found["pods"]] == ["train", "web"]
    assert [card["memory_granted_bytes"] >> 20 for card in found["pods"][0]["cards"]] == [
        24 * GIB, 8 * GIB,
    ]  # fmt: skip
    assert [pod["pod"] for pod in found["waiting"]] == ["waits"]


async def test_a_tenant_lists_the_pods_of_its_namespace_alone(
    tmp_path: Path, tessera: Tessera
) -> None:
    async with a_cluster(tmp_path, tessera) as cluster:
        own = await cluster.run("pods", "-n", "ml", user="tenant")
        everything = await cluster.run("pods", "-A", user="tenant")
        cards = await cluster.run("cards", user="tenant")
    assert [row[0] for row in cells(own.out)] == ["NAME", "train", "waits"]
    assert (everything.status, everything.out) == (1, "")
    assert "you may not list pods of all namespaces" in everything.err
    assert (cards.status, cards.out) == (1, "")
    assert "you may not list nodes" in cards.err


async def test_what_is_not_there_is_said_so(tmp_path: Path, tessera: Tessera) -> None:
    async with a_cluster(tmp_path, tessera) as cluster:
        empty = await cluster.run("pods", "-n", "nobody")
        none = await cluster.run("nodes", "gpu-9")
        document = await cluster.run("pods", "-n", "nobody", "-o", "json")
    assert (empty.status, empty.out, empty.err) == (0, "", "No resources found\n")
    assert (none.status, none.out) == (1, "")
    assert 'nodes "gpu-9" not found' in none.err
    assert json.loads(document.out) == {"pods": [], "waiting": []}


@pytest.mark.parametrize("command", ["nodes", "cards", "pods"])
@pytest.mark.parametrize("argument", ["--output=csv", "--what", "--wait=soon"])
def test_a_wrong_call_is_status_2(tessera: Tessera, command: str, argument: str) -> None:
    ran = tessera(command, argument)
    assert (ran.status, ran.out) == (2, "")
    assert "error: " in ran.err
    assert argument.partition("=")[0] in ran.err


@pytest.mark.parametrize("command", ["nodes", "cards", "pods"])
def test_a_kubeconfig_that_is_not_there_is_named(tessera: Tessera, command: str) -> None:
    ran = tessera(command, "--kubeconfig", "/nowhere/config")
    assert (ran.status, ran.out) == (1, "")
    assert "/nowhere/config" in ran.err
