"""Pods arrive one by one and stay: how much of the cluster is allocated when as much, and when 1.3
times as much, was asked for as there is.

Method of the paper (Weng et al., USENIX ATC'23): the pods of the trace in an order drawn by the
seed, then more drawn from them; a pod that does not fit is dropped.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.openb_cluster import Cluster, Policy
from benchmarks.openb_fgd import Fgd
from benchmarks.openb_pack import Pack
from benchmarks.openb_simple import BestFit, DotProduct, Random
from benchmarks.openb_trace import Shape, Trace

ARRIVED = 1.3
Counts = Mapping[Shape, float]
Make = Callable[[Cluster, Counts, np.random.Generator], Policy]

POLICIES: Mapping[str, Make] = {
    "random": lambda cluster, _counts, rng: Random(cluster, rng),
    "best-fit": lambda cluster, _counts, _rng: BestFit(cluster),
    "dot-product": lambda cluster, _counts, _rng: DotProduct(cluster),
    "fgd": lambda cluster, counts, _rng: Fgd(cluster, counts),
    "pack": lambda cluster, counts, _rng: Pack(cluster, counts),
    "pack-plain": lambda cluster, counts, _rng: Pack(cluster, counts, reserve=False),
    "pack-reserve": lambda cluster, counts, _rng: Pack(cluster, counts, reserve=True),
}


@dataclass(frozen=True)
class Outcome:
    """One seed."""

    at_100: float
    """Percent of all cards allocated when as much as there is was asked for."""
    at_130: float
    failed: Counter[str]
    """Pods dropped up to 100 %, by kind."""
    seconds: float
    """Learning and placing, up to 130 %; reading and drawing left out."""


def arrivals(trace: Trace, rng: np.random.Generator) -> list[Shape]:
    """The pods in order of arrival, until `ARRIVED` times the capacity is asked for."""
    order = [trace.pods[i] for i in rng.permutation(len(trace.pods)).tolist()]
    asked = sum(shape.milli_in_all for shape in order)
    while asked < ARRIVED * trace.capacity:
        more = trace.pods[int(rng.integers(len(trace.pods)))]
        order.append(more)
        asked += more.milli_in_all
    return order


def run(trace: Trace, make: Make, seed: int, counts: Counts | None = None) -> Outcome:
    """One seed of one policy; `counts` is what it knows of the past, else the trace itself."""
    rng = np.random.default_rng(seed)
    cluster = Cluster(trace, rng)
    pods = arrivals(trace, rng)
    began = time.perf_counter()
    policy = make(cluster, trace.counts if counts is None else counts, rng)
    asked = at_100 = 0
    failed: Counter[str] = Counter()
    for shape in pods:
        place = policy.choose(shape)
        if place is not None:
            cluster.take(shape, place)
            policy.changed(place[0])
        elif asked < trace.capacity:
            failed[shape.kind] += 1
        asked += shape.milli_in_all
        if asked - shape.milli_in_all < trace.capacity:
            at_100 = cluster.allocated
    seconds = time.perf_counter() - began
    return Outcome(
        100 * at_100 / trace.capacity, 100 * cluster.allocated / trace.capacity, failed, seconds
    )
