"""Equal values are one object, whatever pods say."""

from typing import Any

import pytest

from tessera_core.shared_values import SharedValues, one_number
from tessera_schema.kube import Container, PodSpec, PodStatus, Resources


def a_spec(cpu: str = "2") -> PodSpec:
    return PodSpec(containers=(Container(name="c", resources=Resources(limits={"cpu": cpu})),))


def test_equal_values_are_one() -> None:
    shared = SharedValues()
    first = shared.one(a_spec())
    assert shared.one(a_spec()) is first
    assert shared.one(a_spec("3")) == a_spec("3")
    assert len(shared) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [({}, PodStatus()), ((), []), ({"a": 1}, {"a": 1.0}), ({"a": True}, {"a": 1})],
    ids=["types", "tuple and list", "numbers", "truth"],
)
def test_values_of_different_types_stay_apart(one: Any, other: Any) -> None:
    shared = SharedValues()
    assert shared.one(one) is one
    assert shared.one(other) is other


def test_equal_numbers_of_a_type_are_one() -> None:
    first, other = int("5368709120"), int("5368709120")
    assert first is not other
    assert one_number(first) is one_number(other)
    assert isinstance(one_number(5368709120.0), float)


def test_a_full_table_starts_again() -> None:
    shared = SharedValues(2)
    for cpu in ("1", "2", "3"):
        shared.one(a_spec(cpu))
    assert len(shared) == 1
    third = shared.one(a_spec("3"))
    assert shared.one(a_spec("3")) is third


def test_what_cannot_be_encoded_stays_as_it_is() -> None:
    shared = SharedValues()
    odd = PodSpec(affinity={"nodeAffinity": 1 << 70})
    nested: dict[str, Any] = {}
    for _ in range(100_000):
        nested = {"a": nested}
    assert shared.one(odd) is odd
    assert shared.one(nested) is nested
    assert len(shared) == 0
