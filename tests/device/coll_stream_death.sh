#!/bin/bash
# SPDX-License-Identifier: MIT
# kill -9 of a PE in the midst of graphs with collectives, by pointer and through the proxy: the job must end soon, with
# an error, and say who died. SHMEM_TEST_DEATHS is the number of jobs of each kind (6); the time of the death is random.
# usage: LAUNCH="oshrun -n" coll_stream_death.sh PROGRAM
set -u
program=$1
limit_s=30
failed=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
unset SHMEM_DEBUG SMA_DEBUG SHMEM_LOG

# death PROXY: one job of 2..4 PEs
death() {
    local n=$((2 + RANDOM % 3)) after_ms=$((RANDOM % 300)) victim problem= begin=$SECONDS seen
    victim=$((RANDOM % n))
    SHMEM_FORCE_PROXY=$1 SHMEM_TEST_VICTIM=$victim SHMEM_TEST_DEATH_MS=$after_ms timeout $((2 * limit_s)) \
        $LAUNCH $n "$program" >"$out" 2>&1
    seen=$?
    if grep -q "skipped: " "$out"; then
        cat "$out"
        exit 77
    fi
    [ $((SECONDS - begin)) -le $limit_s ] || problem="seconds, expected at most $limit_s, seen $((SECONDS - begin))"
    [ $seen -ne 0 ] && [ $seen -ne 124 ] || problem="exit status, expected that of a failed job, seen $seen"
    grep -qE "(PE|pe) $victim[ :]" "$out" || problem="nobody names PE $victim"
    ! grep -q "expected .* seen" "$out" || problem="data was wrong before"
    [ -z "$problem" ] && return
    echo "coll_stream_death: $problem ($n PEs, victim $victim after $after_ms ms, SHMEM_FORCE_PROXY=$1)"
    cat "$out"
    failed=1
}

for ((i = 0; i < ${SHMEM_TEST_DEATHS:-6}; i++)); do
    death 0
    death 1
done
exit $failed
