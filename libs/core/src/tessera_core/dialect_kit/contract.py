"""What a dialect is: a value whose fields are facts and whose functions distinguish it from others.

A dialect is one module (or small package) in `tessera_core.dialects` that offers

    class Options(Struct, frozen=True, forbid_unknown_fields=True): ...   # what users may configure
    def dialect(options: Options) -> Dialect: ...
    OPT_IN: Final = True   # where an installation must ask for it: see `DialectRegistry.opt_in`

Fit, scoring, the ledger, quota and the transport of annotations are written once, elsewhere;
a dialect never places anything and never reads anything but its arguments. docs/dialects.md
writes one step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from tessera_core.dialect_kit.card_settings import CardSettings
from tessera_core.dialect_kit.lending_terms import LendingTerms, WrittenTerms, plain_terms
from tessera_core.dialect_kit.log_level import no_log_level
from tessera_core.kube.containers import field_of, roles
from tessera_schema.cards import Card, Inventory
from tessera_schema.grants import Share
from tessera_schema.injections import Injection
from tessera_schema.kube import Container, Custom, Node, Pod, Quantity
from tessera_schema.reasons import Reason
from tessera_schema.requests import ContainerRequest


class Claim(Struct, frozen=True):
    """The fields of a pod that are this dialect's.

    Some names are used by more than one system. A pod that uses a name in `Dialect.shared_names`
    belongs to the dialect that shares it only if that dialect `insists`, or if the pod has other
    names of it; see `tessera_core.admission.admit`.
    """

    fields: Mapping[str, str] = {}
    """Resource name -> the first field that uses it, as messages print it:
    `spec.containers[0].resources.limits[x/y]`."""
    insists: bool = False
    """The pod has other signs of this system: an annotation, a label, its scheduler's name."""


class ContainerChange(Struct, frozen=True):
    """What admission sets on one container. Values are quantities as text."""

    limits: Mapping[str, str] = {}
    requests: Mapping[str, str] = {}
    env: Mapping[str, str] = {}
    removed: frozenset[str] = frozenset()
    """Resource names that are taken away from limits and requests."""


class Admitted(Struct, frozen=True, kw_only=True):
    """A valid pod in canonical units, and what its manifest becomes."""

    containers: tuple[ContainerRequest, ...]
    """The containers that ask for cards, in spec order. None = the pod has the dialect's names and
    asks for nothing (a count of 0)."""
    changes: Mapping[str, ContainerChange] = {}
    """Container's name -> what admission sets on it."""
    annotations: Mapping[str, str] = {}
    """Set on the pod at admission (not results: those come from `annotate`)."""
    runtime_class: str = ""
    """`spec.runtimeClassName` where the pod has none; empty = left alone."""
    warnings: tuple[str, ...] = ()
    """A sentence each, shown to the user who creates the pod."""


MOST_FIELD: Final = 320
"""Characters of a field in a message: an annotation's key has 317 at most."""
MOST_VALUE: Final = 256
"""Characters of a value in a message: messages are kept by the thousand, values come from users."""


class Rejected(Struct, frozen=True, kw_only=True):
    """A pod that can never run as written."""

    field: str
    value: str
    remedy: str
    """What is wrong and what would do, one sentence each."""
    reason: Reason = Reason.INVALID_REQUEST

    @property
    def message(self) -> str:
        """Field, value, remedy: the three things a user needs. What the user wrote is cut."""
        field, value = _shortened(self.field, MOST_FIELD), _shortened(self.value, MOST_VALUE)
        return f"{field}: {value}: {self.remedy}" if value else f"{field}: {self.remedy}"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


class Placed(Struct, frozen=True, kw_only=True):
    """A pod with the shares that one dialect's requests were given."""

    pod: Pod
    node: str
    shares: tuple[Share, ...]
    """This dialect's, by container position, then in the order in which cards were chosen."""
    cards: Mapping[str, Card]
    """The node's cards of the dialect's vendor, by id."""
    agent_managed: bool = False
    """Tessera's agent gives the containers their cards: the original system's node side is not
    there and writes nothing on the pod."""
    now_ns: int
    """Unix time in nanoseconds."""

    def of(self, container: str) -> tuple[Share, ...]:
        """The shares of one container."""
        return tuple(s for s in self.shares if s.container == container)


