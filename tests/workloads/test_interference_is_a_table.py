"""A table of what loads cost each other: read, applied, measured."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import workloads
from benchmarks.interference import (
    LARGER,
    Company,
    Measured,
    MeasurementFailed,
    companies,
    lost_percent,
    measure,
    table_of,
)
from benchmarks.workloads_interference import (
    GUESS,
    LOADS,
    BadTable,
    Interference,
    TableFile,
    read_table,
    with_loads,
)
from benchmarks.workloads_made import make
from tests.agent.machine import SIM, built

COMPUTE, BANDWIDTH, SMALL = range(3)
TABLE = Interference("a test's", np.array([[1.0, 5, 0], [5, 20, 3], [0, 3, -30]]), 25.0)


def lost(table: Interference, *loads: int) -> float:
    return float(table.lost(np.ones((1, len(loads)), bool), np.array([loads]))[0])


def test_a_pair_loses_what_the_table_says_and_one_alone_nothing() -> None:
    assert lost(TABLE, COMPUTE, BANDWIDTH) == lost(TABLE, BANDWIDTH, COMPUTE) == 5
    assert lost(TABLE, SMALL, SMALL) == -30
    assert lost(TABLE, BANDWIDTH) == 0


def test_more_lose_the_mean_of_their_pairs_for_each_further_one_up_to_a_most() -> None:
    assert lost(TABLE, COMPUTE, BANDWIDTH, SMALL) == pytest.approx(2 * (5 + 0 + 3) / 3)
    assert lost(TABLE, *[BANDWIDTH] * 4) == 25


def test_who_wants_nothing_counts_for_nothing() -> None:
    busy = np.array([[True, False, True]])
    assert TABLE.lost(busy, np.array([[COMPUTE, BANDWIDTH, COMPUTE]])).tolist() == [1]


@given(st.lists(st.sampled_from([COMPUTE, BANDWIDTH, SMALL]), min_size=1, max_size=8))
def test_a_table_that_is_the_same_everywhere_depends_on_the_number_alone(loads: list[int]) -> None:
    nearly = Interference("", GUESS.percents + np.eye(3) * 1e-12, GUESS.most)
    assert lost(GUESS, *loads) == pytest.approx(min(2 * (len(loads) - 1), 10))
    assert lost(nearly, *loads) == pytest.approx(lost(GUESS, *loads))


def a_table(path: Path, **facts: object) -> Path:
    percents = {one: dict.fromkeys(LOADS, 7) for one in LOADS}
    table = {"measured": True, "device": "A card", "mode": "mps", "most_percent": 30,
             "lost_percent": percents, **facts}  # fmt: skip
    (path / "table.json").write_text(json.dumps(table))
    return path / "table.json"


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    found = read_table(a_table(tmp_path))
    assert found.source == "table.json: measured, A card, mps"
    assert (found.percents == 7).all()
    assert "guesses, not measured" in read_table(a_table(tmp_path, measured=False)).source
    assert "guess" in GUESS.source


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"lost_percent": {}}, "lost_percent.compute.compute None: write a number"),
        ({"most_percent": 100}, "most_percent 100: write a number from 0 to 99"),
        ({"measured": "perhaps"}, "Expected `bool`"),
        ({"model": "A100"}, "unknown field `model`"),
    ],
)
def test_a_table_that_makes_no_sense_is_reported(
    tmp_path: Path, facts: dict[str, object], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = a_table(tmp_path, **facts)
    with pytest.raises(BadTable) as found:
        read_table(file)
    assert why in str(found.value)
    assert workloads.main(["--interference", str(file)]) == 2
    assert why in capsys.readouterr().err


def test_figures_name_the_table_that_they_stand_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--workload", "mixed", "--nodes", "2", "--hours", "3", "--seeds", "1", "--json"]
    small += ["--policy", "nothing", "--no-bounds"]
    said = []
    for more in [], ["--interference", str(a_table(tmp_path, most_percent=60))]:
        assert workloads.main([*small, *more]) == 0
        said.append(json.loads(capsys.readouterr().out))
    sources = [report["settings"]["interference"] for report in said]
    assert sources[0].startswith("a guess")
    assert sources[1] == "table.json: measured, A card, mps"
    work = [report["runs"]["mixed"]["nothing"][0]["work"] for report in said]
    assert work[1] < work[0]


def test_pods_have_loads_by_their_kinds_and_groups_have_one() -> None:
    jobs = with_loads(make("research", 1, nodes=5), 1).jobs
    assert {job.load for job in jobs if job.kind == "training"} == {"compute", "bandwidth"}
    assert {job.load for job in jobs if job.kind == "notebook"} == set(LOADS)
    groups = {(job.group, job.load) for job in jobs if job.group}
    assert len(groups) == len({group for group, _ in groups})


# -- measured


def test_what_two_get_of_their_own_rates_is_what_is_left() -> None:
    assert lost_percent([50, 45], [100, 100]) == pytest.approx(5)
    assert lost_percent([80, 15], [100, 20]) == pytest.approx(-55)


def measured(company: Company) -> Measured:
    """Three loads of different rates, each pair losing 4 %, larger companies 12."""
    loss = {1: 0, 2: 0.04}.get(len(company), 0.12)
    full = {"compute": 100.0, "bandwidth": 10.0, "small": 5000.0}
    rates = tuple(full[load] * (1 - loss) / len(company) for load in company)
    return Measured("A card", simulated=False, rates=rates)


def test_measurements_become_a_table_that_can_be_read(tmp_path: Path) -> None:
    table = table_of({company: measured(company) for company in companies()}, "mps")
    (tmp_path / "found.json").write_bytes(msgspec.json.encode(table))
    found = read_table(tmp_path / "found.json")
    assert found.percents == pytest.approx(np.full((3, 3), 4.0))
    assert found.most == pytest.approx(12)
    assert found.source == "found.json: measured, A card, mps"
    assert {len(company) for company in LARGER} == {3, 4}


def test_the_simulated_driver_is_no_measurement(tmp_path: Path) -> None:
    built("sim/libcuda.so.1")
    environ = {
        "LD_LIBRARY_PATH": str(SIM), "TESSERA_SIM_STATE": str(tmp_path / "machine"),
        "TESSERA_SIM_CONFIG": "cards=1 memory=16g kernel_ns=1000000",
    }  # fmt: skip
    found = measure(("compute", "small"), 0.3, environ)
    assert found.simulated
    assert all(rate > 0 for rate in found.rates)
    assert sum(found.rates) < 1100
    table: TableFile = table_of(
        {company: found._replace(rates=(1.0,) * len(company)) for company in companies()}, "mps"
    )
    assert not table.measured
    assert "simulated" in table.device


def test_without_a_driver_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(MeasurementFailed, match="libcuda"):
        measure(("compute",), 0.1, {"LD_LIBRARY_PATH": str(tmp_path)})
