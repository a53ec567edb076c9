"""Compiled kernels: Triton's and torch.compile's. What they compute is not asserted: simulated kernels compute nothing."""

import torch
import triton
import triton.language as tl

from kit import MIB, ROOM, near, run, step


@triton.jit
def add_kernel(left, right, out, count, BLOCK: tl.constexpr):
    """out = left + right."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    within = at < count
    tl.store(out + at, tl.load(left + at, mask=within) + tl.load(right + at, mask=within), mask=within)


@step("a Triton kernel is compiled, loaded and launched")
def _triton():
    left, right = torch.rand(4096, device="cuda"), torch.rand(4096, device="cuda")
    out = torch.empty_like(left)
    for _ in range(100):
        add_kernel[(4,)](left, right, out, 4096, BLOCK=1024)
    torch.cuda.synchronize()


@step("torch.compile runs")
def _compiled():
    compiled = torch.compile(lambda a, b: (a * b).relu().sum(dim=-1))
    assert compiled(torch.rand(64, 256, device="cuda"), torch.rand(64, 256, device="cuda")).shape == (64,)
    torch.cuda.synchronize()


@step("torch.compile in mode reduce-overhead: graphs of its own pool")
def _reduced():
    compiled = torch.compile(lambda a: (a + 1).relu() * 3, mode="reduce-overhead")
    data = torch.rand(1024, 256, device="cuda")
    for _ in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        made = compiled(data)
    assert made.shape == data.shape
    del made
    torch.cuda.synchronize()


@step("a training step, and memory below the limit afterwards")
def _train():
    weights = torch.rand(512, 512, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        (weights * 2).sin().sum().backward()
        optimizer.step()
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] / MIB >= ROOM - 256
    near(torch.cuda.memory_allocated() / MIB, 0, 64)


run()
