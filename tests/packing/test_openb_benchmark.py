"""The benchmark on a trace of a few lines: what it reads, what it refuses to read, what it runs."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import openb, openb_departures, openb_history
from benchmarks.openb_cluster import Cluster
from benchmarks.openb_pack import Pack
from benchmarks.openb_run import POLICIES, run
from benchmarks.openb_trace import Malformed, Shape, made_up, read

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,64000,262144,2,P100
n1,96000,393216,8,G2
n2,96000,393216,8,G2
n3,8000,32768,0,
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time
p0,12000,16384,1,1000,,LS,Running,0
p1,6000,12288,1,460,G2|P100,LS,Running,1
p2,6000,12288,1,460,P100,LS,Running,1
p3,4000,1024,0,0,,BE,Running,2
p4,16000,65536,8,1000,,BE,Running,3
p5,1000,1024,2,500,,BE,Running,3
"""


def a_folder(path: Path, nodes: str = NODES, pods: str = PODS) -> Path:
    (path / "openb_node_list_gpu_node.csv").write_text(nodes)
    (path / "openb_pod_list_tiny.csv").write_text(pods)
    return path


def test_nodes_and_shapes_are_read(tmp_path: Path) -> None:
    trace = read(a_folder(tmp_path), "tiny")
    assert trace.capacity == 18000
    assert trace.pods[1] == Shape(6000, 12288, 1, 460, ("G2", "P100"))
    assert trace.pods[3].kind == "cpu only"


def test_pods_take_any_model_where_the_trace_names_none(tmp_path: Path) -> None:
    lines = [line.split(",") for line in PODS.splitlines()]
    without = "\n".join(",".join([*line[:5], *line[6:]]) for line in lines)
    trace = read(a_folder(tmp_path, pods=without), "tiny")
    assert trace.pods[1] == Shape(6000, 12288, 1, 460, ())
    assert len(trace.pods) == 6


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("p1,6000", "p1,six", r"tiny.csv, line 3: cpu_milli is 'six': write a whole number"),
        ("p1,6000", "p1,-1", "line 3: cpu_milli is -1: write 0 or more"),
        ("1,460,G2", "1,1460,G2", "line 3: gpu_milli is 1460: write 0 to 1000"),
        ("1,460,G2", "1,0,G2", "line 3: num_gpu is 1 and gpu_milli 0: write 1 to 1000"),
        ("p1,6000,12288,1,460,G2|P100,LS,Running,1", "p1,6000", "line 3: column .* is missing"),
        ("p4,16000", "p4,16,000", "line 6: more values than columns"),
        ("gpu_milli,", "milli,", "no column gpu_milli in its first line"),
        (PODS, "", "no column"),
        (PODS[PODS.index("p0") :], "", "no line after the first"),
        ("1,1000,,LS", "1,,,LS", "line 2: gpu_milli is '': write a whole number"),
    ],
)
def test_a_malformed_file_is_refused_naming_the_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    folder = a_folder(tmp_path, pods=PODS.replace(old, new))
    with pytest.raises(Malformed, match=message):
        read(folder, "tiny")


def test_a_folder_without_the_trace_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="give the folder that holds the trace"):
        read(tmp_path, "tiny")
    (tmp_path / "openb_node_list_gpu_node.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Malformed, match="no CSV text in UTF-8"):
        read(tmp_path, "tiny")


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_fills_the_cluster_and_repeats_itself(tmp_path: Path, policy: str) -> None:
    trace = read(a_folder(tmp_path), "tiny")
    one, again = (run(trace, POLICIES[policy], 42) for _ in range(2))
    assert 40 < one.at_100 <= one.at_130 <= 100
    assert (one.at_100, one.at_130, one.failed) == (again.at_100, again.at_130, again.failed)


def test_the_command_prints_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(a_folder(tmp_path)), "--trace", "tiny", "--policy", "pack", "--seeds", "2"]
    monkeypatch.setattr("sys.argv", ["openb.py", *arguments, "--json"])
    openb.main()
    figures = json.loads(capsys.readouterr().out)
    assert set(figures["tiny"]["pack"]) == {"mean", "sd", "seconds"}


def test_a_trace_is_made_up_whose_hosts_are_in_more_demand(tmp_path: Path) -> None:
    trace = read(a_folder(tmp_path), "tiny")
    made = made_up(trace, others=3, processor=1.5)
    assert made.hosts == trace.hosts
    assert [pod.cards for pod in made.pods] == [1, 1, 1, 8, 2, 0, 0, 0]
    assert [pod.cpu for pod in made.pods] == [18000, 9000, 9000, 24000, 1500, 4000, 4000, 4000]


@pytest.mark.parametrize(("processor", "short"), [(1, False), (4, True)])
def test_pack_keeps_whole_nodes_back_where_hosts_are_short(
    tmp_path: Path, processor: float, *, short: bool
) -> None:
    trace = made_up(read(a_folder(tmp_path), "tiny"), 1, processor)
    assert Pack(Cluster(trace, np.random.default_rng(0)), trace.counts).balanced is short


def test_pods_leave_and_all_that_is_taken_is_given_back(tmp_path: Path) -> None:
    trace = read(a_folder(tmp_path), "tiny")
    pods = openb_departures.arrivals(trace, 0.5, 1)
    weeks = openb_departures.Weeks(trace, POLICIES["pack"], 1)
    counted = weeks.run(pods)
    assert counted.asked.total() > 0
    assert len(counted.waited_h) > 0
    found = {
        name: {load: [weeks.counted] for load in openb_departures.LOADS} for name in ("fgd", "pack")
    }
    openb_departures.show(trace, found)


def test_a_share_is_refused_only_where_none_fits(tmp_path: Path) -> None:
    trace = read(a_folder(tmp_path), "tiny")
    for name, counts in openb_history.pasts(trace, trace).items():
        outcome = run(trace, POLICIES["pack"], 42, counts(42))
        assert outcome.at_100 > 40, name


def test_a_cluster_that_is_overbooked_is_an_error_of_the_policy(tmp_path: Path) -> None:

    trace = read(a_folder(tmp_path), "tiny")
    cluster = Cluster(trace, np.random.default_rng(0))
    row = int(np.flatnonzero(cluster.cards == 8)[0])
    cluster.take(trace.pods[4], (row, range(8)))
    with pytest.raises(AssertionError, match="more than it has"):
        cluster.take(trace.pods[0], (row, [0]))
