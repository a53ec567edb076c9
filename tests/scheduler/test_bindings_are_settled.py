"""One attempt to write a Binding: what each answer says, and what a read finds afterwards."""

from collections.abc import Mapping

import pytest

from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Effect, Hang, InjectedFault
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_scheduler.binding.request import (
    BindingContested,
    BindingDeferred,
    BindingOutcomeUnknown,
    BindingRejected,
    BindingTarget,
    BindingWritten,
    Sent,
    send_binding,
)
from tessera_schema.grants import Grant
from tessera_testing.kube import FakeKube
from tests.runtime.cluster import a_cluster, drop, make_pod

pytestmark = pytest.mark.looptime

GRANT = {"tessera.dev/grant": '{"version":1}'}


async def bind(kube: Kube, pod: PodKey, node: str, annotations: Mapping[str, str]) -> Sent:
    grant = Grant(uid=pod.uid, namespace=pod.namespace, name=pod.name, node=node, shares=())
    target = BindingTarget(name=pod, grant=grant, annotations=annotations)
    return await send_binding(kube, target, "", 5.0)


async def test_a_binding_places_the_pod_and_writes_its_annotations() -> None:
    store = a_cluster()
    pod = make_pod(store, "a", mine="1")
    kube = FakeKube(store)
    assert await bind(kube, pod, "node-1", GRANT) == BindingWritten()
    found = await read_back(kube, pod)
    assert found is not None
    assert found.spec.node_name == "node-1"
    assert found.metadata.annotations == {"mine": "1"} | GRANT


async def test_a_second_binding_is_a_conflict() -> None:
    store = a_cluster()
    pod = make_pod(store, "a")
    kube = FakeKube(store)
    await bind(kube, pod, "node-1", GRANT)
    second = await bind(kube, pod, "node-1", {"other": "1"})
    assert isinstance(second, BindingContested)
    assert "already assigned" in second.why


async def test_another_pod_of_that_name_is_never_bound() -> None:
    store = a_cluster()
    former = make_pod(store, "a")
    drop(store, "a")
    make_pod(store, "a")
    kube = FakeKube(store)
    sent = await bind(kube, former, "node-1", GRANT)
    assert isinstance(sent, BindingContested)
    assert "UID in precondition" in sent.why
    assert await read_back(kube, former) is None


async def test_a_pod_that_is_gone_is_not_found() -> None:
    store = a_cluster()
    kube = FakeKube(store)
    gone = PodKey("default", "a", "u-1")
    sent = await bind(kube, gone, "node-1", GRANT)
    assert isinstance(sent, BindingContested)
    assert "not found" in sent.why
    assert await read_back(kube, gone) is None


@pytest.mark.parametrize(
    ("effect", "kind"),
    [
        (Answer(429, retry_after_s=1), BindingDeferred),
        (Answer(403), BindingRejected),
        (Answer(400), BindingRejected),
    ],
)
async def test_a_definite_no_wrote_nothing(effect: Effect, kind: type[Sent]) -> None:
    store = a_cluster()
    pod = make_pod(store, "a")
    kube = FakeKube(store)
    kube.faults.add(InjectedFault("POST", ".*/binding", effect))
    assert isinstance(await bind(kube, pod, "node-1", GRANT), kind)
    found = await read_back(kube, pod)
    assert found is not None
    assert found.spec.node_name == ""


@pytest.mark.parametrize(
    ("effect", "written"),
    [
        (Answer(500), False),
        (Answer(504), False),
        (Hang(), False),
        (Cut(), False),
        (Cut(after=True), True),
        (Delay(6.0), False),
    ],
)
async def test_what_is_unknown_is_sent_by_reading_back(effect: Effect, *, written: bool) -> None:
    store = a_cluster()
    pod = make_pod(store, "a")
    kube = FakeKube(store)
    kube.faults.add(InjectedFault("POST", ".*/binding", effect))
    assert isinstance(await bind(kube, pod, "node-1", GRANT), BindingOutcomeUnknown)
    found = await read_back(kube, pod)
    assert found is not None
    assert (found.spec.node_name == "node-1") is written
