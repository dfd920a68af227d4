#!/bin/bash
# SPDX-License-Identifier: MIT
# A program with kernels in one file of CUDA, compiled and linked by bare nvcc with what pkg-config and oshcc say of the
# installed library: every option must be one of nvcc's, and the CUDA runtime the shared one. Of a tree for NVIDIA.
. "$(dirname "$0")/cluster.sh"
for tool in cmake pkg-config nm; do
    command -v $tool >/dev/null || skip "$tool is not installed"
done
root=$work/prefix
job 60 cmake --install "$build" --prefix "$root"
expect_status 0 "cmake --install"
[ "$status" -eq 0 ] || finish
libdir=$(dirname "$(find "$root" -name isomer.pc)")
export PKG_CONFIG_PATH=$libdir
nvcc=$(pkg-config --variable=kernels isomer) # its path, and options that this program does without
nvcc=${nvcc%% *}
export LD_LIBRARY_PATH=${libdir%/pkgconfig} # pkg-config names no folder of our library to the loader
# One file: the kernel is not declared where it is defined.
cat "$here/installed_kernels.c" "$here/installed_main.c" | grep -v '^SHMEMX_DECLARE_KERNEL' >"$work/program.cu"

# shellcheck disable=SC2046
job 200 "$nvcc" -arch=sm_90 -I"$here" $(pkg-config --cflags isomer) -c "$work/program.cu" -o "$work/program.o"
expect_status 0 "nvcc -c"

try() {
    job 60 "$nvcc" -arch=sm_90 "$work/program.o" "${@:2}" -o "$work/program"
    expect_status 0 "nvcc, $1"
    ! nm "$work/program" | grep -q ' [tT] __cudaRegisterFatBinary' || fail "nvcc, $1: the static CUDA runtime is linked"
    job 60 "$root/bin/oshrun" -n 2 "$work/program"
    expect_ranks 2 "nvcc, $1"
}
# shellcheck disable=SC2046
try "pkg-config" $(pkg-config --libs isomer)
unset LD_LIBRARY_PATH
# shellcheck disable=SC2046
try "oshcc" $("$root/bin/oshcc" --showme:link)
finish
