#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs in the guest, started by net_run: net_guest.sh PROGRAMS TURN, where PROGRAMS has verbs, isomer and, if there is
# one, oshmem. Lines of `PEs,system,metric,value,unit`. What is compared runs in turn, and in odd TURNs the other way
# round; `again` is isomer once more, for what differs without a reason; `launcher` is mpirun and nothing else.
set -u
programs=$1 turn=$2
export SHMEM_SYMMETRIC_SIZE=64M

oshmem_settings() { # by which UCX takes the RDMA devices and nothing else
    export UCX_IB_GID_INDEX=0 UCX_TLS=rc_v,self
    ISO_MPIRUN="--mca pml ucx --mca spml ucx --mca opal_common_ucx_opal_mem_hooks 0 \
        --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any"
    export ISO_MPIRUN
}

# job PER-NODE SYSTEM [start]: one run, its lines; with `start`, the time of the whole command too
job() {
    local per_node=$1 system=$2 program=$2 begin=$EPOCHREALTIME status
    [ "$system" != again ] || program=isomer
    (
        [ "$system" != oshmem ] || oshmem_settings
        exec timeout -k 5 90 "$LAUNCH" "$per_node" "$programs/$program" "$system" ${3-} </dev/null
    ) >/tmp/job.out 2>/tmp/job.err
    status=$?
    sed -n "s/^net,/$per_node+$per_node,/p" /tmp/job.out
    [ $status -eq 0 ] || echo "failed: $system at $per_node+$per_node: status $status: $(tail -n 1 /tmp/job.err)"
    [ -z "${3-}" ] || [ $status -ne 0 ] || echo "$per_node+$per_node,$system,whole command,$(bc <<<"$EPOCHREALTIME - $begin"),s"
}

jobs() { # PER-NODE [start]
    local systems=(isomer oshmem again) i
    [ -x "$programs/oshmem" ] || systems=(isomer again)
    for ((i = 0; i < ${#systems[@]}; i++)); do
        job "$1" "${systems[turn % 2 ? ${#systems[@]} - 1 - i : i]}" "${@:2}"
    done
}

# perftest METRIC UNIT COLUMN FACTOR TOOL ARGUMENTS...: the column of its line of figures
perftest() {
    local metric=$1 unit=$2 column=$3 factor=$4 tool=$5 server value=''
    shift 5
    command -v "$tool" >/dev/null || return
    timeout -k 5 30 "$NODE" a "$tool" -d rxea -x 1 -F "$@" >/dev/null 2>&1 &
    server=$!
    for _ in 1 2 3 4 5 6 7 8; do
        value=$(timeout -k 5 30 "$NODE" b "$tool" -d rxeb -x 1 -F "$@" a 2>/dev/null |
            awk -v c="$column" -v f="$factor" '/^ *[0-9]+ +[0-9]+ / { print $c * f }')
        [ -z "$value" ] || break
        sleep 0.3
    done
    wait $server
    echo "1+1,perftest,$metric,${value:-0},$unit"
}

# verbs PEs all|both PORT: bare verbs between a pair of processes
verbs() {
    local server
    timeout -k 5 60 "$NODE" a "$programs/verbs" rxea 1 "${@:2}" 2>&1 &
    server=$!
    timeout -k 5 60 "$NODE" b "$programs/verbs" rxeb 1 "${@:2}" a | sed -n "s/^net,/$1,/p"
    wait $server || echo "failed: verbs"
}

verbs 1+1 all 18515
verbs 2+2 both 18515 & # two pairs at once, of which one is shown
verbs none both 18516 | grep -v "^none"
wait
perftest "put+quiet 8 B" us 5 1 ib_write_lat -s 8 -n 1000
perftest "get 8 B" us 5 1 ib_read_lat -s 8 -n 1000
perftest "fetch_add" us 5 1 ib_atomic_lat -A FETCH_AND_ADD -n 1000
for size in 65536 1048576 4194304; do
    perftest "put $((size < 1048576 ? size >> 10 : size >> 20)) $([ $size -lt 1048576 ] && echo KiB || echo MiB)" MB/s \
        4 1.048576 ib_write_bw -s $size -n $((size > 2097152 ? 6 : 16777216 / size))
done
jobs 1
jobs 2
jobs 2 start
job 2 launcher start
