#!/bin/sh
# The library as an object: what it exports, needs and runs when it is loaded.
lib=$1/libtessera.so
fail=0
check() { if [ "$2" = "$3" ]; then echo "ok   $1"; else echo "FAIL $1: '$2' instead of '$3'"; fail=1; fi; }
listed=$(gcc -E -P -x c -D'HOOK(s)=s@' -D'NVML_HOOK(s)=s@' src/hooks.def | tr -d ' \n' | tr '@' '\n' | grep . | sort)
exported=$(nm -D --defined-only "$lib" | awk '{print $3}' | grep -v '^dlsym$' | sort)
check "exports exactly hooks.def and dlsym" "$(printf '%s' "$exported" | md5sum)" "$(printf '%s' "$listed" | md5sum)"
check "does not need the driver or NVML" "$(readelf -d "$lib" | grep NEEDED | grep -Ec 'cuda|nvidia')" 0
check "has no constructor" "$(readelf -d "$lib" | grep -Ec 'INIT|FINI')" 0
check "does not import exit, umask or signal handlers" "$(nm -D "$lib" | grep -Ec ' U (exit|_exit|abort|umask|signal|sigaction|atexit|__cxa_atexit)(@|$)')" 0
check "hooks.def names no function twice" "$(printf '%s\n' "$listed" | uniq -d | wc -l)" 0
check "the layout table" "$("$1/tessera-hook-info" --layout | grep -c .)" 111
exit $fail
