"""Cards, links and uses are read through NVML; what fails is reported and does not spread."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent.machine import NVML, SIM, Poller, a_failing_nvml, built, polling


def a_machine(tmp_path: Path, config: str) -> dict[str, str]:
    built("sim/libnvidia-ml.so.1")
    return {"TESSERA_SIM_STATE": str(tmp_path / "machine"), "TESSERA_SIM_CONFIG": config}


def test_a_card_is_described_as_its_driver_knows_it(tmp_path: Path) -> None:
    config = "cards=4 memory=16g card=2/numa=1 card=3/numa=1 card=1/memory=8g name=Tesla_P4"
    with polling(NVML, a_machine(tmp_path, config)) as poller:
        seen = poller.poll()
    first, second, third, _ = seen["cards"]
    assert (seen["driver"], seen["api"], seen["session"]) == ("570.86.15", "12.8", 1)
    assert first["model"] == "Tesla P4"
    assert first["bus"] == "0000:07:00.0"
    assert [c["memory_bytes"] >> 30 for c in seen["cards"]] == [16, 8, 16, 16]
    assert [c["numa"] for c in seen["cards"]] == [0, 0, 1, 1]
    assert first["paths"][second["id"]] == "SingleSwitch"
    assert first["paths"][third["id"]] == "CrossCPU"
    assert second["processes"] == []


def test_sysfs_knows_the_numa_node_better(tmp_path: Path) -> None:
    node = tmp_path / "sys/bus/pci/devices/0000:07:00.0/numa_node"
    node.parent.mkdir(parents=True)
    node.write_text("3\n")
    with polling(NVML, a_machine(tmp_path, "cards=2"), system=str(tmp_path / "sys")) as poller:
        cards = poller.poll()["cards"]
    assert [c["numa"] for c in cards] == [3, 0]


WORKER = """
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
at = ctypes.c_uint64()
assert cu.cuInit(0) == 0 and cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(1 << 30)) == 0
text = b"tessera-sim-module\\nkernel work ns=3600000000000\\n"
assert cu.cuModuleLoadData(ctypes.byref(module), text) == 0
assert cu.cuModuleGetFunction(ctypes.byref(kernel), module, b"work") == 0
print("ready", flush=True)
for line in sys.stdin:
    assert cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
"""


@contextmanager
def working(environ: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process with a GiB; each line that it is sent is an hour of work."""
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={
            **os.environ,  # noqa: TID251  (the new process's own)
            **environ, "LD_LIBRARY_PATH": str(SIM),
        },
    )  # fmt: skip
    assert worker.stdout is not None
    try:
        assert worker.stdout.readline() == "ready\n"
        yield worker
    finally:
        worker.kill()
        worker.communicate()


def test_a_process_shows_with_its_memory(tmp_path: Path) -> None:
    environ = a_machine(tmp_path, "cards=1 memory=16g context=300m")
    with polling(NVML, environ) as poller:
        with working(environ) as worker:
            held = poller.poll()["cards"][0]["processes"]
        gone = poller.poll()["cards"][0]["processes"]
    assert [(p["pid"], p["memory_bytes"] >> 20) for p in held] == [(worker.pid, 1324)]
    assert gone == []


def test_a_processs_time_is_counted_as_samples_come(tmp_path: Path) -> None:
    environ = a_machine(tmp_path, "cards=1 memory=16g")
    with polling(NVML, environ) as poller, working(environ) as worker:
        assert worker.stdin is not None
        assert poller.poll()["cards"][0]["processes"][0]["busy_ns"] == -1
        worker.stdin.write("work\n")
        worker.stdin.flush()
        counted, stamps = [-1], [0]
        while len(set(counted)) < 4:
            card = poller.poll()["cards"][0]
            counted.append(card["processes"][0]["busy_ns"])
            stamps.append(card["sampled_us"])
    assert counted == sorted(counted)
    assert stamps == sorted(stamps)
    assert len(set(stamps)) >= len(set(counted)) - 1


def test_between_two_polls_the_times_of_processes_alone_are_read(tmp_path: Path) -> None:
    environ = a_machine(tmp_path, "cards=1 memory=16g")
    with polling(NVML, environ) as poller:
        with working(environ) as worker:
            assert worker.stdin is not None
            before = poller.poll()["cards"][0]
            worker.stdin.write("work\n")
            worker.stdin.flush()
            card = poller.poll("times")["cards"][0]
            while card["processes"][0]["busy_ns"] <= 0:
                card = poller.poll("times")["cards"][0]
        after = poller.poll("times")["cards"][0]
        now = poller.poll()["cards"][0]
    [process] = before["processes"]
    assert card["processes"][0]["memory_bytes"] == process["memory_bytes"]
    assert after["memory_used_bytes"] == before["memory_used_bytes"] > now["memory_used_bytes"]
    assert card["sampled_us"] > before["sampled_us"]


def test_processes_that_take_turns_are_not_busier_than_their_card(tmp_path: Path) -> None:
    environ = a_machine(tmp_path, "cards=1 memory=16g bias=1")
    with polling(NVML, environ) as poller, working(environ) as one, working(environ) as other:
        for worker in (one, other):
            assert worker.stdin is not None
            worker.stdin.write("work\n")
            worker.stdin.flush()
        seen: dict[int, dict[int, int]] = {}
        while len(seen) < 6:
            card = poller.poll()["cards"][0]
            seen[card["sampled_us"]] = {p["pid"]: p["busy_ns"] for p in card["processes"]}
    (first_us, first), (last_us, last) = sorted(seen.items())[1], max(seen.items())
    had = {pid: last[pid] - first[pid] for pid in (one.pid, other.pid)}
    assert had[one.pid] == pytest.approx(had[other.pid], rel=0.1)
    assert sum(had.values()) / 1000 == pytest.approx(last_us - first_us, rel=0.1)


