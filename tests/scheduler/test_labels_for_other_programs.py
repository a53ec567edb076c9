"""The label by which HAMi's tools select the pods of a node: in the Binding, and where the API
server copies none from there, by a write of its own that an administrator asks for."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from tessera_core.grants.result_annotations import written_labels
from tessera_core.registry.registry import load
from tessera_embedded.apiserver.faults import Answer
from tessera_runtime.kube.api import Verb
from tessera_runtime.kube.binding import PodKey
from tessera_scheduler.binding.request import BindingTarget
from tessera_scheduler.binding.settings import BindSettings
from tessera_schema.grants import Grant, Share
from tessera_testing.builders import a_pod
from tests.scheduler.fake_cluster import FakeCluster, leading, settings, until

LABEL = "hami.io/vgpu-node"
WRITES = replace(settings(), bind=BindSettings(labels=True))


def a_grant(dialect: str) -> Grant:
    share = Share(
        container="c0", position=0, vendor="v", dialect=dialect, card="a", index=0, memory_bytes=1
    )
    return Grant(uid="u", namespace="default", name="p", node="n0", shares=(share,))


@pytest.mark.parametrize(
    ("dialect", "isolation", "labelled"),
    [
        ("hami", "", True), ("iluvatar", "", True), ("mthreads", "", True),
        ("koordinator", "HAMi-core", True), ("koordinator", "", False), ("volcano", "", False),
        ("gpumanager", "", False),
    ],
)  # fmt: skip
def test_pods_of_dialects_that_have_it(dialect: str, isolation: str, *, labelled: bool) -> None:
    registry = load({"koordinator": {"device_plugin_adaption": True}})
    notes = {"koordinator.sh/gpu-isolation-provider": isolation} if isolation else {}
    written = written_labels(registry, a_pod(labels=notes), a_grant(dialect))
    assert written == ({LABEL: "n0"} if labelled else {})


def test_a_binding_has_the_labels() -> None:
    name, labels = PodKey("default", "p", "u"), {LABEL: "n0"}
    target = BindingTarget(name=name, grant=a_grant("hami"), annotations={}, labels=labels)
    assert msgspec.json.decode(target.body())["metadata"]["labels"] == labels


def patches(cluster: FakeCluster) -> int:
    return cluster.kube.calls.count((Verb.PATCH, cluster.path("a")))


@pytest.mark.looptime
async def test_without_the_setting_no_pod_is_written_twice() -> None:
    cluster = FakeCluster()
    cluster.pod("a")
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        await until(lambda: not scheduler.retry_queue.open)
    assert patches(cluster) == 0


@pytest.mark.looptime
async def test_with_the_setting_it_is_written_once_and_tried_again() -> None:
    cluster = FakeCluster()
    cluster.pod("a")
    cluster.fault("PATCH", r".*/pods/a", Answer(503))
    async with leading(cluster, config=WRITES) as scheduler:
        node = await cluster.place(scheduler, "a")
        await until(lambda: LABEL in cluster.read("a").metadata.labels)
        await until(lambda: not scheduler.retry_queue.open)
    assert cluster.read("a").metadata.labels == {LABEL: node}
    assert patches(cluster) == 2


@pytest.mark.looptime
async def test_another_pod_of_that_name_is_left_alone() -> None:
    cluster = FakeCluster()
    cluster.pod("a")
    async with leading(cluster, config=WRITES) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.delete("a")
        cluster.pod("a", 0)
        await until(lambda: not scheduler.retry_queue.open)
    assert cluster.read("a").metadata.labels == {}
    assert patches(cluster) == 1
