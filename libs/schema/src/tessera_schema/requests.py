"""What a container asks for, in canonical units, with the policy that chooses its cards."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from tessera_schema.cards import MIB
from tessera_schema.label_selectors import Selector


class Role(StrEnum):
    """How long a container's share is held."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


class NodeOrder(StrEnum):
    """Which node is tried first; the formulas are in `tessera_core.placement.scoring.nodes`."""

    BINPACK = "binpack"
    SPREAD = "spread"
    LEAST_FREE = "least-free"
    """GPU Manager: fewest free cores, then least free memory, then name."""
    LEAST_ALLOCATED = "least-allocated"
    MOST_ALLOCATED = "most-allocated"
    PACK = "pack"
    """Least lost of what others will ask for (`tessera_core.placement.packing`); binpack where
    nobody keeps count of what is asked."""


class CardKey(StrEnum):
    """A sort key over the cards of a node; the formulas are in
    `tessera_core.placement.scoring.cards`."""

    BINPACK = "binpack"
    """HAMi: highest share of slots, cores and memory in use first."""
    SPREAD = "spread"
    """HAMi: lowest first."""
    NUMA_LOW = "numa-low"
    NUMA_HIGH = "numa-high"
    TIGHTEST = "tightest"
    """GPU Manager: fewest free cores, then least free memory."""
    MOST_USED_MEMORY = "most-used-memory"
    """Volcano vGPU binpack."""
    FEWEST_SHARERS = "fewest-sharers"
    """Volcano vGPU spread."""
    LEAST_ALLOCATED = "least-allocated"
    """Koordinator's card score."""
    MOST_ALLOCATED = "most-allocated"
    PACK = "pack"
    """See `NodeOrder.PACK`; binpack where nobody keeps count."""


class PressurePolicy(StrEnum):
    """What pressure of use on cards (`tessera_core.placement.scoring.pressure`) may decide."""

    NOTHING = "nothing"
    TIES = "ties"
    """What the policy leaves equal."""
    FIRST = "first"
    """Nodes and cards under less pressure come first, each group in the policy's order."""
    PRICE = "price"
    """Cards have prices (`tessera_core.placement.scoring.price`), which count with what the policy
    loses there."""
    FIRST_PRICED = "first-priced"
    """As `FIRST`, and in each group prices count as with `PRICE`."""


class Choice(StrEnum):
    """How cards are picked among those that fit: a module each in
    `tessera_core.placement.card_choice`."""

    ORDERED = "ordered"
    """The first ones in the order of the keys."""
    LINKS = "links"
    """HAMi topology-aware: the best sum of link scores; one card: the worst linked."""
    TREE = "tree"
    """GPU Manager: link, fragment and share evaluators over the topology tree."""
    SCOPES = "scopes"
    """Koordinator: the deepest of PCIe switch, NUMA node, node that holds the request."""


class Scope(StrEnum):
    """How close cards must be, at least. Names are Koordinator's."""

    NODE = "Node"
    NUMA = "NUMANode"
    SWITCH = "PCIe"
    DEVICE = "Device"
    """One card."""


class Grouping(Struct, frozen=True, kw_only=True):
    """Whole cards only in groups that the machine can join (`tessera_schema.cards.Partition`)."""

    best_only: bool = False
    """Of the best groups of the asked size or not at all."""
    bandwidth: int = 0
    """What the group must have, in the unit of the groups' source."""


class Weights(Struct, frozen=True):
    """Weights of HAMi's card score (`hami.io/device-scoring-weights`)."""

    slot: int = 1
    core: int = 1
    memory: int = 1


