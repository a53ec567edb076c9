"""Shapes are counted, fade, stay bounded, and survive a restart."""

import msgspec
import pytest
from msgspec.structs import replace

from tessera_core.placement.packing import demand_history as packing_history
from tessera_core.placement.packing.demand_history import (
    ENOUGH,
    History,
    SavedHistory,
    ShapeRecord,
    UnknownHistoryVersion,
)
from tessera_core.placement.packing.inferred_demand import request_from_grant
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.requests import (
    ContainerRequest,
    PodRequest,
    Policy,
    Request,
    Role,
)
from tests.packing.fleets import GIB, a_pod

DAY = 86400.0
SHARE = Request(vendor="acme", dialect="hami", memory_bytes=4 * GIB, cores_percent=20)
OTHER = Request(vendor="acme", dialect="hami", memory_bytes=8 * GIB)
SHARE_SHAPE, OTHER_SHAPE = (msgspec.structs.replace(r, dialect="") for r in (SHARE, OTHER))


def test_a_shape_is_what_is_requested_not_how_or_by_which() -> None:
    history = History()
    history.add(a_pod(SHARE), 0)
    again = msgspec.structs.replace(
        SHARE, dialect="volcano", ids=("card-7",), policy=Policy(same_numa=True)
    )
    history.add(a_pod(again), 0)
    assert list(history.shapes.values()) == [2]


def test_pods_that_share_their_containers_count_as_those_that_do_not() -> None:
    share, other = a_pod(SHARE, cpu_milli=4000), a_pod(OTHER, SHARE)
    come = [share, share, replace(share, cpu_milli=8000), other, other, share]
    sharing, apart = History(), History()
    for pod in come:
        sharing.add(pod, 0)
        apart.add(replace(pod, containers=tuple(map(replace, pod.containers))), 0)
    assert sharing.demands == apart.demands
    assert sharing.host == apart.host
    assert sum(sharing.shapes.values()) == 8


def test_a_pod_counts_half_after_a_half_life() -> None:
    history = History(half_life_s=DAY)
    history.add(a_pod(SHARE, cpu_milli=4000, memory_bytes=GIB), 5 * DAY)
    history.add(a_pod(OTHER), 6 * DAY)
    shares, others = history.shapes.values()
    assert others == 2 * shares
    assert history.pods(6 * DAY) == pytest.approx(1.5)
    assert history.pods(7 * DAY) == pytest.approx(0.75)


def test_it_is_enough_only_while_it_is_fresh() -> None:
    history = History(half_life_s=DAY)
    assert not history.enough(0)
    for _ in range(int(ENOUGH)):
        history.add(a_pod(SHARE), 0)
    assert history.enough(0)
    assert not history.enough(DAY)


def test_a_restart_changes_nothing() -> None:
    history = History(half_life_s=DAY)
    for n in range(20):
        history.add(a_pod(SHARE, cpu_milli=4000, memory_bytes=GIB), n * DAY / 7)
        history.add(a_pod(OTHER), n * DAY / 5)
    now = 5 * DAY
    again = History.decode(history.encode(now), half_life_s=DAY)
    assert again.pods(now) == pytest.approx(history.pods(now))
    assert again.shapes == pytest.approx(history.shapes, rel=1e-5)
    assert again.host == pytest.approx(history.host, rel=1e-3)
    third = History.decode(again.encode(now), half_life_s=DAY)
    assert third.encode(now) == again.encode(now)


def test_years_of_pods_stay_finite() -> None:
    history = History(half_life_s=DAY)
    for day in range(1000):
        history.add(a_pod(SHARE), day * DAY)
    assert history.pods(999 * DAY) == pytest.approx(2)


def test_the_rarest_shapes_are_dropped_when_there_are_too_many() -> None:
    history = History()
    for n in range(3 * packing_history.SHAPES):
        history.add(a_pod(msgspec.structs.replace(SHARE, memory_bytes=n * MIB)), 0)
        history.add(a_pod(SHARE), 0)
    assert len(history.shapes) == packing_history.SHAPES
    assert history.shapes[max(history.shapes, key=history.shapes.__getitem__)] > 1000


