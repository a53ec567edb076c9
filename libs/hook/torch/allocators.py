"""PyTorch's allocators at the limit: native, expandable segments, cudaMallocAsync (PYTORCH_CUDA_ALLOC_CONF says which)."""

import gc
import os
import random
import threading

import torch

from kit import MIB, ROOM, SHARE, near, bytes_on_card, run, step

NATIVE = "cudaMallocAsync" not in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")


def block(mib):
    """Uninitialised memory on the card."""
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")


def empty():
    """Give everything back that nobody uses."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.synchronize()


def free_mib():
    """What torch reads as free."""
    return torch.cuda.mem_get_info()[0] / MIB


def fill(mib):
    """Blocks until there is no more."""
    blocks = []
    try:
        while len(blocks) < 2000:
            blocks.append(block(mib))
    except torch.cuda.OutOfMemoryError as error:
        return blocks, str(error)
    raise AssertionError("no limit")


@step("the share is what torch sees")
def _whole_share():
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.get_device_properties(0).total_memory == SHARE * MIB
    free, total = torch.cuda.mem_get_info()
    assert total == SHARE * MIB
    near(free / MIB, ROOM, 0)


@step("OutOfMemoryError at the limit, and its text")
def _full():
    blocks, text = fill(300)
    near(len(blocks), ROOM // 300, 0 if NATIVE else 1)
    if NATIVE:
        assert f"total capacity of {SHARE / 1024:.2f} GiB" in text, text
    smaller, _ = fill(10)
    assert smaller
    assert free_mib() < 64
    blocks.clear()
    smaller.clear()
    del text
    empty()
    near(free_mib(), ROOM, 0)


@step("after freeing, what was refused fits")
def _again():
    blocks, _ = fill(500)
    del blocks[1::2]
    one = block(900)  # from what the cache gives back
    del one
    blocks.clear()
    whole = block(ROOM - 96)
    assert whole.numel() == (ROOM - 96) * MIB
    del whole
    empty()
    near(free_mib(), ROOM, 0)


@step("memory_stats add up")
def _stats():
    before = torch.cuda.memory_allocated()
    blocks = [block(n) for n in (1, 7, 64, 250)]
    grown = torch.cuda.memory_allocated() - before
    near(grown / MIB, 322, 1)
    assert torch.cuda.memory_reserved() >= grown
    assert torch.cuda.max_memory_allocated() >= grown
    blocks.clear()
    assert torch.cuda.memory_allocated() == before


@step("contents survive the way to the card and back")
def _contents():
    there = torch.arange(1 << 20, dtype=torch.int32)
    pinned = there.pin_memory()
    assert torch.equal(there.to("cuda").cpu(), there)
    assert torch.equal(pinned.to("cuda", non_blocking=True).cpu(), there)


def churn(seed, times):
    """Allocate and free at random, never more than an eighth of the room at once."""
    chance = random.Random(seed)  # noqa: S311
    held = []
    for _ in range(times):
        size = 2 ** chance.uniform(9, 26)
        held.append(block(size / MIB))
        while sum(b.numel() for b in held) > ROOM * MIB / 8 or (held and chance.random() < 0.4):
            held.pop(chance.randrange(len(held)))


@step("churn of one thread leaves nothing")
def _one():
    empty()
    base = bytes_on_card()
    churn(1, 3000)
    empty()
    assert torch.cuda.memory_allocated() == 0
    near(free_mib(), ROOM, 0)
    assert bytes_on_card() == base, (bytes_on_card(), base)


@step("churn of six threads leaves nothing")
def _six():
    base = bytes_on_card()
    threads = [threading.Thread(target=churn, args=(seed, 1000)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    empty()
    assert torch.cuda.memory_allocated() == 0
    near(free_mib(), ROOM, 0)
    assert bytes_on_card() == base, (bytes_on_card(), base)


@step("a graph is captured and replayed")
def _graph():
    still = torch.zeros(1 << 20, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        still.add_(1)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = still * 2
        made = made + still
    for _ in range(50):
        graph.replay()
    torch.cuda.synchronize()
    del made
    graph.reset()
    del graph, still
    empty()
    near(free_mib(), ROOM, 64)  # private pools may keep a segment


if NATIVE:

    @step("a capture of too much is refused, and work goes on")
    def _too_much():
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                too = block(SHARE + 2048)
            raise AssertionError(too.shape)
        except torch.cuda.OutOfMemoryError:
            pass
        del graph
        empty()
        whole = block(ROOM // 2)
        assert whole.is_cuda

    @step("a pool of one's own is within the share")
    def _pool():
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            own = block(512)
        assert free_mib() <= ROOM - 512
        del own, pool
        empty()
        near(free_mib(), ROOM, 0)


run()
