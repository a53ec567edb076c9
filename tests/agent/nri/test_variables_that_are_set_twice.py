"""Where the image and the pod both set a variable, the runtime lets nobody replace the pod's value:
what must not stand is refused."""

from pathlib import Path

import pytest

from tessera_kubelet.errors import ContainerRefused
from tests.agent.nri.runtime_node import VISIBLE, a_node, a_pod, a_share, granted, metric

TWICE = frozenset({VISIBLE})
REFUSED = "VariableSetTwice.*NVIDIA_VISIBLE_DEVICES is set by its image and by the pod.*'all'"


async def test_a_container_that_would_see_cards_is_refused(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        for pod in (a_pod("plain"), granted("job", a_share())):
            with pytest.raises(ContainerRefused, match=REFUSED):
                await node.create(pod, env={VISIBLE: "all"}, set_twice=TWICE)
        assert metric(agent, 'tessera_agent_alarms_total{what="VariableSetTwice"}') == 2
        assert len(agent.holdings) == 0


async def test_a_granted_one_that_would_not_see_its_own_is_refused(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent():
        with pytest.raises(ContainerRefused, match="'none'"):
            await node.create(granted("job", a_share()), env={VISIBLE: "none"}, set_twice=TWICE)


@pytest.mark.parametrize("value", ["none", "void", ""])
async def test_one_that_shows_itself_no_card_is_created(tmp_path: Path, value: str) -> None:
    async with a_node(tmp_path) as node, node.agent():
        await node.create(a_pod("plain"), env={VISIBLE: value}, set_twice=TWICE)
