"""What a container may use of its cards: the limits that its hook enforces, and the terms on which
it takes part in lending."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from msgspec import UNSET
from msgspec.structs import replace

from tessera_agent.containers.namespace_allowances import NamespaceAllowances
from tessera_core.dialect_kit.contract import Dialect
from tessera_core.dialect_kit.lending_terms import LendingTerms, WrittenTerms
from tessera_core.hook.limits_file import CardFlag, CardLimit, HookLimits, Mode
from tessera_core.registry.lending import terms_of
from tessera_kubelet.nri.types import PodSandbox
from tessera_schema.cards import MIB
from tessera_schema.grants import Share
from tessera_schema.injections import Injection
from tessera_schema.kube import ObjectMeta, Pod

_PERMILLE: Final = 10
_MOST_PERMILLE: Final = 1000


class HookSettings(Protocol):
    """What is set of the hook on this node."""

    @property
    def log_level(self) -> int:
        """What it logs; 0 = not said."""
        ...

    @property
    def charge_contexts(self) -> bool:
        """Whether contexts and code count against a container's memory."""
        ...


class LimitsCalculator:
    """Computes terms and limits of this node's containers."""

    def __init__(
        self, dialects: Mapping[str, Dialect], allowances: NamespaceAllowances,
        settings: HookSettings,
    ) -> None:  # fmt: skip
        self._dialects = dialects
        self._settings = settings
        self._allowances = allowances

    def terms(
        self, pod: PodSandbox, shares: Sequence[Share], env: Mapping[str, str], given: Injection
    ) -> LendingTerms:
        """The lending terms of a container of the pod. `shares`, `env` as it will be, and `given`
        are the container's."""
        return terms_in(self._dialects, pod.annotations, shares, env, given)

    def limits(
        self, pod: PodSandbox, container: str, shares: Sequence[Share], terms: LendingTerms,
        log_level: int = 0,
    ) -> HookLimits:  # fmt: skip
        """The limits of a container that holds these shares on these terms. `log_level` is its
        own, 0 where the node's settings say."""
        cards = [share.card for share in shares]
        unlimited = self._allowances.unlimited_cards(pod.namespace, terms, cards)
        limits = limits_of(pod, container, shares, terms, unlimited)
        if self._settings.charge_contexts:
            limits = replace(limits, cards=tuple(map(_with_contexts, limits.cards)))
        return replace(limits, log_level=log_level or self._settings.log_level)

    def own_log_level(
        self, shares: Sequence[Share], env: Mapping[str, str], given: Injection
    ) -> int:
        """What the container itself says of the hook's log, beyond what it was given; 0 =
        nothing: the node's settings say."""
        own = {name: value for name, value in env.items() if name not in given.env}
        return log_level_in(self._dialects, shares, own)


def limits_of(
    pod: PodSandbox, container: str, shares: Sequence[Share], terms: LendingTerms,
    unlimited: Collection[str],
) -> HookLimits:  # fmt: skip
    """The limits for the hook. A share without cores, or of a card that is among the `unlimited`,
    is not limited in GPU time, unless it is a best-effort one; one without memory gets the least
    that is a limit."""
    cards = tuple(
        CardLimit(
            uuid=share.card, index=share.index, memory_bytes=max(share.memory_bytes, MIB),
            cores_permille=cores_permille(share), priority=terms.priority or 0,
            resident_bytes=resident_bytes(share), flags=card_flags(share),
            mode=cores_mode(share, unlimited=share.card in unlimited),
        )
        for share in shares
    )  # fmt: skip
    return HookLimits(container=f"{pod.namespace}/{pod.name}/{container}", cards=cards)


def log_level_in(
    dialects: Mapping[str, Dialect], shares: Sequence[Share], env: Mapping[str, str]
) -> int:
    """How much the hook logs: the most that a dialect of the shares says; 0 = none does."""
    names = {share.dialect for share in shares} & dialects.keys()
    return max((dialects[name].log_level(env) for name in names), default=0)


def terms_in(
    dialects: Mapping[str, Dialect], annotations: Mapping[str, str], shares: Sequence[Share],
    env: Mapping[str, str], given: Injection,
) -> LendingTerms:  # fmt: skip
    """The terms on which a container takes part in lending. `annotations` are the pod's; `shares`,
    `env` as it will be, and what it was `given` are the container's."""
    pod = Pod(metadata=ObjectMeta(annotations=dict(annotations)))
    written = WrittenTerms(pod=pod, env=env, given=given.env, annotations=given.annotations)
    return terms_of(dialects, [share.dialect for share in shares], written)


def cores_mode(share: Share, *, unlimited: bool) -> Mode:
    """How the hook limits its part of the card's time before anything is lent to it."""
    if share.best_effort:
        return Mode.ELASTIC
    return Mode.OFF if unlimited or not cores_permille(share) else Mode.HARD


def cores_permille(share: Share) -> int:
    """The share's part of the card's time; 0 and 1000 are no limit, but a best-effort one's."""
    return min(round(share.cores_percent * _PERMILLE), _MOST_PERMILLE)


def resident_bytes(share: Share) -> int:
    """What may lie on the card, for the hook; 0 = all, so that nothing is a byte."""
    return 0 if share.resident_bytes is UNSET else max(share.resident_bytes, 1)


def card_flags(share: Share) -> CardFlag:
    """The hook's switches on one card: memory may lie in the host's where the scheduler granted
    more of the card than it has, and nowhere else; a best-effort container has what others leave of
    the card's time."""
    rest = CardFlag.REST if share.best_effort else CardFlag.NONE
    return rest if share.resident_bytes is UNSET else rest | CardFlag.OVERSUBSCRIBE


def _with_contexts(limit: CardLimit) -> CardLimit:
    return replace(limit, flags=limit.flags | CardFlag.CHARGE_OVERHEAD)


def in_force(shares: Sequence[Share], limits: HookLimits) -> tuple[Share, ...]:
    """The shares as they are held: a limit that is still above what was granted counts."""
    now = {card.uuid: card.memory_bytes for card in limits.cards}
    return tuple(
        replace(share, memory_bytes=now[share.card])
        if now.get(share.card, 0) > max(share.memory_bytes, MIB) else share
        for share in shares
    )  # fmt: skip


def cards_below_grant(shares: Sequence[Share], limits: HookLimits) -> frozenset[str]:
    """Cards of which the container may use less of the cores than it was granted."""
    now = {card.uuid: card.cores_permille for card in limits.cards}
    return frozenset(
        share.card for share in shares if not share.best_effort
        if 0 < now.get(share.card, 0) < (cores_permille(share) or _MOST_PERMILLE)
    )  # fmt: skip
