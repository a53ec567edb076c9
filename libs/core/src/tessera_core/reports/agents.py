"""The agents that report, node by node and vendor by vendor: who is what it says it is, and which
of its reports is the newest.

Nothing is kept about a name that only a report mentions: nodes are those of the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from sys import intern
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tessera_core.reports import device_states
from tessera_core.reports import usage as usages
from tessera_core.reports.doubts import Doubt, Doubts, Notice
from tessera_core.trust.messages import sender_problem
from tessera_schema import subjects
from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.cards import Card
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Node
from tessera_schema.messages.device_reports import (
    DeviceState,
    NodeUsage,
    decode_device,
    decode_usage,
)
from tessera_schema.messages.envelope import Envelope

T = TypeVar("T", DeviceState, NodeUsage)
MOST_BYTES: Final = 1 << 20
"""Of a report: what NATS carries in one message unless it is configured otherwise. A node of 16
cards and 200 containers reports some 100 KiB."""


class ReceivedReport(Protocol):
    """A report as it came: what a message of the bus has."""

    @property
    def subject(self) -> str:
        """Where it was published."""

    @property
    def envelope(self) -> Envelope:
        """Who published it, and when."""

    @property
    def data(self) -> bytes:
        """As signed."""


class _Published(Struct, frozen=True):
    speaks: str | UnsetType = UNSET


_published: Final = decoder(_Published)
Voices = Mapping[str, str]
"""Vendor -> key by which its agent's reports are signed; empty where that agent shows none."""


def voices_of(node: Node) -> Voices:
    """The agents that publish cards on the node."""
    found: dict[str, str] = {}
    for key, text in node.metadata.annotations.items():
        if key.startswith(CARDS_PREFIX):
            speaks: str | UnsetType = UNSET
            with suppress(msgspec.DecodeError):  # who reads its cards says what is wrong with it
                speaks = _published(text).speaks
            found[key.removeprefix(CARDS_PREFIX)] = speaks or ""
    return found


class _NewestReport(Struct, frozen=True, gc=False):
    """Of which vendor's agent, by which key it is signed, and its order."""

    vendor: str
    voice: str
    epoch: int
    sequence: int

    @property
    def order(self) -> tuple[int, int]:
        """As `Envelope.order`."""
        return self.epoch, self.sequence


class _Agents(Struct):
    """What is known of one node."""

    voices: Voices
    all_cards: tuple[Card, ...]
    """Of all vendors."""
    newest: tuple[_NewestReport, ...]
    """One of each vendor that has reported."""

    def cards(self, vendor: str) -> dict[str, Card]:
        """A vendor's cards by id."""
        return {card.id: card for card in self.all_cards if card.vendor == vendor}

    def newest_of(self, vendor: str) -> _NewestReport | None:
        """A vendor's newest report."""
        return next((each for each in self.newest if each.vendor == vendor), None)

    def note(self, report: _NewestReport) -> None:
        """It is its vendor's newest."""
        self.forget(report.vendor)
        self.newest = (*self.newest, report)

    def forget(self, vendor: str) -> None:
        """None of the vendor's was the newest."""
        self.newest = tuple(each for each in self.newest if each.vendor != vendor)


