#!/bin/sh
# The real runtime libraries under the hook of build folder $1, with Python $2. With "fetch" as $3
# or in CI they are downloaded by pip into the build folder first; else, without them, the test is
# skipped, and says so.
here=$(cd "$(dirname "$0")" && pwd)
wheels=$1/runtime
[ "$CI" = true ] && fetch=fetch || fetch=$3
failed=0
# package==version, the CUDA version of the driver that it is run on
for want in nvidia-cuda-runtime-cu11==11.8.89/12080 nvidia-cuda-runtime-cu12==12.1.105/12080 \
    nvidia-cuda-runtime-cu12==12.8.90/12080 nvidia-cuda-runtime==13.0.48/13000; do
    package=${want%/*}
    place=$wheels/$package
    if [ "$fetch" = fetch ] && [ ! -d "$place" ]; then
        mkdir -p "$place.part"
        if "$2" -m pip download -q --no-deps -d "$place.part" "$package" && "$2" -c 'import sys, zipfile, glob
for wheel in glob.glob(sys.argv[1] + "/*.whl"): zipfile.ZipFile(wheel).extractall(sys.argv[1])' "$place.part"; then
            mv "$place.part" "$place"
        else
            echo "FAIL $package cannot be had"
            failed=1
        fi
    fi
    library=$(find "$place" -name 'libcudart.so.1*' 2>/dev/null | head -n 1)
    [ -n "$library" ] || { echo "skip $package: 'make clients' fetches it"; continue; }
    dir=$(mktemp -d)
    "$1/tessera-limits" "$dir/limits" card=GPU-00a2f344-95e6-3788-d92a-7bcc1d6ebf10 memory=1024 cores=50
    env TESSERA_LIMITS="$dir/limits" TESSERA_USAGE="$dir/usage" TESSERA_SIM_STATE="$dir/machine" \
        TESSERA_SIM_CONFIG="cuda=${want#*/}" TESSERA_SIM_STUBS=1 TESSERA_SIM_TRACE=1 LD_LIBRARY_PATH="$1/sim" \
        LD_PRELOAD="$1/libtessera.so" "$2" "$here/runtime.py" "$library" "$package" || { echo "FAIL $package"; failed=1; }
    rm -rf "$dir"
done
exit $failed
