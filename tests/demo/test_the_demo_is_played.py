"""The demo as a user plays it: whole, with every process killed in the middle, and interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest

PLAYED = [sys.executable, "-m", "tessera_cli", "demo"]
SEEDS = {
    ("iluvatar", "poddemo"), ("volcano", "gpu-pod1"), ("volcano", "gpu-pod2"),
    ("koordinator", "pod-example"), ("mthreads", "gpushare-pod-default"),
    ("gpumanager", "vcuda"), ("gpumanager-two-cards", "vcuda"), ("aliyun", "gpushare"),
    ("kai", "gpu-sharing"), ("replicas", "replica-of-a-quarter"),
}  # fmt: skip
NAMED_FIRST = {
    "aliyun/gpushare serve sees 13312 MiB",
    "aliyun/gpushare serve is busy and held to 30 % of a card",
    "kai/gpu-sharing gpu-workload sees 13107 MiB",
    "replicas/replica-of-a-quarter serve sees 4096 MiB",
    "replicas/replica-of-a-quarter serve is busy and held to 25 % of a card",
}
"""Checks of the dialects that are served only where they are named."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: paths of sockets are not longer than 107 characters."""
    with tempfile.TemporaryDirectory(prefix="tessera-", dir="/tmp") as made:
        yield Path(made)


def test_a_long_tmpdir_is_reported(tmp_path: Path) -> None:
    long = tmp_path / ("long" * 20)
    long.mkdir()
    done = subprocess.run(PLAYED, capture_output=True, env=environment(long), check=False)
    assert done.returncode == 1
    assert b"TMPDIR: " in done.stderr
    assert list(long.iterdir()) == []


def environment(folder: Path) -> dict[str, str]:
    """Its temporary files go where the test can see whether they stay."""
    return {**os.environ, "TMPDIR": str(folder)}  # noqa: TID251  (as a shell would)