def test_only_the_commonest_shapes_are_written_down() -> None:
    history = History()
    for n in range(packing_history.SAVED + 100):
        for _ in range(2 if n >= 100 else 1):
            history.add(a_pod(msgspec.structs.replace(SHARE, memory_bytes=n * MIB)), 0)
    text = history.encode(0)
    again = History.decode(text)
    assert sorted(again.shapes.values()) == [2] * packing_history.SAVED
    assert again.pods(0) == history.pods(0)
    assert len(text) < 300_000, "a ConfigMap holds a million bytes"


def test_what_two_have_counted_adds_up_each_by_its_age() -> None:
    old, new = History(half_life_s=DAY), History(half_life_s=DAY)
    for _ in range(4):
        old.add(a_pod(SHARE, cpu_milli=4000), 0)
    new.add(a_pod(SHARE, cpu_milli=1000), DAY)
    new.add(a_pod(OTHER, cpu_milli=1000), DAY)
    together = History.decode(old.encode(0), half_life_s=DAY)
    together.absorb(new, DAY)
    assert together.pods(DAY) == pytest.approx(4)
    assert together.shapes[OTHER_SHAPE] / together.shapes[SHARE_SHAPE] == pytest.approx(1 / 3)
    empty = History(half_life_s=DAY)
    empty.absorb(together, DAY)
    assert empty.pods(DAY) == pytest.approx(4)
    cpu, _ = empty.host
    assert cpu / empty.shapes[OTHER_SHAPE] == pytest.approx(4 * 4000 / 2 + 2000)


def test_what_a_pod_requested_is_guessed_from_what_it_holds() -> None:
    whole = msgspec.structs.replace(OTHER, count=2, exclusive=True)
    pod = a_pod(SHARE, whole, SHARE)
    held = tuple(
        Share(
            container=c.container, position=c.position, vendor="acme", dialect="hami",
            card=f"card-{i}", index=i, memory_bytes=r.memory_bytes,
            cores_percent=r.cores_percent, exclusive=r.exclusive,
        )
        for c in pod.containers for r in c.requests for i in range(r.count)
    )  # fmt: skip
    grant = Grant(uid="uid", namespace="default", name="pod", node="n", shares=held)
    assert request_from_grant(grant) == pod


def test_requests_for_one_card_are_one_shape() -> None:
    together = msgspec.structs.replace(OTHER, together=True)
    containers = tuple(
        ContainerRequest(container=f"c{i}", position=i, role=role, requests=(together,))
        for i, role in enumerate((Role.INIT, Role.APP, Role.APP))
    )
    history = History()
    history.add(PodRequest(namespace="n", name="p", uid="u", containers=containers), 0)
    assert [shape.memory_bytes for shape in history.shapes] == [16 * GIB]


def test_a_pod_without_cards_is_not_history() -> None:
    history = History()
    history.add(PodRequest(namespace="n", name="p", uid="u", containers=(), cpu_milli=9), 0)
    assert history.pods(0) == 0
    assert history.host == (0, 0)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version":1}', '{"version":1,"at":"x"}', "[" * 9999]
)
def test_what_is_torn_is_reported(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        History.decode(text)


@pytest.mark.parametrize(
    "odd",
    [
        {"count": 0}, {"count": -1}, {"memory_bytes": -1}, {"memory_bytes": 2**62},
        {"memory_percent": 101}, {"cores_percent": -5.0}, {"cores_percent": 1e300},
        {"memory_unit": 0},
    ],
)  # fmt: skip
def test_shapes_that_nobody_can_have_requested_are_left_out(odd: dict[str, float]) -> None:
    history = History()
    for request in (SHARE, SHARE, msgspec.structs.replace(OTHER, **odd)):
        history.add(a_pod(request), 0)
    assert History.decode(history.encode(0)).shapes == {SHARE_SHAPE: 2}


@pytest.mark.parametrize("count", [0, -1, 1e300])
def test_counts_that_cannot_be_are_left_out(count: float) -> None:
    seen = (ShapeRecord(shape=SHARE, count=count), ShapeRecord(shape=OTHER, count=2))
    text = msgspec.json.encode(SavedHistory(at=0, pods=3, seen=seen))
    assert History.decode(text).shapes == {OTHER: 2}


def test_a_newer_releases_history_is_left_alone() -> None:
    with pytest.raises(UnknownHistoryVersion):
        History.decode('{"version":2,"shapes":"who knows"}')
