#!/bin/sh
# SPDX-License-Identifier: MIT
# A kernel that calls put_signal and wait, for blocks of up to 1024 threads, keeps everything in registers on sm_90: no
# spills, no stack. So do the kernels of collectives on streams, but for those named below. By the report of ptxas; no
# device is needed. And the local end of a put or get may be a thread's stack: it is accessed by plain loads and stores.
# usage: cuda_resources.sh [FOLDER]     FOLDER: of the library's kernels, built with ISO_TESTS for sm_90: its reports are
#                                       taken. Without it they are compiled here, which takes two minutes.
# Ends 0, 1, or 77 where there is no nvcc.
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

# PTX defines strong loads for global and shared memory. What peers write is global memory, and said to be: so a strong
# load of a generic address is one of a local end. A get of bytes has strong loads of bytes, a put has plain ones only.
cat >"$folder/local.cu" <<'END'
#include <shmem_device.h>
struct args { shmemd_t h; float *dest; char *bytes; size_t nelems; };
SHMEMD_KERNEL(put_of_stack, struct args, a)
{
    float v[3] = {1, 2, (float)a.nelems};
    shmemd_float_put(a.h, a.dest, v, 3, 1);
}
SHMEMD_KERNEL(get_to_stack, struct args, a)
{
    char v[13];
    shmemd_getmem(a.h, v, a.bytes, a.nelems, 1);
    a.bytes[0] = v[a.nelems - 1];
}
END
"$nvcc" -x cu -std=c++17 -O3 -arch=sm_90 -I"$root/include" -ptx "$folder/local.cu" -o "$folder/local.ptx" \
    >"$folder/report" 2>&1 || { cat "$folder/report"; exit 1; }
lines_of() { sed -n "/entry $1(/,/^}/p;/^\.func.*$2_odd/,/^}/p" "$folder/local.ptx"; } # KERNEL, ITS COPY OF BYTES
if grep -E '(ld|st)\.(relaxed|acquire|release|volatile)' "$folder/local.ptx" | grep -Ev '\.(global|shared)'; then
    echo "strong accesses of memory that need not be global"
    exit 1
fi
if ! lines_of get_to_stack prim_cuda_get | grep -q 'ld\.relaxed\.sys\.global\.u8'; then
    echo "a get does not read its source strongly"
    exit 1
fi
if lines_of put_of_stack prim_cuda_put | grep -E 'ld\.relaxed\.sys\.global\.u(8|16)' ||
    ! lines_of put_of_stack prim_cuda_put | grep -q 'ld\.u8'; then
    echo "a put does not read its source by plain loads"
    exit 1
fi

# What a kernel may keep on the stack: those that have the ring and copies of all alignments in them, those that keep two
# rounds of LL, sums in dests, those for all types and operators. 512 threads a block have 128 registers each. Kernels of
# many blocks (lists, batches, sums to a root) go by stages alone and look up each block: they keep most, and functions of
# the ring that they call save a register or two.
too_much() {
    awk '
    function most(name) {
        return name ~ /_(rooted|splits)_any_kernel/ ? 432 : name ~ /_(batch|splits)_staged_kernel/ ? 288 : \
               name ~ /isod_(ring_|flag_store_far|coll_clear_places)/ ? 8 : \
               name ~ /_hier_kernel|_any_kernel/ ? 288 : name ~ /_staged_kernel/ ? 128 : \
               name ~ /_twoshot_ll_sum_/ ? 64 : name ~ /_twoshot_dest_sum_/ ? 32 : name ~ /_exchange_ll_kernel/ ? 32 : 0
    }
    /Function properties for/ { name = $NF }
    /bytes stack frame/ {
        kernels += name ~ /_kernel$/
        if ($1 > most(name) || $5 > most(name))
            print name ": " $1 " bytes of stack, " $5 " of spills; allowed: " most(name)
    }
    END { if (kernels == 0) print "no kernels" }' "$folder/report"
}
for source in "$root"/coll/stream/*_kernels.c; do
    built=${1-}/coll_stream_$(basename "$source" .c)_c.o.report
    if [ -n "${1-}" ]; then
        grep 'bytes stack frame' -B 1 "$built" >"$folder/report"
    else
        report "$source"
    fi
    too_much >"$folder/wrong"
    if [ -s "$folder/wrong" ]; then
        echo "$(basename "$source"), on sm_90:"
        cat "$folder/wrong"
        exit 1
    fi
    echo "$(basename "$source"): as expected"
done
