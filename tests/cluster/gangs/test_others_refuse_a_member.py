"""A webhook of others refuses the last member: when it is created, or when it is bound."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.gangs.members import CARD, a_member, create, make_group, members
from tests.cluster.gangs.waiting import nothing_bound, until_explained
from tests.cluster.objects import a_share_pod
from tests.contract.client import Json
from tests.contract.receiver import POD_RULE, REGISTRATION, Receiver, open_receiver

BINDING_RULE: Json = {**POD_RULE, "resources": ["pods/binding"]}


class Refusal:
    """What the webhook refuses at the moment."""

    def __init__(self) -> None:
        """Nothing but the probe."""
        self.pods = {"probe"}
        self.bindings: set[str] = set()
        self.refused: list[str] = []

    def answer(self, request: Json) -> Json:
        """The review's response."""
        names = self.bindings if request.get("subResource") == "binding" else self.pods
        if request["name"] not in names:
            return {"allowed": True}
        self.refused.append(request["name"])
        return {"allowed": False, "status": {"code": 403, "message": "not on a Tuesday"}}


@asynccontextmanager
async def refusing(cluster: RealCluster, folder: Path) -> AsyncGenerator[Refusal]:
    """Somebody else's webhook, in effect when this is entered."""
    refusal = Refusal()
    async with open_receiver(folder) as receiver:
        receiver.scripts["hook"] = refusal.answer
        await cluster.make(f"{REGISTRATION}/validatingwebhookconfigurations", {
            "metadata": {"name": f"{cluster.own}-others"}, "webhooks": [a_hook(cluster, receiver)],
        })  # fmt: skip

        async def called() -> bool:
            probe = a_share_pod("probe", {})
            answer = await cluster.admin.post(cluster.pods_path(), probe, dryRun="All")
            return answer.status == 403

        await cluster.until(called, "the webhook of others called")
        try:
            yield refusal
        finally:
            path = f"{REGISTRATION}/validatingwebhookconfigurations/{cluster.own}-others"
            await cluster.admin.delete(path)


def a_hook(cluster: RealCluster, receiver: Receiver) -> Json:
    """For pods and Bindings of the test's namespace."""
    mine = {"matchLabels": {"kubernetes.io/metadata.name": cluster.own}}
    return {
        "name": "others.contract.dev", "admissionReviewVersions": ["v1"],
        "clientConfig": receiver.client_config("hook"), "failurePolicy": "Fail",
        "sideEffects": "None", "timeoutSeconds": 10, "rules": [POD_RULE, BINDING_RULE],
        "namespaceSelector": mine,
    }  # fmt: skip


async def test_the_last_member_is_not_created(open_cluster: OpenCluster, tmp_path: Path) -> None:
    async with open_cluster() as cluster, refusing(cluster, tmp_path) as refusal:
        await cluster.nodes(1, cards=3)
        await make_group(cluster, "g", 3)
        refusal.pods.add("g-2")
        await create(cluster, members("g", 2))
        last = a_member("g-2", "g")
        assert (await cluster.admin.post(cluster.pods_path(), last)).status == 403
        await nothing_bound(cluster, "g-0")
        await cluster.pod("single", CARD)
        await cluster.until_bound("single")
        await until_explained(cluster, "g-0", "has 2 of 3 members")
        refusal.pods.clear()
        await cluster.delete(["single"])
        await create(cluster, [last])
        await cluster.until_bound("g-0", "g-1", "g-2")


async def test_the_last_member_is_not_bound(open_cluster: OpenCluster, tmp_path: Path) -> None:
    """Its Binding is refused after all have arrived: the one case in which some run already. Its
    card waits for it, others go on, and it is tried until it may."""
    async with open_cluster() as cluster, refusing(cluster, tmp_path) as refusal:
        await cluster.nodes(1, cards=4)
        await make_group(cluster, "g", 3)
        refusal.bindings.add("g-2")
        await create(cluster, members("g", 3))
        await cluster.until_bound("g-0", "g-1")

        async def again() -> bool:
            return refusal.refused.count("g-2") > 1

        await cluster.until(again, "g-2 tried again")
        await cluster.pod("single", CARD)
        await cluster.pod("next", CARD)
        await cluster.until_bound("single")
        refusal.bindings.clear()
        placed = await cluster.until_bound("g-2")
        assert {p["metadata"]["name"] for p in placed} == {"g-0", "g-1", "g-2", "single"}
