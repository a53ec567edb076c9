"""Every example file answers, alone and together with all the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Tessera

EXAMPLES = Path(__file__).parents[2] / "examples"
SMOKE = EXAMPLES / "smoke.yaml"
"""For a cluster that is there: it brings no node."""
GOOD = sorted(path for path in EXAMPLES.glob("*.yaml") if path != SMOKE)
REFUSED = sorted((EXAMPLES / "refused").glob("*.yaml"))


def _but_agents(warnings: list[str]) -> list[str]:
    """Without those that a cluster with our agents would not have."""
    return [w for w in warnings if " needs Tessera's agent on node " not in w]


def test_there_is_one_file_for_each_seed_and_a_mixed_one() -> None:
    assert {p.stem for p in GOOD} >= {
        "iluvatar", "volcano", "koordinator", "mthreads", "gpumanager", "aliyun",
        "replicas", "kai", "mixed",
    }  # fmt: skip
    assert REFUSED


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_a_good_example_is_placed_without_a_word(tessera: Tessera, path: Path) -> None:
    ran = tessera("place", "-f", str(path), "-o", "json")
    assert (ran.status, ran.err) == (0, "")
    assert set(ran.verdicts.values()) <= {"placed", "ignored"}
    assert [pod["warnings"] for pod in ran.pods if _but_agents(pod["warnings"])] == []
    for pod in ran.pods:
        assert bool(pod["cards"]) == (pod["verdict"] == "placed")


def test_the_smoke_test_fits_on_a_cluster_with_a_card(tessera: Tessera) -> None:
    cluster = EXAMPLES / "volcano.yaml"
    ran = tessera("place", "-f", str(cluster), "-f", str(SMOKE), "-o", "json")
    assert (ran.status, ran.err) == (0, "")
    (pod,) = [pod for pod in ran.pods if pod["name"] == "tessera-smoke"]
    assert [(c["memory_mib"], c["cores_percent"]) for c in pod["cards"]] == [(2000, 20)]
    assert _but_agents(pod["warnings"]) == []


@pytest.mark.parametrize("path", REFUSED, ids=lambda p: p.stem)
def test_a_refused_example_says_why_in_numbers(tessera: Tessera, path: Path) -> None:
    ran = tessera("place", "-f", str(path), "-o", "json")
    assert (ran.status, ran.err) == (2, "")
    assert set(ran.verdicts.values()) <= {"waiting", "rejected"}
    for pod in ran.pods:
        assert pod["reasons"]
        assert all(reason["message"] for reason in pod["reasons"])


def test_the_good_ones_together_are_placed(tessera: Tessera) -> None:
    ran = tessera("place", "-f", str(EXAMPLES), "-o", "json")
    assert (ran.status, ran.err) == (0, "")
    everything = tessera("place", "-R", "-f", str(EXAMPLES), "-o", "json")
    assert everything.status == 2
    assert len(everything.pods) > len(ran.pods)


def test_the_numbers_of_the_seeds_come_out(tessera: Tessera) -> None:
    ran = tessera("place", "-f", str(EXAMPLES), "-o", "json")
    shares = {
        pod["name"]: [(c["memory_mib"], c["cores_percent"]) for c in pod["cards"]]
        for pod in ran.pods
    }
    assert shares["corex-half-a"] == [(16384, 50)]
    assert shares["gpu-pod-1"] == [(1024, 0)]
    assert shares["pod-half"] == [(11520, 50)]
    assert shares["gpushare-half"] == [(16384, 50)]
    assert shares["vcuda-half"] == [(7680, 50)]
    assert len(shares["vcuda-two-cards"]) == 2
    assert shares["gpushare-compute"] == [(4096, 30)]
    assert shares["gpushare-two-cards"] == [(4096, 0), (4096, 0)]
    assert shares["replica-of-a-quarter"] == [(3840, 25)]
    assert shares["replica-by-selector"] == [(27306, 33.333)]
    assert shares["gpu-eighths"] == [(5120, 0), (5120, 0)]
    assert len(shares["two-makes"]) == 3
