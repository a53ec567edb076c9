"""Why this node's containers are not given cards, in the node's annotation: `tessera check` and
people read it there, without a way to the agent's own port.

Only what lasts is published, and with its first words: a restart of the agent, or of the runtime,
costs no write of the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_runtime.shared_wakeups import sleep_until_multiple

LASTS_S: Final = 60.0
"""Seconds until a problem is published: more than a restart of the runtime takes."""
_POLL_S: Final = 5.0


async def publish_problem(
    problem: Callable[[], str], annotation: CardsAnnotationWriter
) -> NoReturn:
    """Publish the `problem` (empty = there is none) once it has lasted, and take it back when it is
    over, until cancelled."""
    loop = asyncio.get_running_loop()
    since: float | None = None
    published = ""
    while True:
        why, now = problem(), loop.time()
        if not why:
            since, wanted = None, ""
        else:
            since = now if since is None else since
            wanted = published or (why if now - since >= LASTS_S else "")
        if wanted != published:
            published = wanted
            annotation.explain(published)
        await sleep_until_multiple(_POLL_S)
