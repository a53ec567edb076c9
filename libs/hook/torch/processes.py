"""Several processes on one share: spawned, forked, sharing memory, loading data."""

import gc
import os
import time

import torch
import torch.multiprocessing as mp

from kit import CONTEXT, HOOKED, MIB, ROOM, SHARE, near, python, run, step


def block(mib):
    """Uninitialised memory on the card."""
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def free_mib():
    """What torch reads as free."""
    return torch.cuda.mem_get_info()[0] / MIB


def all_again():
    """What processes held that are gone can be had at once, and is shown as free soon."""
    whole = block(ROOM - 200)
    del whole
    torch.cuda.empty_cache()
    until = time.monotonic() + 5
    while free_mib() < ROOM - 4 and time.monotonic() < until:
        time.sleep(0.05)
    near(free_mib(), ROOM, 4)


def others(count):
    """MiB that the contexts of other processes take: within the card, and outside of a share."""
    return 0 if HOOKED else count * CONTEXT


def holder(mib, barrier, answers):
    """Take so much, say whether it was given, hold it until all have tried."""
    try:
        held = block(mib)
        answers.put(True)
    except torch.cuda.OutOfMemoryError:
        held = None
        answers.put(False)
    barrier.wait(120)
    del held


@step("three spawned processes share one share")
def _spawn():
    context = mp.get_context("spawn")
    barrier, answers = context.Barrier(4), context.Queue()
    mib = 1500 if HOOKED else 6000
    children = [context.Process(target=holder, args=(mib, barrier, answers)) for _ in range(3)]
    for child in children:
        child.start()
    said = sorted(answers.get(timeout=120) for _ in children)
    assert said == [False, True, True], said
    barrier.wait(120)
    for child in children:
        child.join()
        assert child.exitcode == 0
    all_again()


def receiver(queue, answers, done):
    """Read what another process has on the card, and its view of what is free."""
    tensor = queue.get(timeout=120)
    answers.put((tensor.cpu().sum().item(), free_mib()))
    done.wait(120)
    del tensor
    gc.collect()


@step("a tensor sent to another process is charged once")
def _ipc():
    context = mp.get_context("spawn")
    queue, answers, done = context.Queue(), context.Queue(), context.Event()
    child = context.Process(target=receiver, args=(queue, answers, done))
    child.start()
    tensor = torch.ones(32 * MIB, dtype=torch.uint8).to("cuda")
    torch.cuda.synchronize()
    queue.put(tensor)
    total, free = answers.get(timeout=120)
    assert total == 32 * MIB, total
    near(free, ROOM - 32 - others(1), 2)
    near(free_mib(), ROOM - 32 - others(1), 2)
    done.set()
    child.join()
    assert child.exitcode == 0
    del tensor
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    all_again()


@step("a child forked before CUDA begins has the share too")
def _fork_first():
    python("-c", """
import os, torch
pid = os.fork()
ready = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
if pid == 0:
    os._exit(0 if torch.cuda.mem_get_info()[1] == %d << 20 else 7)
assert os.waitpid(pid, 0)[1] == 0
""" % SHARE)


@step("a child forked later gets an error, and its parent goes on")
def _fork_later():
    held = block(256)
    pid = os.fork()
    if pid == 0:
        try:
            block(1)
        except RuntimeError as error:
            os._exit(0 if "forked subprocess" in str(error) else 8)
        os._exit(9)
    del held
    torch.cuda.empty_cache()
    assert os.waitpid(pid, 0)[1] == 0
    all_again()


class Rows(torch.utils.data.Dataset):
    """Sixty-four small rows."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((1024,), index, dtype=torch.int32)


def load(start):
    """All rows, by two workers, pinned, onto the card and back."""
    loader = torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=2, pin_memory=True, multiprocessing_context=start)
    return sum(batch.to("cuda", non_blocking=True).cpu()[:, 0].sum().item() for batch in loader)


for way in ("fork", "spawn", "forkserver"):
    step(f"DataLoader with workers by {way}, pinned")(lambda way=way: near(load(way), 2016, 0))


@step("a subprocess counts in the same share")
def _sub():
    held = block(1000)
    said = python("-c", "import torch; x = torch.empty(100 << 20, dtype=torch.uint8, device='cuda'); print(torch.cuda.mem_get_info()[0] >> 20)")
    near(int(said), ROOM - 1100 - others(1), 4)
    del held
    all_again()


if __name__ == "__main__":
    run()
