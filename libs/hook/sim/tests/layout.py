"""Compares the project's own ABI declarations with the vendor's headers: one C program is compiled against each and must print the same."""

import re
import subprocess
import sys
from pathlib import Path

abi, cuda, nvml, scratch = map(Path, sys.argv[1:5])
FIELD = re.compile(r"(\w+)(?:\[[^\]]*\])?\s*(?=[,;])")


def structs(text: str) -> dict[str, list[str]]:
    """Names of the structures with their first-level fields."""
    found = {}
    for body, name in re.findall(r"typedef struct \w+ \{\n(.*?)\n\} (\w+);", text, re.S):
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        body = re.sub(r"\{.*?\}", "", re.sub(r"\{[^{}]*\}", "", body, flags=re.S), flags=re.S)
        fields = [f for line in body.split("\n") if line.strip() and "union" not in line and "struct " not in line for f in FIELD.findall(line)]
        found[name] = fields
    return found


def enums(text: str) -> list[str]:
    members = re.findall(r"\b((?:CU|CUDA|NVML)_[A-Z0-9_]+)\s*=\s*-?[0-9x]+", text)
    return [m for m in members if not m.endswith("_MAX") and not m.startswith("CU_LIMIT_MAX")] + re.findall(r"X\((\w+),", text)


def program(include: str, own: str) -> str:
    lines = []
    for name, fields in structs(own).items():
        if name in ("CUdevResource",):
            fields = ["type"]
        lines.append(f'printf("{name} %zu", sizeof({name}));')
        lines += [f'printf(" {f}=%zu", offsetof({name}, {f}));' for f in fields if f not in ("pad", "sm")]
        lines.append('printf("\\n");')
    lines += [f'printf("{e} %d\\n", (int){e});' for e in enums(own)]
    return f"#include <stdio.h>\n#include <stddef.h>\n#include {include}\nint main(void) {{\n" + "\n".join(lines) + "\nreturn 0;\n}\n"


def output(label: str, source: str, folder: Path) -> list[str]:
    path = scratch / f"layout_{label}.c"
    path.write_text(source)
    subprocess.run(["cc", "-w", f"-I{folder}", str(path), "-o", str(path.with_suffix(""))], check=True)
    return subprocess.run([str(path.with_suffix(""))], check=True, capture_output=True, text=True).stdout.splitlines()


def same(own_text: str, own_include: str, vendor_include: str, vendor_folder: Path, label: str) -> int:
    own = output(f"{label}_own", program(own_include, own_text), abi)
    real = output(f"{label}_vendor", program(vendor_include, own_text), vendor_folder)
    wrong = [(a, b) for a, b in zip(own, real, strict=True) if a != b]
    for a, b in wrong:
        print(f"own {a}\nreal {b}", file=sys.stderr)
    return len(wrong)


def versions() -> int:
    """Every row's base and version exist as PFN_<base>_v<version> in the vendor's table of function types."""
    table = (cuda / "cudaTypedefs.h").read_text()
    wrong = 0
    for base, symbol, since, twin in re.findall(r"CUDA_FN(?:_PT[SD][SZ])?\((\w+), (\w+), (\d+)(?:, (\d+))?,", (abi / "cuda_functions.def").read_text()):
        kinds = [(since, "")] + ([(twin, "_pt[sd][sz]")] if twin else [])
        for version, suffix in kinds:
            if not re.search(rf"PFN_{base}_v{version}{suffix}\)", table) and not re.search(rf"PFN_{symbol}(_v{version})?{suffix}\)", table):
                print(f"{symbol}: no PFN_{base}_v{version}{suffix}", file=sys.stderr)
                wrong += 1
    return wrong


cuda_text = "".join((abi / f).read_text() for f in ("cuda_results.h", "cuda_enums.h", "cuda_structs.h"))
nvml_text = (abi / "nvml_abi.h").read_text()
failures = same(cuda_text, '"cuda_abi.h"', "<cuda.h>", cuda, "cuda") + same(nvml_text, '"nvml_abi.h"', "<nvml.h>", nvml, "nvml") + versions()
sys.exit(1 if failures else 0)
