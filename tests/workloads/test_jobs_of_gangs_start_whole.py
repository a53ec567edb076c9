"""Gangs and queues in virtual time: who starts first, and that jobs start whole."""

from __future__ import annotations

import pytest

from benchmarks.workloads_gang_cluster import GangCluster
from benchmarks.workloads_gang_counted import GANG_FIGURES, GangCounted, jain
from benchmarks.workloads_gang_mixes import MIXES, GangJob, GangWorkload, make
from benchmarks.workloads_gangs import GANG_POLICIES, main, simulate

HOUR_S = 3600.0


def a_job(
    name: str, at_s: float, cards: int, *, hours: float = 1, queue: str = "a", priority: int = 0
) -> GangJob:
    return GangJob(
        name=name, at_s=at_s, cards=cards, run_s=hours * HOUR_S, queue=queue, priority=priority
    )


def a_run(policy: str, *jobs: GangJob) -> GangCounted:
    """On one node with 8 cards, of which two queues deserve a half each."""
    workload = GangWorkload(
        name="small", nodes=1, queues={"a": 0.5, "b": 0.5}, jobs=jobs, span_s=HOUR_S
    )
    cluster = GangCluster(workload)
    return cluster.run(GANG_POLICIES[policy](cluster))


def starts(policy: str, *jobs: GangJob) -> list[str]:
    return list(a_run(policy, *jobs).waits_s)


def test_nobody_passes_the_head_of_a_first_come_line() -> None:
    jobs = a_job("runs", 0, 6), a_job("large", 1, 8), a_job("small", 2, 1)
    assert starts("fifo", *jobs) == ["runs", "large", "small"]
    assert starts("greedy", *jobs) == ["runs", "small", "large"]


def test_a_higher_priority_is_before_an_older_job() -> None:
    jobs = a_job("runs", 0, 8), a_job("old", 1, 8), a_job("urgent", 2, 8, priority=100)
    assert starts("greedy", *jobs) == ["runs", "old", "urgent"]
    assert starts("priority", *jobs) == ["runs", "urgent", "old"]


def test_the_queue_with_the_smaller_share_is_next() -> None:
    """Queue a has 6 of the 8 cards when 2 come free, though its gangs are older."""
    jobs = (
        a_job("a-stays", 0, 6, hours=3), a_job("short", 0, 2, queue="b"),
        a_job("a-next", 60, 2, priority=100), a_job("b-next", 120, 2, queue="b"),
    )  # fmt: skip
    assert starts("priority", *jobs)[2:] == ["a-next", "b-next"]
    assert starts("turns", *jobs)[2:] == ["b-next", "a-next"]


def test_a_job_of_lower_priority_is_evicted_in_its_own_queue_and_goes_on_from_its_save() -> None:
    """It has worked for 29 min since its save when it goes, of 59."""
    jobs = a_job("low", 0, 8, hours=2), a_job("high", 3600, 8, priority=100)
    assert not a_run("turns", *jobs).figures()["evicted"]
    figures = a_run("preempt", *jobs).figures()
    assert figures["evicted"] == 1
    assert figures["lost, GPU h"] == pytest.approx(8 * 30 / 60, abs=0.05)  # and its start
    assert figures["makespan, h"] == pytest.approx(1 + (1 + 1 / 60) + 1.5 + 1 / 60, abs=0.01)


def test_what_a_queue_borrowed_it_gives_back_though_its_priority_is_higher() -> None:
    jobs = (
        a_job("borrows", 0, 4, priority=100), a_job("more", 10, 4, priority=100),
        a_job("own", 600, 4, queue="b"),
    )  # fmt: skip
    assert not a_run("preempt", *jobs).figures()["evicted"]
    counted = a_run("reclaim", *jobs)
    assert counted.figures()["evicted"] == 1
    assert counted.waits_s["own"] == pytest.approx(5)


@pytest.mark.parametrize("policy", GANG_POLICIES)
def test_all_jobs_start_whole_and_end(policy: str) -> None:
    workload = make("helios", 1, nodes=8, jobs=60, load=1.5)
    cluster = GangCluster(workload)
    counted = cluster.run(GANG_POLICIES[policy](cluster))
    figures = counted.figures()
    assert not figures["stuck"]
    assert not figures["partial, %"]
    assert len(counted.waits_s) == 60
    assert not cluster.used
    assert not list(cluster.ledger.entries())


def test_equal_seeds_give_equal_figures() -> None:
    first, second = (
        simulate(make("philly", 3, nodes=2, jobs=40, load=1.5), "turns") for _ in range(2)
    )
    assert {name: first[name] for name in GANG_FIGURES} == {
        name: second[name] for name in GANG_FIGURES
    }


def test_waits_are_from_coming_to_the_first_start() -> None:
    counted = a_run("fifo", a_job("first", 0, 8), a_job("second", 600, 8))
    assert counted.waits_s == {"first": 0, "second": HOUR_S + 60 - 600}  # 60 s until it works


def test_fairness_is_1_for_equal_shares_alone() -> None:
    assert jain([0.5, 0.5, 0.5]) == pytest.approx(1)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([]) == 1


@pytest.mark.parametrize(("mix", "gpus"), [("philly", 1.75), ("helios", 3.72)])
def test_a_mix_has_the_published_mean_of_cards(mix: str, gpus: float) -> None:
    jobs = make(mix, 1, nodes=32, jobs=20_000, load=1).jobs
    assert sum(job.cards for job in jobs) / len(jobs) == pytest.approx(gpus, rel=0.05)
    assert sum(MIXES[mix].sizes.values()) == pytest.approx(1)


def test_a_number_of_no_jobs_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--jobs", "0"])
    assert "--jobs 0: write more than 0" in capsys.readouterr().err
