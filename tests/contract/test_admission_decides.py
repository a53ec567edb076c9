"""Webhooks: what becomes of what they say."""

from __future__ import annotations

import pytest

from tests.contract.client import Json
from tests.contract.objects import GPU
from tests.contract.receiver import (
    POD_RULE,
    OpenAdmission,
    annotate,
    create,
    deny,
    patch,
)


async def test_a_patch_is_applied(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["hook"] = patch(
            annotate("a.dev/k", "v"),
            {"op": "replace", "path": "/spec/schedulerName", "value": "mine"},
            {"op": "add", "path": "/spec/containers/0/env", "value": [{"name": "A", "value": "1"}]},
        )
        await receiver.register(cluster, receiver.hook(cluster))
        made = (await create(cluster)).done
        stored = (await cluster.admin.get(f"{cluster.pods}/p")).done
    assert made == stored
    assert made["metadata"]["annotations"] == {"a.dev/k": "v"}
    assert made["spec"]["schedulerName"] == "mine"
    assert made["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]


async def test_what_a_patch_leaves_out_is_filled_in(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        limits = {"limits": {GPU: 2}}
        step = {"op": "replace", "path": "/spec/containers/0/resources", "value": limits}
        receiver.scripts["hook"] = patch(step)
        await receiver.register(cluster, receiver.hook(cluster))
        made = (await create(cluster)).done
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {GPU: "2"}, "requests": {GPU: "2"},
    }  # fmt: skip


async def test_a_patch_that_makes_an_impossible_pod_is_refused(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        limits = {"limits": {GPU: "500m"}}
        step = {"op": "replace", "path": "/spec/containers/0/resources", "value": limits}
        receiver.scripts["hook"] = patch(step)
        await receiver.register(cluster, receiver.hook(cluster))
        answer = await create(cluster)
    assert "must be an integer" in answer.refused(422, "Invalid")


async def test_warnings_reach_the_user(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["hook"] = lambda _: {
            "allowed": True, "warnings": ['set "a" instead of b', "second"],
        }  # fmt: skip
        await receiver.register(cluster, receiver.hook(cluster))
        answer = await create(cluster)
    assert answer.status == 201
    assert answer.warnings == ('299 - "set \\"a\\" instead of b"', '299 - "second"')


async def test_warnings_of_a_refusal_reach_the_user_too(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["hook"] = lambda _: {"allowed": False, "warnings": ["look here"]}
        await receiver.register(cluster, receiver.hook(cluster))
        answer = await create(cluster)
    assert answer.status >= 400
    assert answer.warnings == ('299 - "look here"',)


@pytest.mark.parametrize("phase", ["Mutating", "Validating"])
@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        ({"code": 403, "reason": "Forbidden", "message": "no cards"}, 403, "Forbidden"),
        ({"code": 422, "reason": "Invalid", "message": "no cards"}, 422, "Invalid"),
        ({"code": 400, "reason": "BadRequest", "message": "no cards"}, 400, "BadRequest"),
        ({"message": "no cards"}, 400, None),
        ({"code": 403, "message": "no cards"}, 403, None),
    ],
)
async def test_a_refusal_is_passed_on(
    admission: OpenAdmission, phase: str, status: Json, code: int, reason: str | None
) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["hook"] = deny(**status)
        await receiver.register(cluster, receiver.hook(cluster), kind=phase)
        answer = await create(cluster)
        absent = await cluster.admin.get(f"{cluster.pods}/p")
    assert (answer.status, answer.body.get("reason"), answer.body["code"]) == (code, reason, code)
    assert answer.body["message"] == (
        'admission webhook "hook.contract.dev" denied the request: no cards'
    )
    absent.refused(404, "NotFound")


async def test_a_refusal_without_a_word_is_one(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["hook"] = lambda _: {"allowed": False}
        await receiver.register(cluster, receiver.hook(cluster))
        answer = await create(cluster)
    assert answer.status == 400
    assert answer.body["message"].endswith("denied the request without explanation")


async def test_an_update_can_be_refused(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        rule = {**POD_RULE, "operations": ["UPDATE"]}
        receiver.scripts["hook"] = deny(code=403, reason="Forbidden", message="keys are ours")
        await receiver.register(cluster, receiver.hook(cluster, rules=[rule]), kind="Validating")
        before = await cluster.pod("p")
        patch_ = {"metadata": {"annotations": {"k": "2"}}}
        answer = await cluster.admin.patch(f"{cluster.pods}/p", patch_)
        after = (await cluster.admin.get(f"{cluster.pods}/p")).done
    assert "keys are ours" in answer.refused(403, "Forbidden")
    assert before == after


async def test_validation_sees_what_mutation_left(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["mutate"] = patch(annotate("k", "v"))
        await receiver.register(cluster, receiver.hook(cluster, "mutate"))
        await receiver.register(cluster, receiver.hook(cluster, "validate"), kind="Validating")
        made = (await create(cluster)).done
        (asked,) = receiver.requests("validate")
    assert [path for path, _ in receiver.reviews if path != "probe"] == ["mutate", "validate"]
    assert asked["object"]["metadata"]["annotations"] == {"k": "v"}
    assert made["metadata"]["annotations"] == {"k": "v"}


async def test_validation_changes_nothing(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["hook"] = patch(annotate("k", "v"))
        await receiver.register(cluster, receiver.hook(cluster), kind="Validating")
        answer = await create(cluster)
    assert answer.status == 500
    assert "annotations" not in answer.body.get("metadata", {})


@pytest.mark.parametrize(("policy", "calls"), [("IfNeeded", 2), ("Never", 1)])
async def test_a_webhook_is_called_again_when_a_later_one_changed_the_pod(
    admission: OpenAdmission, policy: str, calls: int
) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["second"] = patch(annotate("k", "v"))
        await receiver.register(
            cluster,
            receiver.hook(cluster, "first", reinvocationPolicy=policy),
            receiver.hook(cluster, "second"),
        )
        await create(cluster)
        asked = receiver.requests("first")
    assert len(asked) == calls
    assert "annotations" not in asked[0]["object"]["metadata"]
    if calls == 2:
        assert asked[1]["object"]["metadata"]["annotations"] == {"k": "v"}
    assert len(receiver.requests("second")) == 1


async def test_a_webhook_is_not_called_again_when_nobody_changed_anything_after_it(
    admission: OpenAdmission,
) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["second"] = patch(annotate("k", "v"))
        await receiver.register(
            cluster,
            receiver.hook(cluster, "first"),
            receiver.hook(cluster, "second", reinvocationPolicy="IfNeeded"),
        )
        await create(cluster)
    assert len(receiver.requests("second")) == 1
