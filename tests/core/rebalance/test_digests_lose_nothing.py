"""Digests of measurements: what is published when, and what consumers have of it."""

from __future__ import annotations

import math
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.node.usage_digests import NodeUsageDigests, folded
from tessera_core.usage.crowding import work_of
from tessera_core.usage.smoothed import SmoothingConstants
from tessera_core.usage.smoother import Smoother
from tessera_core.utilization.digests import DigestBuilder, Holder
from tessera_core.utilization.recording import UseDigest
from tessera_schema.grants import Grant, Share
from tessera_schema.messages.device_reports import ContainerUse, NodeUsage, decode_usage, encode
from tests.core.rebalance.measured import AT, GIB, NODE, a_message, a_use, card_of

PERIOD_S = 10.0
LOADS = {"GPU-0": 50.0, "GPU-1": 0.0}


def published(*messages: NodeUsage, period_s: float = PERIOD_S) -> list[list[NodeUsage]]:
    """What goes out after each."""
    digests = NodeUsageDigests(period_s)
    return [list(digests.add(message)) for message in messages]


def quiet(at: float, *more: ContainerUse, **use: float) -> NodeUsage:
    """A container that does the same as ever, at so many seconds."""
    return a_message(a_use("a", 40, card="GPU-0", **use), *more, at=at, loads=LOADS)


def spans(found: list[list[NodeUsage]]) -> list[list[float]]:
    return [[digest.interval_s for digest in one] for one in found]


def test_five_measurements_make_a_digest() -> None:
    found = published(*(quiet(at) for at in range(2, 24, 2)))
    assert spans(found) == [[2], [], [], [], [], [10], [], [], [], [], [10]]
    assert [digest.at - AT for one in found for digest in one] == [2, 12, 22]


def test_measurements_that_are_a_little_late_make_no_longer_digest() -> None:
    late = [
        msgspec.structs.replace(quiet(2.001 * n), interval_s=2.001) for n in range(1, 12)
    ]  # fmt: skip
    early = [
        msgspec.structs.replace(quiet(1.999 * n), interval_s=1.999) for n in range(1, 12)
    ]  # fmt: skip
    assert list(map(len, published(*late))) == list(map(len, published(*early)))
    assert sum(map(len, published(*late))) == 3


def test_at_the_end_what_was_not_published_makes_a_last_digest() -> None:
    digests = NodeUsageDigests(PERIOD_S)
    assert digests.rest() == ()
    for at in (2, 4, 6):
        digests.add(quiet(at))
    [last] = digests.rest()
    assert (last.interval_s, last.at - AT) == (4, 6)
    assert digests.rest() == ()


def test_with_a_short_period_every_measurement_is_published() -> None:
    found = published(*(quiet(at) for at in range(2, 10, 2)), period_s=2)
    assert spans(found) == [[2]] * 4


@pytest.mark.parametrize(
    "changed",
    [
        quiet(16, throttled_percent=30),
        quiet(16, memory_bytes=GIB),
        quiet(16, a_use("b")),
        a_message(at=16, loads=LOADS),
        a_message(a_use("a", 40), at=16, loads={"GPU-0": 50.0}),
        a_message(
            msgspec.structs.replace(a_use("a", 40), gaps=("no-hook",), enforced=False),
            at=16, loads=LOADS,
        ),
    ],
    ids=["it waits", "memory", "another container", "it is gone", "a card is gone", "a gap"],
)  # fmt: skip
def test_what_is_new_is_published_at_once_and_by_itself(changed: NodeUsage) -> None:
    found = published(*(quiet(at) for at in range(2, 16, 2)), changed)
    assert spans(found)[-1] == [2, 2]
    assert [digest.at - AT for digest in found[-1]] == [14, 16]
    assert found[-1][1].containers == folded([changed]).containers


def test_a_card_that_gets_crowded_is_published_at_once() -> None:
    def both(at: float, cores: float) -> NodeUsage:
        return a_message(a_use("a", cores), a_use("b", cores), at=at, loads=LOADS)

    found = published(*(both(at, 40) for at in range(2, 16, 2)), both(16, 48))
    assert spans(found)[-1] == [2, 2]
    assert published(*(both(at, 40) for at in range(2, 16, 2)), both(16, 45))[-1] == []


def test_a_card_that_is_closed_for_loans_is_published_at_once() -> None:
    def reclaiming(at: float, *cards: str) -> NodeUsage:
        usage = quiet(at)
        loads = (msgspec.structs.replace(load, reclaims=load.card in cards) for load in usage.cards)
        return msgspec.structs.replace(usage, cards=tuple(loads))

    found = published(
        *(reclaiming(at, "GPU-0", "GPU-1") for at in range(2, 16, 2)), reclaiming(16, "GPU-1")
    )
    assert spans(found)[-1] == [2, 2]
    assert [load.card for load in found[-1][1].cards if load.reclaims] == ["GPU-1"]


