#!/bin/sh
# Runs bindings.py with $2 under the hook of build folder $1, on a tile of 1,024 MiB.
here=$(cd "$(dirname "$0")" && pwd)
"$2" -c 'import cuda.bindings, pynvml' 2>/dev/null || { echo "skip clients: cuda-bindings or nvidia-ml-py is missing"; [ "$CI" != true ]; exit; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$1/tessera-limits" "$dir/limits" card=GPU-00a2f344-95e6-3788-d92a-7bcc1d6ebf10 memory=1024
env TESSERA_LIMITS="$dir/limits" TESSERA_USAGE="$dir/usage" TESSERA_SIM_STATE="$dir/machine" \
    LD_LIBRARY_PATH="$1/sim" LD_PRELOAD="$1/libtessera.so" "$2" "$here/bindings.py"
