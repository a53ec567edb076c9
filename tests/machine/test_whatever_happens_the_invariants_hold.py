"""Ten thousand steps of everything that may happen to running schedulers, on virtual time.

A failure prints the steps that lead to it, as few as could be found: each is a call of a method of
Machine. The first test takes the same steps each time, the second others.
"""

import logging

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.machine import Machine
from tests.machine.walking import Walk

STEPS_OF_ONE = 100


def walk(steps: int, *, same: bool) -> dict[str, int]:
    """As many steps, in worlds of a hundred; what was seen on the way."""
    Walk.steps, Walk.seen = 0, {}
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=steps // STEPS_OF_ONE * 5 // 4, stateful_step_count=STEPS_OF_ONE,
            derandomize=same, deadline=None, database=None, report_multiple_bugs=False,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
        ),
    )  # fmt: skip
    assert Walk.steps >= steps
    return Walk.seen


@pytest.mark.timeout(900)  # should it fail, the shortest way there is looked for
def test_over_ten_thousand_steps(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    seen = walk(10_000, same=True)
    for what in (
        "bound", "waiting", "stopped as it bound", "out of term", "resized", "kept apart",
        "silent",
    ):  # fmt: skip
        assert seen[what], what


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_over_two_hundred_thousand_other_steps(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    walk(200_000, same=False)