def test_less_of_something_is_not_urgent() -> None:
    busy = [quiet(at, throttled_percent=90, memory_bytes=8 * GIB) for at in range(2, 16, 2)]
    assert published(*busy, quiet(16))[-1] == []


def test_what_changes_all_the_time_is_published_at_once_only_now_and_then() -> None:
    waits = [quiet(2.0 * n, throttled_percent=100.0 * (n % 2)) for n in range(1, 301)]
    found = published(*waits)
    early = [digest for one in found for digest in one if digest.interval_s == 2]
    assert sum(map(len, found)) <= 3 * 600 / PERIOD_S
    assert len(early) <= 2 * 600 / PERIOD_S
    assert sum(digest.interval_s for one in found for digest in one) >= 590


def test_containers_that_come_and_go_all_the_time_are_in_digests_of_their_own() -> None:
    found = published(*(quiet(2.0 * n, a_use(f"b{n}")) for n in range(1, 10)))
    for digest in (digest for one in found for digest in one):
        assert digest.interval_s == 2


def test_a_clock_that_was_set_back_delays_nothing() -> None:
    digests = NodeUsageDigests(PERIOD_S)
    digests.add(quiet(3600))
    digests.add(quiet(2))
    assert [d.interval_s for d in digests.add(quiet(4, throttled_percent=80))] == [2, 2]


# -- what consumers have of it

MEASURED = st.tuples(
    st.floats(0, 100), st.sampled_from([0.0, 0.0, 55.0, 100.0, 240.0]), st.integers(0, 9)
)


def a_week(measured: list[tuple[float, float, int]]) -> list[NodeUsage]:
    return [
        a_message(
            a_use(
                "a", cores if cores > 20 else 0, throttled_percent=waits, memory_bytes=gib * GIB,
                launches=7,
            ),
            a_use("b", 3),
            at=2.0 * number, loads={"GPU-0": cores + 3},
        )
        for number, (cores, waits, gib) in enumerate(measured, 1)
    ]  # fmt: skip


def reported(messages: list[NodeUsage]) -> UseDigest:
    builder = DigestBuilder(AT)
    for message in messages:
        builder.add(message)
    share = Share(
        container="c", position=0, vendor="acme", dialect="d", card="GPU-0", index=0,
        memory_bytes=9 * GIB, cores_percent=50,
    )  # fmt: skip
    grant = Grant(uid="uid-a", namespace="default", name="a", node=NODE, shares=(share,))
    (found,) = builder.cut(AT + 1000, {"uid-a": Holder(grant=grant, since=AT)}, {})
    return found


@given(st.lists(MEASURED, min_size=1, max_size=40))
def test_a_report_of_digests_is_one_of_measurements(
    measured: list[tuple[float, float, int]],
) -> None:
    messages = a_week(measured)
    digests = [digest for one in published(*messages) for digest in one]
    covered = round(sum(digest.interval_s for digest in digests) / 2)
    of_each, of_digests = reported(messages[:covered]), reported(digests)
    for field in ("measured_s", "gpu_s", "idle_s", "throttled_s", "byte_s", "peak_bytes"):
        assert getattr(of_digests, field) == pytest.approx(getattr(of_each, field)), field
    assert sum(d.containers[0].cards[0].launches for d in digests) == 7 * covered


@given(st.lists(MEASURED, min_size=1, max_size=40))
def test_digests_follow_each_other_without_a_gap(measured: list[tuple[float, float, int]]) -> None:
    digests = [digest for one in published(*a_week(measured)) for digest in one]
    for before, after in pairwise(digests):
        assert after.at - after.interval_s == pytest.approx(before.at)


@given(st.lists(MEASURED, min_size=10, max_size=60))
def test_what_is_smoothed_of_digests_is_near_what_is_of_measurements(
    measured: list[tuple[float, float, int]],
) -> None:
    messages = a_week(measured)
    digests = [digest for one in published(*messages) for digest in one]
    last = digests[-1].at
    of_each, of_digests = Smoother(), Smoother()
    for message in messages:
        if message.at <= last:
            assert of_each.take(message, message.at)
    for digest in digests:
        assert of_digests.take(digest, digest.at)
    one, other = card_of(of_each, last), card_of(of_digests, last)
    assert other.busy_percent == pytest.approx(one.busy_percent, abs=5)
    # A peak falls towards what is measured, and of a digest towards the most in it: more slowly.
    falls = 1 - math.exp(-(last - AT) / SmoothingConstants().peak_s)
    for a, b in zip(one.containers, other.containers, strict=True):
        assert b.cores_percent == pytest.approx(a.cores_percent, abs=5)
        assert b.confidence == pytest.approx(a.confidence)
        assert -1e-6 <= b.cores_peak_percent - a.cores_peak_percent <= 100 * falls
        assert -1 <= b.memory_peak_bytes - a.memory_peak_bytes <= 9 * GIB * falls
        assert b.memory_bytes == a.memory_bytes


