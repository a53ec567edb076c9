# What the libraries show to the world: only cu* and nvml*, every function of the lists, the right sonames, bound to themselves.
out=$1
for pair in "libcuda cu" "libnvidia-ml nvml"; do
    set -- $pair
    lib=$out/$1.so.1
    nm -D --defined-only "$lib" | awk -v p="^$2[A-Z]" '$3 !~ p {print "strange export " $3; bad = 1} END {exit bad}' || exit 1
    readelf -d "$lib" | grep -q "SONAME.*\[$1.so.1\]" || { echo "soname of $lib" >&2; exit 1; }
    readelf -d "$lib" | grep -q SYMBOLIC || { echo "$lib is not -Bsymbolic" >&2; exit 1; }
done
names=$(sed -n 's/^NVML_FN(\([A-Za-z0-9_]*\),.*/\1/p' "$(dirname "$0")/../../abi/nvml_functions.def")
for name in $names nvmlErrorString; do # the CUDA list is complete by its table, which would not link otherwise
    nm -D --defined-only "$out/libnvidia-ml.so.1" | grep -q " T $name\$" || { echo "no $name" >&2; exit 1; }
done
echo ok
