"""The answer of `tessera report`: a table for people, CSV and JSON for programs, patches and plans
for kubectl."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct
from rich.text import Text

from tessera_cli.screen import Screen
from tessera_cli.text import printable
from tessera_core.utilization.history import OwnerUse, UseHistory
from tessera_core.utilization.patches import FIXED, kubectl_patch, owner_patch, pod_patch
from tessera_core.utilization.price_list import PriceList
from tessera_core.utilization.resize_plans import resize_plan
from tessera_core.utilization.right_sizes import LeftAlone, RightSize, SizeRules
from tessera_runtime.kube import timestamps
from tessera_schema.plans import PLAN_KIND, PLANS

_GIB: Final = 1 << 30
_HEADS: Final = (
    "Namespace", "Owner", "Pods", "Granted h", "Used h", "Idle h", "Throttled h", "Unmeasured h",
    "Memory GiB", "Used GiB",
)  # fmt: skip
_COSTS: Final = ("Cost", "Idle cost")
_MOST_SIZES: Final = 10
"""Sizes that the table has; JSON has all."""
_MOST_LEFT: Final = 20
"""Lines about containers of which nothing can be said; JSON has all."""


class UseReport(Struct, frozen=True, kw_only=True):
    """Everything that is printed."""

    history: UseHistory
    owners: list[OwnerUse]
    sizes: list[RightSize]
    left: list[LeftAlone]
    rules: SizeRules
    prices: PriceList | None = None
    notes: list[str] = []


def show(to: Screen, report: UseReport) -> None:
    """Print the table, then what could be smaller, with patches, then what is to be known."""
    if not report.owners:
        to.print("no container held a share in this time")
    else:
        _table(to, report)
    parts = [*map(_size_lines, report.sizes[:_MOST_SIZES]), _others(report), _notes(report)]
    for part in filter(None, map(list, parts)):
        to.print(Text(""))
        for line in part:
            to.print(Text(printable(line)), soft_wrap=True)


def document(report: UseReport) -> bytes:
    """All of it as JSON."""
    history, prices = report.history, report.prices
    whole = {
        "from": timestamps.format_time(history.began) if history.shares else "",
        "to": timestamps.format_time(history.ended) if history.shares else "",
        "currency": prices.currency if prices is not None else "",
        "owners": report.owners,
        "sizes": [_size(size) for size in report.sizes],
        "without_size": report.left,
        "rules": report.rules,
        "notes": list(_notes(report)),
    }
    return msgspec.json.encode(whole) + b"\n"


def write_csv(report: UseReport) -> None:
    """A row for each owner, hours and amounts unrounded."""
    fields = [f for f in OwnerUse.__struct_fields__ if f != "gaps"]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*fields, "currency", "gaps"])
    currency = report.prices.currency if report.prices is not None else ""
    for one in report.owners:
        values = (getattr(one, field) for field in fields)
        row = [round(v, 6) if isinstance(v, float) else v for v in values]
        writer.writerow([*row, currency, " ".join(one.gaps)])


def write_patches(report: UseReport) -> int:
    """A shell command for each owner's manifest that can be patched; how many there are."""
    commands = [line for size in report.sizes if (line := _command(size))]
    sys.stdout.writelines(f"{line}\n" for line in commands)
    return len(commands)


def write_plans(report: UseReport) -> int:
    """RebalancePlans as YAML, for `kubectl create -f -`; how many there are."""
    found = [plan for size in report.sizes if (plan := resize_plan(report.history, size))]
    for name, spec in found:
        manifest = {
            "apiVersion": PLANS.removeprefix("/apis/").rpartition("/")[0], "kind": PLAN_KIND,
            "metadata": {"name": name}, "spec": _filled(msgspec.to_builtins(spec)),
        }  # fmt: skip
        sys.stdout.write("---\n")
        yaml.safe_dump(manifest, sys.stdout, sort_keys=False, width=100)
    return len(found)


def _table(to: Screen, report: UseReport) -> None:
    costs = _COSTS if report.prices is not None else ()
    to.print_rows(
        (*_HEADS, *costs), (_row(one, report.prices) for one in report.owners), (),
        unbroken=(*_HEADS, *costs),
    )  # fmt: skip


