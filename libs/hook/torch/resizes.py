"""Limits that change while a program runs: memory, GPU time, a file that goes. Without the hook the same work is done unlimited."""

import os
import time
from pathlib import Path

import torch

from kit import CARD, HOOKED, MIB, ROOM, driver, limits, near, run, step


def block(mib):
    """Uninitialised memory on the card."""
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def free_mib():
    """What torch reads as free."""
    return torch.cuda.mem_get_info()[0] / MIB


def settle():
    """Long enough for a running process to have looked at its limits again."""
    time.sleep(0.3)


@step("memory lowered below what is used: nothing more, nothing lost")
def _lowered():
    held = block(2000)
    limits("memory=1000")
    settle()
    if HOOKED:
        assert free_mib() == 0
        try:
            more = block(100)
            raise AssertionError(more.shape)
        except torch.cuda.OutOfMemoryError:
            pass
    limits("memory=3000")
    settle()
    if HOOKED:
        near(free_mib(), 1000, 4)
    more = block(900)
    del held, more
    torch.cuda.empty_cache()
    limits("memory=4096")
    settle()
    near(free_mib(), ROOM, 4)


def share(seconds, work):
    """Percent of the card's time that the work gets."""
    card = driver()
    work()
    torch.cuda.synchronize()
    busy, begun = card.cuSimBusy(0, os.getpid()), card.cuSimNow()
    while card.cuSimNow() - begun < seconds * 1e9:
        work()
        torch.cuda.synchronize()
    return 100 * (card.cuSimBusy(0, os.getpid()) - busy) / (card.cuSimNow() - begun)


def launches():
    """Sixteen kernels of a millisecond."""
    for _ in range(16):
        x.add_(1)


x = torch.zeros(1024, device="cuda")


def limited(percent, work):
    """The work gets the share, and never more than a little above it; a busy machine may need a second and third time."""
    limits("memory=4096", f"cores={percent}")
    settle()
    share(1, work)
    for _ in range(3):
        got = share(4, work)
        assert not HOOKED or got <= percent + 3, got
        if got >= (percent - 8 if HOOKED else 50):
            return
    raise AssertionError(got)


step("GPU time: 30 %")(lambda: limited(30, launches))
step("GPU time: raised to 60 % while it runs")(lambda: limited(60, launches))


@step("GPU time: a graph of 100 kernels at 25 %")
def _graph():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(100):
            x.add_(1)
    limited(25, graph.replay)
    limits("memory=4096", "cores=100")
    settle()


@step("a limits file that is cut or gone lifts nothing")
def _gone():
    path = Path(os.environ["TESSERA_LIMITS"])
    kept = path.read_bytes()
    for harm in (lambda: path.write_bytes(b""), path.unlink):
        harm()
        settle()
        near(free_mib(), ROOM, 4)
        if HOOKED:
            try:
                more = block(CARD // 2)
                raise AssertionError(more.shape)
            except torch.cuda.OutOfMemoryError:
                pass
        path.write_bytes(kept)
    settle()


run()
