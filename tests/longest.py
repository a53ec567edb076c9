"""Who runs which tests, where several workers run them: `pytest -n`.

A worker takes a folder or a file at a time. Folders that share what takes seconds to start, a
control plane above all, are taken whole, so that it is started once and not by each worker. What
takes longest is begun first, so that no worker runs alone in the end. Nothing depends on it: the
tests pass in any order, on any number of workers.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it has none

LONGEST: Final = (
    "tests/node/", "tests/cluster/", "tests/demo/", "tests/machine/", "tests/contract/",
    "tests/deploy/", "tests/runtime/test_one_writer_at_a_time.py",
    "tests/scheduler/test_agents_report_what_runs.py", "tests/bus/test_a_hundred_nodes_lie.py",
)  # fmt: skip
"""Folders and files, by the beginning of their tests' names."""


def part(nodeid: str) -> str:
    """What a test is taken with."""
    return next((part for part in LONGEST if nodeid.startswith(part)), nodeid.split("::")[0])


def begin_with_the_longest(items: list[pytest.Item]) -> None:
    """Sort the tests; those of one part stay in their order."""
    ranks = {part: rank for rank, part in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(part(item.nodeid), len(ranks)))


class ByPart(LoadScopeScheduling):  # type: ignore[misc]  # nor has this
    """Parts to workers, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        """See LoadScopeScheduling."""
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return part(nodeid)
