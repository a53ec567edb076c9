"""A message of the bus as one line for people: time, what, which object, and the numbers in short.

What is in no line here is in `tessera events -o json`, which has every message whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tessera_cli.text import printable
from tessera_runtime.bus.api import Message
from tessera_schema.cards import MIB
from tessera_schema.messages.allocation_events import (
    AllocationGranted,
    AllocationRefused,
    AllocationReleased,
)
from tessera_schema.messages.allocation_events import decode_event as decode_allocation
from tessera_schema.messages.device_reports import ContainerUse, decode_device, decode_usage
from tessera_schema.messages.gang_events import decode_gang, decode_queue
from tessera_schema.messages.hints import decode_hints
from tessera_schema.plans import decode_plan
from tessera_schema.queue_states import QueueAmount

LONGEST: Final = 400
"""Characters of a line; a longer one is cut."""
_WHAT: Final = 3
"""Tokens of a subject before the one that says what the message is about."""


def as_line(message: Message) -> str:
    """The message in one line, at most `LONGEST` characters."""
    tokens = message.subject.split(".")
    what = tokens[_WHAT] if len(tokens) > _WHAT else message.subject
    try:
        words = _WORDS.get(what, _fields)(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as e:
        words = f"not readable: {e}"
    clock = message.envelope.time.partition("T")[2][:8] or message.envelope.time
    line = printable(f"{clock}  {what:10} {words}")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _allocation(message: Message) -> str:
    event = decode_allocation(message.data)
    what = message.subject.rpartition(".")[2]
    if isinstance(event, AllocationGranted):
        grant = event.grant
        shares = ", ".join(
            f"{s.container}: card {s.index}, {s.memory_mib} MiB, {s.cores_percent:g} %"
            for s in grant.shares
        )
        return f"{what:9} {grant.namespace}/{grant.name} on {grant.node}: {shares}"
    if isinstance(event, AllocationRefused):
        return f"{what:9} {event.namespace}/{event.uid}: {event.reason.wire}: {event.message}"
    if isinstance(event, AllocationReleased):
        return f"{what:9} {event.namespace}/{event.uid} on {event.node}"
    pod = f"{event.namespace}/{event.name}"
    return f"{what:9} {pod} on {event.node}: container {event.container}"


def _usage(message: Message) -> str:
    usage = decode_usage(message.data)
    held = [_use(c) for c in usage.containers]
    return f"{usage.node} ({usage.vendor}): " + ("; ".join(held) or "no container holds a card")


def _use(used: ContainerUse) -> str:
    memory = sum(card.memory_bytes for card in used.cards) // MIB
    cores = sum(card.cores_percent for card in used.cards)
    gaps = "" if used.enforced else f", NOT ENFORCED ({', '.join(used.gaps) or 'no reason given'})"
    return f"{used.namespace}/{used.pod}/{used.container} {memory} MiB, {cores:.0f} %{gaps}"


def _device(message: Message) -> str:
    state = decode_device(message.data)
    ill = [card.id for card in state.cards if not card.healthy]
    parts = [f"{len(state.cards)} cards"]
    parts += [f"unhealthy: {', '.join(ill)}"] if ill else []
    parts += [f"still used without a pod: {len(state.occupied)}"] if state.occupied else []
    return f"{state.node} ({state.vendor}): " + "; ".join((*parts, *state.problems))


def _hint(message: Message) -> str:
    hints = decode_hints(message.data)
    cards = [f"{c.card} busy {c.busy_percent:.0f} %" for c in hints.cards]
    return f"{hints.node}: " + ("; ".join(cards) or "nothing known yet")


def _gang(message: Message) -> str:
    gang = decode_gang(message.data)
    queue = f", queue {gang.queue}" if gang.queue else ""
    numbers = f"{gang.bound} of {gang.members} pods have a node, {gang.min} needed{queue}"
    return f"{gang.what:9} {gang.namespace}/{gang.name} ({numbers}): {gang.message}"


def _queue(message: Message) -> str:
    queue = decode_queue(message.data)
    cards = "; ".join(_cards(amount) for amount in queue.amounts if amount.what == "cards")
    share = f"{queue.share:.1%} beyond what it deserves" if queue.share else "within its part"
    waits = f"{queue.waiting_gangs} gangs and {queue.waiting_pods} pods wait"
    parts = (cards or "no cards", share, waits, queue.problem)
    return f"{queue.kind} {queue.name}: " + "; ".join(filter(None, parts))


def _plan(message: Message) -> str:
    plan, what = decode_plan(message.data), message.subject.rpartition(".")[2]
    gang, pod = plan.for_gang.partition("/")[2], plan.for_pod
    waits = f"gang {gang}" if gang else f"{pod.namespace}/{pod.name}" if pod is not None else ""
    pods = ", ".join(f"{each.namespace}/{each.name}" for each in plan.pods)
    parts = (
        f"pods {pods}" if pods else "", f"for {waits}" if waits else "",
        f"costs {plan.cost:.0f} card-s" if plan.cost else "",
    )  # fmt: skip
    numbers = ", ".join(filter(None, parts))
    named = f"{what:9} {plan.kind} {plan.plan}" + (f" ({numbers})" if numbers else "")
    return f"{named}: {plan.message}" if plan.message else named


def _cards(amount: QueueAmount) -> str:
    cap = "no cap" if amount.cap is None else f"cap {amount.cap:g}"
    own = f"{amount.deserved:g} deserved, {cap}"
    return f"{amount.used:g} cards of {amount.vendor} used, {own}"


def _fields(message: Message) -> str:
    """Any other message by its plain fields."""
    whole: Any = msgspec.json.decode(message.data)
    if not isinstance(whole, Mapping):
        return str(whole)
    what = message.subject.rpartition(".")[2]
    plain = {k: v for k, v in whole.items() if isinstance(v, str | int | float) and v != ""}
    text = plain.pop("message", plain.pop("reason", ""))
    plain.pop("what", None)
    parts = ", ".join(f"{k} {v}" for k, v in plain.items())
    return f"{what:9} {parts}" + (f": {text}" if text else "")


_WORDS: Final[Mapping[str, Callable[[Message], str]]] = {
    "allocation": _allocation, "usage": _usage, "device": _device, "hint": _hint,
    "gang": _gang, "queue": _queue, "plan": _plan,
}  # fmt: skip
