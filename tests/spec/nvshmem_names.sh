#!/bin/sh
# SPDX-License-Identifier: MIT
# Each name of nvshmem.names: those that are there can be named in C++ for several types; those that are missing are
# refused with a sentence that has the name; and docs/nvshmem.md has each of them.
# usage: nvshmem_names.sh COMPILER ROOT
set -u
compiler=$1
root=$2
names=$root/tests/spec/nvshmem.names
command -v "$compiler" >/dev/null || { echo "skipped: $compiler is not installed"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# The names of one family.
expand() {
    case $1 in
    *atomic_BIT | *atomic_fetch_BIT) types="uint uint64" ;;
    *_atomic_compare_swap | *atomic_*inc | nvshmem_*atomic_*add | *wait_until* | *test*) types="int size uint64" ;;
    nvshmemx_TYPE_atomic_*add) types="float" ;;
    *atomic_fetch | *atomic_set | *atomic_swap) types="float int64" ;;
    *maxloc*) types="double2" ;;
    *OP_reduce*) types="uint int16" ;;
    *) types="float int64 uchar" ;;
    esac
    case $1 in *OP_reduce*) ops="sum min xor" ;; *) ops=sum ;; esac
    for type in $types; do
        for op in $ops; do
            for group in warp block; do
                echo "$1" | sed "s/TYPE/$type/; s/_OP_/_${op}_/; s/SIZE/32/; s/BIT/or/; s/GROUP/$group/"
            done
        done
    done | sort -u
}

printf '#include <nvshmemx.h>\n' >"$dir/there.cpp"
cp "$dir/there.cpp" "$dir/missing.cpp"
grep -v '^#' "$names" >"$dir/list"
while read -r state family; do
    grep -q "\`$family\`" "$root/docs/nvshmem.md" || { echo "docs/nvshmem.md has no $family"; failed=1; }
    for name in $(expand "$family"); do
        case $state in
        same | differs) echo "auto use_$name = &$name;" >>"$dir/there.cpp" ;;
        missing | cuda)
            echo "inline void use_$name() { $name(1); }" >>"$dir/missing.cpp"
            echo "$name" >>"$dir/wanted"
            ;;
        *) echo "nvshmem.names: $state is no state" && failed=1 ;;
        esac
    done
done <"$dir/list"
if ! "$compiler" -std=c++17 -D_GNU_SOURCE -I"$root/include/compat" -fsyntax-only "$dir/there.cpp" 2>"$dir/errors"; then
    grep error "$dir/errors" | head -n 20
    failed=1
fi
"$compiler" -std=c++17 -D_GNU_SOURCE -I"$root/include/compat" -fsyntax-only "$dir/missing.cpp" 2>"$dir/errors"
while read -r name; do
    grep -q "$name is not in Isomer: " "$dir/errors" || { echo "$name is not refused with a sentence"; failed=1; }
done <"$dir/wanted"
echo "$(grep -c '^auto' "$dir/there.cpp") names are there, $(wc -l <"$dir/wanted") are refused"
exit $failed
