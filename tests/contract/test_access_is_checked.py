"""Who may do what: tokens, roles, and asking the server about others."""

from __future__ import annotations

from tests.contract.client import Json
from tests.contract.cluster import Cluster, OpenCluster
from tests.contract.objects import a_pod

REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def test_an_unknown_token_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.named("rubbish").get(cluster.pods)
    assert answer.refused(401, "Unauthorized") == "Unauthorized"


async def test_nobody_may_do_nothing(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.named(None).get(cluster.pods)
        health = await cluster.admin.named(None).get("/readyz")
    message = answer.refused(403, "Forbidden")
    assert 'User "system:anonymous" cannot list resource "pods"' in message
    assert health.status == 200


async def test_a_user_may_do_what_its_role_says(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        reader = cluster.user("reader")
        read = await reader.get(f"{cluster.pods}/p")
        async with reader.watch(cluster.pods) as watch:
            assert await watch.take(1) == [("ADDED", "p")]
        refusals = {
            "create": await reader.post(cluster.pods, a_pod("q")),
            "delete": await reader.delete(f"{cluster.pods}/p"),
            "patch": await reader.patch(f"{cluster.pods}/p", {"metadata": {}}),
        }
        status = await reader.patch(f"{cluster.pods}/p/status", {"status": {}})
    assert read.status == 200
    for verb, answer in refusals.items():
        assert f'User "reader" cannot {verb} resource "pods" in API group ""' in answer.refused(
            403, "Forbidden"
        )
    assert 'cannot patch resource "pods/status"' in status.refused(403, "Forbidden")


async def test_a_refusal_says_in_which_namespace(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        nobody = cluster.user("nobody")
        inside = await nobody.get(cluster.pods)
        everywhere = await nobody.get("/api/v1/pods")
        named = await nobody.get(f"{cluster.pods}/absent")
    assert inside.refused(403, "Forbidden") == (
        f'pods is forbidden: User "nobody" cannot list resource "pods" in API group "" '
        f'in the namespace "{cluster.own}"'
    )
    assert everywhere.refused(403, "Forbidden").endswith("at the cluster scope")
    assert 'pods "absent" is forbidden' in named.refused(403, "Forbidden")


async def test_who_has_no_right_may_not_bind(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        answer = await cluster.user("reader").post(f"{cluster.pods}/p/binding", {})
    assert 'cannot create resource "pods/binding"' in answer.refused(403, "Forbidden")


async def review(cluster: Cluster, token: str) -> Json:
    body: Json = {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
    }  # fmt: skip
    answer = await cluster.admin.post(REVIEW, body)
    assert answer.status == 201
    status: Json = answer.body["status"]
    return status


async def test_a_token_is_said_to_be_its_users(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        status = await review(cluster, cluster.server.tokens["reader"])
    assert status["authenticated"] is True
    assert status["user"]["username"] == "reader"
    assert {"contract:readers", "system:authenticated"} <= set(status["user"]["groups"])


async def test_a_token_of_nobody_is_said_to_be_none(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        status = await review(cluster, "rubbish")
    assert not status.get("authenticated")
    assert "user" not in status or not status["user"].get("username")


async def allowed(cluster: Cluster, user: str, verb: str, groups: list[str] | None = None) -> Json:
    spec: Json = {
        "user": user, "groups": groups or [],
        "resourceAttributes": {
            "namespace": cluster.own, "verb": verb, "group": "", "resource": "pods", "name": "p",
        },
    }  # fmt: skip
    body: Json = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
    }  # fmt: skip
    answer = await cluster.admin.post(ACCESS, body)
    assert answer.status == 201
    status: Json = answer.body["status"]
    return status


async def test_the_server_answers_what_somebody_may_do(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        readers = ["contract:readers"]
        answers = [
            (await allowed(cluster, "reader", "get", readers))["allowed"],
            (await allowed(cluster, "reader", "delete", readers))["allowed"],
            (await allowed(cluster, "nobody", "get"))["allowed"],
            (await allowed(cluster, "anyone", "delete", ["system:masters"]))["allowed"],
        ]
    assert answers == [True, False, False, True]


async def test_only_who_may_request_is_answered(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.user("nobody").post(REVIEW, {"spec": {"token": "x"}})
    answer.refused(403, "Forbidden")
