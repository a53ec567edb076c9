"""`tessera explain`: what is printed, and what is said where nothing can be."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tessera_cli.explain import text
from tessera_embedded.apiserver import open_apiserver
from tessera_schema.endpoints import visibility
from tests.cli.conftest import Ran, Tessera

FOUND = visibility.PodExplanation(
    metadata=visibility.Meta(name="p", namespace="team"), verdict="waiting", attempts=3,
    message="0/1 nodes have room: 1 CardInsufficientMemory", dialects=("hami",),
    advice="the largest free part is 5 GiB on n0: ask for at most 5120 MiB, or wait for team/q",
    asks=(visibility.RequestedCards(
        container="c", vendor="acme", dialect="hami", count=1, memory_mib=9000, cores_percent=30,
    ),),
    limits=(visibility.LimitState(source="ResourceQuota q", cards=4, cards_used=2),),
    nodes=(visibility.NodeState(
        name="n0",
        reasons=(
            visibility.ReasonText(
                reason="CardInsufficientMemory", message="1/1 CardInsufficientMemory: too little"
            ),
            visibility.ReasonText(reason="NodeReserved", message="room is being made"),
        ),
        cards=(visibility.CardState(
            index=0, id="GPU-0", model="A100", memory_mib=20480, memory_mib_used=15360,
            cores_percent=100, cores_percent_used=30, slots=10, slots_used=2,
            reason="CardInsufficientMemory",
            holders=(
                visibility.CardHolder(namespace="team", name="q", memory_mib=5120),
                visibility.CardHolder(memory_mib=10240, cores_percent=30, exclusive=True),
            ),
            price_percent=46,
        ),),
    ),),
    more_nodes=7,
)  # fmt: skip


def test_an_explanation_says_why_card_by_card_and_what_would_help() -> None:
    assert list(text.whole(FOUND)) == [
        "team/p (hami): waiting",
        "  0/1 nodes have room: 1 CardInsufficientMemory",
        "  what would help: the largest free part is 5 GiB on n0: ask for at most 5120 MiB, or "
        "wait for team/q",
        "  c asks for 1 acme card(s): 9000 MiB, 30 % of the cores of each",
        "  quota ResourceQuota q: 2 of 4 cards",
        "  n0: 1/1 CardInsufficientMemory: too little",
        "  n0: NodeReserved: room is being made",
        "    card 0 A100 GPU-0: 15360 of 20480 MiB, 30 of 100 % of cores, 2 of 10 slots used: "
        "CardInsufficientMemory",
        "      one more pod like this is expected to take 46 % of a card's time from those on it",
        "      team/q: 5120 MiB, 0 % of cores",
        "      a pod of another namespace: 10240 MiB, 30 % of cores, the card to itself",
        "  and 7 more nodes",
    ]


def test_a_list_is_a_line_for_each_pod() -> None:
    found = visibility.PodExplanationList(items=(FOUND,))
    head, row = text.table(found, everywhere=True)
    assert head.split() == ["NAMESPACE", "NAME", "VERDICT", "ATTEMPTS", "WHY"]
    assert row.startswith("team        p      waiting   3          0/1 nodes have room")
    head, row = text.table(found, everywhere=False)
    assert head.startswith("NAME ")
    [none] = text.table(visibility.PodExplanationList(), everywhere=False)
    assert none == "no pod waits for cards in this namespace (-A: in all)"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("node/n0",), "node/n0: write NAME or pod/NAME"),
        (("pod/",), "pod/: write NAME or pod/NAME"),
        (("p", "-A"), "p with -A: name a namespace with -n, or no pod"),
    ],
)
def test_what_is_no_pod_is_refused(tessera: Tessera, arguments: tuple[str, ...], says: str) -> None:
    ran = tessera("explain", *arguments)
    assert (ran.status, ran.out) == (1, "")
    assert says in ran.err


def test_a_cluster_without_the_api_is_said_to_lack_it(tessera: Tessera, tmp_path: Path) -> None:
    async def play() -> Ran:
        async with open_apiserver(tmp_path, keep=False) as server:
            arguments = "explain", "p", "--kubeconfig", str(server.kubeconfig)
            return await asyncio.to_thread(tessera, *arguments)

    ran = asyncio.run(play())
    assert (ran.status, ran.out) == (1, "")
    assert "the cluster has no API visibility.tessera.dev: Tessera is not installed" in ran.err
    assert "kubectl get apiservice v1alpha1.visibility.tessera.dev" in ran.err
