"""Which pods are Koordinator's, and what is reported about what they ask in vain."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import Admitted
from tessera_core.dialects.koordinator import Options, dialect
from tessera_testing.builders import a_container, a_pod
from tests.dialects.koordinator.spoken import (
    KOORDINATOR,
    LABEL,
    NAMES,
    a_koord_pod,
    amounts,
    needs,
)

NV = NAMES["nv"]


def test_whole_cards_alone_are_left_to_their_owner() -> None:
    claim = KOORDINATOR.claim(a_pod(needs("nv=1")))
    assert not claim.fields
    assert not claim.insists


@pytest.mark.parametrize("provider", ["HAMi-core", "hami-core", "another"])
def test_the_isolation_label_claims_whole_cards(provider: str) -> None:
    claim = KOORDINATOR.claim(a_pod(needs("nv=1"), labels={LABEL: provider}))
    assert claim.insists
    assert claim.fields == {NV: f"spec.containers[0].resources.limits[{NV}]"}


def test_the_scheduler_claims_whole_cards() -> None:
    assert NV in KOORDINATOR.claim(a_koord_pod("nv=1")).fields
    other = dialect(Options(scheduler_name="another"))
    assert not other.claim(a_koord_pod("nv=1")).fields


def test_another_container_with_our_names_claims_whole_cards() -> None:
    claim = KOORDINATOR.claim(a_pod(needs("nv=1"), needs("ratio=50")))
    assert claim.insists
    assert set(claim.fields) == {NV, NAMES["ratio"]}


def test_a_pod_of_the_scheduler_without_cards_is_not_claimed() -> None:
    assert not KOORDINATOR.claim(a_koord_pod("cpu=1")).fields
    assert not KOORDINATOR.claim(a_koord_pod("koordinator.sh/rdma=100")).fields


@pytest.mark.parametrize("name", ["kubernetes.io/gpu", "kubernetes.io/gpu-memory-ratio"])
def test_deprecated_names_are_known(name: str) -> None:
    assert KOORDINATOR.claim(a_pod(needs(f"{name}=50"))).insists


def test_names_can_be_configured() -> None:
    other = dialect(Options(resource_ratio="example.com/ratio"))
    answer = other.admit(a_koord_pod("example.com/ratio=50"))
    assert isinstance(answer, Admitted)
    assert answer.containers[0].requests[0].memory_percent == 50
    assert "koordinator.sh/gpu-memory-ratio" not in other.resources


def test_whole_cards_are_lent_and_the_rest_is_owned() -> None:
    assert KOORDINATOR.shared_names == {NV}
    assert KOORDINATOR.resources >= {*NAMES.values(), "kubernetes.io/gpu-core"}


def test_network_cards_that_are_not_placed_are_reported() -> None:
    answer = KOORDINATOR.admit(a_koord_pod("gpu=200 koordinator.sh/rdma=100"))
    assert isinstance(answer, Admitted)
    assert any("koordinator.sh/rdma" in warning for warning in answer.warnings)


@pytest.mark.parametrize(("provider", "reported"), [("HAMi-core", False), ("MPS", True)])
def test_an_unknown_isolation_is_reported(*, provider: str, reported: bool) -> None:
    answer = KOORDINATOR.admit(a_koord_pod("gpu=50", isolation=provider))
    assert isinstance(answer, Admitted)
    assert any(provider in warning for warning in answer.warnings) is reported


def test_result_keys_are_the_schedulers() -> None:
    assert "scheduling.koordinator.sh/device-allocated" in KOORDINATOR.result_keys


def test_other_resources_are_not_touched() -> None:
    resources = {"cpu": "1", **amounts("gpu=50")}
    answer = KOORDINATOR.admit(a_pod(a_container(resources, resources)))
    assert isinstance(answer, Admitted)
    (change,) = answer.changes.values()
    assert "cpu" not in {*change.limits, *change.requests, *change.removed}
