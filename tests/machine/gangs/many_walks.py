"""Takes walks of gangs by many seeds, and prints what was seen.

python -m tests.machine.gangs.many_walks 200 500 1000    seeds, steps of each, the first seed
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable

from tests.machine.gangs.disturbances import Disturbances
from tests.machine.gangs.walk import GangWalk

Walks = Callable[[int], Disturbances]
"""A walk by its seed."""


def take_walks(walks: Walks, seeds: int = 200, steps: int = 500, first: int = 1000) -> int:
    """Stops at the first walk that breaks an invariant, and answers 1 then."""
    logging.disable(logging.CRITICAL)
    seen, took, virtual_s = Counter[str](), 0, 0.0
    for seed in range(first, first + seeds):
        walk = walks(seed)
        try:
            walk.go(steps)
        except AssertionError as e:
            sys.stdout.write(f"seed {seed}: {e}\n")
            return 1
        took += len(walk.steps)
        virtual_s += walk.world.loop.time()
        seen += walk.counts
        seen["crashes between two writes"] += walk.world.crashes.total()
        sys.stdout.write(
            f"{seed - first + 1} seeds, {took} steps, {virtual_s:.0f} virtual s, "
            f"{time.process_time():.0f} s of processor time: {dict(seen)}\n"
        )
        sys.stdout.flush()
    return 0


def a_gang_walk(seed: int) -> GangWalk:
    """In one of four walks cards are reserved for gangs in line."""
    return GangWalk(seed, reserves=seed % 4 == 3)


if __name__ == "__main__":
    sys.exit(take_walks(a_gang_walk, *map(int, sys.argv[1:])))
