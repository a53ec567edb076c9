#!/bin/sh
# Runs check.py on the simulated driver of build folder $1 with Python $2, without the hook and under it.
here=$(cd "$(dirname "$0")" && pwd)
failed=0
for hook in "" "$1/libtessera.so"; do
    dir=$(mktemp -d)
    "$1/tessera-limits" "$dir/limits" card=GPU-00a2f344-95e6-3788-d92a-7bcc1d6ebf10 memory=1024
    share=2048
    [ -z "$hook" ] || share=1024
    env TESSERA_LIMITS="$dir/limits" TESSERA_USAGE="$dir/usage" TESSERA_SIM_STATE="$dir/machine" TESSERA_SIM_CONFIG="memory=2g context=300m cuda=13020" \
        LD_LIBRARY_PATH="$1/sim:$1/cudart" LD_PRELOAD="$hook" "$2" "$here/check.py" $share && echo "ok   cudart ${hook:+under the hook}" || { echo "FAIL cudart ${hook:+under the hook}"; failed=1; }
    rm -rf "$dir"
done
exit $failed
