"""What may be configured, and the two forms in which Iluvatar's cards are asked for.

The older form has one set of resource names for all cards (gpu-manager's); today's has one set
for each model. A form is a value: names, units and annotation keys.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import Struct

from tessera_core.dialect_kit import MIB
from tessera_core.dialect_kit.hami_format import (
    CARD_POLICIES,
    NODE_POLICIES,
    DeviceConfigSection,
    card_words,
)

NAME: Final = "iluvatar"
LEGACY_WORD: Final = "Iluvatar"
"""How device lists name the vendor, and a part of the model's name of cards that are served in the
older form: a plugin that registers models hands out nothing under the older names."""
MEMORY_UNIT: Final = 256 * MIB
CORES: Final = 100
"""Core units of a card: percent."""

HAMI_SECTION: Final = DeviceConfigSection(
    name="iluvatars",
    keys={
        "commonWord": "name",
        "resourceCountName": "count",
        "resourceMemoryName": "memory",
        "resourceCoreName": "core",
    },
    entries="models",
    entry_name="commonWord",
)
"""HAMi's own file."""


class Model(Struct, frozen=True, forbid_unknown_fields=True):
    """One model's resource names, as an entry of HAMi's `iluvatars` list sets them."""

    name: str
    """Model, as node annotations and device lists spell it (commonWord)."""
    count: str = ""
    """Resource: cards, as a number; empty = iluvatar.ai/<name>-vgpu."""
    memory: str = ""
    """Resource: memory in units of 256 MiB; empty = iluvatar.ai/<name>.vMem."""
    core: str = ""
    """Resource: cores in percent of a card; empty = iluvatar.ai/<name>.vCore."""


class IluvatarOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Resource names of the older form, the models of today's, and policies."""

    ORDERS: ClassVar = ("node_scheduler_policy", "gpu_scheduler_policy")
    """Which of them name an order of nodes or cards."""

    count: str = "iluvatar.ai/vgpu"
    """Resource of the older form: cards, as a number."""
    memory: str = "iluvatar.ai/vcuda-memory"
    """Resource of the older form: memory in units of 256 MiB (Helm's iluvatarResourceMem)."""
    core: str = "iluvatar.ai/vcuda-core"
    """Resource of the older form: cores in percent of a card (Helm's iluvatarResourceCore)."""
    legacy: bool = True
    """Whether the older form is understood (HAMi up to October 2025)."""
    models: tuple[str | Model, ...] = ("MR-V100", "MR-V50", "BI-V150", "BI-V100")
    """Models that may be asked for by name: a name, or a name with its resource names."""
    node_scheduler_policy: str = "binpack"
    """binpack or spread, for pods that say nothing (--node-scheduler-policy)."""
    gpu_scheduler_policy: str = "spread"
    """binpack, spread, numa, mutex or a comma chain of them, for pods that say nothing
    (--gpu-scheduler-policy)."""

    def __post_init__(self) -> None:
        """Raise ValueError for names that repeat and policies that do not exist."""
        names = [name for form in forms(self) for name in form.resources]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"resource {twice[0]} is named twice; rename it, or set legacy to false where a "
                "model takes over the older names"
            )
        if self.node_scheduler_policy not in NODE_POLICIES:
            raise ValueError(f"node_scheduler_policy {self.node_scheduler_policy}: no such policy")
        chain = card_words(self.gpu_scheduler_policy)
        if not chain or not set(chain) <= set(CARD_POLICIES):
            raise ValueError(f"gpu_scheduler_policy {self.gpu_scheduler_policy}: no such policy")


class Form(Struct, frozen=True, kw_only=True):
    """One way of asking."""

    word: str
    """How device lists name the vendor."""
    model: str = ""
    """Model that the cards must be of; empty = any."""
    others: tuple[str, ...] = ()
    """Configured models whose longer names contain this one's."""
    count: str
    memory: str
    core: str
    use: str
    """Annotation: card ids to choose from."""
    nouse: str
    """Annotation: card ids to leave alone."""
    to_allocate: str
    """Result annotation: device list for the vendor's plugin to work off."""
    allocated: str
    """Result annotation: device list that stays."""
    register: str = ""
    """Node annotation that lists the cards; empty = they are counted by capacity."""

    @property
    def resources(self) -> tuple[str, str, str]:
        """Count, memory, core."""
        return self.count, self.memory, self.core

    @property
    def picked_by(self) -> tuple[str, ...]:
        """Names by whose amount the vendor's plugin picks the pod that it allocates for. The older
        form's gpu-manager goes by cores; containers without any are distinguished by their
        count."""
        return (self.count,) if self.model else (self.count, self.core)


def forms(options: IluvatarOptions) -> tuple[Form, ...]:
    """The forms that are understood: the older one first, then the models as listed."""
    models = [Model(m) if isinstance(m, str) else m for m in options.models]
    named = tuple(_named(model, [m.name for m in models]) for model in models)
    return (_legacy(options), *named) if options.legacy else named


def _legacy(options: IluvatarOptions) -> Form:
    return Form(
        word=LEGACY_WORD, count=options.count, memory=options.memory, core=options.core,
        use="iluvatar.ai/use-gpuuuid", nouse="iluvatar.ai/nouse-gpuuuid",
        to_allocate="hami.io/iluvatar-vgpu-devices-to-allocate",
        allocated="hami.io/iluvatar-vgpu-devices-allocated",
    )  # fmt: skip


def _named(model: Model, all_names: list[str]) -> Form:
    name = model.name
    return Form(
        word=name, model=name,
        others=tuple(n for n in all_names if name.lower() in n.lower() and n != name),
        count=model.count or f"iluvatar.ai/{name}-vgpu",
        memory=model.memory or f"iluvatar.ai/{name}.vMem",
        core=model.core or f"iluvatar.ai/{name}.vCore",
        use=f"hami.io/use-{name}-uuid", nouse=f"hami.io/no-use-{name}-uuid",
        to_allocate=f"hami.io/{name}-devices-to-allocate",
        allocated=f"hami.io/{name}-devices-allocated",
        register=f"hami.io/node-{name}-register",
    )  # fmt: skip
