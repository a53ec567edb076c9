"""`tessera queue`: the tree, the waiting list of one queue, and what is said where nothing can
be."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_cli import forms
from tessera_cli.queue import queues, tables
from tessera_embedded.apiserver import open_apiserver
from tessera_schema.endpoints.queue_states import (
    ListedQueue,
    ListedQueues,
    QueueName,
    WaitingInQueue,
    decode_listed_queues,
)
from tessera_schema.queue_states import QueueAmount, QueueState
from tests.cli.conftest import Ran, Tessera

GROUP = "scheduling.volcano.sh"


def queue(name: str, parent: str = "", *amounts: QueueAmount, share: float = 0) -> ListedQueue:
    return ListedQueue(
        metadata=QueueName(name=name),
        state=QueueState(
            group=GROUP, kind="Queue", name=name, parent=parent, amounts=amounts,
            waiting_gangs=2 if amounts else 0, waiting_pods=5 if amounts else 0, share=share,
        ),
        waiting=() if not amounts else (
            WaitingInQueue(
                position=1, kind="Gang", pods=4, waits_since="2026-11-28T07:00:00Z"
            ),
            WaitingInQueue(
                position=2, kind="Pod", namespace="team", name="p", pods=1, reason="no room",
                waits_since="2026-11-28T07:01:00Z",
            ),
        ),
    )  # fmt: skip


CARDS = QueueAmount(what="cards", vendor="acme", used=6, guarantee=1, deserved=4, cap=8)
MEMORY = QueueAmount(what="memory", vendor="acme", used=64 << 30)
FOUND = ListedQueues(items=(queue("top"), queue("research", "top", CARDS, MEMORY, share=0.25)))


def printed(
    capsys: pytest.CaptureFixture[str],
    output: str = forms.TABLE,
    name: str = "",
    found: ListedQueues = FOUND,
) -> list[str]:
    options = argparse.Namespace(output=output, sized=False, no_headers=False)
    found = queues.named(found, name)
    forms.put(
        options, [queues.document(found)], tables.names(found, name),
        lambda to: tables.show(to, found, name, wide=output == forms.WIDE),
    )  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    return [line.removeprefix(" ") for line in lines if line.strip(" ─")]


def test_queues_are_a_tree_with_what_they_borrow(capsys: pytest.CaptureFixture[str]) -> None:
    head, top, research = (line.split() for line in printed(capsys))
    assert head == [
        "Queue", "Resource", "Guaranteed", "Deserved", "Cap", "Used", "Borrowed", "Share",
        "Waiting",
    ]  # fmt: skip
    assert top == ["top", "-", "0", "0", "-", "0", "0", "within", "0"]
    assert research == [
        "research", "acme", "cards", "1", "4", "8", "6", "2", "+25.0%", "2", "gangs,", "5", "pods",
    ]  # fmt: skip
    assert printed(capsys)[2].startswith("  research")


def test_what_its_past_takes_from_a_queues_weight_is_behind_its_share(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (item,) = queues.named(FOUND, "research").items
    for lost, share in ((0.33, "+25.0%, weight -33%"), (0.004, "+25.0%")):
        state = replace(item.state, weight_lost=lost)
        found = ListedQueues(items=(replace(item, state=state),))
        assert f"{share}  2 gangs" in printed(capsys, found=found)[1]


def test_wide_shows_each_resource(capsys: pytest.CaptureFixture[str]) -> None:
    assert "acme memory" in printed(capsys, forms.WIDE)[3]
    assert "64.0 GiB" in printed(capsys, forms.WIDE)[3]


def test_one_queue_is_listed_with_who_waits_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, name="research")
    assert lines[-2].split() == [
        "1", "Gang", "(another", "namespace)", "4", "2026-11-28T07:00:00Z", "-", "-",
    ]  # fmt: skip
    assert lines[-1].split() == [
        "2", "Pod", "team/p", "1", "2026-11-28T07:01:00Z", "-", "no", "room",
    ]  # fmt: skip


def test_programs_get_json_and_scripts_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, forms.NAME) == ["queue/top", "queue/research"]
    assert printed(capsys, forms.NAME, "research") == ["pod/team/p"]
    options = argparse.Namespace(output=forms.JSON)
    forms.put(options, [queues.document(FOUND)], (), lambda to: None)
    text = capsys.readouterr().out
    assert json.loads(text)["kind"] == "QueueStateList"
    assert decode_listed_queues(text.encode()) == FOUND


def test_a_queue_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(queues.QueuesNotListed, match="queue q not found: there are top, research"):
        queues.named(FOUND, "q")


def test_a_cluster_without_the_api_is_said_to_lack_it(tessera: Tessera, tmp_path: Path) -> None:
    async def play() -> Ran:
        async with open_apiserver(tmp_path, keep=False) as server:
            arguments = "queue", "--kubeconfig", str(server.kubeconfig)
            return await asyncio.to_thread(tessera, *arguments)

    ran = asyncio.run(play())
    assert (ran.status, ran.out) == (1, "")
    assert "the cluster has no queuestates.visibility.tessera.dev: Tessera is not" in ran.err
