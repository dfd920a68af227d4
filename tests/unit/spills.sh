#!/bin/sh
# SPDX-License-Identifier: MIT
# device/hip/hip_spills.sh finds what it is for, and nothing else: kernels that are one pattern of instructions each.
# Ends 0, 1, or 77 where there is no clang for gfx942 with LLVM's tools.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bin=
for clang in clang-19 clang-20 clang-21 clang-22 /opt/rocm/llvm/bin/clang; do
    command -v "$clang" >/dev/null || continue
    bin=$(dirname "$(readlink -f "$(command -v "$clang")")")
    [ -x "$bin/llvm-objcopy" ] && [ -x "$bin/llvm-objdump" ] && [ -x "$bin/clang-offload-bundler" ] && break
    bin=
done
[ -n "$bin" ] || { echo "skipped: no clang for gfx942 with llvm-objcopy, llvm-objdump, clang-offload-bundler"; exit 77; }

# expect FOUND ARCH INSTRUCTIONS: in one kernel, and in front of more code
failures=0
expect() {
    rest=$(printf 's_nop 0\\n\\t%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    cat >"$folder/one.c" <<END
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, struct ihipStream_t *);
extern "C" __attribute__((global)) void pattern(void) { __asm__ volatile("$3\\n\\t$rest"); }
END
    "$bin/clang" -x hip -std=c++17 -nogpulib -nogpuinc --offload-arch="$2" -O3 -c "$folder/one.c" -o "$folder/one.o"
    found=no
    "$root/device/hip/hip_spills.sh" "$bin" "$folder/one.o" 2>"$folder/said" || found=yes
    [ $found = no ] || grep -q "one.o: pattern ($2) would compute wrong results" "$folder/said" || found="no sentence"
    [ "$found" = "$1" ] && return
    echo "FAILED: expected $1, found $found: $2: $3"
    failures=$((failures + 1))
}

on='s_or_saveexec_b64 s[4:5], -1\n\t'
off='s_mov_b64 exec, s[4:5]\n\t'
expect yes gfx942 "${on}scratch_load_dword v12, off, off offset:136\\n\\t$off"
expect yes gfx90a "${on}buffer_load_dword v12, off, s[0:3], 0 offset:136\\n\\t$off"
expect no gfx942 "${on}scratch_load_dword v40, off, s32\\n\\t${off}s_waitcnt vmcnt(0)\\n\\ts_setpc_b64 s[30:31]\\n\\t"
expect no gfx942 "${on}v_mov_b32 v12, 0\\n\\t$off"
expect no gfx942 "scratch_load_dword v12, off, off offset:136\\n\\t"
expect no gfx942 "s_or_saveexec_b64 s[4:5], s[6:7]\\n\\tscratch_load_dword v12, off, off offset:136\\n\\t"
expect no gfx942 "${on}scratch_store_dword off, v12, off offset:136\\n\\t$off"
# a loop that ends when its last lane has left it: the reload behind it, before the lanes are on again or after
loop='1: v_add_u32 v1, 1, v1\n\ts_andn2_b64 exec, exec, s[6:7]\n\t'
load='buffer_load_dword v26, off, s[0:3], 0 offset:20\n\t'
restore='s_or_b64 exec, exec, s[8:9]\n\t'
expect yes gfx90a "${loop}s_cbranch_execnz 1b\\n\\t${load}$restore"
expect yes gfx90a "${loop}s_cbranch_execz 2f\\n\\ts_branch 1b\\n\\t2: s_waitcnt vmcnt(0)\\n\\t${load}$restore"
expect yes gfx942 "${loop}s_cbranch_execz 2f\\n\\ts_branch 1b\\n\\t2: scratch_load_dword v12, off, off offset:136\\n\\t$restore"
expect yes gfx90a "${loop}s_cbranch_execnz 1b\\n\\tv_lshrrev_b32 v63, 4, v64\\n\\t$restore"
expect no gfx90a "${loop}s_cbranch_execnz 1b\\n\\tv_readlane_b32 s3, v63, 4\\n\\t$restore"
expect no gfx90a "${loop}s_cbranch_execz 2f\\n\\ts_branch 1b\\n\\t2: ${restore}$load"
expect no gfx90a "${loop}s_cbranch_execnz 1b\\n\\t${restore}$load"
expect no gfx90a "s_and_saveexec_b64 s[8:9], vcc\\n\\ts_cbranch_execz 2f\\n\\t${load}2: $restore"
echo "int host(void) { return 1; }" >"$folder/host.c"
"$bin/clang" -c "$folder/host.c" -o "$folder/host.o"
"$root/device/hip/hip_spills.sh" "$bin" "$folder/host.o" || { echo "FAILED: an object without kernels"; failures=1; }
[ $failures -eq 0 ] && echo "sixteen objects, six of them wrong: just these are found"
