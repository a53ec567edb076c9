"""numba-cuda, over the driver API alone."""

import numpy as np
from numba import cuda

from kit import HOOKED, MIB, ROOM, SHARE, near, run, step


def free_mib():
    """What numba reads as free."""
    return cuda.current_context().get_memory_info()[0] / MIB


@step("numba sees the share")
def _whole_share():
    free, total = cuda.current_context().get_memory_info()
    assert total == SHARE * MIB
    near(free / MIB, ROOM, 0)


@step("out of memory at the limit, and recovery")
def _full():
    blocks = []
    try:
        while True:
            blocks.append(cuda.device_array(256 * MIB, dtype=np.uint8))
    except Exception as error:  # cuda.bindings' own, or numba's
        assert "OUT_OF_MEMORY" in str(error).upper(), error
    assert len(blocks) == ROOM // 256
    blocks.clear()
    cuda.current_context().deallocations.clear()
    again = cuda.device_array(ROOM // 2 * MIB, dtype=np.uint8)  # numba keeps some of the others for itself
    assert again.nbytes == ROOM // 2 * MIB
    del again
    cuda.current_context().deallocations.clear()


@step("contents survive the way to the card and back")
def _contents():
    there = np.arange(1 << 18, dtype=np.int32)
    assert (cuda.to_device(there).copy_to_host() == there).all()
    pinned = cuda.pinned_array(1 << 16, dtype=np.int32)
    pinned[:] = 7
    assert (cuda.to_device(pinned).copy_to_host() == 7).all()


@step("managed memory counts")
def _managed():
    before = free_mib()
    held = cuda.managed_array(500 * MIB, dtype=np.uint8)
    if HOOKED:
        near(before - free_mib(), 500, 8)
    assert held.nbytes == 500 * MIB  # numba keeps the memory when the array goes


@step("a compiled kernel is launched, between events")
def _kernel():
    @cuda.jit
    def twice(data):
        at = cuda.grid(1)
        if at < data.size:
            data[at] *= 2

    data = cuda.to_device(np.ones(4096, dtype=np.float32))
    begin, end = cuda.event(), cuda.event()
    begin.record()
    for _ in range(100):
        twice[16, 256](data)
    end.record()
    end.synchronize()
    assert cuda.event_elapsed_time(begin, end) > 0


run()
