"""Webhooks: which requests they are called for, and what they are sent."""

from __future__ import annotations

from tests.contract.client import Json
from tests.contract.objects import GPU, a_binding, a_pod
from tests.contract.receiver import (
    POD_RULE,
    OpenAdmission,
    Receiver,
    annotate,
    create,
    deny,
    let,
    patch,
)


def reviews_of(receiver: Receiver, subresource: str | None) -> list[Json]:
    """The requests about the object itself, or about that part of it.

    A server that reads the object from its cache reviews the change of what it found there, and the
    change of the newest once more if its cache was behind (`GuaranteedUpdate` of the API server).
    """
    return [each for each in receiver.requests() if each.get("subResource") == subresource]


def version(item: Json) -> str:
    found: str = item["metadata"]["resourceVersion"]
    return found


async def test_a_review_holds_the_object_as_it_will_be(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        await receiver.register(cluster, receiver.hook(cluster))
        made = (await create(cluster, limits={GPU: 1})).done
        (asked,) = receiver.requests()
    pod = {"group": "", "version": "v1", "kind": "Pod"}
    pods = {"group": "", "version": "v1", "resource": "pods"}
    assert (asked["kind"], asked["requestKind"]) == (pod, pod)
    assert (asked["resource"], asked["requestResource"]) == (pods, pods)
    assert (asked["operation"], asked["name"], asked["namespace"]) == ("CREATE", "p", cluster.own)
    assert asked["userInfo"]["username"]
    assert "system:masters" in asked["userInfo"]["groups"]
    assert (asked["oldObject"], asked["dryRun"]) == (None, False)
    assert asked["options"]["kind"] == "CreateOptions"
    assert "subResource" not in asked
    seen = asked["object"]
    assert (seen["kind"], seen["apiVersion"], seen["metadata"]["namespace"]) == (
        "Pod", "v1", cluster.own,
    )  # fmt: skip
    assert seen["spec"]["containers"][0]["resources"] == {
        "limits": {GPU: "1"},
        "requests": {GPU: "1"},
    }
    assert seen["spec"]["schedulerName"] == "default-scheduler"
    assert asked["uid"] != made["metadata"]["uid"]


async def test_a_name_is_made_after_mutation_and_before_validation(
    admission: OpenAdmission,
) -> None:
    async with admission() as (cluster, receiver):
        await receiver.register(cluster, receiver.hook(cluster, "mutate"))
        await receiver.register(cluster, receiver.hook(cluster, "validate"), kind="Validating")
        body = a_pod(generateName="web-")
        del body["metadata"]["name"]
        made = await cluster.make(cluster.pods, body)
        (first,), (second,) = receiver.requests("mutate"), receiver.requests("validate")
    assert first["object"]["metadata"]["generateName"] == "web-"
    assert "name" not in first["object"]["metadata"]
    assert second["object"]["metadata"]["name"] == made["metadata"]["name"]
    assert "name" not in first


async def test_only_what_the_rules_say_is_queried(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        await receiver.register(cluster, receiver.hook(cluster))
        await cluster.pod("p")
        await cluster.admin.patch(f"{cluster.pods}/p", {"metadata": {"labels": {"k": "v"}}})
        await cluster.name_of("p", phase="Running")
        await cluster.make(cluster.path("secrets"), {"metadata": {"name": "s"}})
        await cluster.admin.delete(f"{cluster.pods}/p")
    assert [asked["operation"] for asked in receiver.requests()] == ["CREATE"]


async def test_an_update_shows_what_was_and_what_will_be(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        rule = {**POD_RULE, "operations": ["UPDATE"], "resources": ["pods", "pods/status"]}
        await receiver.register(cluster, receiver.hook(cluster, rules=[rule]), kind="Validating")
        made = await cluster.pod("p", annotations={"k": "1"})
        two = {"metadata": {"annotations": {"k": "2"}}}
        changed = (await cluster.admin.patch(f"{cluster.pods}/p", two)).done
        await cluster.name_of("p", phase="Running")
        main = reviews_of(receiver, None)[-1]
        status = reviews_of(receiver, "status")[-1]
    assert [version(each["oldObject"]) for each in (main, status)] == [
        version(made), version(changed),
    ]  # fmt: skip
    values = [main[each]["metadata"]["annotations"]["k"] for each in ("oldObject", "object")]
    assert values == ["1", "2"]
    assert (main["operation"], main["name"], main["options"]["kind"]) == (
        "UPDATE", "p", "UpdateOptions",
    )  # fmt: skip
    assert status["object"]["status"]["phase"] == "Running"


async def test_a_change_that_another_overtakes_is_reviewed_again(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        rule = {**POD_RULE, "operations": ["UPDATE"]}
        between: list[Json] = []

        async def another_comes_first(request: Json) -> Json:
            if not between and "mine" in request["object"]["metadata"]["annotations"]:
                between.append(request)
                await cluster.admin.patch(
                    f"{cluster.pods}/p", {"metadata": {"annotations": {"other": "1"}}}
                )
            return let(request)

        receiver.scripts["hook"] = another_comes_first
        await receiver.register(cluster, receiver.hook(cluster, rules=[rule]), kind="Validating")
        await cluster.pod("p", annotations={"k": "1"})
        mine = {"metadata": {"annotations": {"mine": "1"}}}
        made = (await cluster.admin.patch(f"{cluster.pods}/p", mine)).done
        reviews = reviews_of(receiver, None)
    assert made["metadata"]["annotations"] == {"k": "1", "mine": "1", "other": "1"}
    assert [sorted(each["object"]["metadata"]["annotations"]) for each in reviews] == [
        ["k", "mine"], ["k", "other"], ["k", "mine", "other"],
    ]  # fmt: skip


async def test_a_deletion_shows_what_goes(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        rule = {**POD_RULE, "operations": ["DELETE"]}
        receiver.scripts["hook"] = deny(code=403, message="stay")
        await receiver.register(cluster, receiver.hook(cluster, rules=[rule]), kind="Validating")
        await cluster.pod("p")
        answer = await cluster.admin.delete(f"{cluster.pods}/p")
        (asked,) = receiver.requests()
        receiver.scripts["hook"] = let
    assert answer.status == 403
    assert (asked["operation"], asked["object"]) == ("DELETE", None)
    assert asked["oldObject"]["metadata"]["name"] == "p"


async def test_a_binding_is_queried_as_one(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        rule = {**POD_RULE, "resources": ["pods/binding"]}
        receiver.scripts["hook"] = deny(code=403, message="not by you")
        await receiver.register(cluster, receiver.hook(cluster, rules=[rule]), kind="Validating")
        await cluster.pod("p")
        binding = a_binding("p", "n1", annotations={"k": "v"})
        answer = await cluster.admin.post(f"{cluster.pods}/p/binding", binding)
        pod = (await cluster.admin.get(f"{cluster.pods}/p")).done
        (asked,) = receiver.requests()
    assert answer.status == 403
    assert "nodeName" not in pod["spec"]
    assert (asked["kind"]["kind"], asked["resource"]["resource"]) == ("Binding", "pods")
    assert (asked["subResource"], asked["name"], asked["operation"]) == ("binding", "p", "CREATE")
    assert asked["object"]["target"]["name"] == "n1"
    assert asked["object"]["metadata"]["annotations"] == {"k": "v"}


async def test_a_trial_is_said_to_be_one(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["hook"] = patch(annotate("k", "v"))
        await receiver.register(cluster, receiver.hook(cluster))
        answer = await cluster.admin.post(cluster.pods, a_pod("p"), dryRun="All")
        (asked,) = receiver.requests()
        absent = await cluster.admin.get(f"{cluster.pods}/p")
    assert asked["dryRun"] is True
    assert answer.done["metadata"]["annotations"] == {"k": "v"}
    absent.refused(404, "NotFound")


async def test_objects_are_chosen_by_label(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        selector = {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]}
        await receiver.register(cluster, receiver.hook(cluster, objectSelector=selector))
        for name, labels in (("p", {}), ("q", {"skip": "1"})):
            await create(cluster, name, labels=labels)
    assert [asked["name"] for asked in receiver.requests()] == ["p"]


async def test_namespaces_are_chosen_by_label(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        left_out = {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": [cluster.own],
        }
        mine = receiver.hook(cluster, "mine")
        others = receiver.hook(
            cluster, "others", namespaceSelector={"matchExpressions": [left_out]}
        )
        others["failurePolicy"] = "Ignore"
        await receiver.register(cluster, mine, others)
        await create(cluster)
    assert (len(receiver.requests("mine")), len(receiver.requests("others"))) == (1, 0)
