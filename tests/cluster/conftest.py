"""Each test opens its own services on the control plane that all of them share.

It needs the programs of `deploy/kube-bin`, which are built before the first test if they are not
there yet. Where they cannot be had, the tests are skipped, on CI they fail.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.cluster.cluster import OpenCluster, RealCluster, real_cluster
from tests.cluster.plane import Plane, all_programs
from tests.contract.kubebin import KubeBinMissing

HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Build what is missing before the first test, whose time is limited."""
    marked = [item for item in items if HERE in item.path.parents]
    for item in marked:
        item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.timeout(180))
    if marked:
        capture = config.pluginmanager.getplugin("capturemanager")
        with suppress(KubeBinMissing), capture.global_and_fixture_disabled():
            all_programs(received=True)


@pytest.fixture
def open_cluster(plane: Plane, tmp_path: Path) -> OpenCluster:
    """`async with open_cluster() as cluster`: the services, on the shared control plane."""

    @asynccontextmanager
    async def opened(
        replicas: Sequence[str] = ("tessera-a",),
        *,
        gated: bool = False,
        more: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[RealCluster]:
        async with real_cluster(plane, tmp_path, replicas, gated=gated, more=more) as cluster:
            yield cluster

    return opened
