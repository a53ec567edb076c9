#!/bin/sh
# Overhead of the hook over the bare stub driver, in nanoseconds, against its budgets; the same with
# several processes at once; and what a process costs that never calls the driver.
# Usage: bench/hook.sh [BUILD_FOLDER] [PROCESSES]
build=$(cd "${1:-build}" && pwd)
processes=${2:-8}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LD_LIBRARY_PATH="$build/stub"
"$build/tessera-limits" "$dir/limits" card=GPU-00a2f344-95e6-3788-d92a-7bcc1d6ebf10 memory=8192 permille=900
bare() { "$build/bench-hook" "$@"; }
hooked() { TESSERA_LIMITS="$dir/limits" TESSERA_USAGE="$dir/usage" LD_PRELOAD="$build/libtessera.so" "$build/bench-hook" "$@"; }
table() {
    awk 'BEGIN { budget["launch"] = 20; budget["alloc_free_many"] = 300; budget["meminfo"] = 15 }
        NR == FNR { bare[$1] += $2; n[$1]++; next }
        { hooked[$1] += $2; m[$1]++; if (!($1 in seen)) { seen[$1] = 1; order[++k] = $1 } }
        END { printf "%-16s %10s %10s %10s %8s\n", "call", "bare", "hooked", "over", "budget"
            for (i = 1; i <= k; i++) { c = order[i]; if (c == "live") continue
                b = bare[c] / n[c]; h = hooked[c] / m[c]
                printf "%-16s %10.1f %10.1f %10.1f %8s %s\n", c, b, h, h - b, c in budget ? budget[c] : "-",
                    c in budget ? (h - b <= budget[c] ? "ok" : "OVER") : "" } }' "$1" "$2"
}
bare >"$dir/bare"
hooked >"$dir/hooked"
echo "one process, nanoseconds ($(grep live "$dir/hooked") allocations in alloc_free_many)"
table "$dir/bare" "$dir/hooked"
for kind in bare hooked; do
    i=0
    while [ "$i" -lt "$processes" ]; do $kind >"$dir/$kind.$i" & i=$((i + 1)); done
    wait
    cat "$dir/$kind".[0-9]* >"$dir/$kind.all"
done
echo "$processes processes at once on $(nproc) cores, mean of all; the budgets are those of one"
table "$dir/bare.all" "$dir/hooked.all"
polled() { # in percent of a core
    cat "$dir/poll.$1".* | awk '/^polling/ { sum += $2 } END { printf "%.2f", sum / 20e9 * 100 }'
}
polling=50 # of each kind, at the same time: what else the machine does is the same for both
for round in 1 2 3; do
    i=0
    while [ "$i" -lt "$polling" ]; do
        bare poll 20 >"$dir/poll.bare.$i" &
        hooked poll 20 >"$dir/poll.hooked.$i" &
        i=$((i + 1))
    done
    wait
    echo "$polling processes that ask for free memory every 10 ms: $(polled bare) % of a core bare, $(polled hooked) % hooked (budget: 1 more)"
done
exec_ns() { # of a process that never calls the driver
    a=$(date +%s%N); i=0
    while [ "$i" -lt 500 ]; do /bin/true; i=$((i + 1)); done
    echo $((($(date +%s%N) - a) / 500))
}
without=$(exec_ns)
with=$(export LD_PRELOAD="$build/libtessera.so"; exec_ns)
echo "a process that never calls the driver: $((without / 1000)) us bare, $((with / 1000)) us hooked"
