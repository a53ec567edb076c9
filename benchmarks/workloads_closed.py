"""A card whose jobs are synchronous: each computes, does something else, and computes again.

In the open model a container that wants half of a card gets half of it next to a neighbour that
wants all, since somebody else decides how much there is to do. A synchronous job waits for each of
its kernels before it goes on. Next to such a neighbour its kernels take twice as long, what it does
between them does not, and it gets a third.

With `w` the part of its time in which a job computes when it is alone, and `s` its speed while it
computes, it computes for `a = (w/s) / (w/s + 1 - w)` of the time and gets `s a`, or its limit, and
then computes for that much less of the time. A service gets what its clients ask for, as long as
that is no more than `s`: they do not wait for each other, so its requests take longer
(`workloads_latency`) before fewer are answered. The processes that compute at the same moment have
equal speed, so `s` is the mean of one through their number, itself included, taken over what the
others do at random: the integral over x from 0 to 1 of the product over the others of
`1 - a + a x`. What all get then sums up to `1 - product of (1 - a)`, which no card exceeds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Bools, Floats

_FULL: Final = 100.0
_TURNS: Final = 60
_NEAR: Final = 1e-3
_LEAST: Final = 1e-9


def divide_closed(wants: Floats, limits: Floats, room: Floats, serving: Bools) -> Floats:
    """Percent of its card that each seat gets; `wants` and `limits` (cards, seats) in percent,
    `room` (cards) what of a card can be used with these on it, `serving` (cards, seats) who has
    clients that do not wait for each other."""
    got = np.minimum(wants, limits)
    shared = np.flatnonzero((got > 0).sum(1) > 1)
    if len(shared):
        want, limit, part = wants[shared] / _FULL, limits[shared] / _FULL, room[shared] / _FULL
        clients = serving[shared]
        rate = _rates(want, limit, speeds(want, limit, part, clients), clients)
        fits = rate * np.minimum(part / np.maximum(rate.sum(1), _LEAST), 1.0)[:, None]
        got[shared] = np.minimum(got[shared], _FULL * fits)
    return got


def speeds(want: Floats, limit: Floats, room: Floats, serving: Bools) -> Floats:
    """Of each seat while it computes, a part of a card's; all as parts of 1. The fixed point, from
    below: who computes more slows others, so that they compute for longer."""
    points, weights = _points(want.shape[1])
    active = np.minimum(want, limit)
    speed = np.ones_like(want)
    for _ in range(_TURNS):
        speed = _speeds(active, room, points, weights)
        now = np.minimum(_rates(want, limit, speed, serving) / speed, 1.0)
        near = np.abs(now - active).max(initial=0.0) < _NEAR
        active = now
        if near:
            break
    return speed


def _rates(want: Floats, limit: Floats, speed: Floats, serving: Bools) -> Floats:
    waiting = want / np.maximum(want + speed * (1 - want), _LEAST) * speed
    found: Floats = np.minimum(np.where(serving, np.minimum(want, speed), waiting), limit)
    return found


def _speeds(active: Floats, room: Floats, points: Floats, weights: Floats) -> Floats:
    """Of each seat while it computes; at most 1."""
    factors = 1 - active[:, :, None] * (1 - points)
    others = factors.prod(1)[:, None, :] / factors
    speed: Floats = np.minimum((others @ weights) * room[:, None], 1.0)
    return speed


@lru_cache  # a run needs them ten thousand times
def _points(seats: int) -> tuple[Floats, Floats]:
    """Gauss and Legendre's for 0 to 1, enough to be exact for so many seats."""
    x, weights = np.polynomial.legendre.leggauss(max(1, (seats + 1) // 2))
    return (x + 1) / 2, weights / 2
