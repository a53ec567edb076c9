"""Webhooks that are down, slow or talk rubbish, and registrations that make no sense."""

from __future__ import annotations

import asyncio

import pytest

from tessera_embedded.ports import reserved_ports
from tests.contract.certificates import Authority
from tests.contract.client import Answer, Json
from tests.contract.cluster import Cluster
from tests.contract.objects import a_pod
from tests.contract.receiver import (
    REGISTRATION,
    OpenAdmission,
    create,
    patch,
)


async def test_a_patch_that_does_not_apply_is_an_error(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["hook"] = patch({"op": "remove", "path": "/metadata/annotations/absent"})
        await receiver.register(cluster, receiver.hook(cluster))
        answer = await create(cluster)
        absent = await cluster.admin.get(f"{cluster.pods}/p")
    answer.refused(500, "InternalError")
    absent.refused(404, "NotFound")


@pytest.mark.parametrize("phase", ["Mutating", "Validating"])
@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
async def test_a_webhook_that_is_down_holds_pods_up_or_not(
    admission: OpenAdmission, phase: str, policy: str, status: int
) -> None:
    with reserved_ports(1) as (nobodys,):
        async with admission() as (cluster, receiver):
            hook = receiver.hook(cluster, failurePolicy=policy)
            hook["clientConfig"]["url"] = f"https://127.0.0.1:{nobodys}/hook"
            await receiver.register(cluster, hook, kind=phase)
            answer = await create(cluster)
    assert answer.status == status
    if policy == "Fail":
        message = answer.refused(500, "InternalError")
        assert 'failed calling webhook "hook.contract.dev": failed to call webhook' in message


async def test_a_webhook_that_is_slow_is_as_good_as_down(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        never = asyncio.Event()
        receiver.scripts["hook"] = lambda _: never.wait()
        await receiver.register(cluster, receiver.hook(cluster, timeoutSeconds=1))
        answer = await create(cluster)
    assert "deadline exceeded" in answer.refused(500, "InternalError")


async def test_a_webhook_of_another_authority_is_as_good_as_down(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        receiver.ca = Authority("webhooks").certificate
        hook = receiver.hook(cluster)
        await cluster.make(
            f"{REGISTRATION}/mutatingwebhookconfigurations",
            {"metadata": {"name": f"{cluster.own}-x"}, "webhooks": [hook]},
        )
        answer = await refused_soon(cluster)
    assert "failed to call webhook" in answer.refused(500, "InternalError")
    assert receiver.requests() == []


async def refused_soon(cluster: Cluster) -> Answer:
    """The refusal of a pod, once a configuration that was just made is acted by."""
    async with asyncio.timeout(60):
        while True:
            answer = await cluster.admin.post(cluster.pods, a_pod("p"), dryRun="All")
            if answer.status != 201:
                return answer
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("said", [b"rubbish", b"{}", b'{"response": null}'])
async def test_an_answer_that_is_none_is_an_error(admission: OpenAdmission, said: bytes) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["hook"] = lambda _: said
        await receiver.register(cluster, receiver.hook(cluster))
        answer = await create(cluster)
    answer.refused(500, "InternalError")


async def test_an_answer_to_another_question_is_an_error(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        receiver.scripts["hook"] = lambda _: {"allowed": True, "uid": "other"}
        await receiver.register(cluster, receiver.hook(cluster))
        answer = await create(cluster)
    assert "expected response.uid" in answer.refused(500, "InternalError")


@pytest.mark.parametrize(
    "facts",
    [
        {"timeoutSeconds": 0}, {"timeoutSeconds": 31}, {"failurePolicy": "Perhaps"},
        {"sideEffects": "Some"}, {"name": "nodots"}, {"admissionReviewVersions": ["v0"]},
        {"matchConditions": [{"name": "c", "expression": "object.spec.("}]},
        {"matchConditions": [{"name": "c", "expression": "unknown == 1"}]},
        {"clientConfig": {"url": "http://127.0.0.1/hook"}},
    ],
)  # fmt: skip
async def test_a_configuration_that_makes_no_sense_is_refused(
    admission: OpenAdmission, facts: Json
) -> None:
    async with admission() as (cluster, receiver):
        hook = receiver.hook(cluster, **facts)
        body: Json = {"metadata": {"name": f"{cluster.own}-x"}, "webhooks": [hook]}
        answer = await cluster.admin.post(f"{REGISTRATION}/mutatingwebhookconfigurations", body)
    answer.refused(422, "Invalid")
