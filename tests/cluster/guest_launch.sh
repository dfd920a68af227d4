#!/bin/bash
# SPDX-License-Identifier: MIT
# guest_launch.sh PER_NODE PROGRAM ARGUMENTS...: a job over the nodes a and b. ISO_LAUNCHER=mpirun (the default), started
# beside the nodes; oshrun, likewise; srun, after guest_slurm.sh; or uid, by hand, which takes no time of its own.
# ISO_MAP=node numbers the PEs round robin over the nodes, else (and with srun and oshrun) those of a come first.
# ISO_MPIRUN: more words for mpirun.
here=$(cd "$(dirname "$0")" && pwd)
per_node=$1
size=$((2 * per_node))
shift
unset ISO_AGENT
set -- sh -c 'export SHMEM_NIC=rxe$(hostname) UCX_NET_DEVICES=rxe$(hostname):1 FI_VERBS_IFACE=r$(hostname); exec "$@"' sh "$@"

by_hand() {
    local rank node pids='' pid worst=0
    export SHMEM_SIZE=$size
    SHMEM_UID="10.8.0.$([ "${ISO_NET-}" = head ] && echo 3 || echo 1):$((20000 + RANDOM % 12000)):$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
    export SHMEM_UID
    for ((rank = 0; rank < size; rank++)); do
        node=$((rank / per_node))
        [ "${ISO_MAP:-slot}" = slot ] || node=$((rank % 2))
        SHMEM_RANK=$rank "$here/guest_on.sh" $([ $node = 0 ] && echo a || echo b) "$@" &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid" || worst=$?
    done
    exit $worst
}

by_mpirun() {
    local passed=() name
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PMIX_MCA_pcompress_base_silence_warning=1
    for name in $(env | sed -n 's/^\(\(SHMEM\|UCX\|ISO\|OSHMEM\|ASAN\|TSAN\)_[A-Z0-9_]*\|LD_LIBRARY_PATH\)=.*/\1/p'); do
        passed+=(-x "$name")
    done
    # shellcheck disable=SC2086
    exec mpirun --mca plm rsh --mca plm_rsh_agent "env ISO_AGENT=1 $here/guest_on.sh" \
        --mca oob_tcp_if_include 10.8.0.0/24 --mca btl_tcp_if_include 10.8.0.0/24 --mca btl ^openib \
        --mca mpi_yield_when_idle 1 --bind-to none --host "a:$per_node,b:$per_node" --map-by "${ISO_MAP:-slot}" \
        -np $size "${passed[@]}" ${ISO_MPIRUN-} "$@"
}

by_oshrun() {
    exec "$ISO_BUILD/bin/oshrun" --hosts "a:$per_node,b:$per_node" --agent "env ISO_AGENT=1 $here/guest_on.sh" "$@"
}

by_srun() {
    exec srun --mpi=pmix --export=ALL -N2 -n $size --ntasks-per-node="$per_node" --overcommit "$@"
}

case ${ISO_LAUNCHER:-mpirun} in
srun) by_srun "$@" ;;
oshrun) by_oshrun "$@" ;;
uid) by_hand "$@" ;;
mpirun) by_mpirun "$@" ;;
*) echo "guest_launch.sh: unknown ISO_LAUNCHER" >&2 && exit 2 ;;
esac
