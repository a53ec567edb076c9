"""volcano-scheduler.conf as it stands: what of it is about sharing cards, and what is not about
cards.

    actions: "enqueue, allocate, backfill"
    tiers:
    - plugins:
      - name: gang
      - name: deviceshare
        arguments: {deviceshare.VGPUEnable: true}

Old installations give the arguments to the plugin `predicates`, new ones to `deviceshare`; both are
read, and where a file has both the new one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

import msgspec
from msgspec import Struct

PLUGINS: Final = ("predicates", "deviceshare")
"""The later goes before."""
FILE: Final = "volcano-scheduler.conf"
_EVICTS: Final = ("gangpreempt", "gangreclaim", "preempt", "reclaim")
_SWITCHES: Final = (
    ("gangs start whole", ("gang",), "the component gangs"),
    ("queues are followed", ("capacity", "proportion"), "the component gangs"),
    ("pods are evicted for those of higher priority", ("gangpreempt", "preempt"),
     "the component preemption (TESSERA_PREEMPTION_MODE=on)"),
    ("queues take back what others borrow", ("gangreclaim", "reclaim"),
     "the component preemption and TESSERA_PREEMPTION_RECLAIM=true"),
)  # fmt: skip
"""What Tessera does, the names of actions and plugins that do it in Volcano, and what switches it
on here."""


class Conf(Struct, frozen=True):
    """What was read."""

    arguments: Mapping[str, Any] = {}
    """As they are written."""
    warnings: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    """What it switches on in Volcano of gangs, queues and evictions, and the switch that does the
    same here: Tessera's own decide alone."""


class _Plugin(Struct, frozen=True):
    name: str = ""
    arguments: dict[str, Any] | None = None


class _Tier(Struct, frozen=True):
    plugins: tuple[_Plugin, ...] | None = None


class _File(Struct, frozen=True):
    actions: str = ""
    tiers: tuple[_Tier, ...] | None = None


def read(conf: Mapping[str, Any]) -> Conf:
    """The arguments of both plugins. Raises ValueError for what is no such file."""
    try:
        file = msgspec.convert(conf, _File)
    except msgspec.ValidationError as e:
        raise ValueError(f"scheduler_conf: {e}: write it as volcano-scheduler.conf") from e
    plugins = [p for tier in file.tiers or () for p in tier.plugins or ()]
    arguments: dict[str, Any] = {}
    for name in PLUGINS:
        for plugin in plugins:
            if plugin.name == name:
                arguments |= plugin.arguments or {}
    settings = tuple(_settings(file, {plugin.name for plugin in plugins}))
    return Conf(arguments, tuple(_others(file, plugins)), settings)


def _others(file: _File, plugins: list[_Plugin]) -> Iterator[str]:
    names = dict.fromkeys(p.name for p in plugins if p.name not in (*PLUGINS, ""))
    if names:
        yield (
            f"volcano-scheduler.conf: plugins {', '.join(names)} are Volcano's own: pods are "
            "placed one by one, by kube-scheduler's plugins and these cards' books"
        )
    if file.actions:
        yield (
            f"volcano-scheduler.conf: actions {file.actions}: kube-scheduler's own are run, and "
            "pods are evicted by Tessera's own switches alone"
        )


def _settings(file: _File, plugins: Set[str]) -> Iterator[str]:
    actions = {action.strip() for action in file.actions.split(",")}
    for what, there, switch in _SWITCHES:
        named = sorted({*actions, *plugins}.intersection(there))
        if named:
            yield f"{FILE} has {', '.join(named)}: {what} with {switch}"
    if file.actions and not actions.intersection(_EVICTS):
        yield (
            f"{FILE} has neither preempt nor reclaim: nobody is evicted for others there; leave "
            "the component preemption out"
        )
