#!/bin/sh
# SPDX-License-Identifier: MIT
# device/externs.c and nvshmem_externs.cpp for tool chains that link PTX or bitcode: the names that the preprocessor
# sees come out as definitions that others can link, and nothing is left undefined; the latter has its variable. A
# compiler for a device that has no target must fail: it would make an empty file.
# usage: externs.sh [FOLDER]   what a build has made in FOLDER; without it by the commands that the file names, by nvcc,
#                              and by a clang for gfx942 and for sm_90 (without any header of CUDA), where it is found
# Ends 0, 1, or 77 where there is neither a file nor a compiler.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
source=$root/device/externs.c
names='\(shmemd_extern\|shmemd_program\|nvshmemx\?\)_[a-z0-9_]*'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
made=
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# look_at_ptx FILE, look_at_bitcode NAME FILE: what it defines, and what it needs
look_at_ptx() {
    sed -n "s/^\.visible \.func.* \($names\)(.*/\1/p" "$1" | sort >"$folder/ptx.names"
    made="$made ptx"
    ! grep '^\.extern \.func' "$1" || fail "the PTX needs functions of others"
}
look_at_bitcode() {
    "$bin/llvm-nm" "$2" | sed -n "s/.* [TW] \($names\)$/\1/p" | sort >"$folder/$1.names"
    made="$made $1"
    case $1 in
    isomer_nvshmem*) "$bin/llvm-nm" "$2" | grep -q ' D isomer_compat_state$' || fail "$1 has no variable" ;;
    esac
    ! "$bin/llvm-nm" --undefined-only "$2" | grep . || fail "the bitcode for $1 needs functions of others"
}

nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if [ $# -gt 0 ]; then
    [ ! -e "$1/isomer_device.ptx" ] || look_at_ptx "$1/isomer_device.ptx"
elif [ -x "$nvcc" ]; then
    "$nvcc" -x cu -std=c++17 -O3 -arch=compute_90 -rdc=true -ptx "$source" -o "$folder/ptx"
    look_at_ptx "$folder/ptx"
fi

has_target() { "$bin/clang" -print-targets | grep -q "^ *$1 "; } # ROCm's clang has few
# bitcode LANGUAGE OPTIONS...: by the clang in $bin
bitcode() {
    "$bin/clang" -x "$@" -std=c++17 --cuda-device-only -fgpu-rdc -O3 -emit-llvm -c "$source" -o "$folder/$1"
    look_at_bitcode "$1" "$folder/$1"
}

for clang in clang-19 clang-20 clang-21 clang-22 /opt/rocm/llvm/bin/clang; do
    command -v "$clang" >/dev/null || continue
    bin=$("$clang" -print-resource-dir)/../../../bin # with the tools of its version; the name may be a compiler cache's
    [ -x "$bin/llvm-nm" ] || continue
    if [ $# -gt 0 ]; then
        for file in "$1"/isomer_device-*.bc "$1"/isomer_nvshmem-*.bc; do
            [ ! -e "$file" ] || look_at_bitcode "$(basename "$file" .bc)" "$file"
        done
    else
        bitcode hip -nogpulib -nogpuinc --offload-arch=gfx942
        ! has_target nvptx64 ||
            bitcode cuda -nocudalib -nocudainc --cuda-gpu-arch=sm_90 -Wno-pass-failed -Wno-unknown-cuda-version
    fi
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
    echo "skipped: no file in ${1:-a folder}, no nvcc (CUDACXX, PATH, /usr/local/cuda/bin), no clang 19 or later"
    exit 77
fi
# expect FILE LEAST COMMAND...: the functions of a source, by its preprocessor; at least so many
expect() {
    to=$folder/$1 least=$2
    shift 2
    "$@" -E -P | grep -o "$names *(" | tr -d ' (' | grep -v maxloc | sort -u >"$to"
    n=$(wc -l <"$to")
    [ "$n" -ge "$least" ] || fail "the preprocessor shows $n functions, expected at least $least: $*"
}
expect expected 340 "${CC:-cc}" "$source"
for kind in $made; do
    echo "$kind: $(wc -l <"$folder/$kind.names") functions"
    expected=$folder/expected
    case $kind in
    isomer_nvshmem*)
        expect expected.nvshmem 2100 "${CC:-cc}" -x c++ "$root/device/nvshmem_externs.cpp"
        expected=$folder/expected.nvshmem
        ;;
    esac
    diff "$expected" "$folder/$kind.names" || fail "$kind has not the functions of the file"
done
[ $failures -eq 0 ]
