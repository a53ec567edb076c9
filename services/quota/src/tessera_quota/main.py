"""The quota monitor as a process, and what it answers on NATS."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Final

from tessera_quota import hami_metrics
from tessera_quota.monitor import open_quota
from tessera_quota.service_info import info
from tessera_quota.settings import QuotaSettings
from tessera_runtime.service import Service, ServiceEnvironment, ServiceShell


async def serve(environment: ServiceEnvironment[QuotaSettings], shell: ServiceShell) -> None:
    """Evaluate quotas until cancelled."""
    async with (
        open_quota(environment) as quota,
        shell.serving(
            ready=quota.problem,
            metrics=quota.metrics,
            info=partial(info, quota, environment.settings.instance),
            routes=[
                hami_metrics.route(
                    quota.evaluator.objects, quota.ledger, environment.settings.process.revision
                )
            ],
        ),
    ):
        await shell.forever(quota.counting.wait())


SERVICE: Final = Service(
    name="quota",
    settings=QuotaSettings,
    serve=serve,
    instance=attrgetter("instance"),
    description="Publishes what namespaces use of their quotas, and throttles what is too much.",
)
