"""Half as much again as a card has is granted by the ledger and used by processes under the hook on
the simulated driver, as training, inference and notebooks allocate: what lies on the card never
exceeds it, everybody gets what it was granted, and a guaranteed pod has all of it on the card."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from tessera_agent.containers.limits import limits_of
from tessera_core.dialect_kit.card_settings import CardSettings
from tessera_core.dialect_kit.lending_terms import LendingTerms
from tessera_core.hook.limits_file import encode_limits
from tessera_core.hook.usage_file import SIZE, UsageFile, UsageFileBounds, decode_usage
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.scheduling.reserve import Reserved, try_reserve
from tessera_kubelet.nri.types import PodSandbox
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Share
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role
from tests.agent.machine import NVML, SIM, built, polling

GIB = 1024 * MIB
CARD_BYTES = 16 * GIB
CONFIG = "cards=1 memory=16g context=0"
KINDS = ("training", "inference", "notebook")

SCRIPT = """
import ctypes, random, sys
kind, seed, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
cu, dice = ctypes.CDLL("libcuda.so.1"), random.Random(seed)
context = ctypes.c_void_p()
assert cu.cuInit(0) == 0 and cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
held, used, refused, most = [], 0, 0, 0
page = 2 << 20

def take(part):
    global used, refused, most
    size, at = max(int(limit * part) // page, 1) * page, ctypes.c_uint64()
    if used + size > limit:
        return False
    if cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)):
        refused += 1
        return False
    held.append((at, size))
    used += size
    most = max(most, used)
    return True

def give(position):
    global used
    at, size = held.pop(position)
    assert cu.cuMemFree_v2(at) == 0
    used -= size

print("ready", flush=True)
sys.stdin.readline()
if kind == "training":
    for _ in range(8):
        take(0.05)
    for step in range(20):
        there = len(held)
        while take(dice.uniform(0.01, 0.08)):
            pass
        while len(held) > there:
            give(-1)
elif kind == "inference":
    take(0.4), take(0.3)
    for request in range(150):
        if not take(dice.uniform(0.01, 0.05)) or len(held) > 8:
            give(2)
else:
    for cell in range(150):
        if dice.random() < 0.6 or not held:
            take(dice.choice([0.02, 0.1, 0.3]))
        else:
            give(dice.randrange(len(held)))
while used < limit and take(min((limit - used) / limit, 0.1)):
    pass
print(refused, most, used, flush=True)
sys.stdin.readline()
"""


def placed(card: Card, dice: Random) -> Iterator[Share]:
    """Shares of pods that come until one finds no room; every third is guaranteed."""
    ledger = Ledger()
    ledger.put_node("n", (card,))
    for number in range(1000):
        request = Request(
            vendor="nvidia", dialect="hami", memory_bytes=dice.randrange(500, 4500, 2) * MIB,
            guaranteed=number % 3 == 2,
        )  # fmt: skip
        container = ContainerRequest(
            container="main", position=0, role=Role.APP, requests=(request,)
        )
        pod = PodRequest(
            namespace="team", name=f"p{number}", uid=f"u{number}", containers=(container,)
        )
        found = try_reserve(ledger, Placer(ledger.fleet), pod, None, 0)
        if not isinstance(found, Reserved):
            assert ledger.fleet.cards.overgranted() == 0
            return
        yield found.grant.shares[0]


class Tenant:
    """A container: its process, its two files."""

    def __init__(self, folder: Path, number: int, share: Share, environ: Mapping[str, str]) -> None:
        self.share = share
        self._usage = folder / f"usage-{number}"
        limits = folder / f"limits-{number}"
        pod = PodSandbox(id="s", name=f"p{number}", uid=f"u{number}", namespace="team")
        written = limits_of(pod, "main", (share,), LendingTerms(most_percent=0), ())
        limits.write_bytes(encode_limits(written, 2, 1))
        kind = KINDS[number % len(KINDS)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, kind, str(number), str(share.memory_bytes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**environ, "TESSERA_LIMITS": str(limits), "TESSERA_USAGE": str(self._usage)},
        )  # fmt: skip
        self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def lies(self) -> tuple[int, int]:
        """Bytes on the card, and in the host's memory, as the hook has them."""
        bounds = UsageFileBounds(
            memory_bytes={self.share.card.removeprefix("GPU-"): 1 << 40}, now_ns=1 << 62
        )
        read = decode_usage(self._usage.read_bytes()[:SIZE], bounds, lambda slots: set(slots))
        assert isinstance(read, UsageFile)
        managed = sum(slot.bytes.get("managed", 0) for slot in read.slots)
        return sum(sum(slot.bytes.values()) for slot in read.slots) - managed, managed


@pytest.mark.parametrize("seed", range(3))
def test_what_is_granted_is_there_and_the_card_is_never_exceeded(tmp_path: Path, seed: int) -> None:
    environ = {
        **os.environ,  # noqa: TID251  (the new processes' own)
        "LD_PRELOAD": str(built("libtessera.so")), "LD_LIBRARY_PATH": str(SIM),
        "TESSERA_SIM_STATE": str(tmp_path / "machine"), "TESSERA_SIM_CONFIG": CONFIG,
    }  # fmt: skip
    machine = {k: environ[k] for k in ("TESSERA_SIM_STATE", "TESSERA_SIM_CONFIG")}
    with polling(NVML, machine) as driver, ExitStack() as stack:
        (read,) = driver.poll()["cards"]
        bare = Card(id=read["id"], index=0, vendor="nvidia", memory_bytes=CARD_BYTES)
        (card,) = CardSettings(memory_scaling=1.5).applied_to((bare,))
        shares = list(placed(card, Random(seed)))  # noqa: S311  (sizes of pods)
        tenants = [Tenant(tmp_path, i, share, environ) for i, share in enumerate(shares)]
        for tenant in tenants:
            stack.callback(tenant.process.communicate)
            stack.callback(tenant.process.kill)
        assert sum(share.memory_bytes for share in shares) > CARD_BYTES
        for tenant in tenants:
            tenant.go_on()
        while any(not _ready(t) for t in tenants):
            check(driver.poll()["cards"][0]["memory_used_bytes"], tenants)
        for tenant in tenants:
            refused, most, used = map(int, tenant.line().split())
            assert refused == 0, tenant.share
            assert most <= tenant.share.memory_bytes
            assert used > 0.9 * tenant.share.memory_bytes
        check(driver.poll()["cards"][0]["memory_used_bytes"], tenants)
        assert sum(tenant.lies()[1] for tenant in tenants) > 0, "nothing left the card"


def _ready(tenant: Tenant) -> bool:
    assert tenant.process.stdout is not None
    return bool(select.select([tenant.process.stdout], [], [], 0)[0])


def check(used_bytes: int, tenants: Sequence[Tenant]) -> None:
    """Nobody has more on the card than it was promised, and the card has room for all."""
    assert used_bytes <= CARD_BYTES
    for tenant in tenants:
        on_card, beyond = tenant.lies()
        assert on_card <= tenant.share.on_card_bytes
        if tenant.share.on_card_bytes == tenant.share.memory_bytes:
            assert not beyond
