"""Kinds other than pods: what is stored, and what of it the server minds."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.contract.client import Json
from tests.contract.cluster import Cluster, OpenCluster
from tests.contract.objects import a_node

LEASES = "apis/coordination.k8s.io/v1"
EVENTS = "apis/events.k8s.io/v1"


def a_lease(holder: str = "a", **spec: Any) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z", **spec,
        },
    }  # fmt: skip


async def test_a_lease_is_renewed_by_its_newest_version(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = cluster.path("leases", LEASES)
        made = await cluster.make(path, a_lease("a"))
        mine = a_lease("a", renewTime="2026-01-01T00:00:05.123456Z")
        others = a_lease("b", leaseTransitions=1)
        for body in (mine, others):
            body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
        renewed = (await cluster.admin.put(f"{path}/l", mine)).done
        taken = await cluster.admin.put(f"{path}/l", others)
        again = await cluster.admin.post(path, a_lease("b"))
    assert renewed["spec"] == mine["spec"]
    taken.refused(409, "Conflict")
    again.refused(409, "AlreadyExists")


async def test_times_of_a_lease_have_six_digits_after_the_point(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = cluster.path("leases", LEASES)
        answers = [
            await cluster.admin.post(path, a_lease(renewTime=f"2026-01-01T00:00:05{fraction}"))
            for fraction in ("Z", ".5Z", ".123456789Z", ".123456Z")
        ]
    assert [answer.status for answer in answers] == [400, 400, 400, 201]


async def test_a_lease_that_is_let_go_has_no_holder(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = cluster.path("leases", LEASES)
        await cluster.make(path, a_lease("a"))
        patch = {"spec": {"holderIdentity": None, "leaseDurationSeconds": 1}}
        left = (await cluster.admin.patch(f"{path}/l", patch)).done
    assert "holderIdentity" not in left["spec"]
    assert left["spec"]["leaseDurationSeconds"] == 1


async def test_leases_are_watched(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = cluster.path("leases", LEASES)
        made = await cluster.make(path, a_lease("a"))
        version = made["metadata"]["resourceVersion"]
        async with cluster.admin.watch(path, resourceVersion=version) as watch:
            patch = {"spec": {"renewTime": "2026-01-01T00:00:05.000000Z"}}
            await cluster.admin.patch(f"{path}/l", patch)
            kind, item = await watch.next()
    assert (kind, item["kind"], item["spec"]["renewTime"]) == (
        "MODIFIED", "Lease", "2026-01-01T00:00:05.000000Z",
    )  # fmt: skip


async def test_an_event_of_either_group_is_observed_in_both(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        regarding = {"kind": "Pod", "namespace": cluster.own, "name": "p", "uid": "u"}
        new: Json = {
            "metadata": {"name": "new"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "reason": "CardLost", "action": "Watching", "type": "Warning", "note": "it fell out",
            "reportingController": "tessera.dev/agent", "reportingInstance": "n1",
            "regarding": regarding,
        }  # fmt: skip
        old: Json = {
            "metadata": {"name": "old"}, "reason": "CardLost", "type": "Warning",
            "message": "it fell out", "involvedObject": regarding, "count": 2,
            "source": {"component": "agent"}, "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:01Z",
        }  # fmt: skip
        await cluster.make(cluster.path("events", EVENTS), new)
        await cluster.make(cluster.path("events"), old)
        core = (await cluster.admin.get(cluster.path("events"))).done["items"]
        modern = (await cluster.admin.get(cluster.path("events", EVENTS))).done["items"]
        chosen = (
            await cluster.admin.get(
                cluster.path("events"),
                fieldSelector="involvedObject.name=p,reason=CardLost,type=Warning",
            )
        ).done["items"]
    assert [(e["message"], e["involvedObject"]["name"]) for e in core] == [("it fell out", "p")] * 2
    assert [(e["note"], e["regarding"]["name"]) for e in modern] == [("it fell out", "p")] * 2
    assert [e["metadata"]["name"] for e in chosen] == ["new", "old"]


async def test_an_event_is_counted_up_by_a_patch(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = cluster.path("events")
        regarding = {"kind": "Pod", "namespace": cluster.own, "name": "p"}
        body: Json = {
            "metadata": {"name": "e"}, "reason": "R", "message": "m", "type": "Normal", "count": 1,
            "involvedObject": regarding, "source": {"component": "tessera"},
        }  # fmt: skip
        await cluster.make(path, body)
        patch = {"count": 2, "lastTimestamp": "2026-01-01T00:00:01Z"}
        counted = (await cluster.admin.patch(f"{path}/e", patch)).done
    assert (counted["count"], counted["lastTimestamp"]) == (2, "2026-01-01T00:00:01Z")


async def test_an_events_namespace_is_its_objects(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        regarding = {"kind": "Pod", "namespace": "elsewhere", "name": "p"}
        body: Json = {"metadata": {"name": "e"}, "reason": "R", "involvedObject": regarding}
        answer = await cluster.admin.post(cluster.path("events"), body)
    assert "does not match event.namespace" in answer.refused(422, "Invalid")


async def test_a_namespace_is_labelled_with_its_name(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = f"/api/v1/namespaces/{cluster.own}"
        made = (await cluster.admin.get(path)).done
        patch = {"metadata": {"labels": {"tessera.dev/team": "a"}}}
        changed = (await cluster.admin.patch(path, patch)).done
        chosen = (
            await cluster.admin.get(
                "/api/v1/namespaces", labelSelector=f"kubernetes.io/metadata.name={cluster.own}"
            )
        ).done["items"]
    name = {"kubernetes.io/metadata.name": cluster.own}
    assert (made["metadata"]["labels"], made["status"]["phase"]) == (name, "Active")
    assert changed["metadata"]["labels"] == {**name, "tessera.dev/team": "a"}
    assert [item["metadata"]["name"] for item in chosen] == [cluster.own]


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
async def test_a_cluster_begins_with_its_namespaces(open_cluster: OpenCluster, name: str) -> None:
    async with open_cluster() as cluster:
        assert (await cluster.admin.get(f"/api/v1/namespaces/{name}")).status == 200


async def test_nothing_is_created_in_a_namespace_that_is_going(open_cluster: OpenCluster) -> None:
    """A controller ends the deletion in a real cluster; here only its beginning is looked at."""
    async with open_cluster() as cluster:
        body: Json = {"metadata": {"name": f"{cluster.own}-going"}}
        await cluster.make("/api/v1/namespaces", body)
        going = f"/api/v1/namespaces/{cluster.own}-going"
        held: Json = {"metadata": {"name": "p", "finalizers": ["a.dev/x"]}}
        await cluster.make(f"{going}/configmaps", held)
        reported = (await cluster.admin.delete(going)).done
        answer = await cluster.admin.post(f"{going}/configmaps", {"metadata": {"name": "c"}})
        await cluster.admin.patch(f"{going}/configmaps/p", {"metadata": {"finalizers": None}})
    assert (reported["kind"], reported["status"]["phase"]) == ("Namespace", "Terminating")
    assert "because it is being terminated" in answer.refused(403, "Forbidden")


async def test_a_secret_is_stored_in_base64(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = cluster.path("secrets")
        key = base64.b64encode(bytes(range(256))).decode()
        body: Json = {"metadata": {"name": "s"}, "data": {"key": key}, "stringData": {"word": "hi"}}
        made = await cluster.make(path, body)
        bad: Json = {"metadata": {"name": "t"}, "data": {"key": "not base64!"}}
        refused = await cluster.admin.post(path, bad)
    assert made["data"] == {"key": key, "word": base64.b64encode(b"hi").decode()}
    assert (made["type"], "stringData" in made) == ("Opaque", False)
    assert refused.status == 400


async def test_what_is_immutable_stays(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = cluster.path("configmaps")
        body: Json = {"metadata": {"name": "c"}, "data": {"a": "1"}, "immutable": True}
        await cluster.make(path, body)
        answer = await cluster.admin.patch(f"{path}/c", {"data": {"a": "2"}})
    assert "field is immutable when `immutable` is set" in answer.refused(422, "Invalid")


async def test_binary_data_of_a_config_map_is_base64(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        key = base64.b64encode(b"\0\xff").decode()
        body: Json = {"metadata": {"name": "c"}, "data": {"a": "1"}, "binaryData": {"k": key}}
        made = await cluster.make(cluster.path("configmaps"), body)
    assert (made["data"], made["binaryData"]) == ({"a": "1"}, {"k": key})


async def test_a_node_is_registered_and_reports(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        body = a_node(f"{cluster.own}-n", **{"a.dev/gpu": "1000"})
        made = await cluster.make("/api/v1/nodes", body)
        path = f"/api/v1/nodes/{cluster.own}-n"
        patch = {"metadata": {"annotations": {"cards.tessera.dev/a": "[]"}, "labels": {"k": "v"}}}
        noted = (await cluster.admin.patch(path, patch)).done
        chosen = (
            await cluster.admin.get("/api/v1/nodes", fieldSelector=f"metadata.name={cluster.own}-n")
        ).done
    assert made["status"]["capacity"] == {
        "cpu": "4", "memory": "8Gi", "pods": "10", "a.dev/gpu": "1k",
    }  # fmt: skip
    assert noted["metadata"]["annotations"] == {"cards.tessera.dev/a": "[]"}
    assert noted["metadata"]["labels"] == {"k": "v"}
    assert [item["metadata"]["name"] for item in chosen["items"]] == [f"{cluster.own}-n"]


async def test_a_nodes_status_has_no_fraction_of_a_card(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = f"/api/v1/nodes/{await cluster.node()}/status"
        answer = await cluster.admin.patch(path, {"status": {"capacity": {"a.dev/gpu": "1500m"}}})
    assert "must be an integer" in answer.refused(422, "Invalid")


async def test_a_deleted_node_is_gone_and_its_pods_stay(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        node = await cluster.node()
        await cluster.bound("p", node)
        assert (await cluster.admin.delete(f"/api/v1/nodes/{node}")).status == 200
        gone = await cluster.admin.get(f"/api/v1/nodes/{node}")
        there = await cluster.admin.get(f"{cluster.pods}/p")
    gone.refused(404, "NotFound")
    assert there.done["spec"]["nodeName"] == node


@pytest.mark.parametrize(
    "hard",
    [
        {"limits.nvidia.com/gpu": "8", "requests.nvidia.com/gpu": "8"},
        {"limits.nvidia.com/gpumem": "16Gi", "limits.nvidia.com/gpucores": 200},
        {"requests.tencent.com/vcuda-core": "1k"},
        {"count/pods": "5", "pods": 5},
    ],
)
async def test_quota_is_stored_as_it_is_written(open_cluster: OpenCluster, hard: Json) -> None:
    async with open_cluster() as cluster:
        body: Json = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
        made = await cluster.make(cluster.path("resourcequotas"), body)
        used = {"hard": made["spec"]["hard"], "used": dict.fromkeys(hard, "1")}
        path = cluster.path("resourcequotas", name="q")
        reported = (await cluster.admin.patch(f"{path}/status", {"status": used})).done
        await cluster.admin.delete(path)
    assert made["spec"]["hard"] == {key: str(value) for key, value in hard.items()}
    assert reported["status"] == used


async def test_a_quota_that_is_no_amount_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = cluster.path("resourcequotas")
        answers = [
            await cluster.admin.post(path, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
            for hard in ({"limits.nvidia.com/gpu": "-1"}, {"requests.nvidia.com/gpu": "some"})
        ]
    answers[0].refused(422, "Invalid")
    answers[1].refused(400, "BadRequest")


async def test_service_accounts_are_stored(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.make(cluster.path("serviceaccounts"), {"metadata": {"name": "agent"}})
    assert made["kind"] == "ServiceAccount"


async def version_and_health(cluster: Cluster) -> tuple[Json, list[Any]]:
    return (
        (await cluster.admin.get("/version")).done,
        [(await cluster.admin.get(path)).body for path in ("/readyz", "/livez", "/healthz")],
    )


async def test_the_server_says_that_it_is_well_and_which_it_is(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        version, health = await version_and_health(cluster)
    assert (version["major"], version["minor"]) == ("1", "34")
    assert version["gitVersion"].startswith("v1.34.")
    assert health == [{"text": "ok"}] * 3


async def test_the_server_says_what_it_serves(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        core = (await cluster.admin.get("/api/v1")).done["resources"]
        leases = (await cluster.admin.get(f"/{LEASES}")).done["resources"]
        absent = await cluster.admin.get("/apis/nobody.dev/v1")
    served = {item["name"]: item["namespaced"] for item in core}
    names = {"pods": True, "pods/binding": True, "pods/status": True, "nodes": False}
    assert {name: served.get(name) for name in names} == names
    assert ("leases", "Lease") in {(item["name"], item["kind"]) for item in leases}
    assert absent.status == 404
