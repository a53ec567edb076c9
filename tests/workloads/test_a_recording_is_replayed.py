"""A recording in either form is read, and what makes no sense is reported by file, line and
field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import workloads
from benchmarks.workloads_pods import STEP_S, Serves
from benchmarks.workloads_recorded import Malformed, read

CSV = """time_s,pod,cores,memory_mib,asks
0,a,90,20000,nvidia.com/gpu=1 nvidia.com/gpumem=24000
900,a,30,,
60,b,50,,nvidia.com/gpu=1
3600,a,,,
"""


def a_file(path: Path, text: str, name: str = "tiny.csv") -> Path:
    (path / name).write_text(text)
    return path / name


def test_rows_become_pods_with_curves(tmp_path: Path) -> None:
    found = read(a_file(tmp_path, CSV), nodes=1, cards=2, memory_mib=81920)
    a, b = found.jobs
    assert (a.name, a.at_s, a.stays_s, a.memory_mib) == ("a", 0, 3600, 20000)
    assert a.limits == {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "24000"}
    assert isinstance(a.wants, Serves)
    assert STEP_S == 600
    assert a.wants.percents.tolist() == [90, 60, 30, 30, 30, 30]
    assert (b.name, b.at_s, b.stays_s) == ("b", 60, float("inf"))


def test_json_lines_say_the_same(tmp_path: Path) -> None:
    rows = [
        {"time_s": 0, "pod": "a", "cores": 90, "memory_mib": 20000,
         "asks": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 24000},
         "annotations": {"tessera.dev/rebalance": "false"}},
        {"time_s": 3600, "pod": "a"},
    ]  # fmt: skip
    text = "\n".join(json.dumps(row) for row in rows)
    found = read(a_file(tmp_path, text, "t.jsonl"), nodes=1, cards=1, memory_mib=81920)
    assert found.jobs[0].annotations == {"tessera.dev/rebalance": "false"}
    assert found.jobs[0].stays_s == 3600


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("time_s,pod,cores,asks\n0,,5,x=1\n", "line 2: pod ''"),
        ("time_s,pod,cores,asks\nsoon,a,5,x=1\n", "line 2: time_s 'soon': write a number"),
        ("time_s,pod,cores,asks\n0,a,-5,x=1\n", "line 2: cores '-5'"),
        ("time_s,pod,cores,asks\n0,a,5,\n", "line 2: asks ''"),
        ("time_s,pod,cores,asks\n0,a,5,gpu\n", "line 2: asks 'gpu': write name=amount"),
        ("time_s,pod,cores,asks\n5,a,5,x=1\n5,a,6,\n", "line 3: time_s 5.0: write a pod's rows"),
        ("time_s,pod,cores,asks\n5,a,,x=1\n6,a,6,\n", "line 3: time_s 6.0"),
        ("", "no pods"),
    ],
)
def test_nonsense_is_reported(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(Malformed) as found:
        read(a_file(tmp_path, text), nodes=1, cards=1, memory_mib=81920)
    assert why in str(found.value)


def test_a_line_that_is_no_json_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="line 1: line"):
        read(a_file(tmp_path, "[1]", "t.jsonl"), nodes=1, cards=1, memory_mib=81920)


def test_a_recording_runs_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(a_file(tmp_path, CSV))
    code = workloads.main(
        ["--file", file, "--nodes", "1", "--cards", "1", "--policy", "nothing", "--json"]
    )
    reported = json.loads(capsys.readouterr().out)
    [run] = reported["runs"]["tiny"]["nothing"]
    assert code == 0
    assert run["pods"] == 2
    assert run["contention"] == 0
    assert run["work"] > 0.3


def test_a_missing_recording_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert workloads.main(["--file", str(tmp_path / "no.csv")]) == 2
    assert "no.csv" in capsys.readouterr().err


def test_policies_are_compared_with_any_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--workload", "mixed", "--nodes", "2", "--hours", "2", "--seeds", "1", "--no-bounds"]
    policies = ["--policy", "hints", "--policy", "lending", "--against", "lending"]
    assert workloads.main([*small, *policies]) == 0
    reported = capsys.readouterr().out
    assert "hints against lending, percent: work" in reported
    assert "against nothing" not in reported
    assert "possible" not in reported


def test_seeds_begin_with_the_first_seed(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--workload", "mixed", "--nodes", "2", "--hours", "1", "--no-bounds", "--json"]
    seeds = ["--first-seed", "11", "--seeds", "2"]
    assert workloads.main([*small, *seeds, "--policy", "nothing"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]["mixed"]["nothing"]
    assert [run["seed"] for run in runs] == [11, 12]


def test_a_first_seed_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        workloads.main(["--first-seed", "-1"])
    assert "--first-seed -1: write 0 or more" in capsys.readouterr().err


def test_policies_are_displayed_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--workload", "mixed", "--nodes", "4", "--hours", "3", "--seeds", "2"]
    assert workloads.main([*small, "--policy", "nothing", "--policy", "lending"]) == 0
    reported = capsys.readouterr().out
    assert "workload mixed: 2 seeds" in reported
    assert "lending against nothing, percent: work" in reported
    assert "lending, percent of the possible: work" in reported
    assert "interference: a guess" in reported
    assert "O4 " in reported
