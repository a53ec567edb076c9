"""One pod is decided at a time, and bound while the next is decided."""

from __future__ import annotations

import asyncio

from tests.contract.client import Json
from tests.contract.extender import OpenScheduling
from tests.contract.objects import GPU
from tests.contract.scheduling import card_node, create_pod, placed, until, waiting


async def test_one_pod_is_queried_at_a_time(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        await card_node(cluster, "n")
        decided = asyncio.Event()

        async def slowly(body: Json) -> Json:
            await decided.wait()
            return {"NodeNames": body["NodeNames"]}

        extender.filter = slowly
        await create_pod(cluster, "first")
        await extender.called("filter")
        await create_pod(cluster, "second")
        await until(cluster, "second", lambda _: True)
        await asyncio.sleep(0.5)
        before = list(extender.verbs)
        decided.set()
        await placed(cluster, "first")
        await placed(cluster, "second")
    assert before == ["filter"]


async def test_a_binding_does_not_hold_up_the_next_pod(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        node = await card_node(cluster, "n")
        decided = asyncio.Event()
        bind = extender.bind

        async def slowly(body: Json) -> Json:
            await decided.wait()
            done: Json = await bind(body)
            return done

        extender.bind = slowly
        await create_pod(cluster, "first")
        await extender.called("bind")
        await create_pod(cluster, "second")
        await extender.called("filter", 2)
        decided.set()
        assert {await placed(cluster, name) for name in ("first", "second")} == {node}


async def test_a_pod_that_is_being_bound_holds_its_room(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        await card_node(cluster, "n", cards=1)
        decided = asyncio.Event()
        bind = extender.bind

        async def slowly(body: Json) -> Json:
            await decided.wait()
            done: Json = await bind(body)
            return done

        extender.bind = slowly
        await create_pod(cluster, "first")
        await extender.called("bind")
        await create_pod(cluster, "second")
        condition = await waiting(cluster, "second")
        decided.set()
        await placed(cluster, "first")
    assert f"1 Insufficient {GPU}" in condition["message"]
    assert extender.verbs.count("filter") == 1
