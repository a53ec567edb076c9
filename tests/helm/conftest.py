"""A control plane for the tests that install the chart: it is started once, and each test leaves it
without a release."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.real import programs, real_control_plane
from tests.contract.session_fixtures import open_for_session, or_skip
from tests.helm.chart import program
from tests.helm.release import Release


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """helm, and an API server of its own."""
    helm = program()
    with or_skip():
        programs()
    folder = tmp_path_factory.mktemp("helm")
    with open_for_session(real_control_plane(folder)) as plane:
        yield Release(plane, helm, folder)
