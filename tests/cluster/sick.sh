#!/bin/bash
# SPDX-License-Identifier: MIT
# A bank of twelve sick jobs (sick.c). Whoever has only the page of SHMEM_PROFILE, the graph of `isomer-info --job`, the
# report of a deadline or the metrics reads there, in words, who is the culprit and why.
. "$(dirname "$0")/cluster.sh"
oshrun=$(program oshrun)
info=$(program isomer-info)
sick=$(program sick)
cd "$work" || exit 1

# says NAME PATTERN [FILE]: a line of the page, the report or the file
says() {
    grep -qE -e "$2" "${3:-$work/err}" || fail "$1: no line '$2'"
}

# page NAME PATTERN ILLNESS: a job of 4 PEs to its end. On a busy machine other PEs may be late, too: three jobs may try.
page() {
    local i
    for ((i = 0; i < 3; i++)); do
        SHMEM_PROFILE=1 job 60 "$oshrun" -n 4 "$sick" "$3"
        ! grep -qE -e "$2" "$work/err" || break
    done
    expect_status 0 "$1"
    says "$1" "$2"
}

# graph NAME PATTERN ILLNESS: what is said of a job that hangs, which is ended then
graph() {
    local tries
    env ISO_TEST_MARK="$mark" TMPDIR="$work/tmp" SHMEM_TIMEOUT=0 "$oshrun" -n 4 "$sick" "$3" >"$work/job_out" 2>"$work/job_err" \
        </dev/null &
    for ((tries = 0; tries < 100; tries++)); do
        job 30 "$info" --job $!
        grep -qE -e "$2" "$work/out" && break
        sleep 0.1
    done
    says "$1" "$2" "$work/out"
    kill -TERM $!
    wait $! 2>/dev/null
}

# two_nodes [VARIABLE=VALUE...] ILLNESS: PEs 0 and 1 on node n0, 2 and 3 on n1, with libfabric between them
# shellcheck disable=SC2016
two_nodes() {
    local words=("${@:1:$#-1}")
    job 60 env "SHMEM_TRANSPORT=ofi:tcp;ofi_rxm" SHMEM_NETWORK=lo SHMEM_PROFILE=1 "${words[@]}" "$oshrun" -n 4 \
        sh -c 'SHMEM_NODE=n$((PMIX_RANK / 2)) exec "$@"' sh "$sick" "${@: -1}"
}

page "a late PE" '^imbalance: pe 2 came last: it waited ' late
page "imbalance of three" '^work: pe 1 spent [0-9.]+ s outside of communication, each of the others [0-9.]+ s: [23]\.[0-9] times as long$' uneven
page "a hot peer" '^hot: pe 1 is the other side of [0-9]+ % of the bytes' hot
page "heap growth" '^heap grows: pe [0-3] allocated on and on and freed next to nothing: its use rose [0-9]+ times, and [0-9]+ objects' grows

graph "two locks" '^  cycle: pe [01] waits in shmem_set_lock for pe [01], pe [01] waits in shmem_set_lock for pe [01]$' locks
graph "a lost signal" '^  culprit: pe 1 .* waits in shmem_signal_wait_until .*: the signal was lost or never sent$' lost
graph "a stopped process" '^  culprit: pe 1 \(pid [0-9]+ on .*\) is stopped, by a signal or a debugger' stop

SHMEM_TIMEOUT=0.5 SHMEM_TIMEOUT_ABORT=1 job 60 "$oshrun" -n 4 "$sick" differs
says "a mismatch" 'the first call that differs is call [0-9]+ of the world: pe 3 is in shmem_team_sync, .* in shmem_long_sum_reduce of 8192 bytes'
SHMEM_TIMEOUT=0.5 SHMEM_TIMEOUT_ABORT=1 job 60 "$oshrun" -n 4 "$sick" root
says "a wrong root" 'the first call that differs is call [0-9]+ of the world: pe 2 is in shmem_broadcastmem of 4096 bytes, root 2, .*root 0'

two_nodes far
if [ "$status" -ne 0 ] && grep -qE "libfabric|Operation not|No such" "$work/err"; then
    echo "two nodes: not here"
    finish
fi
expect_status 0 "two nodes"
says "two nodes" '^network: [1-9][0-9]* posts, '
! grep -qE '^(slow network|retry storm): ' "$work/err" || fail "two nodes that are well are taken for sick"
two_nodes node
says "a dead node" '^\[pe [01]\] .*pe [23] on .* \(node n1\) died: its connection '
shim=$build/tests/cluster/shim
ISO_OFI_REAL=$(ldconfig -p | awk '/libfabric\.so\.1 / { print $NF; exit }')
if [ -e "$shim/libfabric.so.1" ] && [ -n "$ISO_OFI_REAL" ]; then
    export ISO_OFI_REAL
    two_nodes LD_LIBRARY_PATH="$shim" ISO_OFI_SHIM=again SHMEM_METRICS="$work/metrics" far
    says "a retry storm" '^retry storm: the network of pe [0-3] refused [0-9]+ of its [0-9]+ posts for want of room'
    says "a retry storm" '^isomer_network_retries_total\{pe="0"\} [1-9]' "$work/metrics.0.prom"
    two_nodes LD_LIBRARY_PATH="$shim" ISO_OFI_SHIM=slow,nofd far
    says "a slow network" '^slow network: pe [0-3] waited [0-9.]+ s for it, 0\.[0-9]+ s each time on average; longest: [0-9.]+ s, for pe [0-3] on '
else
    echo "a double of libfabric: not here"
fi
finish
