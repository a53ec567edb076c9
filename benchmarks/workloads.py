"""What hints, lending and moves gain: a cluster in virtual time, the policies side by side.

    python benchmarks/workloads.py [--workload NAME] [--policy NAME] [--against NAME] [--seeds N]
        [--first-seed N] [--use pai] [--card closed] [--load 1.4] [--owners] [--moves product]
        [--memory grows] [--best-effort 0.5 [--best-effort-memory]]
        [--interference FILE] [--no-bounds] [--json]
    python benchmarks/workloads.py gangs [--mix NAME] [--policy NAME] [--seeds N]
    python benchmarks/workloads.py --file recording.csv --nodes 10 [--cards 4] [--memory-mib 81920]

Without names all of them: mixed, services, research (`workloads_made`), and nothing, hints,
lending, moves, all (`workloads_run`), with what no policy can exceed (`workloads_bounds`). What is
modelled and what is not: `workloads_simulation` and `workloads_cards`; decisions are taken by the
functions that the services call. Pods that use as little as Alibaba published: `workloads_use`.
How a recording is written: `workloads_recorded`. What the figures are: `workloads_counted`.
Gangs and queues are a simulation of their own: `workloads_gangs`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import workloads_made as made
from benchmarks.workloads_bounds import BOUNDS
from benchmarks.workloads_cards import CardModel
from benchmarks.workloads_classes import with_best_effort
from benchmarks.workloads_cluster import requested_percent
from benchmarks.workloads_counted import FIGURES
from benchmarks.workloads_gangs import main as gangs
from benchmarks.workloads_growth import with_growth
from benchmarks.workloads_interference import (
    GUESS,
    BadTable,
    Interference,
    read_table,
    with_loads,
)
from benchmarks.workloads_owners import with_controllers, with_owners
from benchmarks.workloads_pods import Workload
from benchmarks.workloads_recorded import Malformed, read
from benchmarks.workloads_run import POLICIES, Outcome, run, run_bound
from benchmarks.workloads_tables import as_json, show, show_bounds
from benchmarks.workloads_use import with_pai_use
from tessera_core.registry.registry import DialectRegistry, load

FIRST_SEED = 1
"""Rules are tried on other seeds than those that confirm them."""


def main(argv: Sequence[str] | None = None) -> int:
    """0, or 2 for a recording or a table that cannot be read."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["gangs"]:
        return gangs(argv[1:])
    args = _arguments(argv)
    registry = load()
    try:
        model = CardModel(args.card == "closed", _interference(args))
        chosen = _workloads(args, registry)
    except (Malformed, BadTable) as e:
        print(e, file=sys.stderr)
        return 2
    found: dict[str, dict[str, list[Outcome]]] = {}
    bounds: dict[str, dict[str, list[Outcome]]] = {}
    settings = _settings(args, model)
    if not args.json:
        print(", ".join(f"{name}: {value}" for name, value in settings.items()))
    for name, seeds in chosen.items():
        found[name] = {
            policy: [run(one, registry, policy, seed, model) for seed, one in seeds.items()]
            for policy in args.policy or POLICIES
        }
        bounds[name] = {
            bound: [run_bound(one, registry, bound, seed, model) for seed, one in seeds.items()]
            for bound in (BOUNDS if args.bounds else ())
        }
        if not args.json:
            show(name, found[name], args.against)
            if args.bounds:
                show_bounds(found[name], bounds[name])
    if args.json:
        print(json.dumps(as_json(found, bounds, settings)))
    else:
        print("\n" + "\n".join(f"{figure}: {what}" for figure, what in FIGURES.items()))
    return 0


def _interference(args: argparse.Namespace) -> Interference:
    return GUESS if args.interference is None else read_table(args.interference)


