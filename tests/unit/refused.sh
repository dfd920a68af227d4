#!/bin/sh
# SPDX-License-Identifier: MIT
# What must not compile: a line added to the tables of include/shmem_types.h without the code that belongs to it. A new
# operator without a body is not another operator, a new real type without kernels is not an integer. Each is tried in a
# copy of the sources, which compiles as it stands; the compiler must refuse it and name what is missing.
# usage: refused.sh [COMPILER]        ends 0 or 1
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
compiler=${1:-cc}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r "$root/include" "$root/bootstrap" "$root/shmem" "$root/device" "$root/coll" "$folder"
types=$folder/include/shmem_types.h
cp "$types" "$folder/types"
failures=0

# compiles FILE: its errors go to $folder/errors
compiles() {
    "$compiler" -std=gnu11 -D_GNU_SOURCE -DISO_VERSION='"0"' -I"$folder/include" -fsyntax-only "$folder/$1" \
        2>"$folder/errors"
}

# refused FILE WORD ROW NEW: with the row NEW behind ROW in the tables FILE does not compile, and the errors name WORD.
refused() {
    awk -v row="X($3," -v new="$4" '{ print } index($0, row) { print "    X(" new ", __VA_ARGS__) \\" }' "$folder/types" >"$types"
    if [ "$(wc -l <"$types")" != $(($(wc -l <"$folder/types") + 1)) ]; then
        echo "FAILED: $3 is not in one line of include/shmem_types.h"
        failures=$((failures + 1))
    elif compiles "$1"; then
        echo "FAILED: $1 compiles with $4"
        failures=$((failures + 1))
    elif ! grep -q "$2" "$folder/errors"; then
        echo "FAILED: no error of $1 with $4 names $2:"
        grep 'error:' "$folder/errors" | head -5
        failures=$((failures + 1))
    fi
    cp "$folder/types" "$types"
}

printf '#include <shmem_device.h>\n' >"$folder/kernel.c"
printf '#include "coll/host/reduce_op.h"\n' >"$folder/host.c"
for file in kernel.c host.c coll/host/coll_reduce.c; do
    compiles $file || { echo "FAILED: $file does not compile as it stands:"; head -5 "$folder/errors"; exit 1; }
done

refused kernel.c ISOD_INTEGER_avg_reduce max_reduce 'avg_reduce, avg_to_all, LOGIC'
refused kernel.c ISOD_REAL_avg_reduce max_reduce 'avg_reduce, avg_to_all, MINMAX'
refused kernel.c isod_c32_avg_reduce max_reduce 'avg_reduce, avg_to_all, SUM'
for table in LOGIC MINMAX SUM; do
    refused host.c apply_avg_reduce max_reduce "avg_reduce, avg_to_all, $table"
done
for type in _Float16 __float128 __int128; do
    if echo "$type x;" | "$compiler" -fsyntax-only -x c - 2>/dev/null; then
        refused coll/host/coll_reduce.c 'no reduction kernels for the type fresh\|CHECK_KERNELS' char \
            "fresh, $type, AMO_NONE, RED_ARITH, OLD_NONE"
    fi
done
[ $failures -eq 0 ]
