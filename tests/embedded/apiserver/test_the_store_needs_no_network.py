"""The store alone: time and chance are the caller's, watches are pulled, nothing waits."""

from __future__ import annotations

import msgspec
import pytest

from tessera_embedded.apiserver.objects.object_store import HISTORY_BYTES
from tests.embedded.apiserver.setting import NODES, PODS, ASmallCluster, a_pod, events


def test_time_and_names_come_from_outside() -> None:
    cluster = ASmallCluster()
    body = a_pod()
    body["metadata"] = {"generateName": "web-"}
    made = [cluster.post(PODS, body).done["metadata"] for _ in range(2)]
    assert [m["name"] for m in made] == ["web-00001", "web-00002"]
    assert {m["creationTimestamp"] for m in made} == {"2023-11-14T22:13:20Z"}
    assert made[0]["uid"] != made[1]["uid"]


def test_a_pod_ends_when_its_clock_says() -> None:
    cluster = ASmallCluster()
    cluster.pod(node="n")
    reported = cluster.delete(f"{PODS}/p").done["metadata"]
    cluster.clock.now += 10
    sooner = cluster.delete(f"{PODS}/p", gracePeriodSeconds="20").done["metadata"]
    later = cluster.delete(f"{PODS}/p", gracePeriodSeconds="60").done["metadata"]
    assert (reported["deletionTimestamp"], reported["deletionGracePeriodSeconds"]) == (
        "2023-11-14T22:13:50Z", 30,
    )  # fmt: skip
    assert (sooner["deletionTimestamp"], sooner["deletionGracePeriodSeconds"]) == (
        "2023-11-14T22:13:40Z", 20,
    )  # fmt: skip
    assert later == sooner


def test_changes_are_notified_once_they_can_be_pulled() -> None:
    cluster = ASmallCluster()
    watch = cluster.watch(PODS)
    received: list[list[tuple[str, str]]] = []
    watch.on_change = lambda: received.append(events(watch))
    cluster.pod("a")
    cluster.post(NODES, {"metadata": {"name": "n"}})
    cluster.delete(f"{PODS}/a")
    watch.close()
    assert [e for e in received if e] == [
        [("ADDED", "a")], [("MODIFIED", "a")], [("DELETED", "a")],
    ]  # fmt: skip
    assert events(watch) == []


def test_a_watcher_that_falls_behind_is_closed() -> None:
    cluster = ASmallCluster(window=5)
    slow, quick = cluster.watch(PODS), cluster.watch(PODS)
    reported = 0
    for number in range(30):
        cluster.pod(f"p{number}")
        reported += len(events(quick))
    assert (events(slow), slow.closed) == ([], True)
    assert (reported, quick.closed) == (30, False)


def test_what_fell_out_of_the_window_cannot_be_resumed() -> None:
    cluster = ASmallCluster(window=5)
    first = cluster.pod("first")["metadata"]["resourceVersion"]
    for number in range(30):
        cluster.pod(f"p{number}")
    watch = cluster.watch(PODS, resourceVersion=first)
    (reported,) = [msgspec.json.decode(frame) for frame in watch.pull()]
    assert (reported["type"], reported["object"]["code"], reported["object"]["reason"]) == (
        "ERROR", 410, "Expired",
    )  # fmt: skip
    assert watch.closed


def test_what_is_remembered_of_large_objects_is_bounded_in_bytes() -> None:
    cluster, path = ASmallCluster(), "/api/v1/namespaces/default/configmaps"
    large = {"data": {"a": "x" * (1 << 20)}}
    first = cluster.post(path, {"metadata": {"name": "m"}, **large}).done["metadata"]
    for number in range(3 * HISTORY_BYTES >> 20):
        cluster.patch(f"{path}/m", {"metadata": {"labels": {"n": str(number)}}})
    kept = cluster.store.objects.kind_store(("", "configmaps"))
    bodies = sum(len(change.record.body) for change in kept.log)
    assert HISTORY_BYTES // 2 < bodies <= 2 * HISTORY_BYTES + (2 << 20)
    (reported,) = cluster.watch(path, resourceVersion=first["resourceVersion"]).pull()
    assert msgspec.json.decode(reported)["object"]["reason"] == "Expired"
    newest = cluster.get(f"{path}/m").done["metadata"]["resourceVersion"]
    assert cluster.watch(path, resourceVersion=newest).pull() == []


def test_a_closed_watch_leaves_nothing_behind() -> None:
    cluster = ASmallCluster()
    watches = [cluster.watch(PODS) for _ in range(10)]
    for watch in watches:
        watch.close()
    assert cluster.store.objects.kind_store(("", "pods")).listeners == set()


def test_an_event_is_encoded_once_for_all_its_watchers() -> None:
    cluster = ASmallCluster()
    one, other = cluster.watch(PODS), cluster.watch(PODS)
    cluster.pod()
    (first,), (second,) = one.pull(), other.pull()
    assert first is second


def test_pages_show_one_moment_whatever_is_written_between() -> None:
    cluster = ASmallCluster()
    for name in "abcd":
        cluster.pod(name, labels={"k": name})
    page = cluster.get(PODS, limit="2").done
    cluster.delete(f"{PODS}/c")
    cluster.pod("e")
    cluster.patch(f"{PODS}/d", {"metadata": {"labels": {"k": "later"}}})
    more = {"limit": "2", "continue": page["metadata"]["continue"]}
    rest = cluster.get(PODS, **more).done
    names = [item["metadata"]["name"] for item in page["items"] + rest["items"]]
    assert names == ["a", "b", "c", "d"]
    assert rest["items"][1]["metadata"]["labels"] == {"k": "d"}
    assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]


def test_an_exact_version_is_what_was_there_then() -> None:
    cluster = ASmallCluster()
    cluster.pod("a")
    then = cluster.get(PODS).done["metadata"]["resourceVersion"]
    cluster.pod("b")
    exact = cluster.get(PODS, resourceVersion=then, resourceVersionMatch="Exact").done
    newer = cluster.get(PODS, resourceVersion=then, resourceVersionMatch="NotOlderThan").done
    assert [i["metadata"]["name"] for i in exact["items"]] == ["a"]
    assert [i["metadata"]["name"] for i in newer["items"]] == ["a", "b"]


def test_what_is_requested_twice_is_written_once() -> None:
    cluster = ASmallCluster()
    cluster.pod()
    patch = {"metadata": {"labels": {"k": "v"}, "annotations": {}}}
    first, second = [cluster.patch(f"{PODS}/p", patch).done for _ in range(2)]
    assert first == second


@pytest.mark.parametrize("verb", ["create", "update", "delete"])
def test_a_trial_writes_nothing(verb: str) -> None:
    cluster = ASmallCluster()
    cluster.pod()
    before = cluster.get(PODS).done
    match verb:
        case "create":
            answer = cluster.post(PODS, a_pod("q"), dryRun="All")
        case "update":
            patch = {"metadata": {"labels": {"k": "v"}}}
            answer = cluster.call("PATCH", f"{PODS}/p", patch, "application/merge-patch+json",
                                  dryRun="All")  # fmt: skip
        case _:
            answer = cluster.delete(f"{PODS}/p", dryRun="All")
    assert answer.done["kind"] == "Pod"
    assert cluster.get(PODS).done == before


def test_answers_do_not_share_what_is_stored() -> None:
    cluster = ASmallCluster()
    made = cluster.pod()
    made["spec"].clear()
    record = cluster.store.objects.find(("", "pods"), "default", "p")
    assert record is not None
    record.obj()["spec"].clear()
    assert cluster.get(f"{PODS}/p").done["spec"]["containers"]
