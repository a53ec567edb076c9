"""Every test runs against the real control plane and against the embedded one.

The real one is started once in a session and shared: `cluster_on` keeps its tests apart. It needs
the programs of `deploy/kube-bin`, which are built before the first test if they are not there yet.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.contract.cluster import Cluster, OpenCluster, Server, cluster_on
from tests.contract.embedded import embedded_control_plane
from tests.contract.extender import Extender, OpenScheduling, configuration, open_extender
from tests.contract.kubebin import KubeBinMissing
from tests.contract.real import programs, real_control_plane
from tests.contract.receiver import OpenAdmission, Receiver, open_receiver
from tests.contract.session_fixtures import open_for_session, or_skip

KINDS = ("real", "embedded")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the test both servers, or those that its module names in KINDS."""
    if "kind" in metafunc.fixturenames:
        kinds = getattr(metafunc.module, "KINDS", KINDS)
        metafunc.parametrize("kind", kinds, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Build what is missing before the first test, whose time is limited."""
    if not any(map(_is_real, items)):
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    with suppress(KubeBinMissing), capture.global_and_fixture_disabled():
        programs(received=True)


def _is_real(item: pytest.Item) -> bool:
    params: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("kind") == "real"


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The shared real control plane."""
    with or_skip():
        programs()
    with open_for_session(real_control_plane(tmp_path_factory.mktemp("real"))) as server:
        yield server


@pytest.fixture
def open_cluster(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> OpenCluster:
    """`async with open_cluster() as cluster`: a namespace on the server under test."""
    real: Server | None = request.getfixturevalue("real_server") if kind == "real" else None

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Cluster]:
        if real is not None:
            async with cluster_on(real) as cluster:
                yield cluster
            return
        async with embedded_control_plane(tmp_path) as plane, cluster_on(plane) as cluster:
            yield cluster

    return opened


@pytest.fixture
def scheduling(open_cluster: OpenCluster) -> OpenScheduling:
    """A cluster with an extender, and a scheduler that is configured for it and starts with the
    first pod that is asked for: of nodes and pods that came later it could see the pods first."""

    @asynccontextmanager
    async def opened(*verbs: str, patience: str = "5s") -> AsyncGenerator[tuple[Cluster, Extender]]:
        async with (
            open_cluster() as cluster,
            open_extender(cluster.admin) as extender,
            AsyncExitStack() as stack,
        ):
            config = configuration(extender.url, *verbs, patience=patience)
            scheduler = cluster.server.scheduler(config)
            cluster.before_asking = partial(stack.enter_async_context, scheduler)
            yield cluster, extender

    return opened


@pytest.fixture
def admission(open_cluster: OpenCluster, tmp_path: Path) -> OpenAdmission:
    """A cluster, and a receiver of webhooks that nobody calls yet."""

    @asynccontextmanager
    async def opened() -> AsyncGenerator[tuple[Cluster, Receiver]]:
        async with open_receiver(tmp_path) as receiver, open_cluster() as cluster:
            yield cluster, receiver

    return opened
