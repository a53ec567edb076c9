"""Digests of usage messages, and what a history of them says of owners."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.kube.owner_references import controller_of
from tessera_core.utilization.digests import DigestBuilder, Holder
from tessera_core.utilization.history import UseHistory
from tessera_core.utilization.owners import topmost
from tessera_core.utilization.price_list import PriceList
from tessera_core.utilization.recording import (
    BadRecording,
    HolderPod,
    RecordingHeader,
    RecordingLine,
    UseDigest,
    encode_line,
    read_lines,
)
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import OwnerRef
from tessera_schema.messages.device_reports import CardUse, ContainerUse, NodeUsage
from tessera_testing.builders import a_card

CARD = a_card("card-0", mib=1000, model="Acme A100")
HOUR = 3600.0


def a_grant(
    name: str = "p", *, mib: int = 500, cores: float = 25, exclusive: bool = False
) -> Grant:
    share = Share(
        container="c", position=0, vendor="acme", dialect="d", card="card-0", index=0,
        memory_bytes=mib * MIB, cores_percent=cores, exclusive=exclusive,
    )  # fmt: skip
    return Grant(uid=f"u-{name}", namespace="team", name=name, node="n", shares=(share,))


def a_message(
    at: float, uid: str = "u-p", *, gaps: tuple[str, ...] = (), **use: float
) -> NodeUsage:
    card = CardUse(card="card-0", **use)  # type: ignore[arg-type]
    container = ContainerUse(
        namespace="team", pod="p", uid=uid, container="c", cards=(card,), gaps=gaps
    )
    return NodeUsage(node="n", vendor="acme", at=at, interval_s=2, containers=(container,))


def cut(builder: DigestBuilder, until: float, *holders: Holder) -> list[UseDigest]:
    return list(builder.cut(until, {h.grant.uid: h for h in holders}, {CARD.id: CARD}))


def test_a_period_adds_up() -> None:
    builder = DigestBuilder(1000)
    for at in range(1000, 1020, 2):
        busy = at < 1010
        builder.add(a_message(
            at, cores_percent=50.0 * busy, throttled_percent=150 if busy else 0,
            memory_bytes=(200 if busy else 100) * MIB,
        ))  # fmt: skip
    (digest,) = cut(builder, 1040, Holder(grant=a_grant(), since=0))
    assert (digest.period_s, digest.held_s, digest.measured_s) == (40, 40, 20)
    assert (digest.gpu_s, digest.idle_s) == (5, 10)
    assert digest.throttled_s == 10  # threads that wait together do not wait longer
    assert digest.peak_bytes == 200 * MIB
    assert digest.byte_s == 10 * 200 * MIB + 10 * 100 * MIB
    assert digest.part == 0.5  # of memory, which is more than a quarter of the cores
    assert digest.model == "Acme A100"


def test_what_is_not_measured_counts_as_granted() -> None:
    builder = DigestBuilder(1000)
    late, gone = a_grant("late"), a_grant("gone")
    found = {
        digest.pod: (digest.held_s, digest.measured_s, digest.until)
        for digest in cut(
            builder, 1100, Holder(grant=late, since=1090), Holder(grant=gone, since=0, until=1030)
        )
    }
    assert found == {"late": (10, 0, 1100), "gone": (30, 0, 1030)}
    assert cut(builder, 1200, Holder(grant=gone, since=0, until=1030)) == []


def test_each_period_begins_at_nothing() -> None:
    builder = DigestBuilder(0)
    builder.add(a_message(1, cores_percent=10, memory_bytes=MIB))
    cut(builder, 10, Holder(grant=a_grant(), since=0))
    (second,) = cut(builder, 20, Holder(grant=a_grant(), since=0))
    assert (second.measured_s, second.gpu_s, second.peak_bytes, second.gaps) == (0, 0, 0, ())


def test_an_interval_is_not_believed_to_be_longer_than_a_minute() -> None:
    builder = DigestBuilder(0)
    builder.add(NodeUsage(
        node="n", vendor="acme", at=5, interval_s=1e9, containers=a_message(5).containers
    ))  # fmt: skip
    (digest,) = cut(builder, HOUR, Holder(grant=a_grant(), since=0))
    assert digest.measured_s == 60


def test_a_whole_card_counts_as_one() -> None:
    (digest,) = cut(DigestBuilder(0), 10, Holder(grant=a_grant(exclusive=True, mib=1), since=0))
    assert digest.part == 1


def a_digest(pod: str = "p", *, until: float = HOUR, **fields: object) -> UseDigest:
    base = UseDigest(
        until=until, period_s=HOUR, namespace="team", pod=pod, container="c", card="card-0",
        model="Acme A100", part=0.5, granted_bytes=1 << 30, held_s=HOUR, measured_s=HOUR,
    )  # fmt: skip
    return UseDigest(**{**{f: getattr(base, f) for f in base.__struct_fields__}, **fields})


def test_owners_are_sums_of_their_pods() -> None:
    history = UseHistory()
    history.add_all([
        HolderPod(namespace="team", name="a", owner_kind="Deployment", owner="serve"),
        HolderPod(namespace="team", name="b", owner_kind="Deployment", owner="serve"),
        HolderPod(namespace="team", name="alone"),
        a_digest("a", gpu_s=900, idle_s=1800, throttled_s=360, byte_s=HOUR * (1 << 29)),
        a_digest("b", measured_s=0, gaps=("no-hook",)),
        a_digest("alone"),
        a_digest("unknown"),
    ])  # fmt: skip
    serve, *others = history.owners(PriceList(currency="EUR", cards={"a100": 2.0}))
    assert (serve.owner, serve.pods, serve.granted_hours) == ("serve", 2, 1.0)
    assert (serve.used_hours, serve.idle_hours, serve.throttled_hours) == (0.25, 0.25, 0.05)
    assert serve.unmeasured_hours == 0.5
    assert (serve.granted_gib, serve.used_gib) == (2.0, 0.5)
    assert (serve.cost, serve.idle_cost) == (2.0, 0.5)
    assert serve.gaps == ("no-hook",)
    assert {(one.owner_kind, one.owner) for one in others} == {("Pod", "alone"), ("Pod", "unknown")}


def test_a_cost_without_a_price_is_none() -> None:
    history = UseHistory()
    history.add_all([a_digest("a"), a_digest("a", until=2 * HOUR, card="card-1", model="Other")])
    (owner,) = history.owners(PriceList(currency="EUR", cards={"A100": 2.0}))
    assert owner.cost is None
    assert history.owners()[0].cost is None


def test_older_digests_are_left_out() -> None:
    history = UseHistory()
    history.add_all([a_digest(until=HOUR), a_digest(until=2 * HOUR)], since=HOUR)
    assert history.owners()[0].granted_hours == 0.5
    assert history.span_s == HOUR


@given(st.lists(st.tuples(
    st.floats(0, HOUR), st.floats(0, HOUR), st.floats(0, HOUR), st.floats(0, 1)
), min_size=1, max_size=8))  # fmt: skip
def test_parts_never_exceed_what_was_granted(rows: list[tuple[float, float, float, float]]) -> None:
    history = UseHistory()
    history.add_all(
        a_digest(
            until=(i + 1) * HOUR, measured_s=measured, idle_s=idle, throttled_s=held, part=part
        )
        for i, (measured, idle, held, part) in enumerate(rows)
    )
    (owner,) = history.owners()
    granted = owner.granted_hours + 1e-9
    assert owner.idle_hours + owner.unmeasured_hours <= granted
    assert owner.throttled_hours + owner.unmeasured_hours <= granted


def test_a_replica_set_is_its_deployment() -> None:
    replicas = OwnerRef("ReplicaSet", "serve-5d", "r", controller=True)
    deployment = OwnerRef("Deployment", "serve", "d", controller=True)
    assert controller_of((OwnerRef("X", "x", "x"), replicas)) == replicas
    assert controller_of(()) is None
    assert topmost(replicas, {"r": deployment}) == deployment
    assert topmost(replicas, {}) == replicas
    assert topmost(replicas, {"r": deployment, "d": replicas}) == deployment  # no circle


def test_lines_are_read_as_they_were_written() -> None:
    lines: list[RecordingLine] = [
        RecordingHeader(cluster="c"), HolderPod(namespace="team", name="p"), a_digest(),
    ]  # fmt: skip
    raw = [encode_line(line) for line in lines]
    assert list(read_lines(raw)) == lines
    assert list(read_lines([*raw, b'{"what":"use","unt'])) == lines  # a process was killed


HEADER = encode_line(RecordingHeader())


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "it is empty: give a file that `tessera report --record` wrote"),
        ([b"time,pod\n"], "line 1: 'time,pod': "),
        ([encode_line(a_digest())], "the first line alone is the header"),
        ([HEADER, HEADER], "line 2: "),
        ([b'{"what":"recording","version":9}\n'], "version 9, this release reads 1"),
        ([HEADER, encode_line(a_digest(gpu_s=-1.0))], "gpu_s -1.0 is no number from 0 up"),
        ([HEADER, b"x" * (1 << 21)], "line 2: 2097152 bytes"),
    ],
)
def test_what_is_no_recording_is_refused(raw: list[bytes], said: str) -> None:
    with pytest.raises(BadRecording) as error:
        list(read_lines(raw))
    assert said in str(error.value)
