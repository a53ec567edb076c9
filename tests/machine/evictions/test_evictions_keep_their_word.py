"""Walks of whole schedulers that evict: the leader ends between any two steps of a plan, calls fail
and come late, nodes go, and those that were evicted come again.

A failure prints the seed and the last steps; `EvictionWalk(seed).go(steps)` takes the same ones
again.
"""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from tests.machine.evictions.walk import EvictionWalk

STEPS = 250
"""Of each walk; the first test takes 1,000 in all, 13 s of processor time."""
SEEDS = (1, 2, 3, 4)


def walk(seed: int, steps: int) -> Counter[str]:
    """What was seen on the way."""
    evictions = EvictionWalk(seed)
    evictions.go(steps)
    return evictions.counts


@pytest.mark.timeout(300)
def test_evictions_keep_their_word(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    seen = sum((walk(seed, STEPS) for seed in SEEDS), Counter[str]())
    for what in ("preempt plans begun", "reclaim plans begun", "plans begun for gangs"):
        assert seen[what], what
    assert seen["evictions"] >= 4 * len(SEEDS)


@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_evictions_keep_their_word_over_many_seeds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    for seed in range(1000, 1200):
        walk(seed, 500)
