"""One control plane for all tests that want a real one: it is started once, and the manifests are
applied once. Where its programs cannot be had these tests are skipped, and fail with CI=true."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.real import programs
from tests.contract.session_fixtures import open_for_session, or_skip
from tests.deploy.installed import Installed, installed_on
from tests.deploy.manifests import kubectl


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The manifests on a real API server."""
    kubectl()
    with or_skip():
        programs()
    with open_for_session(installed_on(tmp_path_factory.mktemp("installed"))) as made:
        yield made