def _row(one: OwnerUse, prices: PriceList | None) -> Iterator[Text]:
    yield Text(printable(one.namespace))
    yield Text(printable(_named(one.owner_kind, one.owner)))
    yield Text(f"{one.pods}")
    yield Text(_hours(one.granted_hours))
    for hours in (one.used_hours, one.idle_hours, one.throttled_hours, one.unmeasured_hours):
        percent = 100 * hours / one.granted_hours if one.granted_hours else 0
        yield Text(f"{_hours(hours)} ({percent:.0f} %)")
    yield Text(f"{one.granted_gib:.1f}")
    yield Text(f"{one.used_gib:.1f}")
    if prices is not None:
        for cost in (one.cost, one.idle_cost):
            yield Text("no price" if cost is None else f"{cost:,.2f} {prices.currency}")


def _size_lines(size: RightSize) -> Iterator[str]:
    of = f"{size.namespace}/{_named(size.owner_kind, size.owner)}, container {size.container}"
    change = size.change
    if size.holding:
        pods = "pod holds" if size.holding == 1 else "pods hold"
        yield (
            f"{of}: {size.holding} {pods} {_gib(size.held_bytes)} GiB and peaked at "
            f"{_gib(size.peaks_bytes)}: frees {_gib(size.frees_bytes)} GiB"
        )
    else:
        pods = "pod held" if size.pods == 1 else "pods held"
        yield f"{of}: {size.pods} {pods} shares of {_gib(size.granted_bytes)} GiB; none does now"
    yield (
        f"  of each card {size.granted_bytes >> 20} MiB are granted, the most that one used is "
        f"{size.peak_bytes >> 20}: {change.memory_bytes >> 20} MiB, with head room"
    )
    what = "annotation" if change.annotation else "limit"
    before = change.before or "not there, so it has whole cards"
    yield f"  {what} {change.name}: {before} -> {change.after}"
    if change.whole_cores:
        yield "  its cards' cores stay all its own, so that nobody else is placed on them"
    command = _command(size)
    if command:
        yield f"  {command}"
    elif size.owner_kind in FIXED:
        yield f"  for its next run, in the manifest: {_part(size)}"
    else:
        yield f"  in the template of the {size.owner_kind}'s pods: {_part(size)}"


def _size(size: RightSize) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(size)
    del found["example"]
    return {
        **found, "frees_bytes": size.frees_bytes,
        "patch": owner_patch(size.owner_kind, size.change), "part": pod_patch(size.change),
        "command": _command(size),
    }  # fmt: skip


def _others(report: UseReport) -> Iterator[str]:
    if len(report.sizes) > _MOST_SIZES:
        yield f"and {len(report.sizes) - _MOST_SIZES} more that could be smaller (-o json has all)"
    for left in report.left[:_MOST_LEFT]:
        of = f"{left.namespace}/{_named(left.owner_kind, left.owner)}"
        yield f"{of}, container {left.container}: no size: {left.why}"
    if len(report.left) > _MOST_LEFT:
        yield f"and {len(report.left) - _MOST_LEFT} more without a size (-o json has all)"


def _notes(report: UseReport) -> Iterator[str]:
    history, rules = report.history, report.rules
    if history.shares:
        began, ended = timestamps.format_time(history.began), timestamps.format_time(history.ended)
        yield (
            f"{began} to {ended}, {history.span}; hours are of whole cards: a "
            "share counts by the larger of its memory and its cores"
        )
        yield (
            f"sizes: the highest measured peak and {rules.headroom_percent:g} %, at least "
            f"{rules.headroom_mib} MiB more; without the hook, peaks between two measurements are "
            "not in it"
        )
    gaps = sorted({gap for one in report.owners for gap in one.gaps})
    if gaps:
        yield f"what was measured may not be all ({', '.join(gaps)}): docs/hook.md has the words"
    if report.prices is not None:
        models = {one.model for one in history.shares.values()}
        for model in sorted(models):
            if report.prices.price_of(model) is None:
                yield f"the price list has no price for card {model or 'of unknown model'!r}"
    if history.note:
        yield history.note
    yield from report.notes


def _command(size: RightSize) -> str:
    return kubectl_patch(size.namespace, size.owner_kind, size.owner, size.change)


def _part(size: RightSize) -> str:
    return msgspec.json.encode(pod_patch(size.change)).decode()


def _named(kind: str, name: str) -> str:
    return f"{kind.lower()}/{name}"


def _filled(value: Any) -> Any:
    """Without the fields that say nothing: a plan is read before it is approved."""
    if isinstance(value, dict):
        return {key: _filled(of) for key, of in value.items() if of}
    return [_filled(of) for of in value] if isinstance(value, list | tuple) else value


def _hours(hours: float) -> str:
    return f"{hours:.1f}" if hours >= 1 or not hours else f"{hours:.2g}"


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f}".removesuffix(".0")
