#!/bin/sh
# SPDX-License-Identifier: MIT
# A kernel that calls put_signal and wait, for blocks of up to 1024 threads, keeps everything in registers on sm_90: no
# spills, no stack. The library's kernels take no more registers, stack and spills than cuda_resources.table allows. By
# the report of ptxas; no device is needed. And the local end of a put or get may be a thread's stack: it is accessed by
# plain loads and stores. The table also has what calls take in kernels of programs (author_kernels.c): as they are, for
# blocks of 1024 threads, without the ring (near), and for gfx942 where there is a clang; and by NVSHMEM's names
# (compat_kernels.cu), as they are and linked with -rdc=true. The time that the headers take to compile is printed, since
# it depends on the machine.
# usage: cuda_resources.sh [FOLDER]           FOLDER: of the library's kernels, built with ISO_TESTS for sm_90: its
#                                             reports are taken. Without it they are compiled here, in two minutes.
#        cuda_resources.sh --renew [FOLDER]   writes the table instead
# Ends 0, 1, or 77 where there is no nvcc.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
table=$root/tests/unit/cuda_resources.table
renew=
if [ "${1-}" = --renew ]; then
    renew=yes
    shift
fi
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

# ---- time to compile: the least of three, of user and system ----

echo '#include <shmem_device.hpp>' >"$folder/all.cu"
: >"$folder/empty.cu"
cost() { # FILE: hundredths of a second
    for turn in 1 2 3; do
        (
            "$nvcc" -x cu -std=c++17 -O3 -arch=sm_90 -I"$root/include" -c "$1" -o "$folder/cost.o"
            times >"$folder/times" # of this shell, and in the second line of what it has run
        )
        awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); s += t[1] * 60 + t[2] }
                       printf "%d\n", s * 100 }' "$folder/times"
    done | sort -n | head -n 1
}
empty=$(cost "$folder/empty.cu")
all=$(cost "$folder/all.cu")
echo "an empty file compiles in $empty hundredths of a second, one with every call in $all"

# ---- kernels of programs: as they are, for blocks of 1024 threads, without the ring; for gfx942 by a clang ----

author() { # NAME OPTIONS...: a report of the kernels isod_NAME_..._kernel
    name=$1
    shift
    report "$root/tests/unit/author_kernels.c" -DISO_AUTHOR="$name" "$@"
    mv "$folder/report" "$folder/${name}_kernels_c.o.report"
}
author author
author author_1024 -DPRIM_MAX_THREADS=1024
author author_near -DSHMEMD_NO_RING
compat="$root/tests/unit/compat_kernels.cu -I$root/include/compat"
report $compat -DISO_AUTHOR=compat
mv "$folder/report" "$folder/compat_kernels_c.o.report"

# With -rdc=true the linker knows what a kernel takes with all that it calls: KERNEL FAMILY REGISTERS STACK SPILLS
"$nvcc" -std=c++17 -O3 -arch=sm_90 -rdc=true -I"$root/include" $compat -DISO_AUTHOR=compat_rdc -dc -o "$folder/rdc.o"
"$nvcc" -arch=sm_90 -dlink -Xnvlink -v "$folder/rdc.o" -o "$folder/linked.o" >"$folder/report" 2>&1
sed -n "s/.*properties for 'isod_\(.*\)_kernel'.*/\1/p; s/.*used \([0-9]*\) registers.* \([0-9]*\) stack.*/\1 \2 0/p" \
    "$folder/report" | paste -d ' ' - - | sed 's/^[^ ]*/isod_&_kernel &/' >"$folder/rdc"
grep -q '^isod_compat_rdc_p_kernel compat_rdc_p [0-9]* [0-9]* 0$' "$folder/rdc" || { cat "$folder/report"; exit 1; }
if awk '$3 > 64 { print $1 " takes " $3 " registers with -rdc=true: 1024 threads cannot be launched"; wrong = 1 }
        END { exit !wrong }' "$folder/rdc"; then
    exit 1
fi

clang=${ISO_HIP_COMPILER:-$(command -v clang-19 || true)}
clang_release=$([ -z "$clang" ] || "$clang" --version | sed -n 's/.*clang version \([0-9]*\).*/\1/p')
author_amd() { # NAME OPTIONS...: KERNEL FAMILY REGISTERS STACK SPILLS
    "$clang" -x hip -std=c++17 -O3 --cuda-device-only -nogpulib -nogpuinc --offload-arch=gfx942 -I"$root/include" \
        -DISO_AUTHOR="$@" -S "$root/tests/unit/author_kernels.c" -o "$folder/amd.s"
    awk '
    $1 == ".name:" && $2 ~ /_kernel$/ { name = $2 }
    $1 == ".private_segment_fixed_size:" { stack = $2 }
    $1 == ".vgpr_count:" { registers = $2 }
    $1 == ".vgpr_spill_count:" {
        family = name
        sub(/^isod_/, "gfx942_", family)
        sub(/_kernel$/, "", family)
        print name, family, registers, stack, $2 * 4
    }' "$folder/amd.s"
}
: >"$folder/amd"
if [ -n "$clang" ]; then
    author_amd author >>"$folder/amd"
    author_amd author_near -DSHMEMD_NO_RING >>"$folder/amd"
    grep -q 'gfx942_author_put_block ' "$folder/amd" || { echo "no kernels for gfx942"; exit 1; }