def test_a_card_is_crowded_for_as_long_as_it_was() -> None:
    """Half of the time full of two containers, else of nobody: the mean alone does not show it."""
    parts = [
        a_message(a_use("a", cores), a_use("b", cores), at=2.0 * n, loads={"GPU-0": 2 * cores})
        for n, cores in enumerate([50, 0, 50, 0, 50, 50, 0, 0], 1)
    ]
    digest = folded(parts)
    assert work_of(digest)["GPU-0"] == (50, 50)
    alone = msgspec.structs.replace(digest, containers=digest.containers[:1])
    assert work_of(alone)["GPU-0"].crowded_percent == 0


def test_a_waiting_container_is_half_believed_at_once() -> None:
    smoother = Smoother()
    for one in published(*(quiet(2.0 * n) for n in range(1, 30)), quiet(60, throttled_percent=100)):
        for digest in one:
            smoother.take(digest, digest.at)
    assert 45 < card_of(smoother, AT + 60).containers[0].waiting_percent < 55


# -- a release and the one before


def test_a_digest_has_the_launches_and_the_peaks_of_all_its_measurements() -> None:
    def measured(at: float, times: tuple[int, ...], peak: int, rate: int) -> NodeUsage:
        usage = quiet(at)
        (container,) = usage.containers
        (use,) = container.cards
        use = replace(
            use, kernel_times=times, kernel_p99_us=90_000, memory_peak_bytes=peak,
            memory_day_peak_bytes=peak, allocated_bytes_per_s=rate,
        )  # fmt: skip
        return replace(usage, containers=(replace(container, cards=(use,)),))

    digest = folded([measured(2, (5, 3), 7 * GIB, 10), measured(4, (1, 0, 1), 5 * GIB, 30)])
    (use,) = digest.containers[0].cards
    assert use.kernel_times == (6, 3, 1)
    assert (use.memory_peak_bytes, use.memory_day_peak_bytes) == (7 * GIB, 5 * GIB)
    assert use.allocated_bytes_per_s == 20
    assert 2 < use.kernel_p50_us < 4.1
    assert 8 < use.kernel_p99_us < 16.4


def test_a_container_that_does_the_same_all_the_time_is_as_in_one_measurement() -> None:
    [one] = folded([quiet(2, memory_bytes=7, throttled_percent=150)]).containers
    [three] = folded(
        [quiet(at, memory_bytes=7, throttled_percent=150) for at in (2, 4, 6)]
    ).containers  # fmt: skip
    assert one == three
    assert (one.cards[0].memory_mean_bytes, one.cards[0].throttled_percent) == (7, 100)


FORMER = (
    b'{"node":"n0","vendor":"acme","at":1795000002.0,"interval_s":2.0,"containers":[{"namespace":'
    b'"default","pod":"a","uid":"uid-a","container":"c","cards":[{"card":"GPU-0","memory_bytes":5,'
    b'"cores_percent":40.0,"throttled_percent":100.0,"launches":3}],"enforced":true,"gaps":[]}],'
    b'"cards":[{"card":"GPU-0","memory_used_bytes":5,"cores_percent":40.0,"healthy":true}]}'
)
"""As an agent writes it that publishes each measurement."""


class _FormerUse(Struct):
    card: str
    memory_bytes: int
    cores_percent: float
    launches: int


class _FormerContainer(Struct):
    uid: str
    cards: tuple[_FormerUse, ...]


class _FormerUsage(Struct):
    interval_s: float
    containers: tuple[_FormerContainer, ...]


def test_a_former_agents_message_counts_as_one_measurement() -> None:
    usage = decode_usage(FORMER)
    found = reported([usage])
    assert (found.measured_s, found.idle_s, found.byte_s, found.peak_bytes) == (2, 0, 10, 5)
    smoother = Smoother()
    assert smoother.take(usage, 0)
    (container,) = card_of(smoother, 0).containers
    assert (container.cores_peak_percent, container.memory_peak_bytes) == (40, 5)


def test_a_former_service_reads_a_digest_as_a_longer_measurement() -> None:
    digest = folded([quiet(2, launches=3), quiet(4, launches=4, memory_bytes=7)])
    former = msgspec.json.decode(encode(digest), type=_FormerUsage)
    assert former.interval_s == 4
    assert former.containers[0].cards[0] == _FormerUse("GPU-0", 7, 40, 7)