def _settings(args: argparse.Namespace, model: CardModel) -> dict[str, object]:
    """What was run, for who reads the figures."""
    source = (
        {"recording": str(args.file)}
        if args.file
        else {
            name: getattr(args, name)
            for name in (
                "use",
                "load",
                "owners",
                "moves",
                "memory",
                "best_effort",
                "best_effort_memory",
            )
        }
    )
    return {**source, "card": args.card, "interference": model.interference.source}


def _workloads(
    args: argparse.Namespace, registry: DialectRegistry
) -> dict[str, dict[int, Workload]]:
    """Name -> seed -> workload."""
    if args.file is not None:
        recorded = read(args.file, nodes=args.nodes, cards=args.cards, memory_mib=args.memory_mib)
        return {recorded.name: {0: recorded}}
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    return {
        name: {seed: _made(args, registry, name, seed) for seed in seeds}
        for name in args.workload or made.MADE
    }


def _made(args: argparse.Namespace, registry: DialectRegistry, name: str, seed: int) -> Workload:
    workload = made.make(name, seed, nodes=args.nodes, hours=args.hours, load=args.load)
    workload = with_loads(workload, seed)
    if args.owners:
        workload = with_owners(workload, seed)
    if args.moves == "product":
        workload = with_controllers(workload)
    if args.memory == "grows":
        workload = with_growth(workload, seed)
    if args.use == "pai":
        workload = with_pai_use(workload, partial(requested_percent, registry), seed)
    if args.best_effort:
        workload = with_best_effort(workload, registry, args.best_effort, seed)
    return replace(workload, spare_memory=args.best_effort_memory)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--workload", action="append", choices=list(made.MADE))
    parser.add_argument("--policy", action="append", choices=list(POLICIES))
    parser.add_argument("--against", choices=list(POLICIES), default="nothing")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, metavar="N")
    parser.add_argument(
        "--use", choices=("drawn", "pai"), default="drawn",
        help="what pods want: drawn apart from what they ask for, or as Alibaba's PAI published",
    )  # fmt: skip
    parser.add_argument("--load", type=float, default=1.0, help="times as many pods come")
    parser.add_argument(
        "--best-effort", type=float, default=0.0, metavar="PART",
        help="of the jobs that work on a part of a card, so many, 0 to 1, are promised no cores",
    )  # fmt: skip
    parser.add_argument(
        "--best-effort-memory", action="store_true",
        help="and have memory that others were granted and do not use",
    )  # fmt: skip
    parser.add_argument(
        "--card", choices=("open", "closed"), default="open",
        help="closed: jobs are synchronous, and compute only when they have waited for themselves",
    )  # fmt: skip
    parser.add_argument("--owners", action="store_true", help="most pods are runs of one task")
    parser.add_argument(
        "--moves", choices=("any", "product"), default="any",
        help="product: trainings are Jobs, which the product leaves alone",
    )  # fmt: skip
    parser.add_argument("--memory", choices=("constant", "grows"), default="constant")
    parser.add_argument(
        "--interference", type=Path, help="a table that interference.py wrote, in place of a guess"
    )
    parser.add_argument("--bounds", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--hours", type=float, default=made.HOURS)
    parser.add_argument("--file", type=Path, help="a recording instead of a made workload")
    parser.add_argument("--nodes", type=int, default=made.NODES)
    parser.add_argument("--cards", type=int, default=made.CARDS, help="of each node, with --file")
    parser.add_argument("--memory-mib", type=int, default=made.MEMORY_MIB, help="with --file")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    for name in ("seeds", "load", "hours", "nodes", "cards", "memory_mib"):
        if getattr(args, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} {getattr(args, name)}: write more than 0")
    if args.first_seed < 0:
        parser.error(f"--first-seed {args.first_seed}: write 0 or more")
    if not 0 <= args.best_effort <= 1:
        parser.error(f"--best-effort {args.best_effort}: write 0 to 1")
    if args.best_effort_memory and not args.best_effort:
        parser.error("--best-effort-memory: write --best-effort with the part of the jobs, 0 to 1")
    return args


if __name__ == "__main__":
    sys.exit(main())
