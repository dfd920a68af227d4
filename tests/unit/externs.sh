#!/bin/sh
# SPDX-License-Identifier: MIT
# device/externs.c for tool chains that link PTX or bitcode: the same names come out as definitions that others can link,
# as many as the file says, and nothing is left undefined. By nvcc and by a clang for gfx942, each where it is found; no
# device is needed. Ends 0, 1, or 77 where there is neither.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
source=$root/device/externs.c
least=280
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
made=
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if [ -x "$nvcc" ]; then
    "$nvcc" -x cu -std=c++17 -O3 -arch=compute_90 -rdc=true -ptx "$source" -o "$folder/ptx"
    sed -n 's/^\.visible \.func.* \(shmemd_extern_[a-z0-9_]*\)(.*/\1/p' "$folder/ptx" | sort >"$folder/ptx.names"
    made="$made ptx"
    grep '^\.extern \.func' "$folder/ptx" && fail "the PTX needs functions of others"
fi

for clang in clang-19 clang-20 clang-21 clang-22 /opt/rocm/llvm/bin/clang; do
    command -v "$clang" >/dev/null || continue
    bin=$(dirname "$(readlink -f "$(command -v "$clang")")") # by its own folder, with the tools of its version
    [ -x "$bin/llvm-nm" ] || continue
    "$bin/clang" -x hip -std=c++17 --cuda-device-only -fgpu-rdc -nogpulib -nogpuinc -O3 --offload-arch=gfx942 -emit-llvm \
        -c "$source" -o "$folder/bc"
    "$bin/llvm-nm" "$folder/bc" | sed -n 's/.* [TW] \(shmemd_extern_.*\)/\1/p' | sort >"$folder/bc.names"
    made="$made bc"
    "$bin/llvm-nm" --undefined-only "$folder/bc" | grep . && fail "the bitcode needs functions of others"
    break
done

if [ -z "$made" ]; then
    echo "skipped: there is neither nvcc (CUDACXX, PATH, /usr/local/cuda/bin) nor a clang for gfx942 with its llvm-nm"
    exit 77
fi
for kind in $made; do
    n=$(wc -l <"$folder/$kind.names")
    echo "$kind: $n functions"
    [ "$n" -ge $least ] || fail "$kind: $n functions that others can link, expected at least $least"
done
if [ "$made" = " ptx bc" ]; then
    diff "$folder/ptx.names" "$folder/bc.names" || fail "PTX and bitcode have different names"
fi
[ $failures -eq 0 ]
