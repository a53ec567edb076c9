"""Quotas, forged grants, and a webhook that is away: nobody gets what belongs to another."""

from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant
from tests.cluster.bound_grants import nothing_is_overgranted, shares_on
from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.objects import a_share, a_share_pod
from tests.contract.client import Json
from tests.contract.objects import a_binding

MIB = 1 << 20


def a_quota(mib: int) -> Json:
    return {"metadata": {"name": "gpu"}, "spec": {"hard": {"limits.nvidia.com/gpumem": str(mib)}}}


def a_grant(pod: Json, node: str, mib: int) -> str:
    """Well written, and signed by nobody."""
    meta = pod["metadata"]
    share = Share(
        container="main", position=0, vendor="nvidia", dialect="hami", card=f"GPU-{node}-0",
        index=0, memory_bytes=mib * MIB,
    )  # fmt: skip
    return encode_grant(
        Grant(
            uid=meta["uid"], namespace=meta["namespace"], name=meta["name"], node=node,
            shares=(share,),
        )
    )  # fmt: skip


async def test_200_pods_that_race_for_50_shares_of_a_quota_get_50(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        quotas = f"/api/v1/namespaces/{cluster.own}/resourcequotas"
        await cluster.make(quotas, a_quota(50 * 1000))
        await cluster.nodes(4, cards=4)
        await cluster.burst([f"p{i}" for i in range(200)], a_share(1000))
        placed = await cluster.until_count(50)
        nothing_is_overgranted(placed, cluster.cards)
        held = sum(s.memory_mib for shares in shares_on(placed).values() for s in shares)
        assert held == 50 * 1000

        more: Json = {"spec": a_quota(60 * 1000)["spec"]}
        (await cluster.admin.patch(f"{quotas}/gpu", more)).done  # noqa: B018  (checks)
        await cluster.until_count(60)


async def test_a_forged_grant_is_refused_where_the_webhook_is_called(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        [node] = await cluster.nodes()
        await cluster.pod("real", a_share(4000))
        await cluster.until_bound("real")
        notes: Json = {"metadata": {"annotations": {GRANT_KEY: "mine"}}}
        answer = await cluster.admin.patch(cluster.pods_path("real"), notes)
        assert GRANT_KEY in answer.refused(403, "Forbidden")
        made = await cluster.pod("forger", {}, schedulerName="nobody", annotations={GRANT_KEY: "x"})
        assert GRANT_KEY not in made["metadata"].get("annotations", {})
        body = a_binding("forger", node, annotations={GRANT_KEY: a_grant(made, node, 24576)})
        answer = await cluster.admin.post(f"{cluster.pods_path('forger')}/binding", body)
        assert GRANT_KEY in answer.refused(403, "Forbidden")


async def test_a_forged_grant_that_got_in_counts_nothing_and_is_reported(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        [node] = await cluster.nodes()
        await without_webhook(cluster)
        made = await cluster.pod("forger", a_share(4000), schedulerName="nobody")
        body = a_binding("forger", node, annotations={GRANT_KEY: a_grant(made, node, 24576)})
        (await cluster.admin.post(f"{cluster.pods_path('forger')}/binding", body)).done  # noqa: B018  (checks)

        async def reported() -> bool:
            return await cluster.scheduler.metric("tessera_scheduler_alarms_total") > 0

        await cluster.until(reported, "an alert")
        await cluster.pod("honest", a_share(24000), schedulerName="tessera-scheduler")
        await cluster.until_bound("honest")

        async def event() -> bool:
            events = await cluster.admin.get(f"/api/v1/namespaces/{cluster.own}/events")
            return any(
                e["reason"] == "ForgedGrant" and e["involvedObject"]["name"] == "forger"
                for e in events.done["items"]
            )

        await cluster.until(event, "an event on the forger")


async def without_webhook(cluster: RealCluster) -> None:
    """As if it had been registered only a moment later: take it away just before."""
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/tessera"
        empty: Json = {"webhooks": []}
        (await cluster.admin.patch(path, empty)).done  # noqa: B018  (checks)

    async def alone() -> bool:
        return not await cluster.phases()

    await cluster.until(alone, "the webhook not called any more")


async def test_while_the_webhook_is_down_only_pods_with_requests_are_delayed(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes()
        cluster.scheduler.kill()
        answer = await cluster.admin.post(cluster.pods_path(), a_share_pod("asks", a_share()))
        assert "webhook" in answer.refused(500, "InternalError")
        await cluster.pod("plain", {"cpu": "1"}, schedulerName="tessera-scheduler")
        await cluster.until_bound("plain")

        cluster.scheduler.start()
        await cluster.leader()
        await cluster.pod("asks", a_share())
        await cluster.until_bound("asks")
