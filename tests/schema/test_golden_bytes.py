"""Wire formats as this release writes them. These bytes never change: new fields have defaults."""

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from tessera_schema.cards import Card
from tessera_schema.decisions import (
    DecisionRecord,
    ReasonRecord,
    decode_decision,
    encode_decision,
)
from tessera_schema.endpoints.extender import (
    ExtenderFilterResult,
    decode_args,
    decode_names,
    encode_result,
)
from tessera_schema.grants import (
    Grant,
    Share,
    UnknownGrantVersion,
    decode_grant,
    encode_grant,
)
from tessera_schema.injections import Injection, Mount
from tessera_schema.messages.allocation_events import (
    AllocationEvent,
    AllocationGranted,
    AllocationRefused,
    AllocationReleased,
    decode_event,
    encode_event,
    subject,
)
from tessera_schema.node_cards import (
    ALLOCATE,
    NodeCardsAnnotation,
    decode_node_cards,
    encode_node_cards,
)
from tessera_schema.reasons import Reason
from tessera_schema.requests import Role

SHARE = (
    '{"container":"train","position":1,"role":"app","vendor":"acme","dialect":"acme","card":"A-0",'
    '"index":0,"memory_bytes":8504035246,"cores_percent":6.25,"exclusive":false}'
)
BEFORE_GIVEN = (
    '{"version":1,"uid":"u-1","namespace":"team","name":"job","node":"n1","shares":[' + SHARE + "]}"
)
GRANT = (
    BEFORE_GIVEN[:-1]
    + ',"revision":0,"given":{"train":{"env":{"LIMIT":"1"},"mounts":[{"destination":"/d",'
    '"source":"/s","read_only":true}],"devices":["/dev/acme0"],"annotations":{}}}}'
)
A_GRANT = Grant(
    uid="u-1",
    namespace="team",
    name="job",
    node="n1",
    shares=(
        Share(
            container="train",
            position=1,
            role=Role.APP,
            vendor="acme",
            dialect="acme",
            card="A-0",
            index=0,
            memory_bytes=8504035246,
            cores_percent=6.25,
        ),
    ),
    given={
        "train": Injection(
            env={"LIMIT": "1"},
            mounts=(Mount(destination="/d", source="/s"),),
            devices=("/dev/acme0",),
        ),
    },
)


def test_a_grant_is_written_so_and_read_back() -> None:
    assert encode_grant(A_GRANT) == GRANT
    assert decode_grant(GRANT) == A_GRANT


def test_a_grant_from_before_injections_travelled_in_it_is_read() -> None:
    assert decode_grant(BEFORE_GIVEN) == replace(A_GRANT, given={})


def test_a_reader_skips_fields_that_it_does_not_know() -> None:
    assert decode_grant(GRANT[:-1] + ',"signature":"..."}') == A_GRANT


