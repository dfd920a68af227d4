#!/bin/bash
# SPDX-License-Identifier: MIT
# kill -9 of a PE while the kernels of the others wait for it, by pointer and through the proxy: the job must end soon,
# say who died, fail, and leave nothing behind. ISO_DEVICE_FAULTS is the number of jobs of each kind with a death at a
# random time (10); ISO_FAULT_SEED repeats a sequence.
. "$(dirname "$0")/cluster.sh"
victim=$(program device_victim)
oshrun=$(program oshrun)
RANDOM=${ISO_FAULT_SEED:-$$}
limit_ms=6000

job 60 "$oshrun" -n 3 "$victim" busy 0 -1
[ "$status" -ne 77 ] || skip "there is no device"
expect_status 0 "no PE dies"
start_ms=$((2 * took_ms))

# fault VARIABLE=VALUE WHAT: one job
fault() {
    local n=$((2 + RANDOM % 3)) after_ms=$((RANDOM % 300)) pe before=$failures what
    pe=$((RANDOM % n))
    what="$1 oshrun -n $n device_victim $2 $after_ms $pe"
    job 60 env "$1" "$oshrun" -n $n "$victim" "$2" $after_ms $pe
    expect_message "(PE|pe) $pe[ :]" "$what: no message names PE $pe"
    expect_within_ms $((limit_ms + after_ms + start_ms)) "$what"
    expect_error_status "$what"
    expect_no_message "shmemx_stream_synchronize returned 0" "$what: the host was not told"
    nothing_left
    [ $failures -eq $before ] || echo "    (that was: $what)"
}

for how in SHMEM_FORCE_PROXY=0 SHMEM_FORCE_PROXY=1; do
    for what in wait barrier busy; do
        for ((i = 0; i < ${ISO_DEVICE_FAULTS:-10} && failures < 5; i++)); do
            fault $how $what
        done
    done
done
finish