def left(folder: Path) -> list[str]:
    """Processes of a demo that was played in this folder, and its files."""
    found = [path.name for path in folder.iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (
                (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
            environ = (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in environ or str(folder) in command:
            found.append(command)
    return found


def by_name(output: bytes) -> Mapping[tuple[str, str], Any]:
    answer = msgspec.json.decode(output)
    return {(pod["namespace"], pod["name"]): pod for pod in answer["pods"]}


def played(folder: Path, more: list[str], errors: IO[bytes]) -> tuple[int, bytes]:
    """Its status and answer. One that stays is interrupted once it has answered."""
    argv = ["env", "--default-signal=INT", *PLAYED, "--json", *more]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=errors, env=environment(folder)
    ) as demo:
        assert demo.stdout is not None
        answer = demo.stdout.readline()
        if "--keep" in more:
            try:
                (traces,) = folder.glob("*/traces.txt")
                assert "hami/serving\n  admit" in traces.read_text()
                recorded_use_has_all_of(answer, folder)
            finally:
                demo.send_signal(signal.SIGINT)
        return demo.wait(), answer


def recorded_use_has_all_of(answer: bytes, folder: Path) -> None:
    """`tessera report` on what the demo's agents publish while it stays. A size needs nine tenths
    of the time: of 43 seconds four digests of ten."""
    nats = re.compile(rb"events --url (\S+)\n")
    while (found := nats.search((folder / "said").read_bytes())) is None:
        time.sleep(0.1)  # noqa: TID251  (another process says it next)
    (kubeconfig,) = folder.glob("*/api/kubeconfig")
    recording = folder / "use.jsonl"
    command = [sys.executable, "-m", "tessera_cli", "report"]
    recorded = subprocess.run(
        [*command, "--record", str(recording), "--kubeconfig", str(kubeconfig), "--period", "60",
         "--for", "0.012", "--nats", found[1].decode()],
        check=False, capture_output=True,
    )  # fmt: skip
    assert recorded.returncode == 0, recorded.stderr
    made = subprocess.run(
        [*command, "--from", str(recording), "--least-hours", "0", "-o", "json"],
        check=False, capture_output=True,
    )  # fmt: skip
    recording.unlink()
    assert made.returncode == 0, made.stderr
    report = msgspec.json.decode(made.stdout)
    owners = {(owner["namespace"], owner["owner"]): owner for owner in report["owners"]}
    placed = {name for name, pod in by_name(answer).items() if name in SEEDS}
    assert placed == SEEDS
    assert owners.keys() >= SEEDS
    for name in SEEDS:
        assert owners[name]["granted_hours"] > 0
        assert owners[name]["used_hours"] > 0
        assert owners[name]["unmeasured_hours"] < owners[name]["granted_hours"] / 2
    fractions = [size["change"] for size in report["sizes"] if size["namespace"] == "kai"]
    named = [(one["name"], one["annotation"]) for one in fractions]
    why = [one["why"] for one in report["without_size"]]
    assert named == [("gpu-fraction", True)], why


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "more", [["--keep"], ["--kill"]], ids=["kept", "everything-is-killed-once"]
)
def test_it_ends_right_and_leaves_nothing(folder: Path, more: list[str]) -> None:
    with (folder / "said").open("w+b") as errors:
        status, answer = played(folder, more, errors)
        errors.seek(0)
        said = errors.read().decode()
    (folder / "said").unlink()
    assert status in (0, 2), said
    pods = by_name(answer)
    checks = msgspec.json.decode(answer)["checks"]
    # What promises mean: test_promises_are_evaluated. One that is late is no fault here: the
    # machine runs other tests at the same time.
    assert [check for check in checks if not (check["passed"] or check["late"])] == [], said
    assert (status == 0) is all(check["passed"] for check in checks)
    assert any("the quota monitor counts" in check["promised"] for check in checks)
    names = [check["name"] for check in checks]
    assert len(set(names)) == len(names)
    assert set(names) >= {"gangs whole", "gangs in-part", "best-effort leaves", "queue takes-back"}
    assert all(check["measured"] and check["seconds"] > 0 for check in checks)
    assert {check["promised"] for check in checks} >= NAMED_FIRST
    assert pods.keys() >= SEEDS
    for name in SEEDS:
        pod = pods[name]
        assert pod["verdict"] == "placed"
        for seen in pod["seen"].values():
            assert seen["memory_mib"] > 0
    refused = pods["gpumanager", "one-and-a-half"]
    assert refused["verdict"] == "rejected"
    assert "150" in refused["message"]
    waits = pods["small-team", "beyond-quota"]
    assert waits["verdict"] == "waiting"
    assert {reason["code"] for reason in waits["reasons"]} == {"ResourceQuotaNotFit"}
    assert pods["hami", "too-large-for-now"]["reasons"]
    assert left(folder) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("number", "at", "status"),
    [
        (signal.SIGINT, b"pods run and were measured", 130),
        (signal.SIGTERM, b"waiting for the scheduler", 143),
        (signal.SIGHUP, b"starting the scheduler", 129),
        (signal.SIGKILL, b"waiting for the scheduler", -9),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_whatever_ends_it_ends_everything(
    folder: Path, number: signal.Signals, at: bytes, status: int
) -> None:
    # A shell that runs the tests in the background may ignore a signal, and hand that down.
    with subprocess.Popen(
        ["env", "--default-signal=INT,HUP", *PLAYED], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment(folder),
    ) as demo:  # fmt: skip
        assert demo.stderr is not None
        for line in demo.stderr:
            if at in line:
                break
        demo.send_signal(number)
        assert demo.wait() == status
    deadline = time.monotonic() + 60
    while left(folder) and time.monotonic() < deadline:
        time.sleep(0.1)  # noqa: TID251  (processes of other sessions end on their own)
    assert left(folder) == []


@pytest.mark.timeout(600)
def test_a_terminal_that_is_closed_stops_nothing_from_ending(folder: Path) -> None:
    shown, terminal = os.openpty()
    with subprocess.Popen(
        PLAYED, stdout=terminal, stderr=terminal, stdin=terminal, env=environment(folder),
        start_new_session=True,
    ) as demo:  # fmt: skip
        os.close(terminal)
        said = b""
        while b"waiting for the scheduler" not in said:
            said += os.read(shown, 4096)
        os.close(shown)
        demo.send_signal(signal.SIGHUP)
        assert demo.wait() == 129
    deadline = time.monotonic() + 60
    while left(folder) and time.monotonic() < deadline:
        time.sleep(0.1)  # noqa: TID251  (processes of other sessions end on their own)
    assert left(folder) == []
