"""A whole installation on real components: `make e2e` runs this, in a network namespace of its own.

Root, runc, iptables, iproute2, Debian's network plugins and the programs of `deploy/kube-bin` are
needed. Nobody runs these tests but by name (`make e2e`), so what is missing fails them, and the
message says what to install.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random, randrange
from typing import Any

import pytest

from tests.contract.kubebin import KubeBinMissing, kube_bin
from tests.e2e import network
from tests.e2e.checker import Checker
from tests.e2e.cluster import Cluster, open_bare_cluster, open_cluster
from tests.e2e.crowd import Crowd
from tests.e2e.stage import Stage, report
from tests.node.conftest import node_programs

MORE = ("kubectl", "kube-proxy")
HERE = Path(__file__).parent

OpenCluster = Callable[..., AbstractAsyncContextManager[Cluster]]
SetStage = Callable[..., Awaitable[Stage]]
CROWD = 20
"""Of which the cards have room for three quarters."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make faults` sets these."""
    group = parser.getgroup("faults")
    group.addoption("--rounds", type=int, default=10, help="how often processes are killed")
    group.addoption("--only", default="", help="the one fault that happens, by its function's name")
    group.addoption("--seed", type=int, default=0, help="of all choices; 0 = another each time")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "faults: everything may happen, for long; make faults")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            limit_s = 3600 if item.get_closest_marker("faults") else 1800
            item.add_marker(pytest.mark.timeout(limit_s))


@pytest.fixture(scope="session")
def kube_programs() -> Path:
    """The folder of every program."""
    try:
        return _programs()
    except KubeBinMissing as e:
        pytest.fail(str(e), pytrace=False)


def _programs() -> Path:
    absent = [package for name, package in network.NEEDED.items() if shutil.which(name) is None]
    if not (network.PLUGINS / "bridge").exists():
        absent.append("containernetworking-plugins")
    if absent:
        raise KubeBinMissing(f"tests/e2e: install {', '.join(absent)}")
    if not network.is_private():
        raise KubeBinMissing("tests/e2e: run `make e2e`, which makes a network of its own first")
    node_programs()
    return kube_bin(*MORE)


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """Of one cluster. Its path is short: sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="e2e-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def open_installed(kube_programs: Path, own_folder: Path) -> OpenCluster:
    """`async with open_installed() as cluster`: one node, Tessera applied, all ready. It takes what
    `open_cluster` takes."""
    return partial(_open, open_cluster, own_folder, kube_programs)


@pytest.fixture
def open_bare(kube_programs: Path, own_folder: Path) -> OpenCluster:
    """The same without Tessera, as `open_bare_cluster` has it."""
    return partial(_open, open_bare_cluster, own_folder, kube_programs)


@asynccontextmanager
async def _open(
    opener: OpenCluster, folder: Path, programs: Path, **options: Any
) -> AsyncGenerator[Cluster]:
    await asyncio.to_thread(network.set_up)
    async with opener(folder, programs, **options) as cluster:
        yield cluster


@pytest.fixture
def set_stage(request: pytest.FixtureRequest) -> SetStage:
    """`await set_stage(cluster, long=...)`: pods that run and wait, and who looks after them."""

    async def made(cluster: Cluster, *, long: bool) -> Stage:
        seed = request.config.getoption("--seed", 0) or randrange(1, 1 << 32)  # noqa: S311  (no secret)
        report(f"seed {seed}")
        random = Random(seed)  # noqa: S311  (no secret)
        crowd, checker = Crowd(cluster, random), Checker(cluster)
        await crowd.gather(CROWD)
        rounds = request.config.getoption("--rounds", 10)
        return Stage(
            cluster=cluster, crowd=crowd, checker=checker, random=random, rounds=rounds, long=long
        )

    return made
