#!/bin/sh
# Leaves out one wrapper after another: some case that asks for it must fail. First it is found out which case asks for which.
# Usage: bypass.sh BUILD_FOLDER [SYMBOL...]
build=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TEST_HOOK=points/libtessera.so
TESSERA_ASKED=$scratch/asked "$build/cases" "$build" 2>/dev/null | tee "$scratch/all" | tail -1
awk '$1 == "ok" { print $2, $3 }' "$scratch/all" | sort -k2n >"$scratch/times"
symbols=${*:-$(gcc -E -P -x c -D'HOOK(s)=s@' -D'NVML_HOOK(s)=s@' "$(dirname "$0")/../src/hooks.def" | tr -d ' \n' | tr '@' '\n' | grep .)}
unnoticed=0
for symbol in $symbols; do
    noticed=
    grep "^$symbol " "$scratch/asked" | cut -d' ' -f2 | sort -u >"$scratch/askers"
    for case in $(awk 'NR == FNR { asks[$1] = 1; next } $1 in asks { print $1 }' "$scratch/askers" "$scratch/times"); do
        if TESSERA_BYPASS=$symbol timeout 60 "$build/cases" "$build" "=$case" 2>/dev/null | grep -q '^FAIL\|^0 of 0'; then
            noticed=$case
            break
        fi
    done
    echo "${noticed:+ok   }${noticed:-NOT NOTICED} $symbol"
    [ -n "$noticed" ] || unnoticed=$((unnoticed + 1))
done
echo "$unnoticed wrappers could be left out without a case that fails"
[ "$unnoticed" = 0 ]
