#!/bin/sh
# No symbol newer than glibc $2 may be needed by $1.
newest=$(objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
top=$(printf '%s\nGLIBC_%s\n' "$newest" "$2" | sort -V | tail -n 1)
[ "$top" = "GLIBC_$2" ] && echo "ok   needs $newest at most" || { echo "FAIL needs $newest"; exit 1; }
