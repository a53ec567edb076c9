"""Nodes of real programs: root, runc, and the programs of `deploy/kube-bin` are needed.

What is missing is the reason of a skip; where CI=true it is a failure.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agent.machine import built
from tests.cluster.cluster import real_cluster
from tests.cluster.plane import CLUSTER_PROGRAMS, Plane
from tests.contract.kubebin import KubeBinMissing, kube_bin
from tests.contract.session_fixtures import or_skip
from tests.node.agents import Agent, an_agent
from tests.node.island import open_island
from tests.node.kubelet import Node, real_node
from tests.node.runtime import OLDER, Containerd, make_images, real_containerd

NEEDED = ("runc", "unshare", "nsenter", "gcc", "ldd")
PROGRAMS = (
    "containerd", "containerd-shim-runc-v2", "ctr", "kubelet",
    f"{OLDER}/containerd", f"{OLDER}/containerd-shim-runc-v2",
)  # fmt: skip
HERE = Path(__file__).parent

OpenRuntime = Callable[..., AbstractAsyncContextManager[Containerd]]
OpenCluster = Callable[..., AbstractAsyncContextManager[Node]]
OpenNode = Callable[..., AbstractAsyncContextManager[tuple[Containerd, Agent]]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "node: needs root, a container runtime and a kubelet")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Build what is missing before the first test, whose time is limited."""
    own = [item for item in items if HERE in item.path.parents]
    for item in own:
        for mark in (pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(600)):
            item.add_marker(mark)
    if own and not config.option.collectonly:
        capture = config.pluginmanager.getplugin("capturemanager")
        with suppress(KubeBinMissing), capture.global_and_fixture_disabled():
            node_programs(on_screen=True)
            built("libtessera.so")


def _missing() -> str:
    if os.geteuid():
        return "tests/node: only root can run a container runtime"
    absent = [name for name in NEEDED if shutil.which(name, path=f"{os.defpath}:/usr/sbin") is None]
    return f"tests/node: install {', '.join(absent)}" if absent else ""


def node_programs(*, on_screen: bool = False) -> Path:
    """The folder of every program that a node and its cluster need; see `kube_bin`. Raises
    KubeBinMissing also where the machine lacks something else."""
    if problem := _missing():
        raise KubeBinMissing(problem)
    return kube_bin(*CLUSTER_PROGRAMS, *PROGRAMS, received=on_screen)


@pytest.fixture(scope="session")
def kube_programs() -> Path:
    """The folder of containerd, kubelet and the control plane."""
    with or_skip():
        return node_programs()


@pytest.fixture(scope="session")
def images(kube_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of the images that pods are made of."""
    del kube_programs  # nothing is made where there is nothing to run it with
    return make_images(tmp_path_factory.mktemp("images"))


@pytest.fixture
def node_folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="node-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def open_runtime(kube_programs: Path, images: Path, node_folder: Path) -> OpenRuntime:
    """`async with open_runtime() as runtime`: containerd, and no agent."""

    @asynccontextmanager
    async def opened(**more: Any) -> AsyncGenerator[Containerd]:
        async with (
            open_island(node_folder) as island,
            real_containerd(island, kube_programs, images, **more) as runtime,
        ):
            yield runtime

    return opened


@pytest.fixture
def open_node(open_runtime: OpenRuntime) -> OpenNode:
    """`async with open_node() as (runtime, agent)`: containerd, and an agent that it asks."""

    @asynccontextmanager
    async def opened(**more: Any) -> AsyncGenerator[tuple[Containerd, Agent]]:
        async with open_runtime(**more) as runtime, an_agent(runtime) as agent:
            yield runtime, agent

    return opened


@pytest.fixture
def open_cluster_node(plane: Plane, open_runtime: OpenRuntime, tmp_path: Path) -> OpenCluster:
    """`async with open_cluster_node() as node`: a cluster whose one node is real."""

    @asynccontextmanager
    async def opened(
        *,
        settings: Mapping[str, str] | None = None,
        agent_env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> AsyncGenerator[Node]:
        async with (
            real_cluster(plane, tmp_path, more=settings) as cluster,
            open_runtime(**more) as runtime,
            real_node(cluster, runtime, agent_env) as node,
        ):
            yield node

    return opened
