"""What counts of a report, whatever reads it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from tessera_core.reports.agents import MOST_BYTES, AgentReports, voices_of
from tessera_core.reports.doubts import MOST_WORDS, Doubt
from tessera_core.trust.grants import new_key
from tessera_core.trust.messages import MessageSigner, sender_problem
from tessera_runtime.bus.api import Message
from tessera_schema import subjects
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import Node, ObjectMeta
from tessera_schema.messages.device_reports import (
    CardLoad,
    CardUse,
    ContainerUse,
    DeviceState,
    NodeUsage,
    encode,
)
from tessera_schema.messages.envelope import Envelope
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_testing.builders import a_card

ACME, OTHER = MessageSigner(new_key()), MessageSigner(new_key())
NODES = ("n0", "n1.example")
MIB_OF_CARD = 1000
GRANT = Grant(
    uid="u", namespace="team", name="job", node="n0",
    shares=(
        Share(
            container="c", position=0, vendor="acme", dialect="d", card="n0-0", index=0,
            memory_bytes=500 * MIB, cores_percent=50,
        ),
    ),
)  # fmt: skip
USE = CardUse(card="n0-0", memory_bytes=100 * MIB, cores_percent=40, launches=3)


class Reading:
    """A service that reads reports."""

    def __init__(self, voices: Mapping[str, str] | None = None) -> None:
        self.doubts: list[tuple[str, Doubt]] = []
        self.reports = AgentReports("default", {"acme", "other"}, self._note)
        for node in NODES:
            cards = [a_card(f"{node}-{i}", i, vendor="acme", mib=MIB_OF_CARD) for i in range(2)]
            shown = {"acme": ACME.public} if voices is None else voices
            self.reports.know(node, cards, shown)
        self.sequence = 0

    def _note(self, node: str, doubt: Doubt, what: str) -> None:
        assert len(what) <= 3 * MOST_WORDS
        self.doubts.append((node, doubt))

    def message(
        self, reported: DeviceState | NodeUsage, *, by: MessageSigner | None = ACME,
        subject: str = "", order: tuple[int, int] | None = None,
    ) -> Message:  # fmt: skip
        self.sequence += 1
        data, order = encode(reported), order or (1, self.sequence)
        where = (
            subjects.usage("default", reported.node)
            if isinstance(reported, NodeUsage)
            else subjects.device("default", reported.node, reported.vendor)
        )
        envelope = Envelope(
            id=str(self.sequence), source="/tessera/agent/x", type="t", time="", epoch=order[0],
            sequence=order[1], signature="" if by is None else by.sign(order, data),
        )  # fmt: skip
        return Message(subject=subject or where, envelope=envelope, data=data)

    def usage(self, *uses: ContainerUse, **more: object) -> NodeUsage | None:
        reported = NodeUsage(node="n0", vendor="acme", at=1e9, interval_s=2, containers=uses)
        reported = msgspec.structs.replace(reported, **more)
        return self.reports.usage(self.message(reported), {"u": GRANT}.get)


def a_use(*cards: CardUse, uid: str = "u", container: str = "c") -> ContainerUse:
    return ContainerUse(namespace="else", pod="else", uid=uid, container=container, cards=cards)


STATE = DeviceState(node="n0", vendor="acme")


@pytest.mark.parametrize(
    ("reported", "by", "subject", "doubt"),
    [
        (replace(STATE, vendor="bogus"), ACME, "", ("n0", Doubt.VENDOR)),
        (replace(STATE, vendor="other"), ACME, "", ("n0", Doubt.NODE)),
        (replace(STATE, node="n9"), ACME, "", ("", Doubt.NODE)),
        (STATE, OTHER, "", ("n0", Doubt.SIGNATURE)),
        (STATE, None, "", ("n0", Doubt.UNSIGNED)),
        (STATE, ACME, "tessera.v1.default.device.n1.acme", ("n0", Doubt.SUBJECT)),
        (STATE, ACME, "tessera.v1.another.device.n0.acme", ("n0", Doubt.SUBJECT)),
        (STATE, ACME, "tessera.v1.default.device.n0.other", ("n0", Doubt.SUBJECT)),
    ],
)
def test_a_state_is_its_own_nodes_agents(
    reported: DeviceState, by: MessageSigner | None, subject: str, doubt: tuple[str, Doubt]
) -> None:
    reading = Reading()
    assert reading.reports.state(reading.message(reported, by=by, subject=subject)) is None
    assert reading.doubts == [doubt]


def test_what_is_right_counts() -> None:
    reading = Reading()
    for node in NODES:
        reported = replace(STATE, node=node)
        assert reading.reports.state(reading.message(reported)) == reported
    assert reading.usage(a_use(USE)) is not None
    assert reading.doubts == []


def test_without_any_key_states_count_and_usage_does_not() -> None:
    reading = Reading({"acme": ""})
    assert reading.reports.state(reading.message(STATE, by=None)) == STATE
    assert reading.usage(a_use(USE)) is None
    assert reading.doubts == [("n0", Doubt.UNSIGNED)]


def test_another_vendors_key_shuts_out_what_is_unsigned() -> None:
    reading = Reading({"acme": "", "other": OTHER.public})
    assert reading.reports.state(reading.message(STATE, by=None)) is None
    assert reading.reports.state(reading.message(STATE, by=OTHER)) is None
    assert reading.doubts == [("n0", Doubt.UNSIGNED)] * 2


def test_repeats_and_late_ones_are_found_by_what_is_signed() -> None:
    reading = Reading()
    first, second = reading.message(STATE), reading.message(STATE)
    again = replace(first, envelope=replace(first.envelope, id="x", source="/tessera/agent/y"))
    assert reading.reports.state(second)
    for late in (first, second, again):
        assert reading.reports.state(late) is None
    assert reading.doubts == []
    reading.reports.know("n0", [], {"acme": OTHER.public})
    assert reading.reports.state(reading.message(STATE, by=OTHER, order=(1, 1)))
    reading.reports.forget("n0")
    assert reading.reports.state(reading.message(STATE, by=OTHER)) is None


def test_usage_counts_for_the_grants_pod() -> None:
    reading = Reading()
    usage = reading.usage(a_use(USE))
    assert usage is not None
    [container] = usage.containers
    assert (container.namespace, container.pod, container.cards) == ("team", "job", (USE,))


@pytest.mark.parametrize(
    ("use", "doubt"),
    [
        (a_use(USE, uid="x"), Doubt.POD),
        (a_use(USE, container="x"), Doubt.POD),
        (a_use(replace(USE, card="n0-1")), Doubt.CARD),
        (a_use(replace(USE, cores_percent=1e308)), Doubt.NUMBERS),
        (a_use(replace(USE, cores_percent=-1)), Doubt.NUMBERS),
        (a_use(replace(USE, memory_bytes=-(1 << 60))), Doubt.NUMBERS),
        (a_use(replace(USE, memory_bytes=1 << 60)), Doubt.NUMBERS),
        (a_use(replace(USE, launches=1 << 60)), Doubt.NUMBERS),
        (a_use(replace(USE, last_active=1e300)), Doubt.NUMBERS),
        (a_use(replace(USE, throttled_percent=1e300)), Doubt.NUMBERS),
        (a_use(replace(USE, memory_day_peak_bytes=-1)), Doubt.NUMBERS),
        (a_use(replace(USE, allocated_bytes_per_s=-1)), Doubt.NUMBERS),
        (a_use(replace(USE, kernel_times=(1, -1))), Doubt.NUMBERS),
        (a_use(replace(USE, kernel_times=(0,) * 17)), Doubt.NUMBERS),
        (a_use(replace(USE, kernel_p99_us=1e300)), Doubt.NUMBERS),
    ],
)
def test_usage_of_anything_else_is_left_out(use: ContainerUse, doubt: Doubt) -> None:
    reading = Reading()
    usage = reading.usage(use)
    assert usage is not None
    assert [card for container in usage.containers for card in container.cards] == []
    assert reading.doubts == [("n0", doubt)]


def test_usage_is_at_most_what_a_card_has() -> None:
    reading = Reading()
    much = replace(USE, memory_bytes=1 << 40, memory_day_peak_bytes=1 << 41, cores_percent=900)
    usage = reading.usage(a_use(much, much), a_use(much))
    assert usage is not None
    [container] = usage.containers
    [card] = container.cards
    assert (card.memory_bytes, card.cores_percent) == (MIB_OF_CARD * MIB, 100)
    assert card.memory_day_peak_bytes == MIB_OF_CARD * MIB
    assert {doubt for _, doubt in reading.doubts} == {Doubt.CARD, Doubt.POD}


def test_pods_on_one_card_use_no_more_than_it_has_together() -> None:
    reading = Reading()
    grants = {f"u{i}": replace(GRANT, uid=f"u{i}", name=f"p{i}") for i in range(4)}
    uses = tuple(a_use(replace(USE, memory_bytes=500 * MIB), uid=uid) for uid in grants)
    reported = NodeUsage(node="n0", vendor="acme", at=1e9, interval_s=2, containers=uses)
    usage = reading.reports.usage(reading.message(reported), grants.get)
    assert usage is not None
    memory = [use.memory_bytes for one in usage.containers for use in one.cards]
    assert memory == [MIB_OF_CARD * MIB // 4] * 4
    assert reading.doubts == [("n0", Doubt.EXCESS)]


def test_the_load_of_a_card_is_at_most_a_card() -> None:
    reading = Reading()
    loads = [
        CardLoad(card="n0-0", cores_percent=500, memory_used_bytes=1 << 40),
        CardLoad(card="n0-1", cores_percent=1e308),
        CardLoad(card="no-card", cores_percent=50),
    ]
    usage = reading.usage(cards=tuple(loads))
    assert usage is not None
    [load] = usage.cards
    assert (load.card, load.cores_percent, load.memory_used_bytes) == (
        "n0-0", 100, MIB_OF_CARD * MIB,
    )  # fmt: skip
    assert reading.doubts == [("n0", Doubt.NUMBERS)]


@pytest.mark.parametrize("odd", [{"at": 1e308}, {"at": -1.0}, {"interval_s": -1.0}])
def test_usage_at_no_time_counts_nothing(odd: dict[str, float]) -> None:
    reading = Reading()
    assert reading.usage(a_use(USE), **odd) is None
    assert reading.doubts == [("n0", Doubt.NUMBERS)]


@pytest.mark.parametrize("data", [b"", b"{", b'{"node": 1}', b" " * (MOST_BYTES + 1)])
def test_what_is_no_report_is_said_once_to_be_none(data: bytes) -> None:
    reading = Reading()
    message = replace(reading.message(STATE), data=data)
    with pytest.raises(msgspec.DecodeError):
        reading.reports.state(message)
    assert reading.doubts == [("", Doubt.UNREADABLE)]


def test_a_signature_has_one_spelling() -> None:
    signature = ACME.sign((1, 1), b"x")
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = digits.index(signature[85])
    for other in range(last + 1, last - last % 16 + 16):  # the last digit has four bits to spare
        respelt = signature[:85] + digits[other] + "=="
        assert "base64" in sender_problem(ACME.public, respelt, (1, 1), b"x")
    assert sender_problem(ACME.public, signature, (1, 1), b"x") == ""


def test_the_agents_of_a_node_are_those_that_publish_cards_there() -> None:
    notes = {
        "cards.tessera.dev/acme": encode_node_cards(NodeCardsAnnotation(speaks=ACME.public)),
        "cards.tessera.dev/old": encode_node_cards(NodeCardsAnnotation()),
        "cards.tessera.dev/torn": "{",
        "else": "x",
    }
    node = Node(metadata=ObjectMeta(name="n0", annotations=notes))
    assert voices_of(node) == {"acme": ACME.public, "old": "", "torn": ""}
