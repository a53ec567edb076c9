"""What admission writes into a container's resources, so that limits and requests agree.

The API server demands equal limits and requests of extended resources, and fills in requests
before a webhook sees the pod: to change one and not the other has the pod refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from tessera_core.dialect_kit.contract import ContainerChange
from tessera_core.kube.quantity import BadQuantity, quantity_value
from tessera_schema.kube import Container, Quantity


def complete_resources(
    container: Container, amounts: Mapping[str, int | None], env: Mapping[str, str] | None = None
) -> ContainerChange | None:
    """The change that makes limits and requests say `amounts` (None = left as it is) and adds
    the variables of `env` that the container lacks; None where nothing is to change."""
    said = {variable.name for variable in container.env}
    missing = {name: text for name, text in (env or {}).items() if name not in said}
    change = ContainerChange(
        limits=_unsaid(container.resources.limits, amounts),
        requests=_unsaid(container.resources.requests, amounts),
        env=missing,
    )
    return change if change.limits or change.requests or change.env else None


def _unsaid(said: Mapping[str, Quantity], amounts: Mapping[str, int | None]) -> dict[str, str]:
    return {
        name: str(amount)
        for name, amount in amounts.items()
        if amount is not None and not _says(said, name, amount)
    }


def _says(said: Mapping[str, Quantity], name: str, amount: int) -> bool:
    try:
        return name in said and quantity_value(said[name]) == amount
    except BadQuantity:
        return False
