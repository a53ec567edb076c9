"""A live resize, as a user sees it: a running container asks its driver again and again for more
memory than it has; what the driver answers changes with the grant, and nothing is started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from tessera_demo import accounts
from tessera_demo.containers import printed
from tessera_demo.promises import OUT_OF_MEMORY, Promise
from tessera_demo.stage import DemoStage
from tessera_runtime.errors import ApiRefused, Transient
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.patches import annotate
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant
from tessera_schema.resizes import RESIZE_KEY, Resize, ShareChange, encode_resize

STEPS: Final = (5000, 3500)
"""MiB that it is given one after the other."""
_WORDS: Final = {0: "given", OUT_OF_MEMORY: "out of memory"}
"""The driver's answers."""
_LOOK_S: Final = 0.1
_ANSWER_S: Final = 120.0

Line = Mapping[str, Any]


async def play_resizing(
    stage: DemoStage, grant: Grant, say: Callable[[str], None]
) -> list[Promise]:
    """Resize the pod's share twice as a user whose role lets it, and check what its process saw; a
    user without that role is refused. Raises ApiRefused."""
    async with (
        open_kube(stage.kube_of(accounts.RESIZER)) as may,
        open_kube(stage.kube_of(accounts.EDITOR)) as may_not,
    ):
        why = await _refused(may_not, grant)
        seen = await _resized(stage, may, grant, say)
    text = f"{accounts.EDITOR}, who may not update pods/resize, is refused a live resize"
    refused = Promise("resize refused", text, "pods/resize" in why, why or "it was accepted")
    return [seen, refused]


async def _refused(kube: Kube, grant: Grant) -> str:
    """Why the user may not resize the pod."""
    try:
        await _resize(kube, grant, STEPS[0])
    except ApiRefused as e:
        return e.message
    return ""


async def _resized(
    stage: DemoStage, kube: Kube, grant: Grant, say: Callable[[str], None]
) -> Promise:
    sizes = (grant.shares[0].memory_mib, *STEPS)
    with suppress(TimeoutError):
        async with asyncio.timeout(_ANSWER_S):
            for i, mib in enumerate(sizes):
                if i:
                    who = f"as {accounts.RESIZER}"
                    say(f"resizing {grant.namespace}/{grant.name} live to {mib} MiB, {who}")
                    await _resize(kube, grant, mib)
                await _until_answered(stage, grant, sizes[: i + 1])
    return resize_promise(await _said(stage, grant), sizes)


async def _until_answered(stage: DemoStage, grant: Grant, sizes: Sequence[int]) -> None:
    while True:
        if _answers(await _said(stage, grant), sizes):
            return
        await asyncio.sleep(_LOOK_S)


def resize_promise(said: Sequence[Line], sizes: Sequence[int]) -> Promise:
    """Whether the driver's answers followed the sizes."""
    asked = next((int(line["mib"]) for line in said), 0)
    given = " -> ".join(f"{mib} MiB" for mib in sizes)
    text = f"a live resize {given} lets a running container have {asked} MiB and takes them back"
    answers = ", then ".join(
        f"{_WORDS.get(int(line['result']), line['result'])} at {line['total_mib']} MiB"
        for line in said
    )
    brief = f"resized live {' → '.join(f'{mib}' for mib in sizes)} MiB"
    return Promise("resize live", text, _answers(said, sizes), answers, brief=brief)


def _answers(said: Sequence[Line], sizes: Sequence[int]) -> bool:
    """Whether these sizes were seen, the last of them now, each with the answer that belongs to it.
    A size that changes nothing of the answer is not reported."""
    wanted = [(_result(said, mib), mib) for mib in sizes]
    seen = [(int(line["result"]), int(line["total_mib"])) for line in said]
    return bool(seen) and seen == wanted


def _result(said: Sequence[Line], mib: int) -> int:
    return 0 if all(int(line["mib"]) <= mib for line in said) else OUT_OF_MEMORY


async def _said(stage: DemoStage, grant: Grant) -> Sequence[Line]:
    folder = stage.node_folder(grant.node)
    lines = await asyncio.to_thread(printed, folder, grant.uid, grant.shares[0].container)
    return [line for line in lines if line.get("event") == "asked"]


async def _resize(kube: Kube, grant: Grant, mib: int) -> None:
    [share] = grant.shares
    change = ShareChange(container=share.container, card=share.card, memory_bytes=mib * MIB)
    text = encode_resize(Resize(plan="demo", changes=(change,)))
    path = paths.pod(grant.namespace, grant.name)
    while True:
        with suppress(Transient):
            await annotate(kube, path, {RESIZE_KEY: text}, uid=grant.uid)
            return
        await asyncio.sleep(_LOOK_S)
