"""Queues over the API: everybody sees numbers, and the names of what waits in namespaces of its
own; what others wrote in reasons is not shown either."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessera_core.gang_scheduling.view import QueueKey, QueueView, WaitingGang
from tessera_core.gangs.fair_shares import QueueShare
from tessera_core.gangs.queues import PLAIN_QUOTA, VOLCANO_QUEUE, QueueDimension, QueueOrigin
from tessera_schema.endpoints.queue_states import QUEUES_PLURAL
from tessera_schema.endpoints.visibility import ROOT
from tests.visibility.api import Plane, asking

CARDS = QueueDimension("acme", "cards")
TEAM = f"{ROOT}/namespaces/team/{QUEUES_PLURAL}"


def waiting(position: int, namespace: str, name: str, reason: str) -> WaitingGang:
    return WaitingGang(
        id=f"volcano/{namespace}/{name}", position=position, namespace=namespace, name=name, pods=2,
        reason=reason, waits_since=1000,
    )  # fmt: skip


def queue(
    name: str, *line: WaitingGang, origin: QueueOrigin = VOLCANO_QUEUE, parent: str = ""
) -> QueueView:
    return QueueView(
        key=QueueKey(origin.group, name), origin=origin, parent=parent, guarantee={CARDS: 1},
        cap={CARDS: 8}, deserved={CARDS: 2}, used={CARDS: 4}, share=QueueShare(0.25, 2), by=CARDS,
        problem="", waiting=line,
    )  # fmt: skip


@pytest.fixture
async def plane(tmp_path: Path) -> Plane:
    """A queue under another one, in which gangs of two tenants wait, and a quota of each."""
    plane = Plane(tmp_path)
    plane.queues = (
        queue(
            "a", waiting(1, "other", "theirs", "it waits for room"),
            waiting(2, "team", "ours", "gang other/theirs is before it in its queue"),
            parent="top",
        ),
        queue("other/quota", origin=PLAIN_QUOTA), queue("team/quota", origin=PLAIN_QUOTA),
        queue("top"),
    )  # fmt: skip
    return plane


async def test_a_tenant_sees_numbers_of_all_and_names_of_its_own(plane: Plane) -> None:
    async with asking(plane) as api:
        found = await api.get(TEAM)
    assert found.status == 200
    assert "theirs" not in str(found.body)
    assert "other/" not in str(found.body)
    items = found.body["items"]
    assert [each["metadata"]["name"] for each in items] == ["top", "a", "team/quota"]
    state = items[1]["state"]
    assert (state["parent"], state["waiting_gangs"], state["waiting_pods"]) == ("top", 2, 4)
    assert state["amounts"] == [
        {"what": "cards", "vendor": "acme", "used": 4, "guarantee": 1, "deserved": 2, "cap": 8}
    ]
    first, second = items[1]["waiting"]
    assert (first["position"], first["name"], first["reason"]) == (1, "", "")
    assert (second["position"], second["namespace"], second["name"]) == (2, "team", "ours")
    assert second["reason"] == "gang a pod of another namespace is before it in its queue"
    assert second["waitsSince"] == "1970-01-01T00:16:40Z"


async def test_who_may_read_all_pods_sees_all_names(plane: Plane) -> None:
    async with asking(plane) as api:
        found = await api.get(f"{ROOT}/{QUEUES_PLURAL}", "adam")
    assert "gang other/theirs is before it" in str(found.body)
    names = [each["metadata"]["name"] for each in found.body["items"]]
    assert names == ["top", "a", "other/quota", "team/quota"]


async def test_who_may_not_list_them_is_refused_by_name(plane: Plane) -> None:
    async with asking(plane) as api:
        nobody = await api.get(TEAM, "nobody")
        everywhere = await api.get(f"{ROOT}/{QUEUES_PLURAL}")
        watched = await api.get(f"{TEAM}?watch=true")
    assert (nobody.status, everywhere.status, watched.status) == (403, 403, 405)
    assert f'cannot list resource "{QUEUES_PLURAL}"' in nobody.body["message"]


async def test_a_replica_that_does_not_lead_says_so(plane: Plane) -> None:
    plane.queues = None
    async with asking(plane) as api:
        found = await api.get(TEAM)
    assert (found.status, found.body["details"]["retryAfterSeconds"]) == (503, 2)


async def test_queues_in_a_circle_are_listed_once(plane: Plane) -> None:
    plane.queues = (queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="gone"))
    async with asking(plane) as api:
        found = await api.get(TEAM)
    assert [each["metadata"]["name"] for each in found.body["items"]] == ["a", "b", "c"]