class Policy(Struct, frozen=True, kw_only=True):
    """How a node and its cards are chosen for one request."""

    node: NodeOrder = NodeOrder.BINPACK
    cards: tuple[CardKey, ...] = ()
    """Most important first."""
    highest_index_first: bool = False
    """Last tie-break: HAMi and Volcano vGPU walk their lists from the end."""
    choice: Choice = Choice.ORDERED
    idle_cards_only: bool = False
    """HAMi's `mutex`."""
    same_numa: bool = False
    scope: Scope = Scope.NODE
    """With Choice.SCOPES: cards that lie further apart are not taken."""
    grouping: Grouping | None = None
    """With Choice.SCOPES; None = where the node does not insist, as the cards come."""
    labels: Selector = ()
    """With Choice.SCOPES: what the cards' own labels must be."""
    weights: Weights = Weights()
    pressure: PressurePolicy = PressurePolicy.NOTHING
    """Set when a pod is placed; no dialect does."""
    wanted_percent: float = 0
    """Where prices count: GPU time that the pod is expected to want of each card; 0 = it has its
    cards to itself."""
    spares_idle_cards: bool = True
    """Other pods ask for whole cards. Where pressure comes first, a card that nobody holds counts
    as one step of it; where prices alone count, meetings do not."""


class ModelSizes(Struct, frozen=True):
    """The sizes that a share of one model's cards may have, where the hardware cuts cards by
    templates."""

    model: str
    """A part of the model's name, in any case. Of several that a card's model contains, the
    longest counts."""
    memory_bytes: tuple[int, ...]
    """Ascending."""


class Request(Struct, frozen=True, kw_only=True):
    """What one container asks of one vendor's cards.

    The amounts are per card. Memory is `memory_bytes`, or else `memory_percent` of each card. With
    `equal_parts` neither counts, nor do cores.
    """

    vendor: str
    dialect: str
    count: int = 1
    memory_bytes: int = 0
    memory_percent: float = 0
    """0 to 100, in thousandths; counts only when `memory_bytes` is 0."""
    memory_unit: int = MIB
    """A percentage is rounded down to whole units of so many bytes."""
    memory_sizes: tuple[ModelSizes, ...] = ()
    """`memory_bytes` is rounded up to a size of the card's model; a card whose model has none that
    is large enough is refused. Models that are not named, and percentages, are left as they are;
    empty = any size."""
    cores_percent: float = 0
    """0 = no promise of cores."""
    equal_parts: int | None = None
    """One of so many equal parts of each card, of its memory and of its cores; 0 = as many as the
    card has slots. None = by the amounts."""
    guaranteed: bool = False
    """All of the memory lies on the card, also where more of it can be granted than it has. A
    percentage is one of what it has."""
    best_effort: bool = False
    """No cores are granted: it has the card's time that others leave."""
    exclusive: bool = False
    """The cards must be idle and stay the container's own."""
    owns_whole_cores: bool = False
    """100 of a card's 100 cores are the same as `exclusive`; not on a card whose cores are
    scaled to another number (HAMi's deviceCoreScaling)."""
    needs_free_cores: bool = True
    """Refuse a card whose cores are all promised even where no cores are asked (HAMi)."""
    together: bool = False
    """All of the pod's containers that ask so of this dialect live on one and the same card."""
    models: tuple[str, ...] = ()
    """Allowed models, as case-insensitive substrings; empty = all."""
    models_denied: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    """Allowed operating modes; empty = all. A card without a mode matches, unless only modes are
    allowed in which cards are left alone."""
    ids: tuple[str, ...] = ()
    """Allowed card ids; empty = all."""
    ids_denied: tuple[str, ...] = ()
    policy: Policy = Policy()


class ContainerRequest(Struct, frozen=True, kw_only=True):
    """All requests of one container."""

    container: str
    position: int
    """Init containers first, then app containers: the index that every dialect's lists use."""
    role: Role
    requests: tuple[Request, ...]


class PodRequest(Struct, frozen=True, kw_only=True, gc=False):
    """All requests of one pod, in spec order, with what identifies it."""

    namespace: str
    name: str
    uid: str
    containers: tuple[ContainerRequest, ...]
    cpu_milli: int = 0
    """What the pod requests of its host, apart from cards: thousandths of a core. It orders nodes
    and refuses none: whether a host has it is kube-scheduler's to say."""
    memory_bytes: int = 0
    """The same, of the host's memory."""

    @property
    def dialects(self) -> tuple[str, ...]:
        """Names of the dialects in use, each once, in order of appearance."""
        return tuple(dict.fromkeys(r.dialect for c in self.containers for r in c.requests))
