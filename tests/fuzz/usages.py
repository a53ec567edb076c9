"""Usage with odd numbers, through the smoother and into quotas: what is published of it stays
finite, not negative, and within what containers can use."""

from __future__ import annotations

import math
from contextlib import suppress
from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_core.reports.agents import AgentReports
from tessera_core.trust.messages import MessageSigner
from tessera_core.usage.smoother import Smoother
from tessera_quota.usage import LONGEST_S, UsageListener
from tessera_runtime.bus.api import Message
from tessera_schema import subjects
from tessera_schema.grants import Grant, Share
from tessera_schema.messages.envelope import Envelope
from tessera_testing.builders import a_card
from tests.fuzz.fuzzer import Fuzzer

Json = dict[str, Any]

CARDS: Final = tuple(a_card(f"GPU-{i}", vendor="nvidia", mib=81920) for i in range(2))
SPEAKER: Final = MessageSigner(bytes(range(32)))
GRANTS: Final = {
    uid: Grant(
        uid=uid, namespace="team", name=uid, node="n0",
        shares=(
            Share(
                container="main", position=0, vendor="nvidia", dialect="hami", card="GPU-0",
                index=0, memory_bytes=2**30, cores_percent=25,
            ),
        ),
    )
    for uid in ("u0", "u1")
}  # fmt: skip
NUMBERS: Final = (
    0, 1, -1, 0.5, 25, 100, 101, 1e9, 1e308, -1e308, 5e-324, 2**30, 2**31, 2**53, 2**63 - 1, 2**63,
    -(2**63), 10**30, 1_700_000_000, True, None, "1", "NaN",
)  # fmt: skip


class Published(Struct, frozen=True):
    """Messages and the seconds between them."""

    messages: tuple[bytes, ...]
    waits: tuple[float, ...]


def make(random: Random) -> Published:
    """What an agent says that was broken into, or is merely broken."""
    number = random.choice((1, 3, 10))
    return Published(
        tuple(_message(random) for _ in range(number)),
        tuple(random.choice((0.0, 0.1, 5.0, 5.0, 60.0, 3600.0)) for _ in range(number)),
    )


def _message(random: Random) -> bytes:
    def odd(usual: float) -> Any:
        return random.choice(NUMBERS) if random.random() < 0.1 else usual

    def name(*usual: str) -> str:
        return random.choice(usual) if random.random() < 0.9 else random.choice(("", "x" * 300))

    def card() -> Json:
        return {
            "card": name("GPU-0", "GPU-1", "GPU-9"), "memory_bytes": odd(2**29),
            "memory_limit_bytes": odd(2**30), "cores_percent": odd(20),
            "cores_limit_percent": odd(25), "throttled_percent": odd(0), "launches": odd(7),
            "kernel_times": [odd(3), odd(0)], "kernel_p99_us": odd(7),
            "memory_day_peak_bytes": odd(2**29), "allocated_bytes_per_s": odd(2**20),
            "denials": odd(0), "failed_for_others": odd(0), "processes": odd(1),
            "last_active": odd(1_700_000_000),
        }  # fmt: skip

    containers = [
        {
            "namespace": name("team", "other"), "pod": "p", "uid": name("u0", "u1", "u9"),
            "container": name("main", "side"),
            "cards": [card() for _ in range(random.choice((0, 1, 1, 3)))],
        }
        for _ in range(random.choice((0, 1, 2, 5)))
    ]  # fmt: skip
    loads = [
        {"card": name("GPU-0", "GPU-1"), "memory_used_bytes": odd(2**30), "cores_percent": odd(40)}
        for _ in range(random.choice((0, 2)))
    ]
    return msgspec.json.encode(
        {
            "node": "n0", "vendor": "nvidia", "at": odd(1_700_000_000), "interval_s": odd(5),
            "containers": containers, "cards": loads,
        }
    )  # fmt: skip


def check(smoothing: type[Smoother], reported: Published) -> None:
    """One after the other."""
    now = 100.0
    usage, reports = UsageListener(_reports(), GRANTS.get, lambda: now, 30.0), _reports()
    smoother = smoothing()
    for sequence, (data, wait_s) in enumerate(zip(reported.messages, reported.waits, strict=True)):
        now += wait_s
        messages = _messages(data, sequence)
        usage.receive(messages)
        with suppress(msgspec.DecodeError):
            counted = reports.usage(messages, GRANTS.get)
            if counted is not None:
                smoother.take(counted, now)
        _sound(smoother, now)
        seconds = sum(usage.gpu_seconds("team").values())
        assert not usage.gpu_seconds("other"), "of pods that are not there"
        most_s = len(GRANTS) * (now - 100 + LONGEST_S)
        assert 0 <= seconds <= most_s, f"{seconds} s of GPU time in {most_s} s"
        for measured in (m for n in usage.namespaces for m in usage.measured(n).values()):
            assert all(0 <= figure < 2**40 for figure in measured), measured
        usage.forget()


def _reports() -> AgentReports:
    reports = AgentReports("c", {"nvidia"}, lambda *_: None)
    reports.know("n0", CARDS, {"nvidia": SPEAKER.public})
    return reports


def _messages(data: bytes, sequence: int) -> Message:
    order = (1, sequence + 1)
    return Message(
        subject=subjects.usage("c", "n0"), data=data,
        envelope=Envelope(
            id=f"m{sequence}", source="/tessera/agent/n0", type="t", time="", epoch=order[0],
            sequence=order[1], signature=SPEAKER.sign(order, data),
        ),
    )  # fmt: skip


def _sound(smoother: Smoother, now: float) -> None:
    for name in smoother.nodes():
        node = smoother.node(name, now)
        for number in _numbers(msgspec.to_builtins(node)):
            assert math.isfinite(number), node
            assert number >= 0, node


def _numbers(value: Any) -> list[float]:
    if isinstance(value, bool):
        return []
    if isinstance(value, (int, float)):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [n for item in value for n in _numbers(item)] if isinstance(value, (list, tuple)) else []


def usages(smoothing: type[Smoother] = Smoother) -> Fuzzer:
    """With the smoother that is tested."""
    return Fuzzer("usages", make, lambda reported: check(smoothing, reported), 600)
