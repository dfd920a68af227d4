#!/bin/sh
# SPDX-License-Identifier: MIT
# The library exports every name of symbols.txt as a weak symbol, its pshmem_ form as a strong one at the same address,
# likewise the extensions that shmemx.h and its two parts declare, and nothing else; the headers declare all of these
# names.
# usage: symbols.sh LIBRARY.so COMPILER INCLUDE_DIR
set -u
library=$1
compiler=$2
include=$3
list=$(dirname "$0")/symbols.txt
failed=0
command -v nm >/dev/null || { echo "skipped: nm is not installed"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
LC_ALL=C
export LC_ALL

# expect WHAT FILE: the file names what is wrong, one thing a line; it must be empty.
expect() {
    [ -s "$2" ] || return 0
    echo "symbols: $1: $(wc -l <"$2") names, the first are"
    head -n 10 "$2"
    failed=1
}

nm -D --defined-only "$library" | awk '$2 != "A"' | sed 's/@.*//' >"$dir/nm" || exit 1
awk '{print $3}' "$dir/nm" | sort >"$dir/exported"
{
    cat "$list"
    grep -ohE '\bshmemx_[a-z0-9_]+\(' "$include/shmemx.h" "$include/shmemx_launch.h" | tr -d '('
    # The others of shmemx_coll.h are inline.
    sed -nE 's/^(int|size_t) (shmemx_[a-z0-9_]+)\(.*/\2/p' "$include/shmemx_coll.h"
} | sort -u >"$dir/names"
sed 's/^/p/' "$dir/names" >"$dir/pnames"
sort "$dir/names" "$dir/pnames" >"$dir/wanted"

comm -13 "$dir/exported" "$dir/wanted" >"$dir/missing"
expect "missing in the library" "$dir/missing"
# What kernels on the CPU device call is exported too (shmemd_cpu_), for them alone.
comm -23 "$dir/exported" "$dir/wanted" | grep -v '^shmemd_cpu_' >"$dir/extra"
expect "exported, but not public" "$dir/extra"

# Weak, so that a tool replaces it, and one function with its second name.
awk 'NR == FNR { address[$3] = $1; type[$3] = $2; next }
     $1 in type && type[$1] !~ /[Ww]/ { print $1 ": type " type[$1] }
     $1 in type && address[$1] != address["p" $1] { print $1 ": not at the address of p" $1 }' \
    "$dir/nm" "$dir/names" >"$dir/not_weak"
expect "not a weak alias of the second name" "$dir/not_weak"
awk 'NR == FNR { type[$3] = $2; next } $1 in type && type[$1] != "T" { print $1 ": type " type[$1] }' \
    "$dir/nm" "$dir/pnames" >"$dir/not_strong"
expect "second name that is not a strong symbol" "$dir/not_strong"

# A program asks for a version of each name, so that a later library can keep the old meaning beside a new one.
nm -D --defined-only "$library" | awk '$2 != "A" && $3 !~ /@@ISOMER_[0-9.]+$/ { print $3 }' >"$dir/no_version"
expect "without a version" "$dir/no_version"

# Bindings of other languages learn the size of each public struct.
sed -nE 's/^\} (shmemx?_[a-z_]+_t);.*/\1/p' "$include"/shmem.h "$include"/shmemx*.h >"$dir/structs"
{
    printf '#include <shmemx.h>\n#include <stdio.h>\nint main(void)\n{\n'
    sed 's/.*/if (shmemx_struct_bytes("&") != sizeof(&)) puts("&");/' "$dir/structs"
    printf 'return shmemx_version() != ISOMER_VERSION || shmemx_struct_bytes("none") + shmemx_struct_bytes(NULL) != 0;\n}\n'
} >"$dir/structs.c"
folder=$(cd "$(dirname "$library")" && pwd)
$compiler -std=c11 -I"$include" "$dir/structs.c" -o "$dir/sizes" "$library" -Wl,-rpath,"$folder" &&
    "$dir/sizes" >"$dir/unknown" || echo "the program about structs failed" >>"$dir/unknown"
expect "structs whose size shmemx_struct_bytes does not know" "$dir/unknown"

# Declared, and linked: a table of all addresses.
{
    printf '#include <shmemx.h>\n#include <pshmem.h>\n#include <stdio.h>\n'
    printf 'typedef void any(void);\n#define F(name) (any *)(name),\n'
    printf 'any *const table[] = {\n'
    sed 's/.*/F(&)/' "$dir/wanted"
    printf '};\nint main(void)\n{\n    printf("%%zu\\n", sizeof table / sizeof table[0]);\n    return 0;\n}\n'
} >"$dir/table.c"
folder=$(cd "$(dirname "$library")" && pwd)
if ! $compiler -std=c11 -Wall -Wno-cast-function-type -Werror -I"$include" "$dir/table.c" -o "$dir/table" \
    "$library" -Wl,-rpath,"$folder" 2>"$dir/errors"; then
    echo "symbols: a listed name is not declared, or does not link:"
    head -n 10 "$dir/errors"
    failed=1
elif [ "$("$dir/table")" != "$(wc -l <"$dir/wanted" | tr -d ' ')" ]; then
    echo "symbols: entries of the table, expected $(wc -l <"$dir/wanted"), seen $("$dir/table")"
    failed=1
fi
exit $failed
