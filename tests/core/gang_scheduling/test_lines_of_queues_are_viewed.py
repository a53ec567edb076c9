"""Who waits in which queue, in which place: what `SchedulingQueues.view` shows."""

from __future__ import annotations

from tessera_core.gang_scheduling.view import QueueKey, QueueView
from tessera_core.gang_scheduling.waiting_lines import waiting_lines
from tessera_core.gangs.gang import Gang
from tessera_core.gangs.queues import QueueDimension
from tessera_testing.builders import a_pod
from tests.core.gang_scheduling.gang_cluster import GangCluster, started
from tests.core.gang_scheduling.gang_pods import members
from tests.core.gangs.setting import a_group, a_queue

CARDS = QueueDimension("nvidia", "cards")
VOLCANO = "scheduling.volcano.sh"


def group(name: str, least: int, queue: str) -> Gang:
    return a_group(name, minMember=least, queue=queue)


def viewed(cluster: GangCluster) -> dict[str, QueueView]:
    coordinator = cluster.coordinator
    lines = waiting_lines(
        coordinator.bundles(), cluster.queues, coordinator.reasons(), {"u": "it is held"},
        lambda pod: 7.0, cluster.now,
    )  # fmt: skip
    return {view.key.name: view for view in cluster.queues.view(lines, cluster.now)}


def test_gangs_stand_in_the_order_of_their_turns_then_those_that_gather_then_pods() -> None:
    groups = [group("ready", 2, "q"), group("b", 2, "q"), group("c", 2, "q"), group("r", 2, "r")]
    spec = {"capability": {"nvidia.com/gpu": 2}, "guarantee": {"resource": {"nvidia.com/gpu": 1}}}
    queues = [a_queue("q", spec=spec), a_queue("r", spec={})]
    cluster = started(GangCluster({"n0": 8}, groups, queues=queues), members("ready", 1, 2))
    cluster.create(*members("b", 1, 2), *members("c", 1), *members("r", 1, 2))
    cluster.watch()
    cluster.step()
    note = {"scheduling.volcano.sh/queue-name": "q"}
    alone = a_pod(name="p", namespace="default", annotations=note)
    cluster.queues.put_pod(alone)
    view = viewed(cluster)["q"]
    assert [(each.position, each.id, each.pods) for each in view.waiting] == [
        (1, "volcano/default/b", 2), (2, "volcano/default/c", 1), (3, "pod/default/p", 1),
    ]  # fmt: skip
    assert "allows 2 cards" in view.waiting[0].reason
    assert "1 of 2 members" in view.waiting[1].reason
    assert view.waiting[2].waits_since == 7
    assert (view.used[CARDS], view.guarantee[CARDS], view.cap[CARDS]) == (2, 1, 2)
    assert viewed(cluster)["r"].waiting == ()


def test_a_gang_is_viewed_with_its_queue() -> None:
    gang = group("g", 2, "q")
    cluster = GangCluster({"n0": 1}, [gang], queues=[a_queue("q", spec={})])
    cluster.create(*members("g", 1, 2))
    cluster.run()
    assert cluster.coordinator.view()[gang.id].queue == QueueKey(VOLCANO, "q")
    plain = GangCluster({"n0": 1}, [gang])
    plain.create(*members("g", 1, 2))
    plain.run()
    assert plain.coordinator.view()[gang.id].queue is None