class RecordedShares(Struct, frozen=True, kw_only=True):
    """What another system's annotations say a bound pod holds."""

    shares: tuple[Share, ...] = ()
    problem: str = ""
    """Set when the annotation cannot be decoded: the pod is then counted by its own requests."""


class Dimension(StrEnum):
    """What a `ResourceQuota` entry of a dialect limits."""

    MEMORY = "memory"
    CORES = "cores"
    CARDS = "cards"


class QuotaUnit(Struct, frozen=True):
    """How one resource name counts in a namespace's quota."""

    dimension: Dimension
    unit: float = 1
    """Bytes, percent or cards for one unit of the resource."""


class BadLimit(ValueError):
    """A field of a quota object makes no sense: all of the object counts for nothing."""

    def __init__(self, field: str, value: Any, remedy: str) -> None:
        """Where, what is written there, and what would do."""
        super().__init__(f"{field}: {value!r}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy


class Measure(StrEnum):
    """What of a node's cards an amount of a resource stands for."""

    CARDS = "cards"
    """Whole cards."""
    SLOTS = "slots"
    """Places for containers on cards."""
    MEMORY = "memory"
    """Bytes."""
    MEMORY_PERCENT = "memory percent"
    """100 for each card."""
    CORES = "cores"
    """Percent, usually 100 for each card."""


class Capacity(Struct, frozen=True):
    """How much of one resource name the cards of a node amount to."""

    measure: Measure
    unit: float = 1
    """Cards, places, bytes or percent for one unit of the resource."""
    model: str = ""
    """Part of the model's name of the cards that count; empty = all cards."""
    others: tuple[str, ...] = ()
    """Longer names of models that do not count although they contain `model`."""


def _no_inventory(_node: Node, _customs: Sequence[Custom]) -> Sequence[Inventory]:
    return ()


def _as_they_are(_node: Node, pods: Sequence[Pod]) -> Sequence[Pod]:
    return pods


def _no_labels(_pod: Pod, _node: str) -> Mapping[str, str]:
    return {}


def _nothing_recorded(_pod: Pod, _cards: Sequence[Card]) -> RecordedShares | None:
    return None


def never_best_effort(_pod: Pod) -> str:
    """Of a dialect that has no word for it."""
    return ""


def _no_injection(_placed: Placed, _container: Container) -> Injection:
    return Injection()


class Example(Struct, frozen=True, kw_only=True):
    """What a dialect is tried with: the tests of all dialects run each of them.

    Nodes' annotations and capacity of all dialects are laid together into one node, so a dialect
    whose vendor's cards another one publishes needs none.
    """

    containers: tuple[Mapping[str, Quantity], ...] = ()
    """Each the limits of the one container of a pod that two idle cards of the node can hold."""
    node_annotations: Mapping[str, str] = {}
    node_capacity: Mapping[str, Quantity] = {}
    scheduler_name: str = ""
    """Of the pods, for dialects that claim by it."""
    options: Mapping[str, Any] = {}
    """Of the dialect, where its defaults leave its pods waiting on such a node."""


class Dialect(Struct, frozen=True, kw_only=True):
    """One way of asking for shares of one vendor's cards. Each field but the first three and the
    three functions `claim`, `admit` and `annotate` may be left out."""

    name: str
    """The module's name below `tessera_core.dialects`."""
    vendor: str
    """Whose cards: `Card.vendor`, and the name of a module in `tessera_core.vendors` if Tessera's
    agent serves them."""
    resources: frozenset[str]
    """Every resource name that it reads. No other dialect may have one of them, except those in
    `shared_names`."""
    shared_names: frozenset[str] = frozenset()
    """Resource names that belong to another dialect, and that this one takes over for pods that it
    `insists` on."""
    request_keys: frozenset[str] = frozenset()
    """Pod annotations by which its pods request cards without any resource name. Admission then
    gives the containers one of `plugin_resources`, by which kube-scheduler and kubelet know them.
    """
    plugin_resources: frozenset[str] = frozenset()
    """Resource names that a device plugin registers at kubelet, and whose amounts are all by which
    the plugin can distinguish pods: kubelet says how much of which name it allocates, and not for
    which pod. Each container that admission lets pass, and that asks for cards, has one of them.
    Tessera's device plugin registers just these. All count cards or percents of them, but for
    two of memory: Volcano's `gpu-memory` and Aliyun's `gpu-mem`."""
    own_plugin_allocates: bool = False
    """The original system's device plugin distinguishes pods by nothing but how much they ask for:
    where it serves a node, pods of equal amounts are started there one after the other. See
    `Vendor.own_plugin_allocates` for plugins that stay next to Tessera's agent."""
    allocated_keys: frozenset[str] = frozenset()
    """Pod annotations by which a device plugin says, with the value `true`, that it gave the
    cards."""
    result_keys: tuple[str, ...] = ()
    """Pod annotations that only a scheduler or an agent may write; a trailing `*` is a prefix.
    Admission strips them from new pods."""
    plain_env: Mapping[str, str] = {}
    """Variables that are set on containers of pods that ask for nothing, so that an image does not
    give itself cards where its runtime would let it."""
    schedulers: tuple[str, ...] = ()
    """Values of `spec.schedulerName` in the system's manifests."""
    choices: frozenset[str] = frozenset()
    """Annotations by which its pods choose cards, in addition to the amounts."""
    opt_out: Mapping[str, str] = {}
    """Label -> value by which a pod, or its namespace, asks to be left alone by admission."""
    quota: Mapping[str, QuotaUnit] = {}
    """Resource name -> how `ResourceQuota limits.<name>` counts."""
    capacity: Mapping[str, Capacity] = {}
    """Resource name -> what a node has of it. A name that is left out is measured as its quota is;
    without a quota it counts places for containers."""
    claim: Callable[[Pod], Claim]
    """Whether a pod is the dialect's. Never raises. `claim_by_name` is the plain one."""
    admit: Callable[[Pod], Admitted | Rejected]
    """The pod's requests in canonical units, or why it can never run. It may raise InvalidField
    instead of returning Rejected. It reads neither the pod's name and uid nor its node, volumes
    and status: pods that differ in nothing else get one answer
    (`tessera_core.admission.cache`)."""
    annotate: Callable[[Placed], Mapping[str, str]]
    """Result annotations of the Binding, exactly as the original system writes them. All are in
    `result_keys`."""
    labels: Callable[[Pod, str], Mapping[str, str]] = _no_labels
    """Labels that its system writes on a pod that was placed on the node of that name, for tools
    that select by them."""
    inject: Callable[[Placed, Container], Injection] = _no_injection
    """What the original system's node side adds to a container that holds shares. It is laid
    over what the vendor gives."""
    lending_terms: Callable[[WrittenTerms], LendingTerms] = plain_terms
    """On what terms a container that speaks it takes part in lending. Never raises."""
    best_effort: Callable[[Pod], str] = never_best_effort
    """What of a pod that names no class says that it is a best-effort one, such as its priority
    class; empty = nothing does. Never raises."""
    lending_env: frozenset[str] = frozenset()
    """Variables that `lending_terms` reads."""
    log_level: Callable[[Mapping[str, str]], int] = no_log_level
    """What a container's variables say of the hook's log: 1 errors, 2 warnings, 3 notes; 0 =
    nothing. Never raises."""
    log_env: frozenset[str] = frozenset()
    """Variables that `log_level` reads."""
    custom_resources: tuple[str, ...] = ()
    """API paths of custom resources that `inventory` reads, one object for each node, named like
    it: `/apis/<group>/<version>/<plural>`."""
    inventory: Callable[[Node, Sequence[Custom]], Sequence[Inventory]] = _no_inventory
    """Cards that the original system published on the node. Never raises: a malformed entry is
    a warning. Where Tessera's agent publishes the vendor's cards, its word counts."""
    recorded: Callable[[Pod, Sequence[Card]], RecordedShares | None] = _nothing_recorded
    """Shares that the original system, or `annotate`, wrote on a bound pod; None when nothing is
    written. The cards are those of the node, of the dialect's vendor. Pods that Tessera placed
    have its signed grant; this is read for pods that came before Tessera, and when the grant is
    lost."""
    on_node: Callable[[Node, Sequence[Pod]], Sequence[Pod]] = _as_they_are
    """The bound pods of one node as they would be if each said itself what it holds, for systems
    that say it on the node or on another pod. As many pods as there were, with their names. Plans
    read bound pods so; the scheduler sees one pod at a time, and counts it by what it requests."""
    pool_labels: tuple[str, ...] = ()
    """Labels by which its system says which pool a node belongs to, for quotas."""
    warnings: tuple[str, ...] = ()
    """What of its configuration is not served."""
    card_settings: CardSettings = CardSettings()
    """What its options say of its vendor's cards on all nodes, where Tessera's agent serves them.
    """
    reads_node_config: bool = False
    """Its system sets cards node by node in the file that
    `tessera_core.dialect_kit.hami_format.node_config` reads, and means its vendor's."""
    example: Example = Example()


class DeviceEvidence(Struct, frozen=True, kw_only=True):
    """By what a container shows which cards the vendor's own plugin gave it."""

    variables: tuple[str, ...] = ()
    """Each lists cards' numbers or ids."""
    device: str = ""
    """How the paths of its device nodes begin; the card's minor number follows."""


class Vendor(Struct, frozen=True, kw_only=True):
    """A make of hardware: what a container that holds shares of its cards is given.

    A vendor is one module in `tessera_core.vendors` that offers `VENDOR`, and `MONITORING`
    (`tessera_core.dialect_kit.monitoring`).
    """

    name: str
    """The module's name, and `Card.vendor`."""
    own_plugin_allocates: bool = False
    """Containers get its cards from its own device plugin, which distinguishes pods by nothing
    but how much they ask for, whether Tessera's agent is on the node or not."""
    device_evidence: DeviceEvidence = DeviceEvidence()
    """Of vendors whose own plugin allocates."""
    hooked: bool = False
    """The hook limits containers that hold its shares, rather than its own tools: `give` mounts
    it. Such limits can be changed while a container runs."""
    give: Callable[[Sequence[Share], Mapping[str, Card]], Injection]
    """Shares of one container and the node's cards by id -> identity of cards, device nodes,
    hook."""
    deny: Mapping[str, str] = {}
    """Environment of containers on its card nodes that hold nothing."""
    guarded_env: Mapping[str, frozenset[str]] = {}
    """Variables by which a container of its own accord would get cards or lift its limits, a
    trailing `*` for a beginning, with the values that do neither. Admission takes them away."""
    device_mounts: tuple[str, ...] = ()
    """Folders of a container: a mount in one, whose name is a card's, has the vendor's runtime show
    that card, whatever the variables say."""
    foreign: Mapping[str, str] = {}
    """Resource names by which other systems give its cards and that no dialect reads, a trailing
    `*` for a beginning -> whose they are, for messages."""
    labels: Mapping[str, str] = {}
    """Labels of nodes that have its cards, in addition to Tessera's `CARDS_LABEL`: the agent runs
    there."""
    agent_env: Mapping[str, str] = {}
    """Variables of the agent's own container, by which the vendor's container runtime shows it the
    cards."""
    driver: str = ""
    """Folder in which users of a dialect that mounts the driver look for it. Its runtime puts it
    elsewhere, so links to that are mounted there."""


def claim_by_name(pod: Pod, names: frozenset[str]) -> Claim:
    """The plain claim: every field whose resource name is in `names`."""
    fields: dict[str, str] = {}
    for position, container, _ in roles(pod):
        for where, amounts in (
            ("limits", container.resources.limits),
            ("requests", container.resources.requests),
        ):
            for name in amounts:
                if name in names:
                    fields.setdefault(name, field_of(pod, position, where, name))
    return Claim(fields=fields)
