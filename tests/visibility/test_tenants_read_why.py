"""What the API says to a tenant about its pod: why, card by card, what would help; and nobody's
secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tessera_core.explain.decision_log import DecisionLog
from tessera_runtime.http.server import HttpSettings
from tessera_scheduler.visibility import VisibilitySettings, handler
from tessera_scheduler.visibility.pod_explanations import NODES_MOST
from tessera_scheduler.visibility.reviews import NAMESPACES_MOST
from tessera_scheduler.visibility.settings import USER_MOST
from tessera_schema.endpoints.visibility import PLURAL, ROOT
from tessera_schema.quotas import Limit
from tests.visibility.api import Plane, asking

LIST = f"{ROOT}/namespaces/team/{PLURAL}"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
async def plane(tmp_path: Path) -> Plane:
    """Two cards of 16 GiB: of one 10 are held by another tenant, of the other 12 by a pod of the
    same tenant."""
    plane = Plane(tmp_path)
    plane.hold("n0", 10, "other", "theirs")
    plane.hold("n1", 12, "team", "ours")
    plane.pod("big", 8)
    plane.filter_pod("big")
    return plane


async def test_why_and_what_would_help(plane: Plane) -> None:
    async with asking(plane) as api:
        found = await api.explain("big")
    assert (found.verdict, found.attempts, found.metadata.namespace) == ("waiting", 1, "team")
    assert found.message == "0/2 nodes have room: 2 CardInsufficientMemory"
    assert [node.name for node in found.nodes] == ["n0", "n1"]
    assert "asks 8192 MiB of a card" in found.nodes[0].reasons[0].message
    [asked] = found.asks
    assert (asked.container, asked.memory_mib) == ("c", 8192)
    assert found.advice == (
        "the largest free part is 6 GiB on n0: ask for at most acme.com/gib: 6, or wait for a pod "
        "of another namespace"
    )


async def test_pods_of_others_are_named_to_those_alone_who_may_read_them(plane: Plane) -> None:
    async with asking(plane) as api:
        tenant = await api.explain("big", query="?cards=true")
        admin = await api.explain("big", "adam", query="?cards=true")
    assert "theirs" not in str(tenant)
    assert "other" not in str(tenant).replace("another", "")
    assert admin.advice.endswith("or wait for other/theirs")
    [[n0], [n1]] = [node.cards for node in tenant.nodes]
    assert [(h.namespace, h.name, h.memory_mib) for h in n0.holders] == [("", "", 10240)]
    assert [(h.namespace, h.name) for h in n1.holders] == [("team", "ours")]
    assert [h.name for node in admin.nodes for c in node.cards for h in c.holders] == [
        "theirs", "ours",
    ]  # fmt: skip


async def test_each_card_says_what_is_missing(plane: Plane) -> None:
    async with asking(plane) as api:
        found = await api.explain("big", query="?cards=true")
    [card] = found.nodes[0].cards
    assert (card.id, card.memory_mib, card.memory_mib_used) == ("n0-0", 16384, 10240)
    assert (card.slots_used, card.reason) == (1, "CardInsufficientMemory")


async def test_a_pod_that_holds_cards_shows_them(plane: Plane) -> None:
    async with asking(plane) as api:
        found = await api.explain("ours", query="?cards=1")
    assert (found.verdict, found.node, found.advice) == ("placed", "n1", "")
    assert found.held is not None
    assert [(s.card, s.memory_mib) for s in found.held.shares] == [("n1-0", 12288)]
    [node] = found.nodes
    assert [(card.id, card.reason) for card in node.cards] == [("n1-0", "")]


async def test_a_pod_that_is_waited_for_is_not_named(plane: Plane) -> None:
    uid = plane.pod("closed-out", 8)
    plane.filter_pod("closed-out")
    decision = plane.decisions.get(uid)
    assert decision is not None
    assert decision.candidates is not None
    decision.candidates[:] = False
    reason = "room is being made there by plan p for {}, of priority 0"
    decision.reserved = {"n0": reason.format("other/theirs"), "n1": reason.format("team/ours")}
    async with asking(plane) as api:
        tenant = await api.explain("closed-out")
        admin = await api.explain("closed-out", "adam")
    [n0], [n1] = [node.reasons for node in tenant.nodes]
    assert n0.message == (
        "room is being made there by plan p for a pod of another namespace, of priority 0"
    )
    assert "team/ours" in n1.message
    assert "other/theirs" in admin.nodes[0].reasons[0].message


async def test_what_waits_is_listed_in_a_line_each(plane: Plane) -> None:
    plane.pod("no-cards", 0)
    plane.pod("wrong", 4, hostPID=True)
    plane.pod("unasked", 5)
    async with asking(plane) as api:
        found = (await api.get(LIST)).body
        table = (await api.get(LIST, accept=TABLE)).body
        page = (await api.get(f"{LIST}?limit=1")).body
        rest = (await api.get(f"{LIST}?continue={page['metadata']['continue']}")).body
    lines = {item["metadata"]["name"]: item for item in found["items"]}
    assert found["kind"] == "PodExplanationList"
    assert {name: one["verdict"] for name, one in lines.items()} == {
        "big": "waiting", "unasked": "unasked", "wrong": "rejected", "ours": "placed",
    }  # fmt: skip
    assert "6 GiB on n0" in lines["big"]["advice"]
    assert lines["unasked"]["message"].startswith("kube-scheduler has not asked about it")
    assert lines["wrong"]["message"].startswith("spec.hostPID: true: ")
    assert table["kind"] == "Table"
    rows = {row["cells"][0]: row["cells"] for row in table["rows"]}
    assert rows["big"][1] == "waiting"
    names = [i["metadata"]["name"] for i in page["items"] + rest["items"]]
    assert sorted(names) == sorted(lines)


async def test_what_its_namespace_allows_is_no_refusal(plane: Plane) -> None:
    plane.pod("wide", 20, hostPID=True)
    plane.ledger.set_namespaces({"team": {"allow.tessera.dev/host-pid": "true"}})
    async with asking(plane) as api:
        explanation = await api.explain("wide")
        found = (await api.get(LIST)).body
    assert explanation.verdict == "unasked"
    assert "no card of this cluster is that large" in explanation.advice
    [line] = [one for one in found["items"] if one["metadata"]["name"] == "wide"]
    assert line["verdict"] == "unasked"


async def test_quota_is_explained_with_what_is_used(tmp_path: Path) -> None:
    limit = Limit(namespace="team", source="ResourceQuota team/q", memory_bytes=6 << 30)
    plane = Plane(tmp_path, limits=[limit])
    for name in ("a", "b"):
        plane.pod(name, 4)
        plane.filter_pod(name)
    async with asking(plane) as api:
        found = await api.explain("b")
    assert "allows 6144 MiB of memory, 4096 are used and 4096 asked" in found.message
    [state] = found.limits
    assert (state.memory_mib, state.memory_mib_used) == (6144, 4096)


async def test_another_replica_answers_from_its_own_ledger(plane: Plane) -> None:
    plane.decisions = DecisionLog()
    plane.leader = "tessera-scheduler-7f"
    async with asking(plane) as api:
        found = await api.explain("big")
    assert found.message.startswith("as the books are now (tessera-scheduler-7f decides, ")
    assert "0/2 nodes have room: 2 CardInsufficientMemory" in found.message
    assert "the largest free part is 6 GiB on n0" in found.advice


async def test_a_pod_with_reserved_cards_shows_them(tmp_path: Path) -> None:
    plane = Plane(tmp_path)
    plane.pod("a", 4)
    plane.filter_pod("a")
    async with asking(plane) as api:
        found = await api.explain("a")
    assert (found.verdict, found.node, found.attempts) == ("placed", "n0", 1)
    assert found.held is not None
    assert (found.held.node, found.held.phase) == ("n0", "reserved")


async def test_a_pod_without_a_decision_is_explained_by_the_present_ledger(tmp_path: Path) -> None:
    plane = Plane(tmp_path)
    for name, gib in (("large", 20), ("small", 4), ("none", 0)):
        plane.pod(name, gib)
    plane.pod("wrong", 4, hostPID=True)
    asked = "kube-scheduler has not asked about it since the scheduler started; "
    expected = {
        "large": ("unasked", asked + "0/2 nodes have room: 2 CardInsufficientMemory", 2),
        "small": ("unasked", asked + "2 nodes have room now", 0),
        "none": ("ignored", "it asks for no cards", 0),
    }
    async with asking(plane) as api:
        for name, (verdict, message, nodes) in expected.items():
            found = await api.explain(name)
            assert (found.verdict, found.message, len(found.nodes)) == (verdict, message, nodes)
        wrong = await api.explain("wrong")
    assert wrong.verdict == "rejected"
    assert wrong.message.startswith("spec.hostPID: true: ")


async def test_another_pod_of_the_same_name_is_not_taken_for_it(plane: Plane) -> None:
    plane.store.handle("DELETE", "/api/v1/namespaces/team/pods/ours")
    uid = plane.pod("ours", 4)
    async with asking(plane) as api:
        found = await api.explain("ours")
    assert (found.metadata.uid, found.verdict, found.held) == (uid, "unasked", None)


async def test_an_api_server_that_is_away_is_said_so(plane: Plane) -> None:
    async with asking(plane) as api:
        plane.kube.call_s = 0.05
        plane.kube.pause()
        found = await api.get(f"{LIST}/big")
    assert (found.status, found.body["reason"]) == (503, "ServiceUnavailable")


async def test_an_answer_is_given_up_in_time(plane: Plane) -> None:
    settings = VisibilitySettings(http=HttpSettings(), register=False, refresh_s=0.05, whole_s=0.05)
    async with asking(plane, settings) as api:
        plane.kube.pause()
        found = await api.get(f"{LIST}/big")
    assert (found.status, found.body["message"]) == (503, "no answer within 0.05 s: try again")


async def test_the_loop_goes_on_while_many_nodes_are_explained(tmp_path: Path) -> None:
    plane = Plane(tmp_path, nodes=400)
    plane.pod("big", 20)
    plane.filter_pod("big")
    turns, done = 0, asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            plane.ledger.put_node(f"n{turns}", [])
            await asyncio.sleep(0)

    async with asking(plane) as api, asyncio.TaskGroup() as group:
        group.create_task(others(), name="filter and bind, say")
        found = await api.explain("big")
        done.set()
    assert len(found.nodes) + found.more_nodes == 400
    assert turns > 25


# -- bounds


async def test_an_answer_reviews_few_namespaces_only(tmp_path: Path) -> None:
    plane = Plane(tmp_path, nodes=NAMESPACES_MOST + 20)
    for n in range(NAMESPACES_MOST + 20):
        namespace = f"tenant-{n}"
        plane.namespace(namespace)
        plane.pod(f"p{n}", 16, namespace)
        plane.filter_pod(f"p{n}", namespace)
    plane.pod("big", 8)
    plane.filter_pod("big")
    async with asking(plane) as api:
        await api.explain("big", query="?cards=true")
        reviews = [path for _, path in plane.kube.calls if path.endswith("accessreviews")]
        await api.explain("big", query="?cards=true")
        again = [path for _, path in plane.kube.calls if path.endswith("accessreviews")]
    assert len(reviews) <= NAMESPACES_MOST + 2
    assert again == reviews


async def test_an_answer_has_a_bounded_number_of_nodes_and_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane(tmp_path, nodes=NODES_MOST + 50)
    plane.pod("big", 20)
    plane.filter_pod("big")
    async with asking(plane) as api:
        found = await api.explain("big", query="?cards=true")
        assert (len(found.nodes), found.more_nodes) == (NODES_MOST, 50)
        monkeypatch.setattr(handler, "ANSWER_MOST", 1000)
        small = await api.explain("big")
        assert (len(small.nodes), small.more_nodes) == (0, NODES_MOST + 50)
        assert small.message == found.message


async def test_nodes_without_cards_come_last(tmp_path: Path) -> None:
    plane = Plane(tmp_path)
    plane.ledger.put_node("a-bare-one", [])
    plane.pod("big", 20)
    plane.filter_pod("big")
    async with asking(plane) as api:
        found = await api.explain("big")
    assert [node.name for node in found.nodes] == ["n0", "n1", "a-bare-one"]


async def test_too_many_at_once_get_429(plane: Plane) -> None:
    settings = VisibilitySettings(
        http=HttpSettings(), register=False, refresh_s=0.05, waiting=1, whole_s=1.0
    )
    async with asking(plane, settings) as api:
        plane.kube.pause()
        async with asyncio.TaskGroup() as group:
            both = [group.create_task(api.get(f"{LIST}/big"), name=f"{n}") for n in range(2)]
    found = {answer.status: answer for answer in (task.result() for task in both)}
    assert sorted(found) == [429, 503]
    assert found[429].headers["Retry-After"] == "2"


async def test_one_user_leaves_room_for_others(plane: Plane) -> None:
    settings = VisibilitySettings(http=HttpSettings(), register=False, refresh_s=0.05, whole_s=1.0)
    async with asking(plane, settings) as api:
        plane.kube.pause()
        async with asyncio.TaskGroup() as group:
            flood = [
                group.create_task(api.get(f"{LIST}/big"), name=f"{n}") for n in range(USER_MOST + 5)
            ]
            while sum(task.done() for task in flood) < 5:
                await asyncio.sleep(0.01)
            other = group.create_task(api.get(f"{LIST}/big", "adam"), name="another")
    found = sorted(task.result().status for task in flood)
    assert found == [429] * 5 + [503] * USER_MOST
    assert other.result().status == 503
