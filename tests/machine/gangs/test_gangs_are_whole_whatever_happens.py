"""Walks of whole schedulers that start gangs: they crash between any two writes, lose their Lease,
see changes late, and kube-scheduler, nodes and tenants do as they like.

A failure prints the seed and the last steps; `a_gang_walk(seed).go(steps)` takes the same ones
again.
"""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from tests.machine.gangs.many_walks import a_gang_walk

STEPS = 1200
"""Of each walk; the first test takes 6,000 in all, 40 s of processor time."""
SEEDS = (1, 2, 3, 4, 5)


def walk(seed: int, steps: int) -> Counter[str]:
    """What was seen on the way."""
    gangs = a_gang_walk(seed)
    gangs.go(steps)
    return gangs.invariants.seen


@pytest.mark.timeout(600)
def test_gangs_are_whole_whatever_happens(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    seen = sum((walk(seed, STEPS) for seed in SEEDS), Counter[str]())
    for what in ("starts", "gangs let through", "gates opened"):
        assert seen[what] >= len(SEEDS), what
    assert seen["evictions"], "only a gang of which too few are left is dissolved: that is seldom"


@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_gangs_are_whole_over_many_seeds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    for seed in range(1000, 1200):
        walk(seed, 1000)
