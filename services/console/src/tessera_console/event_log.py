"""The last messages of the bus, in words: who got which card, who waits, quotas and plans."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_console.rights import CallerScope
from tessera_runtime.bus.api import Message
from tessera_schema.messages import allocation_events as allocations
from tessera_schema.plans import decode_plan
from tessera_schema.quotas import decode_quota

KINDS: Final = ("allocation", "quota", "plan")
"""What is followed: the third token of subjects. Use and cards' states are in the cards."""
_NAMES: Final = 20_000
"""Pods whose names are remembered: some messages name a pod by its uid alone."""
_GIB: Final = 1024


class LoggedEvent(Struct, frozen=True, kw_only=True):
    """One message."""

    number: int = 0
    """Grows with each."""
    at: str
    """RFC 3339."""
    kind: str
    what: str
    """Such as granted, refused, throttled, proposed."""
    namespace: str = ""
    name: str = ""
    """Of the pod, the quota or the plan."""
    node: str = ""
    text: str = ""


class EventLog:
    """The last so many; more push out the oldest."""

    def __init__(self, most: int, name_of: Callable[[str], str] = lambda _: "") -> None:
        """`name_of` gives the name of a pod by its uid, where the message has none."""
        self.count = 0
        """Messages that were ever taken."""
        self.unreadable = 0
        self._events: deque[LoggedEvent] = deque(maxlen=most)
        self._name_of = name_of
        self._names: OrderedDict[str, str] = OrderedDict()

    def take(self, message: Message) -> None:
        """One more message."""
        tokens = message.subject.split(".")
        kind = tokens[3] if len(tokens) > 3 else ""
        read = _READERS.get(kind)
        if read is None:
            return
        event = None
        with suppress(msgspec.DecodeError):
            event = read(self, message)
        if event is None:
            self.unreadable += 1
            return
        self.count += 1
        self._events.append(replace(event, number=self.count, at=message.envelope.time))

    def after(self, number: int, scope: CallerScope) -> list[LoggedEvent]:
        """Those with a higher number that the caller may see, the oldest first."""
        if number >= self.count:
            return []
        return [e for e in self._events if e.number > number and _visible(e, scope)]

    def allocation(self, message: Message) -> LoggedEvent:
        """Of a pod's cards. Raises msgspec.DecodeError, as the other readers."""
        event, what = allocations.decode_event(message.data), message.subject.rpartition(".")[2]
        if isinstance(event, allocations.AllocationGranted):
            grant = event.grant
            self._name(grant.uid, grant.name)
            shares = ", ".join(
                f"card {s.index}, {s.memory_mib / _GIB:.1f} GiB"
                + (f", {s.cores_percent:g} %" if s.cores_percent else "")
                for s in grant.shares
            )
            return _event("allocation", what, grant.namespace, grant.name, grant.node, shares)
        if isinstance(event, allocations.AllocationRefused):
            name = self._named(event.uid)
            return _event("allocation", what, event.namespace, name, "", event.message)
        if isinstance(event, allocations.AllocationReleased):
            name = self._named(event.uid)
            return _event("allocation", what, event.namespace, name, event.node, "")
        self._name(event.uid, event.name)
        text = f"container {event.container}"
        return _event("allocation", what, event.namespace, event.name, event.node, text)

    def quota(self, message: Message) -> LoggedEvent:
        """Of an AcceleratorQuota."""
        event, what = decode_quota(message.data), message.subject.rpartition(".")[2]
        text = getattr(event, "message", "")
        return _event("quota", what, event.namespace, event.quota, "", text)

    def plan(self, message: Message) -> LoggedEvent:
        """Of a RebalancePlan."""
        event, what = decode_plan(message.data), message.subject.rpartition(".")[2]
        return _event("plan", what, "", event.plan, "", event.message)

    def _named(self, uid: str) -> str:
        known = self._names.get(uid)
        if known is None:
            known = self._name_of(uid)
            if known:
                self._name(uid, known)
        return known

    def _name(self, uid: str, name: str) -> None:
        self._names[uid] = name
        while len(self._names) > _NAMES:
            self._names.popitem(last=False)


def _event(kind: str, what: str, namespace: str, name: str, node: str, text: str) -> LoggedEvent:
    return LoggedEvent(
        at="", kind=kind, what=what, namespace=namespace, name=name, node=node, text=text
    )


def _visible(event: LoggedEvent, scope: CallerScope) -> bool:
    if event.kind == "plan":
        return scope.plans
    if event.kind == "quota":
        return scope.everything or event.namespace in scope.quotas
    return scope.sees(event.namespace)


_READERS: Final[Mapping[str, Callable[[EventLog, Message], LoggedEvent]]] = {
    "allocation": EventLog.allocation, "quota": EventLog.quota, "plan": EventLog.plan,
}  # fmt: skip
