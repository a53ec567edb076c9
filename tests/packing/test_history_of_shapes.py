"""Shapes are counted, fade, stay bounded, and survive a restart."""

import msgspec
import pytest

from tessera_core.packing import history as packing_history
from tessera_core.packing.history import ENOUGH, History, UnknownHistoryVersion
from tessera_schema.cards import MIB
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


def test_a_shape_is_what_is_asked_not_how_or_by_whom() -> None:
    history = History()
    history.add(a_pod(SHARE), 0)
    again = msgspec.structs.replace(
        SHARE, dialect="volcano", ids=("card-7",), policy=Policy(same_numa=True)
    )
    history.add(a_pod(again), 0)
    assert list(history.shapes.values()) == [2]


def test_a_pod_counts_half_after_a_half_life() -> None:
    history = History(half_life_s=DAY)
    history.add(a_pod(SHARE), 5 * DAY, cpu_milli=4000, memory_bytes=GIB)
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
        history.add(a_pod(SHARE), n * DAY / 7, cpu_milli=4000, memory_bytes=GIB)
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
    history.add(PodRequest(namespace="n", name="p", uid="u", containers=()), 0, cpu_milli=9)
    assert history.pods(0) == 0
    assert history.host == (0, 0)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version":1}', '{"version":1,"at":"x"}', "[" * 9999]
)
def test_what_is_torn_is_told(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        History.decode(text)


def test_a_newer_releases_history_is_left_alone() -> None:
    with pytest.raises(UnknownHistoryVersion):
        History.decode('{"version":2,"shapes":"who knows"}')
