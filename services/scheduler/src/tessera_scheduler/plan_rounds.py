"""Rounds of what makes plans of its own kinds, and carries them out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from tessera_runtime import logs
from tessera_runtime.errors import TesseraError
from tessera_runtime.informers.installed_kinds import watch_when_installed
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.reflector import Reflector
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.plans.plan_store import PlanGone, PlanStore, watched

ROUND_S: Final = 1.0
KEEP_S: Final = 86_400.0
"""Seconds after its end in which a plan is kept."""
PUT_OFF_AGAIN_S: Final = 60.0
"""Seconds between two log lines that say the same of rounds that are put off."""
_INSTALLED_S: Final = 60.0
"""Seconds between two looks for the definition of plans."""
_log: Final = logs.named("tessera.scheduler.plans")


async def run_rounds(
    kube: Kube,
    plans: PlanStore,
    calls: KubeSettings,
    round_: Callable[[asyncio.TaskGroup], Awaitable[None]],
) -> NoReturn:
    """Follow the plans and have a round each second, until cancelled. Tasks that a round starts
    belong to the group that it is given; one that the API server fails is put off."""
    listed, now = asyncio.Event(), asyncio.get_running_loop().time
    logged, again = "", 0.0
    async with asyncio.TaskGroup() as group:
        reflector = Reflector(kube, watched(), plans, settings=calls)
        watching = watch_when_installed(kube, reflector, _INSTALLED_S, listed)
        group.create_task(watching, name="plans")
        await listed.wait()
        while True:
            await asyncio.sleep(ROUND_S)
            try:
                await round_(group)
                logged = ""
            except (TesseraError, PlanGone) as e:
                if str(e) != logged or now() >= again:
                    _log.warning("plans are put off", kinds=", ".join(plans.kinds), why=str(e))
                    logged, again = str(e), now() + PUT_OFF_AGAIN_S
    raise AssertionError("rounds never end")
