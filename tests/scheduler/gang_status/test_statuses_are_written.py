"""Statuses of PodGroups and queues, written by the scheduler that leads, on the cluster in
memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tessera_embedded.apiserver.faults import Answer, Cut
from tessera_runtime.errors import BadSettings
from tessera_runtime.settings import load
from tessera_scheduler.gangs.settings import GangWrite
from tessera_scheduler.settings import SchedulerSettings
from tests.scheduler.fake_cluster import cards_on, leading, until
from tests.scheduler.gangs.gang_cluster import (
    CRDS,
    VOLCANO,
    WHOLE,
    GangCluster,
    pod_group_definition,
    whole,
)

pytestmark = pytest.mark.looptime

KOORDINATOR = "scheduling.sigs.k8s.io/v1alpha1"
GROUPS = f"/apis/{VOLCANO}/namespaces/default/podgroups"
QUEUES = f"/apis/{VOLCANO}/queues"
TIMEOUT = "gang.scheduling.koordinator.sh/timeout"
ALL = (GangWrite.VOLCANO, GangWrite.KOORDINATOR)


class StatusCluster(GangCluster):
    """With queues, and statuses to read."""

    def __init__(self, cards: int = 4, apis: tuple[str, ...] = (VOLCANO,)) -> None:
        super().__init__(cards=cards, apis=apis)
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        names = {"plural": "queues", "singular": "queue", "kind": "Queue", "listKind": "QueueList"}
        version = {
            "name": "v1beta1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
        }  # fmt: skip
        spec = {
            "group": "scheduling.volcano.sh", "scope": "Cluster", "names": names,
            "versions": [version],
        }  # fmt: skip
        self.make(CRDS, {"metadata": {"name": "queues.scheduling.volcano.sh"}, "spec": spec})

    def queue(self, name: str, state: str = "Open", **spec: Any) -> None:
        self.make(QUEUES, {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name},
                           "spec": spec})  # fmt: skip
        self.call("PATCH", f"{QUEUES}/{name}/status", {"status": {"state": state}})

    def status(self, name: str, api: str = VOLCANO) -> dict[str, Any]:
        path = f"/apis/{api}/namespaces/default/podgroups/{name}"
        found: dict[str, Any] = self.call("GET", path).get("status", {})
        return found

    def phase(self, name: str, api: str = VOLCANO) -> str:
        return str(self.status(name, api).get("phase", ""))

    def writes(self, name: str) -> int:
        """Patches of a PodGroup so far."""
        return sum(verb == "PATCH" and path == f"{GROUPS}/{name}" for verb, path in self.kube.calls)

    def run_pod(self, name: str, phase: str = "Running") -> None:
        self.call("PATCH", f"{self.path(name)}/status", {"status": {"phase": phase}})


def writing(*kinds: GangWrite) -> SchedulerSettings:
    return whole(write=kinds or ALL)


async def test_a_group_without_pods_is_let_in_so_that_its_job_gets_pods() -> None:
    cluster = StatusCluster()
    cluster.pod_group("job", 3, minResources={"cpu": "3"})
    async with leading(cluster, config=writing()):
        await until(lambda: cluster.phase("job") == "Inqueue", 5)
        cluster.pod_group("later", 2)
        await until(lambda: cluster.phase("later") == "Inqueue", 5)


async def test_a_group_waits_while_its_queue_is_closed_or_full() -> None:
    cluster = StatusCluster()
    cluster.queue("small", capability={"cpu": "2"})
    cluster.queue("closed", state="Closed")
    cluster.pod_group("first", 2, queue="small", minResources={"cpu": "2"})
    async with leading(cluster, config=writing()):
        await until(lambda: cluster.phase("first") == "Inqueue", 5)
        cluster.pod_group("second", 2, queue="small", minResources={"cpu": "1"})
        cluster.pod_group("third", 2, queue="closed", minResources={"cpu": "1"})
        await until(lambda: cluster.phase("third") == "Pending", 5)
        await until(lambda: cluster.phase("second") == "Pending", 5)
        cluster.call("DELETE", f"{GROUPS}/first")
        await until(lambda: cluster.phase("second") == "Inqueue", 5)
        cluster.call("PATCH", f"{QUEUES}/closed/status", {"status": {"state": "Open"}})
        await until(lambda: cluster.phase("third") == "Inqueue", 5)


async def test_a_gang_runs_ends_and_its_pods_are_counted() -> None:
    cluster = StatusCluster(cards=2)
    cluster.pod_group("g", 2)
    cluster.members("g", 1, 2)
    async with leading(cluster, config=writing()) as scheduler:
        await cluster.schedule(scheduler)
        assert cluster.bound() == ["g1", "g2"]
        await until(lambda: cluster.phase("g") == "Running", 5)
        for name in ("g1", "g2"):
            cluster.run_pod(name)
        await until(lambda: cluster.status("g").get("running") == 2, 5)
        said = {each["type"]: each["reason"] for each in cluster.status("g")["conditions"]}
        assert said == {"Scheduled": "tasks in gang are ready to be scheduled"}
        cluster.run_pod("g1", "Succeeded")
        cluster.run_pod("g2", "Failed")
        await until(lambda: cluster.phase("g") == "Completed", 5)
        status = cluster.status("g")
        assert (status["running"], status["succeeded"], status["failed"]) == (0, 1, 1)


async def test_pods_that_ended_before_the_scheduler_began_count() -> None:
    cluster = StatusCluster(cards=2)
    cluster.pod_group("g", 2)
    for name in cluster.members("g", 1, 2) and ("g1", "g2"):
        cluster.run_pod(name, "Succeeded")
    async with leading(cluster, config=writing()):
        await until(lambda: cluster.phase("g") == "Completed", 5)
        assert cluster.status("g")["succeeded"] == 2
        cluster.delete("g1")
        await until(lambda: cluster.status("g")["succeeded"] == 1, 5)


async def test_a_gang_that_does_not_fit_has_a_condition_and_is_not_written_again() -> None:
    cluster = StatusCluster(cards=2)
    cluster.pod_group("g", 3)
    cluster.members("g", 1, 2, 3)
    async with leading(cluster, config=writing()) as scheduler:
        await cluster.schedule(scheduler, 5)
        await until(lambda: cluster.status("g").get("conditions"), 5)
        (condition,) = cluster.status("g")["conditions"]
        assert condition["type"] == "Unschedulable"
        assert condition["reason"] == "NotEnoughResources"
        assert condition["message"].startswith("3/3 tasks in gang unschedulable: ")
        before = cluster.writes("g")
        await cluster.schedule(scheduler, 20)
        assert cluster.writes("g") == before


async def test_a_conflict_and_an_answer_that_is_lost_are_made_good() -> None:
    cluster = StatusCluster()
    cluster.fault("PATCH", f"{GROUPS}/a", Answer(409))
    cluster.fault("PATCH", f"{GROUPS}/b", Cut(after=True))
    async with leading(cluster, config=writing()):
        cluster.pod_group("a", 2)
        cluster.pod_group("b", 2)
        await until(lambda: cluster.phase("a") == cluster.phase("b") == "Inqueue", 20)


async def test_a_replica_that_does_not_lead_writes_nothing() -> None:
    cluster = StatusCluster()
    async with leading(cluster, config=writing()) as scheduler:
        await until(lambda: scheduler.gang_statuses is not None, 1)
        cluster.fault("PUT", r".*/leases/.*", Answer(409), times=1000)
        await until(lambda: not scheduler.leadership.leads, 60)
        cluster.pod_group("g", 2)
        await until(lambda: not scheduler.leadership.leads, 60)
        assert cluster.writes("g") == 0


async def test_koordinators_group_goes_through_its_phases_and_late_members_are_marked() -> None:
    cluster = StatusCluster(cards=2, apis=(KOORDINATOR,))
    cluster.pod_group("g", 3, KOORDINATOR, scheduleTimeoutSeconds=10)
    label = {"pod-group.scheduling.sigs.k8s.io": "g"}
    async with leading(cluster, config=writing()) as scheduler:
        await until(lambda: cluster.phase("g", KOORDINATOR) == "Pending", 5)
        for name in ("p1", "p2", "p3"):
            cluster.pod(name, WHOLE, schedulerName="tessera-scheduler")
            cluster.call("PATCH", cluster.path(name), {"metadata": {"labels": label}})
        await until(lambda: cluster.phase("g", KOORDINATOR) == "PreScheduling", 5)
        assert TIMEOUT not in cluster.read("p1").metadata.annotations
        await until(lambda: TIMEOUT in cluster.read("p3").metadata.annotations, 30)
        assert cluster.read("p1").metadata.annotations[TIMEOUT] == "true"
        cluster.publish("n0", cards_on("n0", 3))
        await cluster.schedule(scheduler, 30)
        await until(lambda: cluster.phase("g", KOORDINATOR) == "Scheduled", 5)
        assert cluster.status("g", KOORDINATOR)["scheduled"] == 3


async def test_what_queues_have_allocated_is_written_for_them_and_their_parents() -> None:
    cluster = StatusCluster(cards=2)
    cluster.queue("org")
    cluster.queue("team", parent="org")
    cluster.pod_group("g", 2, queue="team")
    cluster.members("g", 1, 2)

    def allocated(name: str) -> Any:
        return cluster.call("GET", f"{QUEUES}/{name}")["status"].get("allocated")

    async with leading(cluster, config=writing()) as scheduler:
        await cluster.schedule(scheduler)
        await until(lambda: allocated("team"), 10)
        assert allocated("team")["nvidia.com/gpu"] == "2"
        assert allocated("org") == allocated("team")
        assert cluster.call("GET", f"{QUEUES}/team")["status"]["state"] == "Open"
        for name in ("g1", "g2"):
            cluster.delete(name)
        await until(lambda: not allocated("team"), 10)


async def test_what_is_not_to_be_written_is_left_alone() -> None:
    cluster = StatusCluster(apis=(VOLCANO, KOORDINATOR, "scheduling.x-k8s.io/v1alpha1"))
    for api in (VOLCANO, KOORDINATOR, "scheduling.x-k8s.io/v1alpha1"):
        cluster.pod_group("g", 2, api)
    async with leading(cluster, config=writing(GangWrite.KOORDINATOR)):
        await until(lambda: cluster.phase("g", KOORDINATOR) == "Pending", 5)
        assert cluster.phase("g") == ""
        assert cluster.phase("g", "scheduling.x-k8s.io/v1alpha1") == ""


@pytest.mark.parametrize(
    ("schedulers", "origins"),
    [
        (("tessera-scheduler",), set()),
        (("tessera-scheduler", "volcano"), {"volcano"}),
        (("koord-scheduler",), {"koordinator"}),
        ((), {"volcano", "koordinator"}),
    ],
)
async def test_by_default_statuses_are_written_for_the_profiles_that_are_served(
    schedulers: tuple[str, ...], origins: set[str]
) -> None:
    cluster = StatusCluster(apis=(VOLCANO, KOORDINATOR))
    config = whole()
    config = replace(config, webhook=replace(config.webhook, schedulers=schedulers))
    async with leading(cluster, config=config) as scheduler:
        statuses = scheduler.gang_statuses
        written = set() if statuses is None else {each.value for each in statuses.origins}
        assert written == origins


def test_the_setting_is_a_list_and_another_word_is_refused() -> None:
    environ = {"TESSERA_GANGS_SCHEDULING": "on", "TESSERA_GANGS_WRITE": "volcano,koordinator"}
    assert load(SchedulerSettings, environ).gangs.write == ALL
    with pytest.raises(BadSettings, match="TESSERA_GANGS_WRITE"):
        load(SchedulerSettings, {**environ, "TESSERA_GANGS_WRITE": "vulcan"})


async def test_a_definition_that_drops_the_status_costs_one_write() -> None:
    cluster = StatusCluster(apis=())
    definition = pod_group_definition(VOLCANO)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"minMember": {"type": "integer"}}}
        },
    }
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    cluster.make(CRDS, definition)
    cluster.pod_group("g", 2)
    async with leading(cluster, config=writing()):
        await until(lambda: cluster.writes("g") == 1, 10)
        await asyncio.sleep(20)
        assert cluster.writes("g") == 1
        assert cluster.phase("g") == ""
