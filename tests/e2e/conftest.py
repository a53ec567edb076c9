"""A whole installation on real components: `make e2e` runs this, in a network namespace of its own.

Root, runc, iptables, iproute2, Debian's network plugins and the programs of `deploy/kube-bin` are
needed. What is missing is told as the reason of a skip; where CI=true it is a failure.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from tests.contract.kept import or_skip
from tests.contract.real import BUILDER, KubeBinMissing
from tests.e2e import network
from tests.e2e.cluster import Cluster, open_cluster
from tests.node.conftest import node_programs

MORE = ("kubectl", "kube-proxy")
HERE = Path(__file__).parent

OpenCluster = Callable[[], AbstractAsyncContextManager[Cluster]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def kube_programs() -> Path:
    """The folder of every program."""
    with or_skip():
        return _programs()


def _programs() -> Path:
    absent = [package for name, package in network.NEEDED.items() if shutil.which(name) is None]
    if not (network.PLUGINS / "bridge").exists():
        absent.append("containernetworking-plugins")
    if absent:
        raise KubeBinMissing(f"tests/e2e: install {', '.join(absent)}")
    if not network.is_private():
        raise KubeBinMissing("tests/e2e: run `make e2e`, which makes a network of its own first")
    folder = node_programs()
    subprocess.run(["bash", BUILDER, *MORE], check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture
def open_installed(kube_programs: Path) -> Iterator[OpenCluster]:
    """`async with open_installed() as cluster`: one node, Tessera applied, all ready."""
    folder = Path(tempfile.mkdtemp(prefix="e2e-"))

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Cluster]:
        await asyncio.to_thread(network.set_up)
        async with open_cluster(folder, kube_programs) as cluster:
            yield cluster

    yield opened
    shutil.rmtree(folder, ignore_errors=True)