class Failing:
    """An NVML that fails as it is configured to."""

    def __init__(self, folder: Path) -> None:
        self.words = folder / "words"
        self.library = a_failing_nvml(folder)
        self.environ = {"FAULTY_NVML": str(self.words)}

    def say(self, words: str) -> None:
        new = self.words.with_suffix(".new")
        new.write_text(words)
        new.rename(self.words)


@pytest.fixture
def failing(tmp_path: Path) -> Failing:
    made = Failing(tmp_path)
    made.say("cards=2")
    return made


def faults(poller: Poller) -> list[list[tuple[int, str]]]:
    return [[(f["code"], f["what"]) for f in c["faults"]] for c in poller.poll()["cards"]]


def test_an_old_driver_lacks_much_and_is_read_all_the_same(failing: Failing) -> None:
    with polling(failing.library, failing.environ) as poller:
        seen = poller.poll()
    card = seen["cards"][0]
    assert (seen["driver"], seen["api"]) == ("418.40", "")
    assert (card["minor"], card["busy_percent"], card["memory_used_bytes"]) == (-1, -1, 1 << 30)


def test_a_fault_is_reported_once_and_of_the_card_that_has_it(failing: Failing) -> None:
    with polling(failing.library, failing.environ) as poller:
        assert faults(poller) == [[], []]
        failing.say("cards=2 xid=79@1")
        assert faults(poller) == [[], [(79, "XID 79")]]
        assert faults(poller) == [[], []]


def test_an_action_that_the_driver_needs_stands_until_it_is_done(failing: Failing) -> None:
    with polling(failing.library, failing.environ) as poller:
        failing.say("cards=2 recovery=1@0 rows=1@1")
        standing = [[f["what"] for f in c["standing"]] for c in poller.poll()["cards"]]
        failing.say("cards=2")
        after = [c["standing"] for c in poller.poll()["cards"]]
    assert standing == [
        ["its driver asks for a reset of the card"],
        ["a row of its memory waits for a reset to be remapped"],
    ]
    assert after == [[], []]


def test_a_lost_card_leaves_the_others_alone(failing: Failing) -> None:
    with polling(failing.library, failing.environ) as poller:
        poller.poll()
        failing.say("cards=2 lost=1@0")
        first, second = poller.poll()["cards"]
    assert [f["what"] for f in first["standing"]] == ["gpu is lost"]
    assert second["standing"] == []


def test_a_lost_card_keeps_the_fault_that_it_reported(failing: Failing) -> None:
    with polling(failing.library, failing.environ) as poller:
        poller.poll()
        failing.say("cards=2 lost=1@0 xid=79@0")
        first = poller.poll()["cards"][0]
    assert [f["code"] for f in first["faults"]] == [79]


def test_a_card_that_is_dead_from_the_start_keeps_nobody_waiting(failing: Failing) -> None:
    failing.say("cards=2 dead=1@0")
    with polling(failing.library, failing.environ) as poller:
        seen = poller.poll()
        assert [(c["id"], c["index"]) for c in seen["cards"]] == [("GPU-1", 1)]
        assert seen["problems"] == ["card 0 has not answered since the start"]
        failing.say("cards=2")
        assert "why" in poller.poll()
        assert len(poller.poll()["cards"]) == 2


def test_mig_mode_shows(failing: Failing) -> None:
    failing.say("cards=2 mig=1@1")
    with polling(failing.library, failing.environ) as poller:
        assert [c["mode"] for c in poller.poll()["cards"]] == ["", "mig"]


def test_links_count_directly_and_through_switches(failing: Failing) -> None:
    failing.say("cards=2 nvlink=2 switch=4")
    with polling(failing.library, failing.environ) as poller:
        first, second = poller.poll()["cards"]
    assert first["lanes"] == {"GPU-1": 6}
    assert second["lanes"] == {"GPU-0": 6}


def test_a_driver_that_went_and_came_is_opened_again(failing: Failing) -> None:
    with polling(failing.library, failing.environ) as poller:
        assert poller.poll()["session"] == 1
        failing.say("cards=2 mismatch=1")
        assert "restart the agent" in poller.poll()["why"]
        failing.say("cards=2")
        assert poller.poll()["session"] == 2


def test_cards_that_were_plugged_in_are_found(failing: Failing) -> None:
    with polling(failing.library, failing.environ) as poller:
        poller.poll()
        failing.say("cards=3")
        assert "why" in poller.poll()
        assert len(poller.poll()["cards"]) == 3


def test_a_driver_that_hangs_is_reported_and_not_waited_for(failing: Failing) -> None:
    with polling(failing.library, failing.environ, call_s=0.3) as poller:
        poller.poll()
        failing.say("cards=2 hang=1")
        assert poller.poll()["hanging"]
        assert "has not come back" in poller.poll()["why"]
        failing.say("cards=2 xid=48@0")
        seen = poller.poll()
        while "why" in seen:
            time.sleep(0.01)  # noqa: TID251  (another process's thread has to come back)
            seen = poller.poll()
    assert [f["code"] for f in seen["cards"][0]["faults"]] == [48]


def test_no_library_is_an_answer_too(tmp_path: Path) -> None:
    with polling(tmp_path / "nowhere.so", {}) as poller:
        why = poller.poll()["why"]
    assert why.endswith("No such file or directory: name the driver's library")


def test_a_card_that_shares_its_hosts_memory_is_read_without_a_size(failing: Failing) -> None:
    failing.say("cards=2 unified=1@1")
    with polling(failing.library, failing.environ) as poller:
        cards = poller.poll()["cards"]
    assert [card["memory_bytes"] >> 30 for card in cards] == [16, 0]