class AgentReports:
    """Checks reports of one kind, which one service reads."""

    def __init__(self, cluster: str, vendors: Container[str], notice: Notice) -> None:
        """`vendors` are those that are known; `notice` takes what does not count, and why."""
        self._cluster = cluster
        self._vendors = vendors
        self._notice = notice
        self._nodes: dict[str, _Agents] = {}

    def know(self, node: str, cards: Sequence[Card], voices: Voices) -> None:
        """What the API server shows of a node."""
        before = self._nodes.get(node)
        self._nodes[node] = _Agents(voices, tuple(cards), before.newest if before else ())

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._nodes.pop(node, None)

    def silent(self, node: str, vendor: str) -> None:
        """The agent has been silent for so long that its order may start again, as after its clock
        was set back."""
        known = self._nodes.get(node)
        if known is not None:
            known.forget(vendor)

    def state(self, message: ReceivedReport) -> DeviceState | None:
        """What counts of a device state; None where nothing does.

        Raises msgspec.DecodeError. One whose node shows no key at all comes from an agent of a
        release that had none, and counts unsigned.
        """
        state = self._decoded(decode_device, message)
        where = subjects.device(self._cluster, state.node, state.vendor)
        known = self._proven(state, where, message, keyless=True)
        if known is None:
            return None
        doubts = Doubts()
        counted = device_states.counting(state, known.cards(state.vendor), doubts)
        self._report_doubts(state.node, doubts)
        return counted

    def usage(self, message: ReceivedReport, grant_of: usages.GrantOf) -> NodeUsage | None:
        """What counts of a node's usage; None where nothing does.

        Raises msgspec.DecodeError. Throttling depends on it, so it is signed or counts nothing.
        """
        usage = self._decoded(decode_usage, message)
        where = subjects.usage(self._cluster, usage.node)
        known = self._proven(usage, where, message, keyless=False)
        if known is None:
            return None
        if not usages.sensible(usage):
            self._notice(usage.node, Doubt.NUMBERS, f"at {usage.at:g}, {usage.interval_s:g} s long")
            return None
        doubts = Doubts()
        counted = usages.counting(usage, known.cards(usage.vendor), grant_of, doubts)
        self._report_doubts(usage.node, doubts)
        return counted

    def _decoded(self, decode: Callable[[bytes], T], message: ReceivedReport) -> T:
        try:
            return decode(_sized(message.data))
        except msgspec.DecodeError as e:
            self._notice("", Doubt.UNREADABLE, f"{message.subject[:100]}: {e}")
            raise

    def _proven(
        self, report: T, where: str, message: ReceivedReport, *, keyless: bool
    ) -> _Agents | None:
        """The node that the report is of; None where it is not that node's agent's, or is late."""
        known = self._nodes.get(report.node)
        wrong = self._wrong(report, where, message, known, keyless=keyless)
        if known is None or wrong is not None:
            doubt, what = wrong or (Doubt.NODE, "")
            source = message.envelope.source[:100]
            self._notice("" if known is None else report.node, doubt, f"{what}, from {source!r}")
            return None
        order, voice = message.envelope.order, known.voices[report.vendor]
        newest = known.newest_of(report.vendor)
        if newest is not None and newest.voice == voice and newest.order >= order:
            return None  # a repeat, or late
        known.note(_NewestReport(intern(report.vendor), voice, *order))
        return known

    def _wrong(
        self,
        report: T,
        where: str,
        message: ReceivedReport,
        known: _Agents | None,
        *,
        keyless: bool,
    ) -> tuple[Doubt, str] | None:
        if report.vendor not in self._vendors:
            return Doubt.VENDOR, f"vendor {report.vendor[:60]!r} is not known"
        if message.subject != where:
            return Doubt.SUBJECT, f"on subject {message.subject[:120]!r}, not {where[:120]!r}"
        voice = known.voices.get(report.vendor) if known is not None else None
        if known is None or voice is None:
            return (
                Doubt.NODE,
                f"no agent of {report.vendor} publishes cards on {report.node[:100]!r}",
            )
        if not voice and keyless and not any(known.voices.values()):
            return None
        return _unsigned(voice, message)

    def _report_doubts(self, node: str, doubts: Doubts) -> None:
        for doubt, what in doubts.found.items():
            self._notice(node, doubt, what)


def _unsigned(voice: str, message: ReceivedReport) -> tuple[Doubt, str] | None:
    """Why the message is not signed by this key."""
    if not voice:
        return Doubt.UNSIGNED, "its node shows no key of that vendor's agent"
    envelope = message.envelope
    why = sender_problem(voice, envelope.signature, envelope.order, message.data)
    if not why:
        return None
    return (Doubt.SIGNATURE if envelope.signature else Doubt.UNSIGNED), why


def _sized(data: bytes) -> bytes:
    if len(data) > MOST_BYTES:
        raise msgspec.DecodeError(f"{len(data)} bytes: a report has at most {MOST_BYTES}")
    return data