fi

# ---- the library's kernels, by the table: a row for each family, with the greatest figures of its members. Kernels for
# sums of one type each are a family, all functions that are not inlined another, which have no registers of their own.
# 512 threads a block have 128 registers each. ----

reports=$folder
if [ -n "${1-}" ]; then
    cp "$1"/*_kernels_c.o.report "$folder"
else
    for source in "$root"/coll/stream/kernels/*_kernels.c "$root"/device/*_kernels.c; do
        report "$source"
        mv "$folder/report" "$folder/$(basename "$source" .c)_c.o.report"
    done
fi
release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')

# KERNEL FAMILY REGISTERS STACK SPILLS, a line each
awk '
    function family(name) {
        if (name !~ /_kernel$/) {
            file = FILENAME
            sub(/.*\//, "", file)
            return file ~ /^(author|compat)/ ? substr(file, 1, index(file, "_kernels") - 1) "_functions" : "functions"
        }
        sub(/^isod_/, "", name)
        sub(/_kernel$/, "", name)
        sub(/_sum_[a-z0-9]+$/, "_sum", name)
        return name
    }
    function put() { if (name != "") print name, family(name), registers, stack, spills; name = "" }
    FNR == 1 { put() }
    /Function properties for/ { put(); name = $NF; registers = 0 }
    /bytes stack frame/ { stack = $1; spills = $5 }
    /Used [0-9]+ registers/ { registers = $5; put() }
    END { put() }' "$reports"/*_kernels_c.o.report >"$folder/kernels"
cat "$folder/amd" "$folder/rdc" >>"$folder/kernels"
if ! grep -q ' stream_barrier ' "$folder/kernels" || ! grep -q '^isod_put_kernel ' "$folder/kernels"; then
    echo "no kernels in the reports of $reports"
    exit 1
fi

if [ -n "$renew" ]; then
    {
        grep '^#' "$table"
        echo "release $release"
        echo "clang $clang_release"
        awk '
            function more(a, b) { return a > b ? a : b }
            { r[$2] = more(r[$2], $3 + 0); s[$2] = more(s[$2], $4 + 0); p[$2] = more(p[$2], $5 + 0) }
            END { for (f in r) printf "%-34s %3d %4d %4d\n", f, r[f], s[f], p[f] }' "$folder/kernels" | LC_ALL=C sort
    } >"$folder/table"
    cat "$folder/table" >"$table"
    exit 0
fi

grown() { # TABLE: a sentence for each kernel that is above it
    awk '
    FNR == NR && /^[a-z]/ {
        row[$1] = $1
        most["registers", $1] = $2
        most["bytes of stack", $1] = $3
        most["bytes of spills", $1] = $4
    }
    FNR == NR { next }
    function check(what, has) {
        if (has > most[what, $2] + 0)
            print $1 " takes " has " " what ", the table allows " most[what, $2] " for " $2
    }
    !($2 in row) { print $1 " is not in the table: no row " $2; next }
    { check("registers", $3); check("bytes of stack", $4); check("bytes of spills", $5) }' "$1" "$folder/kernels"
}
if [ "$(sed -n 's/^release //p' "$table")" != "$release" ]; then
    echo "nvcc is of release $release, the table of another: the library's kernels are not compared"
    exit 0
fi
if [ "$(sed -n 's/^clang //p' "$table")" != "$clang_release" ]; then
    echo "clang is of release ${clang_release:-none}, the table of another: kernels for gfx942 are not compared"
    sed -i '/ gfx942_/d' "$folder/kernels"
fi
grown "$table" >"$folder/wrong"
if [ -s "$folder/wrong" ]; then
    cat "$folder/wrong"
    echo "if the growth is worth it: tests/unit/cuda_resources.sh --renew ${1-}"
    exit 1
fi
sed 's/^\(stream_barrier  *\)[0-9]*/\1 1/' "$table" >"$folder/lower"
if ! grown "$folder/lower" | grep -q 'isod_stream_barrier_kernel takes [0-9]* registers, the table allows 1 '; then
    echo "growth above the table is not found"
    exit 1
fi
echo "$(wc -l <"$folder/kernels") kernels and functions: none above the table"
