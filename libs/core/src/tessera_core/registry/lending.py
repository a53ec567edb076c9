"""The terms on which a container takes part in lending, as its dialects read them: one reading for
the agent and the rebalancer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tessera_core.dialect_kit.contract import Dialect
from tessera_core.dialect_kit.lending_terms import LendingTerms, WrittenTerms, takes_part


def terms_of(
    dialects: Mapping[str, Dialect], names: Iterable[str], written: WrittenTerms
) -> LendingTerms:
    """The terms of a container that speaks these dialects, one for each vendor: the narrowest."""
    said = [
        dialects[name].lending_terms(written) for name in sorted(set(names)) if name in dialects
    ]
    ceilings = [one.most_percent for one in said if one.most_percent is not None]
    priorities = [one.priority for one in said if one.priority is not None]
    return LendingTerms(
        lends=takes_part(written.pod.metadata.annotations),
        most_percent=min(ceilings, default=None),
        unlimited=bool(said) and all(one.unlimited for one in said),
        unlimited_by_operator=bool(said) and all(one.unlimited_by_operator for one in said),
        priority=max(priorities, default=None),
    )


def variables_of(dialects: Mapping[str, Dialect]) -> frozenset[str]:
    """All variables that any of these dialects reads for its terms, or for the hook's log."""
    return frozenset(
        name for dialect in dialects.values() for name in dialect.lending_env | dialect.log_env
    )
