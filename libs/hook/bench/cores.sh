#!/bin/sh
# Runs every case of bench-cores and adds up the errors. Usage: bench/cores.sh BUILD_FOLDER [PART OF A NAME]
BENCH=1 "$1/bench-cores" "$@" 2>&1 | awk '
    /^ok / { next }
    { print }
    / error / { for (i = 1; i < NF; i++) if ($i == "error") { e = $(i + 1); n++; e = e < 0 ? -e : e; sum += e; if (e > worst) worst = e } }
    END { printf "mean error of %d cases %.2f points (budget 1), worst %.2f\n", n, n ? sum / n : 0, worst }'
