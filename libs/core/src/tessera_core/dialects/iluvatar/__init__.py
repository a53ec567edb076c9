"""The dialect of Iluvatar's cards, as HAMi speaks it, in both of its forms.

The older form counts cards by `iluvatar.ai/vgpu` and takes parts of one card by `vcuda-memory`
(256 MiB units) and `vcuda-core` (percent); the names can be configured. Today's form has names of
its own for each model, such as `iluvatar.ai/MR-V100-vgpu`. Containers are served by the vendor's
own plugin, which reads the pod's annotations.
"""

from __future__ import annotations

from functools import partial

from tessera_core.dialect_kit import (
    Capacity,
    Dialect,
    Dimension,
    Example,
    Measure,
    QuotaUnit,
    claim_by_name,
)
from tessera_core.dialect_kit.hami_format import POLICY_KEYS, binding_labels
from tessera_core.dialects.iluvatar.admission import admit
from tessera_core.dialects.iluvatar.inventory import inventory
from tessera_core.dialects.iluvatar.options import (
    HAMI_SECTION,
    LEGACY_WORD,
    MEMORY_UNIT,
    NAME,
    Form,
    Model,
    forms,
)
from tessera_core.dialects.iluvatar.options import (
    IluvatarOptions as Options,
)
from tessera_core.dialects.iluvatar.recorded_shares import recorded
from tessera_core.dialects.iluvatar.result_annotations import ASSIGNED, annotate, result_keys

__all__ = ["HAMI_SECTION", "Model", "Options", "dialect"]


def dialect(options: Options) -> Dialect:
    """The dialect with these names and models."""
    known = forms(options)
    names = frozenset(name for form in known for name in form.resources)
    quota = {form.memory: QuotaUnit(Dimension.MEMORY, MEMORY_UNIT) for form in known}
    quota |= {form.core: QuotaUnit(Dimension.CORES, 1) for form in known}
    # A model's count would limit the cards of all models: such a quota is an AcceleratorQuota's.
    quota |= {form.count: QuotaUnit(Dimension.CARDS) for form in known if not form.model}
    return Dialect(
        name=NAME,
        vendor=NAME,
        resources=names,
        plugin_resources=frozenset(name for form in known for name in form.picked_by),
        allocated_keys=frozenset({ASSIGNED}),
        result_keys=result_keys(known),
        schedulers=("hami-scheduler",),
        quota=quota,
        capacity={name: amount for form in known for name, amount in _capacity(form).items()},
        claim=partial(claim_by_name, names=names),
        admit=partial(admit, options, known),
        annotate=partial(annotate, known),
        labels=binding_labels,
        choices=POLICY_KEYS.union(*((form.use, form.nouse) for form in known)),
        inventory=partial(inventory, known),
        recorded=partial(recorded, known),
        example=_example(options) if options.legacy else Example(),
    )


def _capacity(form: Form) -> dict[str, Capacity]:
    def of(measure: Measure, unit: float = 1) -> Capacity:
        return Capacity(measure, unit, form.model or LEGACY_WORD, form.others)

    return {
        form.count: of(Measure.SLOTS),
        form.memory: of(Measure.MEMORY, MEMORY_UNIT),
        form.core: of(Measure.CORES),
    }


def _example(options: Options) -> Example:
    count, core, memory = options.count, options.core, options.memory
    return Example(
        containers=({count: 1, core: 50, memory: 64}, {count: 2}),
        node_capacity={count: 2, core: 200, memory: 256},
    )
