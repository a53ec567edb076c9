# Sizes, offsets, values and versions of libs/hook/abi against the vendor's headers from PyPI, where they can be had. The headers stay
# in a temporary folder. Set TESSERA_CUDA_HEADERS to a folder that holds include trees already.
scratch=$2
abi=$(cd "$(dirname "$0")/../../abi" && pwd)
headers=${TESSERA_CUDA_HEADERS:-$scratch/headers}
if [ ! -d "$headers" ]; then
    mkdir -p "$headers"
    python3 -m pip download -q --no-deps --only-binary :all: -d "$headers" nvidia-cuda-runtime-cu12==12.8.90 nvidia-cuda-runtime==13.5.37 nvidia-nvml-dev-cu12==12.8.90 >/dev/null 2>&1 || { echo "skipped: no headers"; exit 0; }
    (cd "$headers" && for wheel in *.whl; do python3 -m zipfile -e "$wheel" .; done)
fi
cuda=$(dirname "$(find "$headers" -name cuda.h -not -path '*/cu13/*' | head -1)")
newest=$(dirname "$(find "$headers" -name cudaTypedefs.h -path '*/cu13/*' | head -1)") # sizes are of 12.8, versions of the newest
[ -f "$newest/cudaTypedefs.h" ] || newest=$cuda
nvml=$(dirname "$(find "$headers" -name nvml.h | head -1)")
[ -f "$cuda/cuda.h" ] && [ -f "$nvml/nvml.h" ] || { echo "skipped: no headers"; exit 0; }
python3 "$(dirname "$0")/layout.py" "$abi" "$cuda" "$nvml" "$scratch" "$newest" || exit 1
echo ok
