#!/bin/sh
# No symbol newer than glibc $2 may be needed by $1, built for whatever machine.
newest=$(LC_ALL=C readelf -VW "$1" | grep -o 'Name: GLIBC_[0-9.]*' | sed 's/Name: //' | sort -uV | tail -n 1)
top=$(printf '%s\nGLIBC_%s\n' "$newest" "$2" | sort -V | tail -n 1)
[ -n "$newest" ] && [ "$top" = "GLIBC_$2" ] && echo "ok   $1 needs $newest at most" || { echo "FAIL $1 needs ${newest:-nothing that is known}"; exit 1; }
