"""Services that start gangs whole, on a control plane that has PodGroups."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.gangs.kinds import install_kinds
from tests.cluster.plane import Plane
from tests.cluster.tenants import REGISTERED

WHOLE: Final = {
    **REGISTERED, "TESSERA_GANGS_SCHEDULING": "on", "TESSERA_GANGS_BARRIER_S": "5",
}  # fmt: skip
"""The barrier is shorter than the 10 s after which kube-scheduler gives a call up here."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make gangs` sets these."""
    group = parser.getgroup("gangs")
    group.addoption("--gang-rounds", type=int, help="how often two gangs wait for the same cards")
    group.addoption("--gang-size", type=int, help="how many members the largest gang has")


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How often two gangs wait for the same cards; few where nobody says more."""
    return request.config.getoption("gang_rounds", None) or 3


@pytest.fixture
def largest(request: pytest.FixtureRequest) -> int:
    """Members of the largest gang; few where nobody says more."""
    return request.config.getoption("gang_size", None) or 200


@pytest.fixture
def open_cluster(plane: Plane, open_cluster: OpenCluster) -> OpenCluster:
    """`async with open_cluster() as cluster`: the services, with gangs switched on."""

    @asynccontextmanager
    async def opened(replicas: Sequence[str] = ("tessera-a",)) -> AsyncGenerator[RealCluster]:
        async with plane.client() as admin:
            await install_kinds(admin)
        async with open_cluster(replicas, more=WHOLE) as cluster:
            yield cluster

    return opened
