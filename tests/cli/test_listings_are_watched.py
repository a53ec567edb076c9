"""`tessera nodes -w`, `cards -w` and `pods -w`: first all rows, then those that change."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tessera_cli.listings.columns import GrowingTable
from tessera_cli.listings.listed_rows import ListedRow
from tessera_cli.listings.tables import PodRow
from tessera_cli.listings.watch import RowChanges
from tessera_cli.screen import Screen
from tessera_embedded.apiserver import Account, Rule
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Verb
from tests.cli.card_cluster import a100, card_node, holding_pod, part, waiting_pod
from tests.cli.conftest import Tessera
from tests.cli.real_cluster import CommandCluster, command_cluster

AT_ONCE = {"gracePeriodSeconds": "0"}
HEADS = ("NAME", "STATUS", "AGE")
READER = Account("reader", (Rule(("get", "list", "watch"), ("pods",), namespaces=("ml",)),))


def row(name: str, status: str, age: str = "1s", namespace: str = "ml") -> ListedRow:
    of = PodRow(namespace=namespace, name=name)
    return ListedRow(
        of=of, namespace=namespace, chosen_by=name, name=f"pod/{name}", cells=(name, status, age)
    )


def cells(rows: list[ListedRow]) -> list[tuple[str, ...]]:
    return [each.cells for each in rows]


def test_only_a_row_that_changed_is_printed_again() -> None:
    changes = RowChanges(HEADS)
    assert len(changes.take([row("a", "Waiting"), row("b", "Running")])) == 2
    assert changes.take([row("a", "Waiting", "2s"), row("b", "Running", "2s")]) == []
    changed = changes.take([row("a", "Running", "3s"), row("b", "Running", "3s")])
    assert cells(changed) == [("a", "Running", "3s")]
    assert changes.take([row("a", "Running", "4s"), row("b", "Running", "4s")]) == []


def test_a_row_that_is_gone_is_printed_once() -> None:
    changes = RowChanges(HEADS)
    changes.take([row("a", "Running"), row("a", "Running", namespace="shop")])
    assert cells(changes.take([row("a", "Running")])) == [("a", "Deleted", "1s")]
    assert changes.take([row("a", "Running")]) == []
    assert len(changes.take([row("a", "Running"), row("a", "Running", namespace="shop")])) == 1


def test_columns_never_become_narrower() -> None:
    text = io.StringIO()
    screen, table = Screen(file=text, width=80), GrowingTable(("NAME", "STATUS"))
    table.print_rows(screen, [("a-long-name", "Running")])
    table.print_rows(screen, [("b", "Deleted")])
    assert text.getvalue() == (
        "NAME          STATUS\na-long-name   Running\nb             Deleted\n"
    )


class Watch:
    """A command that goes on."""

    def __init__(self, out: asyncio.StreamReader) -> None:
        self._out = out

    async def line(self) -> str:
        return (await self._out.readline()).decode().rstrip("\n")

    async def until(self, text: str) -> str:
        """The first line that has the text."""
        while True:
            line = await self.line()
            if text in line:
                return line
            assert line, f"it ended before {text!r}"


@asynccontextmanager
async def watching(
    cluster: CommandCluster, folder: Path, *arguments: str, token: str = ""
) -> AsyncGenerator[Watch]:
    file = cluster.server.kubeconfig
    if token:
        text = await asyncio.to_thread(file.read_text)
        file = file.with_name("of-another-user")
        await asyncio.to_thread(file.write_text, text.replace(cluster.server.token, token))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tessera_cli", *arguments, f"--kubeconfig={file}",
        stdout=asyncio.subprocess.PIPE,
        env={"HOME": str(folder), "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield Watch(process.stdout)
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def a_cluster(folder: Path, tessera: Tessera) -> AsyncGenerator[CommandCluster]:
    async with command_cluster(folder, tessera, [READER]) as cluster:
        await cluster.put(
            card_node("gpu-1", [a100("gpu-1", 0)]), card_node("gpu-2", [a100("gpu-2", 0)]),
            holding_pod("ml", "train", part("gpu-1", 0, 24, 30)),
            waiting_pod("ml", "waits", 90000),
        )  # fmt: skip
        yield cluster


@pytest.mark.timeout(60)
async def test_pods_come_and_go(tmp_path: Path, tessera: Tessera) -> None:
    async with (
        a_cluster(tmp_path, tessera) as cluster,
        watching(cluster, tmp_path, "pods", "-A", "-w") as watch,
    ):
        heads = (await watch.line()).split()
        first = [(await watch.line()).split()[:3] for _ in range(2)]
        await cluster.put(holding_pod("shop", "web", part("gpu-2", 0, 8, 10)))
        came = (await watch.until("web")).split()
        await cluster.kube.call(Verb.DELETE, paths.pod("ml", "train"))
        ending = (await watch.until("train")).split()
        await cluster.kube.call(Verb.DELETE, paths.pod("ml", "train"), query=AT_ONCE)
        gone = (await watch.until("train")).split()
    assert heads[:3] == ["NAMESPACE", "NAME", "STATUS"]
    assert first == [["ml", "train", "Running"], ["ml", "waits", "Waiting"]]
    assert came[:4] == ["shop", "web", "Running", "gpu-2"]
    assert ending[:3] == ["ml", "train", "Terminating"]
    assert gone[:3] == ["ml", "train", "Deleted"]


@pytest.mark.timeout(60)
async def test_cards_as_documents_a_line_each(tmp_path: Path, tessera: Tessera) -> None:
    async with (
        a_cluster(tmp_path, tessera) as cluster,
        watching(cluster, tmp_path, "cards", "-w", "-o", "json") as watch,
    ):
        first = [json.loads(await watch.line()) for _ in range(2)]
        await cluster.put(holding_pod("shop", "web", part("gpu-2", 0, 8, 10)))
        changed = json.loads(await watch.until("web"))
    assert [card["node"] for card in first] == ["gpu-1", "gpu-2"]
    assert changed["memory_granted_bytes"] == 8 << 30
    assert [share["pod"] for share in changed["shares"]] == ["web"]


@pytest.mark.timeout(60)
async def test_a_tenant_watches_its_namespace_alone(tmp_path: Path, tessera: Tessera) -> None:
    async with (
        a_cluster(tmp_path, tessera) as cluster,
        watching(
            cluster, tmp_path, "pods", "-n", "ml", "-w", "-o", "name",
            token=cluster.server.tokens["reader"],
        ) as watch,
    ):  # fmt: skip
        first = [await watch.line() for _ in range(2)]
        await cluster.put(
            holding_pod("shop", "web", part("gpu-2", 0, 8)),
            holding_pod("ml", "next", part("gpu-2", 0, 8)),
        )
        came = await watch.line()
    assert first == ["pod/train", "pod/waits"]
    assert came == "pod/next"


@pytest.mark.timeout(60)
async def test_a_name_without_a_row_is_an_error(tmp_path: Path, tessera: Tessera) -> None:
    async with a_cluster(tmp_path, tessera) as cluster:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tessera_cli", "nodes", "gpu-9", "-w",
            f"--kubeconfig={cluster.server.kubeconfig}",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={"HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        out, err = await process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert b'nodes "gpu-9" not found' in err
