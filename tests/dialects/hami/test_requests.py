"""What a manifest asks of each card, in canonical units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tessera_core.kube.quantity import BadQuantity, integer_quantity, quantity_value
from tessera_schema.cards import MIB
from tessera_schema.kube import Quantity
from tessera_schema.requests import Role
from tessera_testing.builders import a_container, a_pod
from tests.dialects.hami.setting import MEM, accepted, needs, rejected, request_of

Amounts = Mapping[str, Quantity]


@pytest.mark.parametrize(
    ("limits", "options", "want"),
    [
        # REQ-N01 has no cores: there the webhook was not asked, which adds 100
        pytest.param({"gpu": 1}, {}, (1, 0, 100, 100), id="REQ-N01"),
        pytest.param({"gpu": 2, "mem": 4096}, {}, (2, 4096, 0, 0), id="REQ-N02"),
        pytest.param({"gpu": 1, "core": 50}, {}, (1, 0, 100, 50), id="REQ-N06"),
        pytest.param({"gpu": 1, "mem": 2000, "pct": 0}, {}, (1, 2000, 0, 0), id="REQ-N11"),
        pytest.param({"gpu": 1, "mem": 1024}, {"memory_factor": 2}, (1, 2048, 0, 0), id="REQ-N14"),
        pytest.param({"gpu": 1, "pct": 0}, {"default_memory": 512}, (1, 512, 0, 0), id="REQ-N17"),
        pytest.param({"gpu": 2, "mem": 1000, "pct": 50}, {}, (2, 1000, 0, 0), id="PRB-21"),
        pytest.param({"gpu": 1, "pct": 25}, {}, (1, 0, 25, 0), id="by percentage"),
        pytest.param({"gpu": 1, "mem": 0}, {}, (1, 0, 100, 0), id="memory of 0 is none"),
        pytest.param({"gpu": 1, "mem": "1k"}, {}, (1, 1000, 0, 0), id="1k"),
        pytest.param({"gpu": 1, "core": 120}, {}, (1, 0, 100, 100), id="cores over 100"),
        pytest.param({"mem": 100}, {"default_gpu_num": 2}, (2, 100, 0, 0), id="default number"),
        pytest.param({"gpu": 1, "mem": 100}, {"default_cores": 30}, (1, 100, 0, 30), id="cores"),
        pytest.param({"gpu": 1, "core": 5}, {"default_memory": 9}, (1, 9, 0, 5), id="memory"),
    ],
)
def test_amounts_are_per_card(
    limits: Amounts, options: Mapping[str, Any], want: tuple[int, int, int, int]
) -> None:
    r = request_of(a_pod(needs(limits)), **options)
    assert (r.count, r.memory_bytes // MIB, r.memory_percent, r.cores_percent) == want
    assert (r.vendor, r.dialect, r.owns_whole_cores) == ("nvidia", "hami", True)


def test_limits_come_before_requests() -> None:
    assert request_of(a_pod(needs({"gpu": 2, "mem": 5}, {"gpu": 1, "mem": 7}))).count == 2
    assert request_of(a_pod(needs({}, {"gpu": 3, "mem": 7}))).count == 3


@pytest.mark.parametrize(
    ("limits", "options"),
    [
        pytest.param({"gpu": 1, "pct": 150}, {}, id="REQ-N04"),
        pytest.param({"gpu": 1, "pct": 4294967346}, {}, id="REQ-N05"),
        pytest.param({"gpu": 1, "pct": -1}, {}, id="REQ-N10"),
        pytest.param({"gpu": 1, "mem": "16Gi"}, {}, id="REQ-N12"),
        pytest.param({"gpu": 1, "mem": "16.0Gi"}, {}, id="REQ-N13"),
        pytest.param({"gpu": 1, "mem": "1Gi"}, {"memory_factor": 2}, id="REQ-N15"),
    ],
)
def test_what_the_original_drops_or_bends_is_refused(
    limits: Amounts, options: Mapping[str, Any]
) -> None:
    assert rejected(a_pod(needs(limits)), **options).remedy


def test_memory_in_bytes_is_refused_with_the_number_that_would_do() -> None:
    answer = rejected(a_pod(needs({"gpu": 1, "mem": "16Gi"})))
    assert answer.message == (
        f"spec.containers[0].resources.limits[{MEM}]: 16Gi: 16Gi is 17179869184: this resource "
        "counts MiB, and no card has that much. For 16 GiB write 16384."
    )


@pytest.mark.parametrize(
    ("quantity", "as_int", "rounded"),
    [
        ("1k", 1000, 1000),
        ("1Ki", 1024, 1024),
        ("16.0Gi", None, 17179869184),
        ("1.5", None, 2),
        ("500m", None, 1),
        ("1e3", 1000, 1000),
    ],
)
def test_quantities_read_as_in_go(quantity: str, as_int: int | None, rounded: int) -> None:
    """PRB-22."""
    assert (integer_quantity(quantity), quantity_value(quantity)) == (as_int, rounded)
    with pytest.raises(BadQuantity):
        quantity_value(f"{quantity}x")


def test_every_container_has_requests_of_its_own_in_spec_order() -> None:
    pod = a_pod(
        a_container(name="plain"), needs({"gpu": 1}, name="app"),
        init=(needs({"gpu": 1}, name="init"), needs({"gpu": 1}, name="side", sidecar=True)),
    )  # fmt: skip
    assert [(c.container, c.position, c.role) for c in accepted(pod).containers] == [
        ("init", 0, Role.INIT),
        ("side", 1, Role.SIDECAR),
        ("app", 3, Role.APP),
    ]
