#!/bin/sh
# Runs every test program against a machine of its own; the first line of a test's source ("/* sim: ...") configures the machine.
out=$1
here=$(dirname "$0")
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
LD_LIBRARY_PATH=$(cd "$out" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
unset CUDA_VISIBLE_DEVICES TESSERA_SIM_DEVICES TESSERA_SIM_KILL_AT
failed=0
for source in "$here"/*.c; do
    name=$(basename "$source" .c)
    export TESSERA_SIM_STATE="$scratch/$name" TESSERA_SIM_CONFIG="$(sed -n '1s,^/\* sim: \([^*]*\).*,\1,p' "$source")"
    printf '%-45s ' "$name"
    if timeout 300 "$out/tests/$name" 2>"$scratch/error"; then echo ok; else echo FAILED; cat "$scratch/error"; failed=1; fi
    rm -f "$scratch/$name"*
done
for script in "$here"/*_check.sh; do
    printf '%-45s ' "$(basename "$script" .sh)"
    said=$(TESSERA_SIM_STATE="$scratch/script" TESSERA_SIM_CONFIG= timeout 300 sh "$script" "$out" "$scratch" 2>"$scratch/error") || { said="$said FAILED"; failed=1; }
    echo "$said"
    cat "$scratch/error"
    # where everything can be had, a skipped check is a failed one
    case $said in skipped*) [ "$CI" != true ] || failed=1 ;; esac
    rm -f "$scratch"/script*
done
exit $failed
