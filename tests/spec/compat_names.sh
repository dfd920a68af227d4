#!/bin/sh
# SPDX-License-Identifier: MIT
# Each name of LIBRARY.names: those that are there can be named in C++ for several types; those that are missing, and
# only those, are refused with a sentence that has the name; and docs/LIBRARY.md has each of them. The file says in lines
# that begin with #: what to include, the names' scope and what GROUP stands for.
# usage: compat_names.sh LIBRARY COMPILER ROOT
set -u
library=$1
compiler=$2
root=$3
names=$root/tests/spec/$library.names
command -v "$compiler" >/dev/null || { echo "skipped: $compiler is not installed"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
said() { sed -n "s/^# $1: //p" "$names"; }
scope=$(said scope)
groups=$(said groups)

# The names of one family.
expand() {
    case $1 in
    nvshmemx_TYPE_atomic_*add) types="float" ;;
    rocshmem_TYPE_wait_until | rocshmem_TYPE_test) types="int size uint64 float short" ;;
    *atomic_BIT | *atomic_fetch_BIT) types="uint uint64" ;;
    *_atomic_compare_swap | *atomic_*inc | *_atomic_*add | *wait_until* | *test*) types="int size uint64" ;;
    *atomic_fetch | *atomic_set | *atomic_swap) types="float int64" ;;
    *maxloc*) types="double2" ;;
    *OP_*reduce*) types="uint int16" ;;
    *) types="float int64 uchar" ;;
    esac
    case $1 in *OP_*reduce*) ops="sum min xor" ;; *) ops=sum ;; esac
    for type in $types; do
        for op in $ops; do
            for group in $groups; do
                echo "$1" | sed "s/TYPE/$type/; s/_OP_/_${op}_/; s/SIZE/32/; s/BIT/or/; s/GROUP/$group/"
            done
        done
    done | sort -u
}

printf '#include <%s>\n' "$(said include)" >"$dir/there.cpp"
cp "$dir/there.cpp" "$dir/called.cpp"
: >"$dir/wanted"
: >"$dir/unwanted"
grep -v '^#' "$names" >"$dir/list"
while read -r state family; do
    grep -q "\`$family\`" "$root/docs/$library.md" || { echo "docs/$library.md has no $family"; failed=1; }
    for name in $(expand "$family"); do
        case $state in
        same | differs)
            echo "namespace there { using $scope$name; }" >>"$dir/there.cpp"
            echo "$name" >>"$dir/unwanted"
            ;;
        missing) echo "$name" >>"$dir/wanted" ;;
        *) echo "$library.names: $state is no state" && failed=1 ;;
        esac
        echo "inline void use_$name() { $scope$name(1); }" >>"$dir/called.cpp"
    done
done <"$dir/list"
check() { "$compiler" -std=c++17 -D_GNU_SOURCE -I"$root/include/compat" -fsyntax-only "$dir/$1.cpp" 2>"$dir/errors"; }
if ! check there; then
    grep error "$dir/errors" | head -n 20
    failed=1
fi
check called
grep -o '[a-z0-9_]* is not in Isomer: ' "$dir/errors" | sed 's/ .*//' | sort -u >"$dir/refused"
while read -r name; do
    grep -qx "$name" "$dir/refused" || { echo "$name is not refused with a sentence"; failed=1; }
done <"$dir/wanted"
while read -r name; do
    if grep -qx "$name" "$dir/refused"; then
        echo "$name is refused"
        failed=1
    fi
done <"$dir/unwanted"
echo "$(wc -l <"$dir/unwanted") names are there, $(wc -l <"$dir/wanted") are refused"
exit $failed
