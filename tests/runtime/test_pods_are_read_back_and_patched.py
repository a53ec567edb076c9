"""Pods read by a quorum read, and changed by patches whose preconditions hold."""

import msgspec
import pytest

from tessera_runtime.errors import ApiConflict, ApiLost, ApiRefused
from tessera_runtime.kube import patches, paths
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_testing.kube import FakeKube
from tests.runtime.cluster import a_cluster, make_pod, must

pytestmark = pytest.mark.looptime


async def test_a_404_that_is_not_the_api_servers_says_nothing() -> None:
    class Proxy(FakeKube):
        async def call(self, *_: object, **__: object) -> bytes:
            from tessera_runtime.kube.responses import check

            check("GET", 404, {}, b"<html>no such site</html>")
            return b""

    with pytest.raises(ApiLost, match="not by an API server"):
        await read_back(Proxy(a_cluster()), PodKey("default", "a", "u-1"))


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"metadata":{"uid":7}}'])
async def test_an_answer_that_is_no_pod_says_nothing(answer: bytes) -> None:
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
