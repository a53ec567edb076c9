"""An operator may leave nodes to others: those without certain labels get no pods."""

import pytest
from msgspec.structs import replace

from tessera_runtime.errors import BadSettings
from tessera_runtime.settings import load
from tessera_scheduler.cache.settings import NodeSelectionSettings
from tessera_scheduler.settings import SchedulerSettings
from tests.scheduler.fake_cluster import FakeCluster, leading, settings, until

SELECTED = replace(
    settings(), nodes=NodeSelectionSettings(selector="pool in (shared,batch),!draining")
)


def label(cluster: FakeCluster, node: str, **labels: str | None) -> None:
    cluster.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})


@pytest.mark.looptime
async def test_only_nodes_with_the_labels_are_read() -> None:
    cluster = FakeCluster(nodes=3)
    label(cluster, "n1", pool="shared")
    label(cluster, "n2", pool="shared", draining="yes")
    async with leading(cluster, config=SELECTED) as scheduler:
        rows = scheduler.ledger.fleet.rows
        assert set(rows) == {"n1"}
        label(cluster, "n0", pool="batch")
        await until(lambda: set(rows) == {"n0", "n1"})
        label(cluster, "n1", draining="yes")
        await until(lambda: set(rows) == {"n0"})


@pytest.mark.parametrize("text", ["a=b", "a", "!a", "a!=b,c==d", "x/y in (a, b),z notin (c)", ""])
def test_selectors_are_those_of_kubectl(text: str) -> None:
    loaded = load(SchedulerSettings, {"TESSERA_NODES_SELECTOR": text})
    assert loaded.nodes.selector == text


@pytest.mark.parametrize("text", ["a=(b)", "a in b", "a,,b", "{}", "a = b c"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(BadSettings, match=r"nodes\.selector: .*such as pool=shared"):
        load(SchedulerSettings, {"TESSERA_NODES_SELECTOR": text})
