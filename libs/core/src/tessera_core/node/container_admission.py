"""The last check: what a container that is about to be created is given of one vendor's cards.

The scheduler's ledger may be wrong, an annotation may be forged, a pod may still run although it is
gone; here is the last place where that can be found out. So a share is given only if our scheduler
signed it for this pod on this node, and if it fits next to what really runs. Whatever is in doubt
is refused, and asked again: a refusal must be harmless when its cause goes away.

It knows one vendor's cards on one node, and nothing of what the world looks like elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.dialect_kit.contract import Vendor
from tessera_core.fleet.charges import Charge, charges
from tessera_core.fleet.cores import milli
from tessera_core.grants.checks import credible
from tessera_core.grants.injection import container_injection
from tessera_core.grants.resize import follows
from tessera_core.trust.grants import Verifier
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import GRANT_KEY, Grant, Share, UnknownGrantVersion, decode_grant
from tessera_schema.injections import Injection


class RefusalReason(StrEnum):
    """Why a container is refused; the reason of its event, in Kubernetes' spelling."""

    KEYS_UNKNOWN = "GrantKeysUnknown"
    """No public key has been read yet."""
    FORGED = "ForgedGrant"
    """The signature is missing, unknown or wrong: written by a tenant, cut off, or changed."""
    COPIED = "GrantOfAnother"
    """Signed, for another pod or node."""
    UNREADABLE = "GrantUnreadable"
    """Signed, and makes no sense all the same."""
    NEWER = "GrantOfNewerRelease"
    REMOVED = "GrantRemoved"
    """The pod had a grant when its first container was created, and has none now."""
    CARD_UNKNOWN = "CardUnknown"
    CARD_UNHEALTHY = "CardUnhealthy"
    NO_ROOM = "CardOverfull"
    """With what runs it would exceed the card."""
    CARD_CLOSED = "CardClosed"
    """It is best-effort, and an owner was short of the card's memory a while ago."""
    SET_TWICE = "VariableSetTwice"
    """Its image and its pod both set a variable that Tessera sets, and the runtime would leave
    the pod's value."""
    MOUNTED = "CardsByMount"
    """It mounts something where the vendor's runtime takes a mount's name for a card's."""
    NOT_PREPARED = "ContainerNotPrepared"
    """Its files could not be made."""

    @property
    def needs_alert(self) -> bool:
        """Whether somebody or something is at fault, rather than merely late."""
        return self not in (
            RefusalReason.KEYS_UNKNOWN,
            RefusalReason.NEWER,
            RefusalReason.CARD_UNKNOWN,
            RefusalReason.CARD_UNHEALTHY,
            RefusalReason.CARD_CLOSED,
        )


class Granted(Struct, frozen=True, kw_only=True):
    """The container gets these shares."""

    grant: Grant
    shares: tuple[Share, ...]
    """Of this vendor's cards, each with the id of a card that is here."""
    cards: tuple[Card, ...] = ()
    """The cards of the shares, each once."""
    injection: Injection
    """Without the hook's files, which are the agent's to make."""


class NoDevices(Struct, frozen=True):
    """The container holds nothing of this vendor's cards."""

    env: Mapping[str, str] = {}
    """What keeps it from seeing them."""


class Refused(Struct, frozen=True, kw_only=True):
    """The container must not be created now."""

    why: RefusalReason
    message: str
    """For people: what is wrong, and what would do."""


AdmissionDecision = Granted | NoDevices | Refused


class ContainerCreation(Struct, frozen=True, kw_only=True):
    """A container that is about to be created."""

    uid: str
    container: str
    texts: tuple[str, ...] = ()
    """The grant annotation: as the runtime knows the pod, and as the API server shows it, where
    they differ. Of those that are good the last revision counts."""


class NodeContext(Struct, frozen=True, kw_only=True):
    """What is known on the node at this moment."""

    node: str
    vendor: Vendor
    vendors: Mapping[str, Vendor]
    """All, by name: a container may hold cards of several."""
    verifier: Verifier | None
    """None = no key is known."""
    cards: Mapping[str, Card] | None
    """This vendor's, by id; None = nobody has seen them yet."""
    held: Mapping[str, Sequence[Share]] = {}
    """Pod's uid -> this vendor's shares of its containers that run or are about to, except those
    of the container in question."""
    earlier: Grant | None = None
    """What the pod was granted when one of its containers was created before."""
    closed: Mapping[str, float] = {}
    """Card's id -> seconds for which no best-effort container begins there."""
    reclaims: bool = False
    """Whether memory that is lent is taken back where an owner needs it."""


