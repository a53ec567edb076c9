"""`explain`: why a pod is where it is, or waits, for whoever may read it."""

from __future__ import annotations

import asyncio

import pytest

from tessera_scheduler.explaining import ExplainSettings
from tessera_schema.quotas import Limit
from tests.webhook.explained import Scheduler, asking


async def test_a_pod_that_waits_is_told_why_in_numbers() -> None:
    scheduler = Scheduler()
    uid = scheduler.pod("big", 20)
    for _ in range(3):
        scheduler.ask("big")
    async with asking(scheduler) as asker:
        told = await asker.explain("team/big")
        decision = told.decision
        assert (decision.uid, decision.verdict, decision.attempts) == (uid, "waiting", 3)
        assert decision.message == "0/2 nodes have room: 2 CardInsufficientMemory"
        assert [r.node for r in decision.reasons] == ["n0", "n1"]
        assert "asks 20480 MiB of a card" in decision.reasons[0].message
        assert told.dialects == ("acme",)
        (asked,) = told.asks
        assert (asked.container, asked.count, asked.memory_bytes) == ("c", 1, 20 << 30)
        assert told.held is None
        assert await asker.explain(uid) == told


async def test_a_reserved_and_a_bound_pod_show_what_they_hold() -> None:
    scheduler = Scheduler()
    uid = scheduler.pod("a", 4)
    scheduler.ask("a")
    async with asking(scheduler) as asker:
        told = await asker.explain("team/a")
        assert (told.decision.verdict, told.decision.node) == ("placed", "n0")
        assert told.held is not None
        assert (told.held.node, told.held.phase) == ("n0", "reserved")
        assert [(s.card, s.memory_mib) for s in told.held.shares] == [("n0-0", 4096)]
        scheduler.ledger.sent(uid)
        scheduler.ledger.settle(uid, bound=True)
        bound = await asker.explain(uid)
        assert bound.held is not None
        assert bound.held.phase == "bound"
        assert bound.decision.feasible_nodes == 2


async def test_quota_is_told_with_what_is_used() -> None:
    limit = Limit(namespace="team", source="ResourceQuota team/q", memory_bytes=6 << 30)
    scheduler = Scheduler(limits=[limit])
    for name in ("a", "b"):
        scheduler.pod(name, 4)
        scheduler.ask(name)
    async with asking(scheduler) as asker:
        told = await asker.explain("team/b")
        assert told.decision.message == (
            "ResourceQuota team/q allows 6144 MiB of memory, 4096 are used and 4096 asked"
        )
        assert [r.reason.wire for r in told.decision.reasons] == ["ResourceQuotaNotFit"]
        (quota,) = told.quota
        assert (quota.memory_bytes, quota.memory_bytes_used, quota.cards_used) == (
            6 << 30, 4 << 30, 1,
        )  # fmt: skip


async def test_a_pod_that_nobody_asked_about_is_judged_by_todays_books() -> None:
    scheduler = Scheduler(limits=[Limit(namespace="other", source="q", memory_bytes=0)])
    for name, gib in (("big", 20), ("small", 4), ("none", 0)):
        scheduler.pod(name, gib)
    scheduler.pod("wrong", 4, hostPID=True)
    async with asking(scheduler) as asker:
        asked = "kube-scheduler has not asked about it since the scheduler started; "
        expected = {
            "big": ("unasked", asked + "0/2 nodes have room: 2 CardInsufficientMemory", 2),
            "small": ("unasked", asked + "2 nodes have room now", 0),
            "none": ("ignored", "it asks for no cards", 0),
        }
        for name, (verdict, message, reasons) in expected.items():
            decision = (await asker.explain(f"team/{name}")).decision
            assert (decision.verdict, decision.message) == (verdict, message)
            assert len(decision.reasons) == reasons
        wrong = (await asker.explain("team/wrong")).decision
        assert wrong.verdict == "rejected"
        assert wrong.message.startswith("spec.hostPID: true: ")


