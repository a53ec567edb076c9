"""The real CUDA runtime library resolves every function that the hook wraps into the hook.

Run under the hook with the library's path. It stops at the driver's integrity tables, after its whole
lookup. What it looked up is then read out of its own memory, so the hook's word is not taken for it.
"""

import ctypes
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

TWIN = 2  # CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM


def lookups(library: str) -> list[tuple[str, int, int]]:
    """Make the runtime look its functions up; return what the driver was asked: name, version, flags."""
    with tempfile.TemporaryFile() as captured:
        libc = ctypes.CDLL(None)
        kept = libc.dup(2)
        libc.dup2(captured.fileno(), 2)
        runtime = ctypes.CDLL(library)
        runtime.cudaGetDeviceCount(ctypes.byref(ctypes.c_int()))
        runtime.cudaFree(None)
        libc.dup2(kept, 2)
        libc.unsetenv(b"TESSERA_SIM_TRACE")
        captured.seek(0)
        text = captured.read().decode()
    return [(n, int(v), int(f)) for n, v, f in re.findall(r"lookup '(cu\w+)' (\d+) (\d+)", text)]


def segments(name: str) -> list[tuple[int, int, str]]:
    """Return start, end and permissions of the mappings of a library, its zeroed data included."""
    found, inside = [], False
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        span, permissions, _offset, _device, inode, *path = line.split()
        start, end = (int(part, 16) for part in span.split("-"))
        named = bool(path) and name in pathlib.Path(path[0]).name
        if named or (inside and inode == "0" and not path and found[-1][1] == start):
            found.append((start, end, permissions))
        inside = named or (inside and inode == "0")
    return found


def symbols(name: str) -> dict[str, int]:
    """Return the addresses of what a loaded library exports."""
    line = next(x for x in pathlib.Path("/proc/self/maps").read_text().splitlines() if f"/{name}" in x)
    base, path = int(line.split("-")[0], 16), line.split()[-1]
    listing = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True)  # noqa: S603, S607
    return {n: base + int(at, 16) for at, _kind, n in (row.split() for row in listing.stdout.splitlines() if row.count(" ") == 2)}


def words(name: str) -> set[int]:
    """Return every word in the writable memory of a library."""
    found: set[int] = set()
    with pathlib.Path("/proc/self/mem").open("rb", 0) as memory:
        for start, end, permissions in segments(name):
            if permissions.startswith("rw"):
                memory.seek(start)
                found |= {w for (w,) in struct.iter_unpack("=Q", memory.read(end - start))}
    return found


def main() -> None:
    """Compare what the runtime holds with what the driver would have answered without the hook."""
    asked = lookups(sys.argv[1])
    hook, driver = symbols("libtessera.so"), symbols("libcuda.so.1")
    by_address = {at: n for n, at in driver.items() if n in hook} | {at: None for n, at in driver.items() if n not in hook}
    answer = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p)(
        driver["cuGetProcAddress_v2"]
    )
    held = words("libcudart.so")
    wanted, twins, problems = set(), 0, []
    for name, version, flags in asked:
        at = ctypes.c_void_p()
        answer(name.encode(), ctypes.byref(at), version, flags, None)
        symbol = by_address.get(at.value or 0)
        if symbol is None:
            continue
        wanted.add(symbol)
        twins += flags == TWIN and symbol.endswith("_ptsz")
        if not name.startswith("cuGetProcAddress") and hook[symbol] not in held:
            problems.append(f"{name} {version} {flags}: no {symbol} of the hook")
        if driver[symbol] in held:
            problems.append(f"{name} {version} {flags}: the driver's own {symbol}")
    assert len(asked) > 350, f"{len(asked)} lookups only"
    assert twins >= 8, f"{twins} twins only"
    assert {"cuMemAlloc_v2", "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemAllocAsync", "cuMemAllocAsync_ptsz"} <= wanted, wanted
    assert not problems, "\n".join(problems)
    print(f"ok   {pathlib.Path(sys.argv[1]).name} {sys.argv[2]}: {len(asked)} lookups, {len(wanted)} wrapped, {twins} of them twins")


main()