def admit_container(asked: ContainerCreation, scene: NodeContext) -> AdmissionDecision:
    """What the container is given. Raises nothing, whatever the annotation says."""
    grant = granted(asked, scene)
    if not isinstance(grant, Grant):
        return grant
    mine = [s for s in grant.shares if s.container == asked.container]
    wanted = [s for s in mine if s.vendor == scene.vendor.name]
    if not wanted:
        return NoDevices(scene.vendor.deny)
    placed = _on_cards(wanted, scene)
    if isinstance(placed, Refused):
        return placed
    shares, cards = placed
    if shut := _closed(shares, cards, scene):
        return Refused(why=RefusalReason.CARD_CLOSED, message=shut)
    full = capacity_shortage(asked.uid, shares, cards, scene.held)
    if full:
        return Refused(why=RefusalReason.NO_ROOM, message=full)
    injection = container_injection(
        asked.container, grant, shares, vendor=scene.vendor, vendors=scene.vendors, cards=cards
    )
    return Granted(grant=grant, shares=shares, cards=tuple(cards.values()), injection=injection)


def granted(asked: ContainerCreation, scene: NodeContext) -> Grant | NoDevices | Refused:
    """The pod's grant, whatever it says of cards and containers."""
    if not asked.texts:
        if scene.earlier is None:
            return NoDevices(scene.vendor.deny)
        return _refuse(
            RefusalReason.REMOVED, "the pod had one and lost it: the scheduler writes it again"
        )
    if scene.verifier is None:
        return _refuse(
            RefusalReason.KEYS_UNKNOWN,
            "the scheduler's public keys have not been read yet: see whether it "
            "and the API server run",
        )
    good, refused = [], list[Refused]()
    for text in asked.texts:
        found = _verified(text, asked, scene, scene.verifier)
        if isinstance(found, Grant):
            good.append(found)
        else:
            refused.append(found)
    if good:
        return _newest(good, scene.earlier)
    return refused[0] if refused else NoDevices(scene.vendor.deny)


def capacity_shortage(
    uid: str,
    shares: Sequence[Share],
    cards: Mapping[str, Card],
    held: Mapping[str, Sequence[Share]],
) -> str:
    """Why a pod's container cannot have these shares next to what is held, in numbers; empty when
    it can. Init containers of one pod are counted as in the ledger."""
    others = {pod: charges(shares) for pod, shares in held.items() if pod != uid}
    own = charges([*held.get(uid, ()), *shares])
    for share in shares:
        card = cards[share.card]
        rest = _sum(charge[card.id] for charge in others.values() if card.id in charge)
        short = _lent_shortage(card, own[card.id], rest) or _shortage(card, own[card.id], rest)
        if short:
            pods = sum(card.id in charge for charge in others.values())
            return (
                f"card {card.index} ({card.id}): {short}, with {pods} other pods running on it; "
                "wait until one of them has ended"
            )
    return ""


def _closed(shares: Sequence[Share], cards: Mapping[str, Card], scene: NodeContext) -> str:
    """Why no best-effort container may begin on one of these cards; empty = it may."""
    for share in shares:
        if share.lent and not scene.reclaims:
            return (
                f"card {cards[share.card].index} ({share.card}): its memory is lent to the pod, "
                "and this agent takes no memory back: set TESSERA_RECLAIM_ENABLED, by the "
                "component memory-reclaim, or delete the pod to have it placed again"
            )
        if share.best_effort and share.card in scene.closed:
            minutes = math.ceil(scene.closed[share.card] / 60)
            return (
                f"card {cards[share.card].index} ({share.card}): containers that were granted its "
                f"memory were short of it: best-effort containers wait {minutes} more minutes; "
                "delete the pod to have it placed again"
            )
    return ""


def card_of(share: Share, node: str, cards: Mapping[str, Card]) -> Card | None:
    """The share's card. One that was granted when only the number of cards was known has a name
    made of node, vendor and index."""
    made_up = share.card == f"{node}-{share.vendor}-{share.index}"
    if share.card in cards or not made_up:
        return cards.get(share.card)
    return next((card for card in cards.values() if card.index == share.index), None)


