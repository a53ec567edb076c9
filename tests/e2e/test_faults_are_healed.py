"""Everything that may happen to an installation happens to one, each for as long as it takes to be
sure: `make faults`. `make e2e` does the same in short. One alone:
`make faults ARGS="-k whatever --only the_bus_is_away"`."""

import pytest

from tests.e2e import pods
from tests.e2e.conftest import OpenCluster, SetStage
from tests.e2e.faults import FAULTS
from tests.e2e.stage import timed
from tests.node.dialects import DIALECTS, ISOLATED


@pytest.mark.faults
async def test_whatever_happens_nothing_is_granted_twice_lost_or_disturbed(
    open_installed: OpenCluster, set_stage: SetStage, request: pytest.FixtureRequest
) -> None:
    only = request.config.getoption("--only", "")
    faults = [fault for fault in FAULTS if only in ("", fault.__name__)]
    assert faults, f"--only {only}: write one of {[fault.__name__ for fault in FAULTS]}"
    async with open_installed() as cluster:
        for name, (limits, _) in DIALECTS.items():
            labels = ISOLATED if name == "koordinator" else {}
            await pods.start(cluster, name, limits, labels=labels)
        stage = await set_stage(cluster, long=True)
        for fault in faults:
            await timed(fault, stage)
