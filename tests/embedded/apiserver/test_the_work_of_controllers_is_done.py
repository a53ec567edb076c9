"""The little of a controller manager's work that Tessera leans on is done by the server."""

from __future__ import annotations

from tessera_embedded.apiserver.controllers import MOST_EVENTS
from tests.embedded.apiserver.setting import NODES, PODS, ASmallCluster, Json, a_pod, events

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
READY: Json = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def a_namespace(cluster: ASmallCluster, name: str) -> str:
    assert cluster.post("/api/v1/namespaces", {"metadata": {"name": name}}).code == 201
    return f"/api/v1/namespaces/{name}"


def test_a_node_that_is_ready_may_be_used() -> None:
    cluster = ASmallCluster()
    mine = {"key": "mine", "effect": "NoSchedule"}
    body = {"metadata": {"name": "n"}, "spec": {"taints": [mine]}}
    made = cluster.post(NODES, body).done
    cluster.patch(f"{NODES}/n/status", READY)
    ready = cluster.get(f"{NODES}/n").done
    assert made["spec"]["taints"] == [mine, NOT_READY]
    assert ready["spec"]["taints"] == [mine]


def test_what_is_in_a_namespace_goes_with_it() -> None:
    cluster = ASmallCluster()
    space = a_namespace(cluster, "going")
    cluster.post(f"{space}/configmaps", {"metadata": {"name": "c"}})
    cluster.post(f"{space}/pods", a_pod("unbound"))
    cluster.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "stays"}})
    cluster.delete(space)
    assert cluster.get(space).code == 404
    assert cluster.get("/api/v1/configmaps").done["items"][0]["metadata"]["name"] == "stays"
    assert cluster.get("/api/v1/pods").done["items"] == []


def test_a_namespace_waits_for_its_running_pods() -> None:
    cluster = ASmallCluster()
    space = a_namespace(cluster, "going")
    cluster.post(f"{space}/pods", a_pod())
    cluster.post(f"{space}/pods/p/binding", {"target": {"name": "n"}})
    cluster.delete(space)
    phase = cluster.get(space).done["status"]["phase"]
    ending = cluster.get(f"{space}/pods/p").done["metadata"]
    cluster.delete(f"{space}/pods/p", gracePeriodSeconds="0")
    assert phase == "Terminating"
    assert "deletionTimestamp" in ending
    assert cluster.get(space).code == 404


def test_a_namespace_waits_for_finalizers() -> None:
    cluster = ASmallCluster()
    space = a_namespace(cluster, "going")
    held: Json = {"metadata": {"name": "c", "finalizers": ["a.dev/x"]}}
    cluster.post(f"{space}/configmaps", held)
    cluster.delete(space)
    assert cluster.get(space).done["status"]["phase"] == "Terminating"
    cluster.patch(f"{space}/configmaps/c", {"metadata": {"finalizers": None}})
    assert cluster.get(space).code == 404


def test_events_are_stored_for_an_hour() -> None:
    cluster = ASmallCluster()
    path = "/api/v1/namespaces/default/events"
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    cluster.post(path, {"metadata": {"name": "old"}, "involvedObject": about})
    cluster.clock.now += 3000
    cluster.post(path, {"metadata": {"name": "new"}, "involvedObject": about})
    watch = cluster.watch(path, resourceVersion=str(cluster.store.objects.version))
    cluster.clock.now += 1000
    cluster.post(path, {"metadata": {"name": "newest"}, "involvedObject": about})
    left = [item["metadata"]["name"] for item in cluster.get(path).done["items"]]
    assert left == ["new", "newest"]
    assert events(watch) == [("ADDED", "newest"), ("DELETED", "old")]


def test_of_too_many_events_the_oldest_go_sooner() -> None:
    cluster = ASmallCluster()
    path = "/api/v1/namespaces/default/events"
    for number in range(MOST_EVENTS + 3):
        cluster.post(path, {"metadata": {"name": f"e{number}"}, "involvedObject": {}})
    names = [e["metadata"]["name"] for e in cluster.get(path).done["items"]]
    assert len(names) == MOST_EVENTS
    assert {"e0", "e1", "e2"}.isdisjoint(names)


def test_the_objects_of_a_kind_go_with_its_definition() -> None:
    cluster = ASmallCluster()
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "a.dev", "scope": "Namespaced", "names": names, "versions": [version]}
    cluster.post(DEFINITIONS, {"metadata": {"name": "things.a.dev"}, "spec": spec})
    things = "/apis/a.dev/v1/namespaces/default/things"
    thing = {"kind": "Thing", "apiVersion": "a.dev/v1", "metadata": {"name": "t"}}
    assert cluster.post(things, thing).code == 201
    watch = cluster.watch(things)
    watch.pull()
    cluster.delete(f"{DEFINITIONS}/things.a.dev")
    assert events(watch) == [("DELETED", "t")]
    assert cluster.store.handle("GET", things).code == 404


def test_what_was_left_undone_is_done_after_a_restart() -> None:
    cluster = ASmallCluster()
    space = a_namespace(cluster, "going")
    cluster.post(f"{space}/configmaps", {"metadata": {"name": "c", "finalizers": ["a.dev/x"]}})
    cluster.delete(space)
    again = ASmallCluster()
    for shelf in cluster.store.objects.shelves():
        for record in cluster.store.objects.records(shelf):
            again.store.objects.replay(shelf, record.version, record.obj(), gone=False)
    again.store.open()
    again.patch(f"{space}/configmaps/c", {"metadata": {"finalizers": None}})
    assert again.get(space).code == 404


def test_pods_outlive_their_node() -> None:
    cluster = ASmallCluster()
    cluster.post(NODES, {"metadata": {"name": "n"}})
    cluster.pod(node="n")
    cluster.delete(f"{NODES}/n")
    assert cluster.get(f"{PODS}/p").done["spec"]["nodeName"] == "n"