async def test_a_pod_that_its_namespace_allows_is_no_refused_one() -> None:
    scheduler = Scheduler()
    scheduler.pod("big", 20, hostPID=True)
    scheduler.ledger.set_namespaces({"team": {"allow.tessera.dev/host-pid": "true"}})
    async with asking(scheduler) as asker:
        decision = (await asker.explain("team/big")).decision
        assert decision.verdict == "unasked"
        assert "2 CardInsufficientMemory" in decision.message


@pytest.mark.parametrize(
    ("path", "token", "status", "sentence"),
    [
        ("team/a", None, 401, "send the header Authorization: Bearer "),
        ("team/a", "", 401, "send the header Authorization: Bearer "),
        ("team/a", "nobodys", 401, "the token is not known to the API server"),
        ("team/a", "joe-token", 403, "joe may not get pod a in namespace team"),
        ("other/secret", "jane-token", 403, "jane may not get pod secret in namespace other"),
        ("other/none", "jane-token", 403, "jane may not get pod none in namespace other"),
        ("team/none", "jane-token", 404, "pod team/none: there is none"),
        ("no-such-uid", "jane-token", 404, "nothing is known of uid no-such-uid: ask by /explain/"),
        ("no-such-uid", "nobodys", 401, "the token is not known"),
    ],
)  # fmt: skip
async def test_others_get_a_sentence(
    path: str, token: str | None, status: int, sentence: str
) -> None:
    scheduler = Scheduler()
    scheduler.pod("a", 4)
    scheduler.pod("secret", 4, namespace="other")
    async with asking(scheduler) as asker:
        answered, body = await asker.get(f"/explain/{path}", token)
        assert answered == status
        assert body.decode().startswith(sentence)
        assert f'explanations_total{{status="{status}"}} 1.0' in scheduler.metrics.text().decode()


async def test_another_pod_of_the_same_name_is_not_taken_for_it() -> None:
    scheduler = Scheduler()
    uid = scheduler.pod("a", 4)
    scheduler.ask("a")
    scheduler.store.handle("DELETE", "/api/v1/namespaces/team/pods/a")
    scheduler.pod("a", 4)
    async with asking(scheduler) as asker:
        status, body = await asker.get(f"/explain/{uid}")
        assert (status, body.decode().partition(":")[0]) == (404, f"pod team/a of uid {uid}")


async def test_an_api_server_that_is_away_is_said_so() -> None:
    scheduler = Scheduler()
    scheduler.pod("a", 4)
    scheduler.kube.call_s = 0.05
    scheduler.kube.pause()
    async with asking(scheduler) as asker:
        assert (await asker.get("/explain/team/a"))[0] == 503


async def test_an_answer_is_given_up_in_time() -> None:
    scheduler = Scheduler()
    scheduler.kube.pause()
    async with asking(scheduler, ExplainSettings(whole_s=0.05)) as asker:
        status, body = await asker.get("/explain/team/a")
        assert (status, body) == (503, b"no answer within 0.05 s: try again\n")


async def test_the_loop_goes_on_while_many_nodes_are_explained() -> None:
    scheduler = Scheduler(nodes=400)
    scheduler.pod("big", 20)
    scheduler.ask("big")
    turns, done = 0, asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            scheduler.ledger.put_node(f"n{turns}", [])
            await asyncio.sleep(0)

    async with asking(scheduler) as asker, asyncio.TaskGroup() as group:
        group.create_task(others(), name="filter and bind, say")
        told = await asker.explain("team/big")
        done.set()
        assert len(told.decision.reasons) == 400
        assert turns > 25


async def test_a_replica_that_stands_by_says_who_knows() -> None:
    scheduler = Scheduler()
    scheduler.pod("a", 4)
    async with asking(scheduler, leader="tessera-scheduler-7f") as asker:
        status, body = await asker.get("/explain/team/a")
    assert status == 503
    assert body == (
        b"standing by: tessera-scheduler-7f leads and knows what was decided: ask again, or "
        b"forward a port of pod/tessera-scheduler-7f\n"
    )
