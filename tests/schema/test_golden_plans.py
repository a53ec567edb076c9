"""Plans on the wire: what this release writes, and what it must go on reading."""

from __future__ import annotations

import msgspec
import pytest

from tessera_schema.plans import (
    PlanDeclined,
    PlanDone,
    PlanEvent,
    PlanFailed,
    PlanKind,
    PlanProposed,
    PlanSpec,
    PlanStarted,
    PlanStatus,
    PlanStep,
    PodOfPlan,
    Reservation,
    decode_plan,
    decode_reservation,
    encode_plan,
    encode_reservation,
    plan_subject,
)

POD = PodOfPlan(namespace="team", name="a", uid="u", node="n1", owner="o")
EVENTS: dict[str, PlanEvent] = {
    "proposed": PlanProposed(plan="p", kind=PlanKind.MOVE, pods=(POD,), dry_run=True),
    "started": PlanStarted(plan="p", kind=PlanKind.MOVE, decided_by="ada"),
    "done": PlanDone(plan="p", kind=PlanKind.RESIZE),
    "declined": PlanDeclined(plan="p", kind=PlanKind.PREEMPT, for_pod=POD),
    "failed": PlanFailed(plan="p", kind=PlanKind.MOVE, message="m", for_gang="volcano/team/g"),
}


@pytest.mark.parametrize("what", EVENTS)
def test_events_are_read_as_they_were_written(what: str) -> None:
    event = EVENTS[what]
    assert decode_plan(encode_plan(event)) == event
    assert plan_subject("c", event) == f"tessera.v1.c.plan.p.{what}"


def test_an_event_keeps_its_bytes() -> None:
    assert encode_plan(EVENTS["failed"]) == (
        b'{"what":"failed","plan":"p","kind":"Move","message":"m","pods":[],"for_pod":null,'
        b'"for_gang":"volcano/team/g","cost":0,"gain":0}'
    )


def test_an_event_without_a_gang_is_read() -> None:
    old = (
        b'{"what":"failed","plan":"p","kind":"Move","message":"m","pods":[],"for_pod":null,'
        b'"cost":0,"gain":0}'
    )
    assert decode_plan(old) == PlanFailed(plan="p", kind=PlanKind.MOVE, message="m")


def test_a_reservation_keeps_its_bytes() -> None:
    held = Reservation(node="n1", until=1_795_000_000.5, plan="p")
    text = '{"node":"n1","until":1795000000.5,"plan":"p"}'
    assert encode_reservation(held) == text
    assert decode_reservation(text) == held
    with pytest.raises(msgspec.DecodeError):
        decode_reservation('{"node":"n1"}')


def test_a_plan_keeps_its_fields() -> None:
    spec = PlanSpec(
        kind=PlanKind.RESIZE, reason="r",
        steps=(PlanStep(pod=POD, to_node="n2", container="c", card="g", memory="1Gi", cores=5),),
    )  # fmt: skip
    assert msgspec.json.encode(spec) == (
        b'{"kind":"Resize","reason":"r","steps":[{"pod":{"namespace":"team","name":"a","uid":"u",'
        b'"node":"n1","owner":"o","gang":""},"toNode":"n2","container":"c","card":"g","memory":"1Gi",'
        b'"cores":5}],"forPod":null,"forGang":"","promise":null,"cost":0,"gain":0,"dryRun":false,"decision":"",'
        b'"decidedBy":""}'
    )
    assert msgspec.json.encode(PlanStatus()) == (
        b'{"phase":"Proposed","message":"","stepsBegun":0,"stepsDone":0,"started":"","ended":"",'
        b'"gained":null,"before":0,"placed":""}'
    )
