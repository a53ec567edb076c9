"""One control plane for all tests that want a real one: it is started once, and the manifests are
applied once. Where its programs cannot be had these tests are skipped, and fail with CI=true."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.contract.real import KubeBinMissing, programs
from tests.deploy.installed import Installed, installed_on
from tests.deploy.manifests import CI, kubectl


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The manifests on a real API server."""
    kubectl()
    try:
        programs()
    except KubeBinMissing as e:
        if CI:
            raise
        pytest.skip(str(e))
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        opening = installed_on(tmp_path_factory.mktemp("installed"))
        made = runner.run(opening.__aenter__())
        try:
            yield made
        finally:
            runner.run(opening.__aexit__(None, None, None))
