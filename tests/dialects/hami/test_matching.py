"""Choosing and avoiding cards by id, model and mode."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tessera_schema.requests import CardKey
from tessera_testing.builders import a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.hami.setting import CARD_POLICY, Gpu, counted, needs, planned, request_of

USE = "nvidia.com/use-gpuuuid"
NOUSE = "nvidia.com/nouse-gpuuuid"
USE_TYPE = "nvidia.com/use-gputype"
NOUSE_TYPE = "nvidia.com/nouse-gputype"
MODE = "nvidia.com/vgpu-mode"


def placed(notes: Mapping[str, str], *gpus: Gpu) -> bool:
    pod = a_pod(needs({"gpu": 1, "mem": 1}), annotations=notes)
    return planned(pod, *gpus).verdict == "placed"


@pytest.mark.parametrize(
    ("notes", "fits"),
    [
        pytest.param({}, True, id="no lists"),
        pytest.param({USE: "abc,123"}, True, id="allowed"),
        pytest.param({NOUSE: "abc,123"}, False, id="MAT-03"),
        pytest.param({USE: "abc,123", NOUSE: "abc"}, False, id="MAT-04"),
        pytest.param({USE: "   "}, True, id="MAT-06"),
        pytest.param({USE: " abc "}, True, id="trimmed"),
        pytest.param({USE: "ABC"}, False, id="ids match exactly"),
        pytest.param({USE: "ab"}, False, id="ids match whole"),
        pytest.param({NOUSE: ","}, True, id="empty members"),
    ],
)
def test_cards_are_matched_by_id(notes: Mapping[str, str], *, fits: bool) -> None:
    assert placed(notes, Gpu("abc")) is fits


@pytest.mark.parametrize(
    ("model", "notes", "fits"),
    [
        pytest.param("NVIDIA-A100", {USE_TYPE: "V100,"}, False, id="MAT-07"),
        pytest.param("NVIDIA-A100", {USE_TYPE: "A100", NOUSE_TYPE: "A100"}, False, id="MAT-09"),
        pytest.param("NVIDIA A100", {USE_TYPE: "A10"}, True, id="MAT-10"),
        pytest.param("NVIDIA-A100", {USE_TYPE: "a100"}, True, id="whatever the case"),
        pytest.param("NVIDIA-A100", {USE_TYPE: "A100", NOUSE_TYPE: "A10"}, False, id="deny wins"),
        pytest.param("NVIDIA-A100", {NOUSE_TYPE: ","}, True, id="empty members"),
    ],
)
def test_cards_are_matched_by_model(model: str, notes: Mapping[str, str], *, fits: bool) -> None:
    assert placed(notes, Gpu("abc", type=model)) is fits


@pytest.mark.parametrize(
    ("wanted", "mode", "fits"),
    [
        pytest.param("mps", "hami-core", False, id="MAT-12"),
        pytest.param("hami-core", "hami-core", True, id="same"),
        pytest.param("hami-core,mig", "hami-core", True, id="list"),
        pytest.param("mig", "hami-core", False, id="other"),
        pytest.param("mps", "", True, id="a card without a mode"),
        pytest.param("hami-core", "", True, id="which shares as any other"),
        pytest.param("hami-core,mig", "", True, id="one of two that are allowed"),
        pytest.param("mig", "", False, id="but is no MIG card"),
        pytest.param("MIG", "", False, id="whatever the case of the word"),
        pytest.param("mig-1g.10gb", "", False, id="nor a part of one"),
        pytest.param(" ", "hami-core", True, id="blank"),
    ],
)
def test_cards_are_matched_by_mode(wanted: str, mode: str, *, fits: bool) -> None:
    assert placed({MODE: wanted}, Gpu("abc", mode=mode)) is fits


@pytest.mark.parametrize("notes", [{}, {MODE: "mig"}, {MODE: "hami-core,mig"}])
def test_cards_in_mig_mode_are_left_alone(notes: Mapping[str, str]) -> None:
    pod = a_pod(needs({"gpu": 1}), annotations=notes)
    assert counted(planned(pod, Gpu("abc", mode="mig"))) == {"n1": "1/1 ModeNotFit"}


@pytest.mark.parametrize("mode", ["", "hami-core", "mps", "mig"])
def test_a_pod_that_requests_mig_waits_and_learns_why(mode: str) -> None:
    pod = a_pod(needs({"gpu": 1, "mem": 1}), annotations={MODE: "mig"})
    outcome = planned(pod, Gpu("abc", mode=mode))
    assert counted(outcome) == {"n1": "1/1 ModeNotFit"}
    assert outcome.reasons[0].message.endswith(
        "c0 asks for a MIG card; no card of this cluster is in MIG mode that Tessera gives out"
    )
    (warning,) = outcome.warnings
    assert warning.startswith(f"metadata.annotations[{MODE}]: mig: the pod waits")


def test_nor_is_it_given_a_card_that_is_only_counted() -> None:
    node = a_node("n1", capacity={"tencent.com/vcuda-core": 100, "tencent.com/vcuda-memory": 64})
    pod = a_pod(needs({"gpu": 1, "mem": 1}), annotations={MODE: "mig"})
    (outcome,) = plan([pod], [node])
    assert [why.reason.wire for why in outcome.reasons] == ["ModeNotFit"]


def test_links_of_a_chain_are_trimmed() -> None:
    """MAT-14."""
    policy = request_of(
        a_pod(needs({"gpu": 1}), annotations={CARD_POLICY: "mutex, spread, numa"})
    ).policy
    assert policy.cards == (CardKey.SPREAD, CardKey.NUMA_HIGH)
    assert policy.idle_cards_only


def test_a_wanted_card_that_is_nowhere_is_reported() -> None:
    pod = a_pod(needs({"gpu": 1}), annotations={USE: "abx"})
    outcome = planned(pod, Gpu("abc"))
    assert counted(outcome) == {"n1": "1/1 CardUuidMismatch"}
    assert any("card abx is on no node" in w for w in outcome.warnings)