def readable_grant(text: str, uid: str, node: str) -> Grant | Refused:
    """The grant of this pod on this node that an annotation holds. Signatures are the caller's."""
    try:
        grant = decode_grant(text)
    except UnknownGrantVersion as e:
        return _refuse(RefusalReason.NEWER, f"{e}: upgrade the agent of this node")
    except msgspec.DecodeError as e:
        return _refuse(RefusalReason.UNREADABLE, f"it makes no sense: {e}: delete the pod")
    if not all(credible(share) for share in grant.shares):
        return _refuse(RefusalReason.UNREADABLE, "it has shares beyond belief: delete the pod")
    if grant.uid != uid or grant.node != node:
        return _refuse(
            RefusalReason.COPIED,
            f"it was made for pod {grant.uid} on node {grant.node}, this is pod {uid} on node "
            f"{node}: leave the annotation to the scheduler",
        )
    return grant


def _verified(
    text: str, asked: ContainerCreation, scene: NodeContext, verifier: Verifier
) -> Grant | Refused:
    problem = verifier.problem(text)
    if problem:
        return _refuse(RefusalReason.FORGED, f"{problem}: leave the annotation to the scheduler")
    return readable_grant(text, asked.uid, scene.node)


def _newest(good: Sequence[Grant], earlier: Grant | None) -> Grant:
    """A pod's grant after its last resize; the runtime knows the first one alone."""
    newest = max(good, key=lambda grant: grant.revision)
    return earlier if earlier is not None and follows(earlier, newest) else newest


def _refuse(why: RefusalReason, problem: str) -> Refused:
    return Refused(why=why, message=f"annotation {GRANT_KEY}: {problem}")


def _on_cards(
    wanted: Sequence[Share], scene: NodeContext
) -> tuple[tuple[Share, ...], dict[str, Card]] | Refused:
    """The shares with the ids that their cards have here."""
    if scene.cards is None:
        return Refused(
            why=RefusalReason.CARD_UNKNOWN,
            message=f"the {scene.vendor.name} cards of this node have not "
            "been seen yet: see whether their driver answers",
        )
    shares, cards = [], {}
    for share in wanted:
        card = card_of(share, scene.node, scene.cards)
        if card is None:
            return Refused(
                why=RefusalReason.CARD_UNKNOWN,
                message=f"card {share.index} ({share.card}) is not on this "
                "node: delete the pod, so that it gets another",
            )
        if not card.healthy:
            return Refused(
                why=RefusalReason.CARD_UNHEALTHY,
                message=f"card {card.index} ({card.id}) is unhealthy: wait "
                "until it is well, or delete the pod",
            )
        shares.append(replace(share, card=card.id))
        cards[card.id] = card
    return tuple(shares), cards


def _sum(parts: Iterator[Charge]) -> Charge:
    total = Charge()
    for part in parts:
        total = total.plus(part)
    return total


def _shortage(card: Card, own: Charge, rest: Charge) -> str:
    both = own.plus(rest)
    if both.memory_bytes > card.memory_bytes:
        return (
            f"{_mib(own.memory_bytes)} MiB wanted, {_mib(rest.memory_bytes)} of "
            f"{_mib(card.memory_bytes)} MiB in use"
        )
    on_card = card.physical_bytes or card.memory_bytes
    if both.resident_bytes > on_card:
        return (
            f"{_mib(own.resident_bytes)} MiB wanted on the card itself, "
            f"{_mib(rest.resident_bytes)} of {_mib(on_card)} MiB promised there"
        )
    if both.cores_milli > milli(card.cores_percent):
        return (
            f"{own.cores_percent:g} % of cores wanted, {rest.cores_percent:g} of "
            f"{card.cores_percent:g} % in use"
        )
    if both.slots > card.slots:
        return f"all {card.slots} slots in use"
    if both.exclusive and rest.slots:
        return "exclusive use wanted, or in force"
    return ""


def _lent_shortage(card: Card, own: Charge, rest: Charge) -> str:
    """Memory that is lent comes next to what is granted, to each pod as much of it as the card has:
    what they use together is measured where they are placed. Who has a card to itself has all of
    it."""
    both = own.plus(rest)
    if not own.lent_slots:
        return ""
    if own.lent_bytes > card.memory_bytes:
        return (
            f"{_mib(own.lent_bytes)} MiB of lent memory wanted, and the card has "
            f"{_mib(card.memory_bytes)}"
        )
    if both.slots + both.lent_slots > card.slots:
        return f"all {card.slots} slots in use"
    return "exclusive use in force" if both.exclusive else ""


def _mib(size: int) -> int:
    return -(-size // MIB)
