#!/bin/sh
# SPDX-License-Identifier: MIT
# Compile checks of shmem_device.hpp: alone and twice, as C++11 and C++20, with all warnings as errors; and what must be
# refused is, with the sentence that stands behind its case in refused_kernels.cpp.
# usage: kernels.sh COMPILER INCLUDE_DIR
set -u
compiler=$1
include=$2
here=$(dirname "$0")
command -v "$compiler" >/dev/null || { echo "skipped: $compiler is not installed"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
checks=0
warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror"

printf '#include <shmem_device.hpp>\n#include <shmem_device.hpp>\nextern int alone;\n' >"$dir/alone.cpp"
for standard in c++11 c++20; do
    for file in "$dir/alone.cpp" "$here/refused_kernels.cpp"; do
        checks=$((checks + 1))
        # shellcheck disable=SC2086
        "$compiler" -std=$standard $warnings -I"$include" -fsyntax-only "$file" 2>"$dir/errors" && continue
        echo "kernels: $file does not compile with $compiler -std=$standard:"
        head -n 10 "$dir/errors"
        failed=1
    done
done

# Each case by itself, since one refused template may hide another. gcc compiles the header once for all.
printf '#include "%s/shmem_device.hpp"\n' "$(cd "$include" && pwd)" >"$dir/shmem_device.hpp"
case $compiler in
*clang*) ;;
*) "$compiler" -std=c++17 -x c++-header "$dir/shmem_device.hpp" -o "$dir/shmem_device.hpp.gch" || failed=1 ;;
esac
sed -n 's,^#if CASE == \([0-9]*\) // ,\1 ,p' "$here/refused_kernels.cpp" >"$dir/cases"
while read -r number sentence; do
    checks=$((checks + 1))
    if "$compiler" -std=c++17 -I"$dir" -fsyntax-only -DCASE="$number" "$here/refused_kernels.cpp" 2>"$dir/errors"; then
        echo "kernels: case $number compiles with $compiler: $sentence"
        failed=1
    elif ! grep -E 'error' "$dir/errors" | grep -qE "$sentence"; then
        echo "kernels: case $number is refused by $compiler without \"$sentence\":"
        grep error "$dir/errors" | head -n 5
        failed=1
    elif [ "$(grep -c 'error' "$dir/errors")" -gt 3 ]; then
        echo "kernels: case $number is refused by $compiler with more than 3 errors:"
        grep error "$dir/errors" | head -n 8
        failed=1
    fi
done <"$dir/cases"
[ -s "$dir/cases" ] || { echo "kernels: no case found"; failed=1; }
echo "$checks checks with $compiler"
exit $failed
