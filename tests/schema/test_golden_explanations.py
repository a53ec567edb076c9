"""Explanations as the first release wrote them. Clients of other releases read and write these
bytes, so they never change; new fields have defaults."""

from __future__ import annotations

import msgspec

from tessera_schema.endpoints import visibility

WRITTEN = (
    b'{"kind":"PodExplanation","apiVersion":"visibility.tessera.dev/v1alpha1","metadata":'
    b'{"name":"job","namespace":"team","uid":"u-1"},"verdict":"waiting","message":"no room",'
    b'"advice":"ask for less","preemption":"","node":"","attempts":3,'
    b'"decidedAt":"2026-01-01T00:00:00Z",'
    b'"scheduler":"0/1 nodes","dialects":["acme"],"asks":[{"container":"c","vendor":"acme",'
    b'"dialect":"acme","count":2,"memoryMib":1024,"memoryPercent":0,"coresPercent":30.0,'
    b'"exclusive":false}],"limits":[{"source":"q","memoryMib":4096,"cardsUsed":1}],"held":null,'
    b'"reasons":[],"nodes":[{"name":"n1","reasons":[{"reason":"CardInsufficientMemory","message":'
    b'"too little"}],"cards":[{"index":0,"id":"A0","model":"A","memoryMib":8192,'
    b'"memoryMibUsed":7168,"coresPercent":100.0,"coresPercentUsed":0.0,"slots":10,"slotsUsed":1,'
    b'"reason":"CardInsufficientMemory","holders":[{"memoryMib":7168}]}]}],"moreNodes":1}'
)


def test_an_explanation() -> None:
    card = visibility.CardState(
        index=0, id="A0", model="A", memory_mib=8192, memory_mib_used=7168, cores_percent=100.0,
        cores_percent_used=0.0, slots=10, slots_used=1, reason="CardInsufficientMemory",
        holders=(visibility.CardHolder(memory_mib=7168),),
    )  # fmt: skip
    why = visibility.ReasonText(reason="CardInsufficientMemory", message="too little")
    asked = visibility.RequestedCards(
        container="c", vendor="acme", dialect="acme", count=2, memory_mib=1024, cores_percent=30.0
    )
    found = visibility.PodExplanation(
        metadata=visibility.Meta(name="job", namespace="team", uid="u-1"), verdict="waiting",
        message="no room", advice="ask for less", attempts=3, decided_at="2026-01-01T00:00:00Z",
        scheduler="0/1 nodes", dialects=("acme",), asks=(asked,),
        limits=(visibility.LimitState(source="q", memory_mib=4096, cards_used=1),),
        nodes=(visibility.NodeState(name="n1", reasons=(why,), cards=(card,)),), more_nodes=1,
    )  # fmt: skip
    assert msgspec.json.encode(found) == WRITTEN
    assert visibility.decode_pod_explanation(WRITTEN) == found
