"""A socket that a service manager opened, as `deploy/systemd` has it: requests wait on it while the
daemon is gone, and the next daemon answers them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.machine import BUILD, ROOT, built

UNITS = ROOT / "deploy" / "systemd"
LAUNCH = (
    "import os, sys; os.environ['LISTEN_PID'] = str(os.getpid()); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.mark.parametrize("starts", [1, 2])
def test_requests_wait_on_the_socket(tmp_path: Path, starts: int) -> None:
    built("libtessera.so")
    folder = tmp_path / "local"
    folder.mkdir()
    where = ["--simulated", "--folder", str(folder)]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        listening.listen()
        for _ in range(starts):
            asks = subprocess.Popen(
                [sys.executable, "-m", "tessera_cli", "run", *where, "--memory", "1Gi", "--",
                 "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"],
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            daemon = subprocess.Popen(
                [sys.executable, "-c", LAUNCH, sys.executable, "-m", "tessera_agent.local", *where,
                 "--hook", str(BUILD / "libtessera.so"), "--driver", str(BUILD / "sim"),
                 "--idle", "1"],
                stderr=subprocess.DEVNULL, pass_fds=(3,),
                preexec_fn=lambda: os.dup2(listening.fileno(), 3),
            )  # fmt: skip
            assert asks.communicate(timeout=60)[0].startswith("GPU-")
            assert daemon.wait(60) == 0  # idle: it ends, and the socket stays
            assert (folder / "socket").is_socket()


def test_the_units_are_for_the_folder_that_the_command_uses() -> None:
    listens = "ListenStream=/run/tessera/local/socket"
    assert listens in (UNITS / "tessera-local.socket").read_text().splitlines()
    service = (UNITS / "tessera-local.service").read_text()
    assert "-m tessera_agent.local --folder /run/tessera/local\n" in service
