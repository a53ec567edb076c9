# The real CUDA runtime library's whole lookup phase (where the library can be had from PyPI): every question is answered. It stops
# afterwards, at the export tables, which are not imitated.
scratch=$2
headers=${TESSERA_CUDA_HEADERS:-$scratch/headers}
library=$(find "$headers" -name 'libcudart.so.1*' 2>/dev/null | head -1)
[ -n "$library" ] || { echo "skipped: no runtime library"; exit 0; }
TESSERA_SIM_STUBS=1 TESSERA_SIM_TRACE=1 python3 - "$library" 2>"$scratch/lookups" <<'PYTHON'
import ctypes, sys
ctypes.CDLL(sys.argv[1]).cudaGetDeviceCount(ctypes.byref(ctypes.c_int()))
PYTHON
asked=$(grep -c "lookup 'cu" "$scratch/lookups")
missed=$(grep "lookup 'cu" "$scratch/lookups" | grep -vc -- '-> 0$')
[ "$asked" -gt 380 ] && [ "$missed" -eq 0 ] || { echo "$asked lookups, $missed unanswered" >&2; exit 1; }
echo "$asked lookups ok"
