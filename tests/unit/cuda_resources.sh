#!/bin/sh
# SPDX-License-Identifier: MIT
# A kernel that calls put_signal and wait, for blocks of up to 1024 threads, keeps everything in registers on sm_90: no
# spills, no stack. So do the kernels of collectives on streams, but for those named below. By the report of ptxas; no
# device is needed. Ends 0, 1, or 77 where there is no nvcc.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if [ ! -x "$nvcc" ]; then
    echo "skipped: there is no nvcc (CUDACXX, PATH, /usr/local/cuda/bin)"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/kernel.cu" <<'END'
#include <shmem_device.h>
struct args { shmemd_t h; double *dest, *source; uint64_t *signal; size_t nelems; };
SHMEMD_KERNEL(put_signal_and_wait, struct args, a)
{
    int to = (shmemd_my_pe(a.h) + 1) % shmemd_n_pes(a.h);
    shmemd_double_put_signal_block(a.h, a.dest, a.source, a.nelems, a.signal, 1, SHMEM_SIGNAL_SET, to);
    shmemd_signal_wait_until_block(a.h, a.signal, SHMEM_CMP_GE, 1);
}
END

report() { # SOURCE OPTIONS...: ptxas's words go to $folder/report
    source=$1
    shift
    "$nvcc" -x cu -std=c++17 -O3 -arch=sm_90 -I"$root/include" -Xptxas -v "$@" -cubin "$source" -o "$folder/kernel.cubin" \
        >"$folder/report" 2>&1 || { cat "$folder/report"; exit 1; }
    if ! grep -q 'bytes stack frame' "$folder/report"; then
        echo "ptxas has given no report on $source:"
        cat "$folder/report"
        exit 1
    fi
}

report "$folder/kernel.cu" -DPRIM_MAX_THREADS=1024
if grep 'bytes stack frame' "$folder/report" | grep -qv ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'; then
    echo "put_signal and wait do not fit in the registers of a thread:"
    grep -A 2 'Function properties' "$folder/report"
    exit 1
fi
grep 'registers' "$folder/report"

# What a kernel may keep on the stack: those that have the ring and copies of all alignments in them, those that keep two
# rounds of lines, sums in dests, those for all types and operators. 512 threads a block have 128 registers each.
too_much() {
    awk '
    function most(name) {
        return name ~ /_hier_kernel|_any_kernel/ ? 288 : name ~ /_staged_kernel/ ? 128 : \
               name ~ /_lines2_sum_/ ? 64 : name ~ /_dest2_sum_/ ? 32 : name ~ /_exchange_lines_kernel/ ? 32 : 0
    }
    /Function properties for/ { name = $NF }
    /bytes stack frame/ {
        kernels += name ~ /_kernel$/
        if ($1 > most(name) || $5 > most(name))
            print name ": " $1 " bytes of stack, " $5 " of spills; allowed: " most(name)
    }
    END { if (kernels == 0) print "no kernels" }' "$folder/report"
}
for source in "$root"/coll/*_kernels.c; do
    report "$source"
    too_much >"$folder/wrong"
    if [ -s "$folder/wrong" ]; then
        echo "$(basename "$source"), on sm_90:"
        cat "$folder/wrong"
        exit 1
    fi
    echo "$(basename "$source"): as expected"
done
