#!/bin/sh
# SPDX-License-Identifier: MIT
# device/externs.c for tool chains that link PTX or bitcode: the same names come out as definitions that others can link,
# as many as the file says, and nothing is left undefined. By nvcc, and by a clang for gfx942 and for sm_90 (without any
# header of CUDA), each where it is found; no device is needed. A compiler for a device that has no target must fail: it
# would make an empty file. Ends 0, 1, or 77 where there is no such compiler.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
source=$root/device/externs.c
least=340
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
    sed -n 's/^\.visible \.func.* \(shmemd_\(extern\|program\)_[a-z0-9_]*\)(.*/\1/p' "$folder/ptx" | sort >"$folder/ptx.names"
    made="$made ptx"
    grep '^\.extern \.func' "$folder/ptx" && fail "the PTX needs functions of others"
fi

has_target() { "$bin/clang" -print-targets | grep -q "^ *$1 "; } # ROCm's clang has few
# bitcode LANGUAGE OPTIONS...: by the clang in $bin
bitcode() {
    kind=bc-$1
    "$bin/clang" -x "$@" -std=c++17 --cuda-device-only -fgpu-rdc -O3 -emit-llvm -c "$source" -o "$folder/$kind"
    "$bin/llvm-nm" "$folder/$kind" | sed -n 's/.* [TW] \(shmemd_\(extern\|program\)_.*\)/\1/p' | sort >"$folder/$kind.names"
    made="$made $kind"
    "$bin/llvm-nm" --undefined-only "$folder/$kind" | grep . && fail "the bitcode of $1 needs functions of others"
    return 0
}

for clang in clang-19 clang-20 clang-21 clang-22 /opt/rocm/llvm/bin/clang; do
    command -v "$clang" >/dev/null || continue
    bin=$("$clang" -print-resource-dir)/../../../bin # with the tools of its version; the name may be a compiler cache's
    [ -x "$bin/llvm-nm" ] || continue
    bitcode hip -nogpulib -nogpuinc --offload-arch=gfx942
    has_target nvptx64 && bitcode cuda -nocudalib -nocudainc --cuda-gpu-arch=sm_90 -Wno-pass-failed -Wno-unknown-cuda-version
    for triple in nvptx64-nvidia-cuda amdgcn-amd-amdhsa spirv64; do
        has_target ${triple%%-*} || continue
        if "$bin/clang" --target=$triple -nogpulib -ffreestanding -fsyntax-only "$source" 2>"$folder/errors"; then
            fail "C for $triple compiles: to which target?"
        elif ! grep -q 'error:.*no target for this compiler' "$folder/errors"; then
            fail "C for $triple fails, but not for the target:"
            cat "$folder/errors"
        fi
    done
    break
done

if [ -z "$made" ]; then
    echo "skipped: there is neither nvcc (CUDACXX, PATH, /usr/local/cuda/bin) nor a clang 19 or later with its llvm-nm"
    exit 77
fi
first=
for kind in $made; do
    n=$(wc -l <"$folder/$kind.names")
    echo "$kind: $n functions"
    [ "$n" -ge $least ] || fail "$kind: $n functions that others can link, expected at least $least"
    diff "$folder/${first:=$kind}.names" "$folder/$kind.names" || fail "$first and $kind have different names"
done
[ $failures -eq 0 ]
