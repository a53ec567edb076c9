"""On what terms HAMi's containers take part in lending: by two variables of HAMi-core.

Priorities are HAMi's alone: its monitor compares those of its own containers, and no other system
has such a monitor.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tessera_core.dialect_kit import LendingTerms, WrittenTerms, core_policy, whole_number

PRIORITY_ENV: Final = "CUDA_TASK_PRIORITY"
_LOW: Final = 1
"""The priority of a container that names none, or no number: 0 goes before it."""


def terms(written: WrittenTerms) -> LendingTerms:
    """Its priority, and how its limit of cores is kept."""
    priority = whole_number(written.env.get(PRIORITY_ENV, ""))
    return replace(core_policy(written), priority=_LOW if priority is None else priority)
