"""A dialect that is not part of Tessera, in one file: what somebody who adds a vendor writes.

`acme.com/card: N`, `acme.com/gib: M` (GiB per card, default whole) and `acme.com/cores: P`.
Nodes publish `acme.com/cards: "id:gib,id:gib:model"`; the result is `acme.com/given: "c0=id,id"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

from tessera_core.dialect_kit import (
    Admitted,
    Card,
    CardKey,
    Container,
    ContainerChange,
    ContainerRequest,
    Custom,
    Dialect,
    Dimension,
    Example,
    Injection,
    Inventory,
    ModelSizes,
    Node,
    Placed,
    Pod,
    Policy,
    Precision,
    QuotaUnit,
    RecordedShares,
    Request,
    Share,
    claim_by_name,
    parse_amount,
    roles,
)

GIB = 1 << 30
CARD, MEMORY, CORES = "acme.com/card", "acme.com/gib", "acme.com/cores"
CARDS_KEY, GIVEN_KEY = "acme.com/cards", "acme.com/given"


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """The unit of memory, and how models are cut."""

    unit_bytes: int = GIB
    """Bytes of one `acme.com/gib`."""
    sizes: Mapping[str, tuple[int, ...]] = {}
    """Model -> the shares that its cards can be cut into, in units of memory, ascending."""

    @property
    def memory_sizes(self) -> tuple[ModelSizes, ...]:
        """The same, in bytes."""
        return tuple(
            ModelSizes(model, tuple(size * self.unit_bytes for size in sizes))
            for model, sizes in self.sizes.items()
        )


def dialect(options: Options) -> Dialect:
    names = frozenset({CARD, MEMORY, CORES})
    return Dialect(
        name="acme",
        vendor="acme",
        resources=names,
        result_keys=(GIVEN_KEY,),
        quota={MEMORY: QuotaUnit(Dimension.MEMORY, options.unit_bytes)},
        claim=partial(claim_by_name, names=names),
        admit=partial(_admit, options),
        annotate=_annotate,
        inject=_inject,
        inventory=_inventory,
        recorded=_recorded,
        example=Example(
            containers=({MEMORY: 3}, {CARD: 2}), node_annotations={CARDS_KEY: "A0:16,A1:16"}
        ),
    )


def _admit(options: Options, pod: Pod) -> Admitted:
    containers, changes = [], {}
    for position, container, role in roles(pod):
        count = parse_amount(pod, position, CARD, hint="It counts cards.")
        memory = parse_amount(pod, position, MEMORY, hint="It counts GiB.") or 0
        cores = parse_amount(pod, position, CORES, high=100, hint="It is percent of a card.") or 0
        if count is None and (memory or cores):
            count = 1
            changes[container.name] = ContainerChange(limits={CARD: "1"}, requests={CARD: "1"})
        if count:
            request = Request(
                vendor="acme", dialect="acme", count=count,
                memory_bytes=memory * options.unit_bytes, memory_percent=0 if memory else 100,
                memory_sizes=options.memory_sizes, cores_percent=cores,
                policy=Policy(cards=(CardKey.BINPACK,)),
            )  # fmt: skip
            containers.append(
                ContainerRequest(
                    container=container.name, position=position, role=role, requests=(request,)
                )
            )
    return Admitted(containers=tuple(containers), changes=changes)


def _annotate(placed: Placed) -> Mapping[str, str]:
    names = dict.fromkeys(s.container for s in placed.shares)
    given = (f"{name}={','.join(s.card for s in placed.of(name))}" for name in names)
    return {GIVEN_KEY: ";".join(given)}


def _inject(placed: Placed, container: Container) -> Injection:
    return Injection(env={"ACME_CARDS": ",".join(s.card for s in placed.of(container.name))})


def _inventory(node: Node, _customs: Sequence[Custom]) -> Sequence[Inventory]:
    cards, warnings = [], []
    text = node.metadata.annotations.get(CARDS_KEY, "")
    for index, piece in enumerate(text.split(",") if text else ()):
        card, gib, model = (*piece.split(":"), "", "")[:3]
        if gib.isdecimal():
            cards.append(
                Card(id=card, index=index, vendor="acme", model=model, memory_bytes=int(gib) * GIB)
            )
        else:
            warnings.append(f"node {node.name}: {CARDS_KEY}: {piece!r}: write id:gib")
    return (
        Inventory(
            vendor="acme", source="acme", precision=Precision.REGISTERED,
            cards=tuple(cards), warnings=tuple(warnings),
        ),
    )  # fmt: skip


def _recorded(pod: Pod, cards: Sequence[Card]) -> RecordedShares | None:
    text = pod.metadata.annotations.get(GIVEN_KEY)
    if text is None:
        return None
    known = {c.id: c for c in cards}
    asked = {c.container: c for c in _admit(Options(), pod).containers}
    shares = []
    for piece in text.split(";"):
        name, _, ids = piece.partition("=")
        for card in ids.split(","):
            if name not in asked or card not in known:
                return RecordedShares(problem=f"{GIVEN_KEY}: {piece!r} names no card of the node")
            request = asked[name].requests[0]
            shares.append(
                Share(
                    container=name, position=asked[name].position, role=asked[name].role,
                    vendor="acme", dialect="acme", card=card, index=known[card].index,
                    memory_bytes=request.memory_bytes or known[card].memory_bytes,
                    cores_percent=request.cores_percent,
                )
            )  # fmt: skip
    return RecordedShares(shares=tuple(shares))
