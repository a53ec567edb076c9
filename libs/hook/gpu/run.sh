#!/bin/bash
# Measures the hook on a real GPU. Needs: driver, gcc, make, python3; PyTorch if it is there; no
# network. Figures go to $OUT/figures.txt (OUT: a temporary folder). Under 8 minutes; a step that
# fails or hangs is noted, and the rest goes on.
here=$(cd "$(dirname "$0")" && pwd)
hook=$(dirname "$here")
OUT=${OUT:-$(mktemp -d)}
mkdir -p "$OUT"
figures=$OUT/figures.txt
log=$OUT/log.txt
: >"$figures"; : >"$log"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=$work/build

note() { echo "$*" | tee -a "$figures"; }
# step NAME SECONDS COMMAND...: its lines, each behind its name
step() {
    local name=$1 limit=$2; shift 2
    echo "== $name: $*" >>"$log"
    timeout -k 5 "$limit" "$@" >"$work/out" 2>"$work/err"
    local rc=$?
    sed "s/^/$name /" "$work/out" | tee -a "$figures"
    cat "$work/err" >>"$log"
    [ $rc -eq 0 ] || note "$name FAILED rc=$rc: $(tail -n 2 "$work/err" | tr '\n' ' ')"
    return $rc
}
# limits FOLDER WORDS...: a fresh tile for the first card
limits() {
    local folder=$1; shift
    mkdir -p "$folder"
    rm -f "$folder/usage" "$folder/limits"
    "$build/tessera-limits" "$folder/limits" "card=$uuid" "$@"
}
hooked=$work/hooked # FOLDER COMMAND...: a program, because timeout cannot run a function
cat >"$hooked" <<END
#!/bin/bash
folder=\$1; shift
exec env TESSERA_LIMITS="\$folder/limits" TESSERA_USAGE="\$folder/usage" TESSERA_LOG_FILE="$OUT/hook.log" \\
    LD_PRELOAD="$build/libtessera.so" "\$@"
END
chmod +x "$hooked"

step build 120 make -C "$hook" -j4 B="$build" "$build/libtessera.so" "$build/tessera-limits" "$build/tessera-hook-info" >/dev/null
gcc -O2 -std=gnu11 -I"$hook/abi" "$here/probe.c" -o "$work/probe" -ldl 2>>"$log" || { note "probe does not build"; exit 1; }
probe=$work/probe
step machine 20 nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader
uuid=$(timeout 60 "$probe" uuid 2>>"$log")
[ -n "$uuid" ] || { note "no GPU answers"; exit 1; }
note "uuid $uuid"
per_us=$(timeout 60 "$probe" calibrate 2>>"$log")
note "calibrate iterations_per_us ${per_us:-none}"

limits "$work/m" memory=4096
step memory 60 "$hooked" "$work/m" "$probe" memory 4096
step view 30 "$hooked" "$work/m" "$probe" view
step smi 30 "$hooked" "$work/m" nvidia-smi --query-gpu=memory.total,memory.used,memory.free --format=csv,noheader
step smi_full 30 "$hooked" "$work/m" nvidia-smi >/dev/null
limits "$work/o" memory=8192 permille=990
step bare 60 "$probe" overhead
step hooked 60 "$hooked" "$work/o" "$probe" overhead
step info 10 "$build/tessera-hook-info" --limits "$work/o/limits" --usage "$work/o/usage"

# accuracy: one tenant. achieved_pct against the limit
for kernel in 50 1000 20000; do
    for cores in 25 50 75; do
        for mode in sync async; do
            limits "$work/c" memory=8192 cores=$cores
            step "cores.$cores.${kernel}us.$mode" 30 "$hooked" "$work/c" "$probe" spin "$per_us" "$kernel" 4 "$mode"
        done
    done
done
limits "$work/c" memory=8192 cores=50
step "cores.50.1000us.4streams_sum_of_overlapping" 30 "$hooked" "$work/c" "$probe" spin "$per_us" 1000 4 async 4

# two tenants, without and with an agent that measures
tenants() {
    local name=$1 a=$2 b=$3 kernel=$4 agent=$5 pa pb
    limits "$work/a" memory=8192 cores="$a"
    limits "$work/b" memory=8192 cores="$b"
    "$hooked" "$work/a" timeout 40 "$probe" spin "$per_us" "$kernel" 7 sync >"$work/a.out" 2>>"$log" & pa=$!
    "$hooked" "$work/b" timeout 40 "$probe" spin "$per_us" "$kernel" 7 sync >"$work/b.out" 2>>"$log" & pb=$!
    if [ "$agent" = agent ]; then
        sleep 0.3
        local ca cb
        ca=$(pgrep -P $pa | head -n 1); cb=$(pgrep -P $pb | head -n 1)
        timeout 30 python3 "$here/agent.py" 8 "$build/tessera-limits" \
            "a:${ca:-$pa}:$uuid:memory=8192 cores=$a:$work/a" "b:${cb:-$pb}:$uuid:memory=8192 cores=$b:$work/b" 2>>"$log"
    fi
    wait $pa $pb
    note "tenants.$name.$a/$b.${kernel}us.$agent a $(grep achieved "$work/a.out") b $(grep achieved "$work/b.out")"
    "$build/tessera-hook-info" --limits "$work/a/limits" --usage "$work/a/usage" | grep gain >>"$log"
}
for kernel in 50 1000 20000; do
    tenants two 50 50 $kernel alone
    tenants two 30 70 $kernel alone
done
tenants two 50 50 1000 agent
tenants two 30 70 20000 agent

if timeout 60 python3 -c "import torch; assert torch.cuda.is_available()" 2>>"$log"; then
    limits "$work/t" memory=6144
    limits "$work/h" memory=6144 cores=50
    for variant in eager graphs; do
        step "torch.$variant.bare" 60 python3 "$here/train.py" $variant 4
        step "torch.$variant.hooked" 60 "$hooked" "$work/t" python3 "$here/train.py" $variant 4
        step "torch.$variant.half" 60 "$hooked" "$work/h" python3 "$here/train.py" $variant 4
    done
    step torch.expandable 60 env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
        "$hooked" "$work/t" python3 "$here/train.py" eager 3
    step torch.malloc_async 60 env PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync \
        "$hooked" "$work/t" python3 "$here/train.py" eager 3
else
    note "torch is not here"
fi
[ -s "$OUT/hook.log" ] && note "the hook's log: $(wc -l <"$OUT/hook.log") lines, first: $(head -n 1 "$OUT/hook.log")"
echo "figures in $figures"
