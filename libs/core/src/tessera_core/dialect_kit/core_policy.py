"""`GPU_CORE_UTILIZATION_POLICY`: how a container's author wants its limit of cores kept.

The variable is HAMi-core's. Volcano's and Koordinator's containers have the same library, so three
dialects read it, and in one way. Source: HAMi-core, `src/multiprocess/multiprocess_utilization_
watcher.c`; case does not matter there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tessera_core.dialect_kit.lending_terms import LendingTerms, WrittenTerms

CORE_POLICY_ENV: Final = "GPU_CORE_UTILIZATION_POLICY"
_KEPT: Final = "force"
_GIVEN_UP: Final = "disable"


def core_policy(written: WrittenTerms) -> LendingTerms:
    """`force` = its limit is a hard one; `disable` = it has none; anything else says nothing."""
    policy = _of(written.env)
    return LendingTerms(
        most_percent=0.0 if policy == _KEPT else None, unlimited=policy == _GIVEN_UP,
        unlimited_by_operator=_of(written.given) == _GIVEN_UP,
    )  # fmt: skip


def _of(env: Mapping[str, str]) -> str:
    return env.get(CORE_POLICY_ENV, "").strip().lower()
