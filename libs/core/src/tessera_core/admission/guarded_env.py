"""Variables by which a container would give itself cards or limits: found here, taken away by
admission, overridden again by the agent.

What an image or a ConfigMap (`envFrom`) sets is not seen here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from tessera_core.admission.isolation import containers_of
from tessera_core.dialect_kit.contract import Rejected, Vendor
from tessera_schema.annotation_keys import GROUP
from tessera_schema.kube import Pod
from tessera_schema.reasons import Reason

OWN_ENVIRONMENT: Final = f"{GROUP}/own-environment"
"""Label or annotation of a namespace: with the value `refuse`, pods that set such variables are
refused there; otherwise the variables are taken away, with a warning."""


class GuardedVariables(Struct, frozen=True):
    """Variables that a container may not set by itself, with the values that harm nothing."""

    names: Mapping[str, frozenset[str]]
    beginnings: Mapping[str, frozenset[str]]

    def harmless(self, name: str) -> frozenset[str] | None:
        """The values that harm nothing; None for a variable that is free."""
        if name in self.names:
            return self.names[name]
        found = (fine for begin, fine in self.beginnings.items() if name.startswith(begin))
        return next(found, None)


class TenantVariable(Struct, frozen=True, kw_only=True):
    """A guarded variable that a container sets by itself."""

    container: str
    kind: str
    """`containers`, `initContainers` or `ephemeralContainers`."""
    position: int
    """In that list."""
    index: int
    """In the container's variables."""
    name: str
    value: str
    """Empty where it comes from elsewhere (`valueFrom`)."""

    @property
    def warning(self) -> str:
        """The warning to the pod's author."""
        return (
            f"container {self.container}: env {self.name}={self.value}: not used: cards and "
            "limits of a share are set by the node"
        )

    @property
    def refusal(self) -> Rejected:
        """The answer where the namespace wants none of it."""
        return Rejected(
            field=f"spec.{self.kind}[{self.position}].env[{self.index}]",
            value=self.name,
            remedy="the node sets it for containers that share cards, and this namespace refuses "
            "own values; remove the variable",
            reason=Reason.ISOLATION_DEFEATED,
        )


def guarded_by(vendors: Iterable[Vendor]) -> GuardedVariables:
    """The guarded variables of all vendors."""
    env = [item for vendor in vendors for item in vendor.guarded_env.items()]
    return GuardedVariables(
        names={name: fine for name, fine in env if not name.endswith("*")},
        beginnings={name[:-1]: fine for name, fine in env if name.endswith("*")},
    )


def tenant_variables(
    pod: Pod, guarded: GuardedVariables, kinds: Sequence[str] = ("initContainers", "containers")
) -> tuple[TenantVariable, ...]:
    """The guarded variables that the pod's containers set. What an image or a ConfigMap sets is
    not seen here: the agent overrides it when it makes the container."""
    return tuple(
        TenantVariable(
            container=container.name, kind=kind, position=position, index=i,
            name=variable.name, value=variable.value,
        )
        for kind, position, container in containers_of(pod, kinds)
        for i, variable in enumerate(container.env)
        if (fine := guarded.harmless(variable.name)) is not None
        and (variable.value_from is not None or variable.value not in fine)
    )  # fmt: skip
