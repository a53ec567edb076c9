# Sizes, offsets, values and versions of libs/hook/abi against the vendor's headers from PyPI, where they can be had. The headers stay
# in a temporary folder. Set TESSERA_CUDA_HEADERS to a folder that holds include trees already.
scratch=$2
abi=$(cd "$(dirname "$0")/../../abi" && pwd)
headers=${TESSERA_CUDA_HEADERS:-$scratch/headers}
if [ ! -d "$headers" ]; then
    mkdir -p "$headers"
    python3 -m pip download -q --no-deps --only-binary :all: -d "$headers" nvidia-cuda-runtime-cu12==12.8.90 nvidia-cuda-runtime==13.5.37 nvidia-nvml-dev==13.5.37 >/dev/null 2>&1 || { echo "skipped: no headers"; exit 0; }
    (cd "$headers" && for wheel in *.whl; do python3 -m zipfile -e "$wheel" .; done)
fi
cuda=$(dirname "$(find "$headers" -name cuda.h -not -path '*/cu13/*' | head -1)")
newest=$(find "$headers" -name cudaTypedefs.h -path '*/cu13/*' | head -1)
[ -f "$newest" ] && cp "$newest" "$cuda/cudaTypedefs.h" # sizes are of 12.8, versions of the newest
nvml=$(dirname "$(find "$headers" -name nvml.h | head -1)")
[ -f "$cuda/cuda.h" ] && [ -f "$nvml/nvml.h" ] || { echo "skipped: no headers"; exit 0; }
python3 "$(dirname "$0")/layout.py" "$abi" "$cuda" "$nvml" "$scratch" || exit 1
# A family that the hook wraps has grown: every version of it in the headers must have its row.
listed() { sed -n "s/^$1(\([A-Za-z0-9_]*\).*/\1/p" "$abi/../src/hooks.def"; }
rows=$(sed -n 's/^CUDA_FN[A-Z_]*(\([A-Za-z0-9_]*\), \([A-Za-z0-9_]*\), \([0-9]*\),* *\([0-9]*\).*/\1 \2 \3 \4/p' "$abi/cuda_functions.def")
{
    { listed HOOK; listed HOOK_PTSZ; } | sed 's/^/hook /'
    printf '%s\n' "$rows" | sed 's/^/row /'
    grep -oE 'PFN_cu[A-Za-z0-9]+_v[0-9]+(_pt[sd][sz])?\)' "$cuda/cudaTypedefs.h" | sed -E 's/PFN_(.*)_v([0-9]+)(_pt..)?\)/theirs \1 \2/'
} | awk '$1 == "hook" { hook[$2] = 1 }
    $1 == "row" { known[$2 " " $4] = known[$2 " " $5] = 1; if ($3 in hook) wrapped[$2] = 1 }
    $1 == "theirs" && ($2 in wrapped) && !(($2 " " $3) in known) { print $2 ": version " $3 " is not wrapped"; bad = 1 }
    END { exit bad }' >&2 || exit 1
echo ok
