"""What the scheduler knows, and which changes wake a pod that waits."""

import msgspec
import pytest

from tessera_embedded.scheduling.cache import SchedulerCache
from tessera_embedded.scheduling.config import (
    BadSchedulerConfiguration,
    read_configuration,
    seconds,
)
from tessera_embedded.scheduling.messages import said, summary
from tessera_embedded.scheduling.queue import Queue
from tessera_embedded.scheduling.types import NodeInfo, PodInfo, read_node, read_pod

CONFIG = read_configuration(b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: ours}]
extenders:
- {urlPrefix: "http://127.0.0.1:1", filterVerb: filter, nodeCacheCapable: true, httpTimeout: 30s,
   managedResources: [{name: acme.com/card, ignoredByScheduler: true}]}
""")


def a_node(name: str, cpu: str = "2", **metadata: object) -> NodeInfo:
    return read_node(
        msgspec.json.encode(
            {
                "metadata": {"name": name, **metadata},
                "status": {"allocatable": {"cpu": cpu, "pods": "10"}},
            }
        )
    )


def a_pod(uid: str, cpu: str = "1", *, node: str = "", scheduler: str = "ours") -> PodInfo:
    wanted = {"cpu": cpu, "acme.com/card": "1"}
    return read_pod(
        msgspec.json.encode(
            {
                "kind": "Pod",
                "metadata": {"name": uid, "namespace": "n", "uid": uid},
                "spec": {
                    "schedulerName": scheduler,
                    "nodeName": node,
                    "priority": 7,
                    "containers": [{"name": "c", "resources": {"requests": wanted}}],
                },
            }
        )
    )


class Known:
    """A view and its queue."""

    def __init__(self) -> None:
        self.queue = Queue()
        self.view = SchedulerCache(CONFIG, self.queue, lambda: None)


def test_a_pod_is_sent_as_go_writes_one_of_a_list() -> None:
    seen = a_pod("u")
    assert b'"kind"' not in bytes(seen.sent)
    assert seen.priority == 7


def test_pods_of_other_schedulers_do_not_wait_here() -> None:
    known = Known()
    known.view.pod(a_pod("u", scheduler="other"), 0, gone=False)
    assert known.queue.pop(0) is None


def test_what_is_assumed_counts_until_it_is_forgotten() -> None:
    known = Known()
    known.view.relist_nodes([a_node("n1")])
    big = a_pod("big", "2")
    assert known.view.refusals(big.pod) == {}
    known.view.assume(big.pod, "n1")
    assert said(known.view.refusals(a_pod("next").pod)) == {"n1": ("Insufficient cpu",)}
    known.view.forget("big")
    assert known.view.refusals(a_pod("next").pod) == {}


def test_resources_that_the_extender_looks_after_need_not_be_on_the_node() -> None:
    known = Known()
    known.view.relist_nodes([a_node("n1")])
    assert known.view.refusals(a_pod("u").pod) == {}


@pytest.mark.parametrize(
    ("after", "wakes"),
    [(a_node("n1"), False), (a_node("n1", annotations={"wake": "1"}), True), (a_node("n2"), True)],
)
def test_a_heartbeat_wakes_nobody_and_an_annotation_does(after: NodeInfo, wakes: bool) -> None:  # noqa: FBT001  (a parameter of the table)
    known = Known()
    known.view.relist_nodes([a_node("n1")])
    known.view.pod(a_pod("u"), 0, gone=False)
    known.queue.failed(str(known.queue.pop(0)), 0)
    known.view.node(after, gone=False)
    assert (known.queue.pop(50) == "u") is wakes


def test_a_bound_pod_that_goes_wakes_those_that_wait() -> None:
    known = Known()
    known.view.relist_nodes([a_node("n1")])
    known.view.pod(a_pod("held", node="n1"), 0, gone=False)
    known.view.pod(a_pod("u"), 0, gone=False)
    known.queue.failed(str(known.queue.pop(0)), 0)
    known.view.pod(a_pod("held", node="n1"), 0, gone=True)
    assert known.queue.pop(50) == "u"


def test_a_pod_that_a_list_does_not_show_is_gone() -> None:
    known = Known()
    known.view.relist_pods([a_pod("u")], 0)
    known.view.relist_pods([], 1)
    assert known.queue.pop(50) is None


def test_the_message_counts_the_words() -> None:
    words = [("Insufficient cpu",), ("CardInsufficientMemory",), ("CardInsufficientMemory",)]
    assert summary(3, words) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 CardInsufficientMemory."
    )


@pytest.mark.parametrize(("text", "s"), [("5s", 5), ("500ms", 0.5), ("2m", 120), ("1.5s", 1.5)])
def test_durations_are_go_s(text: str, s: float) -> None:
    assert seconds(text) == s


@pytest.mark.parametrize(
    "text",
    [
        b"kind: Other",
        b"[]",
        b"kind: KubeSchedulerConfiguration\nextenders: [{urlPrefix: x, httpTimeout: soon}]",
    ],
)
def test_another_file_is_refused(text: bytes) -> None:
    with pytest.raises(BadSchedulerConfiguration):
        read_configuration(text)
