import msgspec
import pytest

from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Effect, Hang, InjectedFault
from tessera_runtime.errors import ApiConflict, ApiLost, ApiRefused
from tessera_runtime.kube import patches, paths
from tessera_runtime.kube.binding import NotBound, PodBound, PodKey, Unknown, bind, read_back
from tessera_testing.kube import FakeKube
from tests.runtime.world import a_cluster, drop, make_pod, must

pytestmark = pytest.mark.looptime

GRANT = {"tessera.dev/grant": '{"version":1}'}


async def test_a_binding_places_the_pod_and_writes_its_annotations() -> None:
    store = a_cluster()
    pod = make_pod(store, "a", mine="1")
    kube = FakeKube(store)
    assert await bind(kube, pod, "node-1", GRANT) == PodBound()
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
    assert isinstance(second, NotBound)
    assert (second.status, second.reason) == (409, "Conflict")


async def test_another_pod_of_that_name_is_never_bound() -> None:
    store = a_cluster()
    former = make_pod(store, "a")
    drop(store, "a")
    make_pod(store, "a")
    kube = FakeKube(store)
    told = await bind(kube, former, "node-1", GRANT)
    assert isinstance(told, NotBound)
    assert told.status == 409
    assert await read_back(kube, former) is None


async def test_a_pod_that_is_gone_is_not_found() -> None:
    store = a_cluster()
    kube = FakeKube(store)
    gone = PodKey("default", "a", "u-1")
    told = await bind(kube, gone, "node-1", GRANT)
    assert isinstance(told, NotBound)
    assert (told.status, told.reason) == (404, "NotFound")
    assert await read_back(kube, gone) is None


@pytest.mark.parametrize("effect", [Answer(429, retry_after_s=1), Answer(403), Answer(400)])
async def test_a_definite_no_wrote_nothing(effect: Effect) -> None:
    store = a_cluster()
    pod = make_pod(store, "a")
    kube = FakeKube(store)
    kube.faults.add(InjectedFault("POST", ".*/binding", effect))
    assert isinstance(await bind(kube, pod, "node-1", GRANT), NotBound)
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
async def test_what_is_unknown_is_told_by_reading_back(effect: Effect, *, written: bool) -> None:
    store = a_cluster()
    pod = make_pod(store, "a")
    kube = FakeKube(store)
    kube.faults.add(InjectedFault("POST", ".*/binding", effect))
    assert isinstance(await bind(kube, pod, "node-1", GRANT), Unknown)
    found = await read_back(kube, pod)
    assert found is not None
    assert (found.spec.node_name == "node-1") is written


async def test_a_404_that_is_not_the_api_servers_tells_nothing() -> None:
    class Proxy(FakeKube):
        async def call(self, *_: object, **__: object) -> bytes:
            from tessera_runtime.kube.responses import check

            check("GET", 404, {}, b"<html>no such site</html>")
            return b""

    with pytest.raises(ApiLost, match="not by an API server"):
        await read_back(Proxy(a_cluster()), PodKey("default", "a", "u-1"))


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"metadata":{"uid":7}}'])
async def test_an_answer_that_is_no_pod_tells_nothing(answer: bytes) -> None:
    class Odd(FakeKube):
        async def call(self, *_: object, **__: object) -> bytes:
            return answer

    with pytest.raises(ApiLost, match="not a pod"):
        await read_back(Odd(a_cluster()), PodKey("default", "a", "u-1"))


async def test_annotations_are_set_and_taken_away() -> None:
    store = a_cluster()
    pod = make_pod(store, "a", old="1", kept="2")
    kube = FakeKube(store)
    path = paths.pod("default", "a")
    await patches.annotate(kube, path, {"old": None, "cards.tessera.dev/x": "[]"}, uid=pod.uid)
    found = await read_back(kube, pod)
    assert found is not None
    assert found.metadata.annotations == {"kept": "2", "cards.tessera.dev/x": "[]"}


async def test_a_patch_for_another_object_of_that_name_is_refused() -> None:
    kube = FakeKube(store := a_cluster())
    make_pod(store, "a")
    with pytest.raises(ApiConflict):
        await patches.annotate(kube, paths.pod("default", "a"), {"k": "v"}, uid="another")


async def test_a_patch_of_a_version_that_is_past_is_refused() -> None:
    kube = FakeKube(store := a_cluster())
    make_pod(store, "a")
    path = paths.pod("default", "a")
    before = await patches.annotate(kube, path, {"k": "1"})
    await patches.annotate(kube, path, {"k": "2"})
    with pytest.raises(ApiConflict):
        await patches.annotate(kube, path, {"k": "3"}, resource_version=before.resource_version)


async def test_a_json_patch_is_done_whole_or_not_at_all() -> None:
    store = a_cluster()
    make_pod(store, "a", **{"a.io/b": "1"})
    kube = FakeKube(store)
    path, key = paths.pod("default", "a"), patches.pointer("metadata", "annotations", "a.io/b")
    await patches.json_patch(kube, path, [patches.require(key, "1"), patches.add(key, "2")])
    with pytest.raises(ApiRefused) as caught:
        await patches.json_patch(kube, path, [patches.remove(key), patches.require(key, "1")])
    assert caught.value.status == 422
    found = must(store, "GET", path)
    assert msgspec.convert(found, dict)["metadata"]["annotations"] == {"a.io/b": "2"}
