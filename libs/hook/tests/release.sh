#!/bin/sh
# The library as it is released: built by zig for glibc 2.17 on both machines, its symbol versions checked,
# and the one for this machine run. $1 the build folder, $2 Python. With "fetch" as $3 or in CI pip fetches
# zig into the build folder first; else, without it, the test is skipped, and says so.
here=$(cd "$(dirname "$0")/.." && pwd)
place=$1/ziglang
[ "$CI" = true ] && fetch=fetch || fetch=$3
if "$2" -c 'import ziglang' 2>/dev/null; then
    :
elif [ -d "$place" ] || { [ "$fetch" = fetch ] && "$2" -m pip install -q --no-deps --target "$place" ziglang; }; then
    PYTHONPATH=$place
    export PYTHONPATH
else
    [ "$fetch" = fetch ] && { echo "FAIL zig cannot be had"; exit 1; }
    echo "skip release: no zig; 'make clients' fetches it"
    exit 0
fi
make -s -C "$here" B="$1" ZIG="$2 -m ziglang cc" release aarch64 || exit 1
[ "$(uname -m)" = x86_64 ] || exit 0
TEST_HOOK=release/libtessera.so "$1/cases" "$1" rtld dlsym procaddress allocation_stops launched_by second_copy
