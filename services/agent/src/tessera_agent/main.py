"""The agent as a process, and what it answers on NATS."""

from __future__ import annotations

from functools import partial
from typing import Final

from tessera_agent import gpu_manager_http, hami_metrics
from tessera_agent.service_info import info
from tessera_agent.settings import AgentSettings
from tessera_agent.startup import open_agent
from tessera_runtime.service import Service, ServiceEnvironment, ServiceShell
from tessera_schema.subjects import token

_COLLECT_S: Final = 10.0
"""Seconds between two searches for garbage: an agent holds little, and replaces little of it."""


async def serve(environment: ServiceEnvironment[AgentSettings], shell: ServiceShell) -> None:
    """Look after one vendor's cards on this node until cancelled."""
    settings = environment.settings
    async with (
        open_agent(environment) as agent,
        shell.serving(
            ready=agent.problem,
            metrics=agent.metrics,
            info=partial(info, agent, settings),
            routes=[
                *gpu_manager_http.routes(agent, settings),
                hami_metrics.route(agent.figures, environment.clock, settings.process.revision),
            ],
            endpoint=f"{token(settings.node)}-{settings.vendor}",
        ),
    ):
        await shell.forever(collect_s=_COLLECT_S)


SERVICE: Final = Service(
    name="agent",
    settings=AgentSettings,
    serve=serve,
    instance=lambda settings: f"{settings.node}.{settings.vendor}",
    description="Looks after one vendor's cards on one node.",
)