@pytest.mark.parametrize("text", ['{"version":2}', '{"version":99,"uid":5}'])
def test_a_newer_version_is_reported_apart_from_nonsense(text: str) -> None:
    with pytest.raises(UnknownGrantVersion):
        decode_grant(text)


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", GRANT[:-2], '{"version":1}', '{"version":"1"}']
)
def test_nonsense_is_a_decode_error(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_grant(text)


EVENTS: list[tuple[AllocationEvent, str, str]] = [
    (AllocationGranted(grant=A_GRANT), '{"what":"granted","grant":' + GRANT + "}", "granted"),
    (
        AllocationReleased(namespace="team", uid="u-1", node="n1"),
        '{"what":"released","namespace":"team","uid":"u-1","node":"n1"}',
        "released",
    ),
    (
        AllocationRefused(
            namespace="team", uid="u-1", reason=Reason.CARD_INSUFFICIENT_MEMORY, message="m"
        ),
        '{"what":"refused","namespace":"team","uid":"u-1","reason":10,"message":"m"}',
        "refused",
    ),
]


@pytest.mark.parametrize(("event", "data", "what"), EVENTS, ids=[w for _, _, w in EVENTS])
def test_events_are_written_so(event: AllocationEvent, data: str, what: str) -> None:
    assert encode_event(event).decode() == data
    assert decode_event(data.encode()) == event
    assert subject("east", event) == f"tessera.v1.east.allocation.team.u-1.{what}"


def test_published_cards_are_written_so() -> None:
    card = Card(id="A-0", index=0, vendor="acme", model="A1", memory_bytes=1 << 34)
    data = (
        '{"version":1,"cards":[{"id":"A-0","index":0,"vendor":"acme","model":"A1",'
        '"memory_bytes":17179869184,"physical_bytes":0,"cores_percent":100,"slots":100,"minor":-1,"numa":0,'
        '"switch":"","links":{},"mode":"","healthy":true,"cordoned":false,'
        '"hidden":false}]}'
    )
    assert encode_node_cards(NodeCardsAnnotation(cards=(card,))) == data
    assert decode_node_cards(data).cards == (card,)
    assert decode_node_cards(data).giving is UNSET
    by_kubelet = NodeCardsAnnotation(giving=ALLOCATE)
    assert encode_node_cards(by_kubelet) == '{"version":1,"cards":[],"giving":"allocate"}'
    assert decode_node_cards(encode_node_cards(by_kubelet)) == by_kubelet


def test_decisions_are_written_so() -> None:
    record = DecisionRecord(
        uid="u-1", verdict="waiting", at=1.5, attempts=2, message="0/1 nodes have room",
        reasons=(ReasonRecord(node="n1", reason=Reason.CARD_INSUFFICIENT_CORE, message="m"),),
    )  # fmt: skip
    data = (
        b'{"uid":"u-1","verdict":"waiting","at":1.5,"attempts":2,"node":"","feasible_nodes":0,'
        b'"message":"0/1 nodes have room","reasons":[{"node":"n1","reason":11,"message":"m"}]}'
    )
    assert encode_decision(record) == data
    assert decode_decision(data) == record


def test_reasons_keep_their_numbers_and_names() -> None:
    assert {int(r): r.wire for r in Reason} == {
        1: "CardNotHealth",
        2: "CardCordoned",
        3: "CardTypeMismatch",
        4: "ModeNotFit",
        5: "NumaNotFit",
        6: "CardUuidMismatch",
        7: "CardTimeSlicingExhausted",
        8: "ExclusiveDeviceAllocateConflict",
        9: "ResourceQuotaNotFit",
        10: "CardInsufficientMemory",
        11: "CardInsufficientCore",
        12: "CardComputeUnitsExhausted",
        13: "CardNotFoundCustomFilterRule",
        14: "AllocatedCardsInsufficientRequest",
        15: "TopologyNotFit",
        16: "AgentSilent",
        17: "CardHidden",
        18: "CardReserved",
        101: "NodeUnregistered",
        102: "NodeInsufficientDevice",
        103: "NodeBlocked",
        104: "NodeNotSelected",
        105: "NodeTainted",
        106: "NodeUnschedulable",
        107: "NodeInsufficientResource",
        108: "NodeReserved",
        109: "NodeStartingEqualPod",
        110: "NodeNotTried",
        111: "NodeHasNoCards",
        201: "InvalidRequest",
        202: "TwoDialects",
        203: "IsolationDefeated",
        204: "UnknownCard",
        205: "GangWaiting",
    }


def test_the_extender_speaks_go() -> None:
    args = decode_args(
        b'{"Pod":{"metadata":{"name":"p","creationTimestamp":null},"spec":{"containers":'
        b'[{"name":"c","resources":{"limits":{"x/y":"1"}}}]}},"Nodes":null,"NodeNames":["a","b"]}'
    )
    assert args.pod is not None
    assert args.pod.spec.containers[0].resources.limits == {"x/y": "1"}
    assert decode_names(args.node_names) == ("a", "b")
    result = ExtenderFilterResult(node_names=("a",), failed_and_unresolvable_nodes={"b": "Why"})
    assert encode_result(result) == (
        b'{"NodeNames":["a"],"FailedNodes":{},"Error":"","FailedAndUnresolvableNodes":{"b":"Why"}}'
    )
