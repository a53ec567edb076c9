"""The rebalancer as a process, and what it answers on NATS."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Final

from tessera_rebalancer.rebalancer import open_rebalancer
from tessera_rebalancer.service_info import info
from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime.service import Service, ServiceEnvironment, ServiceShell


async def serve(environment: ServiceEnvironment[RebalancerSettings], shell: ServiceShell) -> None:
    """Publish hints and carry out plans until cancelled."""
    async with (
        open_rebalancer(environment) as rebalancer,
        shell.serving(
            ready=rebalancer.problem,
            metrics=rebalancer.metrics,
            info=partial(info, rebalancer, environment.settings.instance),
        ),
    ):
        await shell.forever(rebalancer.read())


SERVICE: Final = Service(
    name="rebalancer",
    settings=RebalancerSettings,
    serve=serve,
    instance=attrgetter("instance"),
    description="Publishes what usage says about cards, and proposes changes.",
)
