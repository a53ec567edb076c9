#!/bin/sh
# Overhead of the hook over the bare stub driver: hooked minus bare, in nanoseconds; then the same
# with several processes at once. Usage: bench/hook.sh [BUILD_FOLDER] [PROCESSES]
build=$(cd "${1:-build}" && pwd)
processes=${2:-8}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LD_LIBRARY_PATH="$build/stub"
"$build/tessera-limits" "$dir/limits" card=GPU-00a2f344-95e6-3788-d92a-7bcc1d6ebf10 memory=8192 permille=900
"$build/bench-hook" >"$dir/bare"
hooked() { TESSERA_LIMITS="$dir/limits" TESSERA_USAGE="$dir/usage" LD_PRELOAD="$build/libtessera.so" "$build/bench-hook"; }
hooked >"$dir/hooked"
echo "call bare hooked over"
awk 'NR==FNR {bare[$1]=$2; next} {printf "%s %.1f %.1f %.1f\n", $1, bare[$1], $2, $2-bare[$1]}' "$dir/bare" "$dir/hooked"
i=0
while [ "$i" -lt "$processes" ]; do hooked >"$dir/many.$i" & i=$((i + 1)); done
wait
echo "with $processes processes at once (mean)"
cat "$dir"/many.* | awk '{n[$1]++; s[$1]+=$2} END {for (k in n) printf "%s %.1f\n", k, s[k]/n[k]}' | sort
