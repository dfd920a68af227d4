#!/bin/bash
# SPDX-License-Identifier: MIT
# A wait that lasts longer than SHMEM_TIMEOUT says who waits for whom, once, and goes on; or ends the job where wished.
# A wait for a PE that has left ends the job; the last waits of PEs that all leave do not.
. "$(dirname "$0")/cluster.sh"
. "$here/uid.sh"
oshrun=$(program oshrun)
waits=$(program waits)

SHMEM_TIMEOUT=0.5 job 30 "$oshrun" -n 3 "$waits" late 15
expect_ranks 3 "late to a barrier"
expect_message "^\[pe 1\] shmem_barrier_all: waits since [0-9.]+ s, longer than SHMEM_TIMEOUT" "late to a barrier"
expect_message "^\[pe 1\]   pe 0 does not wait in the library" "the one that is late"
expect_message "^\[pe 1\]   pe 2 waits in shmem_barrier_all for .*: address 0x[0-9a-f]+, expected [0-9]+, seen [0-9]+, for [0-9.]+ s" "the other one"
[ "$(grep -c 'pe 1\] shmem_barrier_all: waits since' "$work/err")" -eq 1 ] || fail "more than one report of PE 1"

SHMEM_TIMEOUT=0.5 job 30 "$oshrun" -n 2 "$waits" signal 15
expect_ranks 2 "late signal"
expect_message "pe 1 waits in shmem_signal_wait_until for any PE: address 0x[0-9a-f]+, expected == 7, seen 0" "late signal"

SHMEM_TIMEOUT=0.5 job 30 "$oshrun" -n 2 "$waits" collective 15
expect_ranks 2 "late to a reduction"
expect_message "shmem_int_sum_reduce: waits since" "late to a reduction"

SHMEM_TIMEOUT=0.5 SHMEM_TIMEOUT_ABORT=1 job 30 "$oshrun" -n 3 "$waits" late 100
expect_error_status "SHMEM_TIMEOUT_ABORT"
expect_message "shmem_barrier_all: waits since" "SHMEM_TIMEOUT_ABORT"
expect_within_ms 6000 "SHMEM_TIMEOUT_ABORT"

SHMEM_TIMEOUT=0 job 30 "$oshrun" -n 2 "$waits" late 12
expect_ranks 2 "no timeout"
expect_no_message "waits since" "no timeout"

SHMEM_DEBUG=1 job 30 "$oshrun" -n 2 "$waits" freed 0
expect_error_status "buffer freed too early"
expect_message "shmemx_buffer_unregister: the buffer 0x[0-9a-f]+ \(8192 bytes\) was freed before it was unregistered" "buffer freed too early"
SHMEM_COLL_EXPLAIN=1 job 30 "$oshrun" -n 2 "$waits" late 0
expect_ranks 2 "SHMEM_COLL_EXPLAIN"
expect_message "^\[pe 0\] barrier of 0 bytes on 2 PEs.*: .* \(chosen: " "SHMEM_COLL_EXPLAIN"
expect_no_message "warning: barrier" "SHMEM_COLL_EXPLAIN"

# PE 1 has left while the others make one more call.
for call in barrier malloc reduce team signal finalize; do
    case $call in
    barrier) name=shmem_barrier_all ;;
    reduce) name=shmem_int_sum_reduce ;;
    team) name=shmem_team_sync ;;
    signal) name=shmem_signal_wait_until ;;
    *) name=shmem_$call ;;
    esac
    for npes in 2 3 4; do
        who="pe 1 has"
        [ $call != signal ] || { [ $npes = 2 ] && who="all other PEs have"; } || continue
        job 30 "$oshrun" -n $npes "$waits" left $call
        expect_error_status "pe 1 of $npes left, $call"
        expect_message "^\[pe [023]\] $who left the job, by shmem_finalize or a start that failed, while this PE waits in $name; ending it" "pe 1 of $npes left, $call"
    done
done
SHMEM_DEBUG=1 job 30 "$oshrun" -n 2 "$waits" left barrier
expect_error_status "pe 1 left, SHMEM_DEBUG"
expect_message "collective mismatch: .*shmem_finalize" "pe 1 left, SHMEM_DEBUG"

for barrier in central flags dissemination; do
    for npes in 1 2 3 4; do
        SHMEM_COLL=barrier=$barrier job 60 "$oshrun" -n $npes "$waits" sessions 30
        expect_ranks $npes "$npes PEs leave at different times, $barrier"
        expect_no_message "has left|have left" "$npes PEs leave at different times, $barrier"
    done
done
SHMEM_VIRTUAL_NODES=0,1 job 60 "$oshrun" -n 4 "$waits" sessions 10
expect_ranks 4 "PEs of virtual nodes leave at different times"
job 60 start_by_hand 3 "$(new_uid)" "$waits" sessions 10
expect_ranks 3 "PEs of a unique id leave at different times"
job 30 start_by_hand 3 "$(new_uid)" "$waits" left barrier
expect_error_status "pe 1 left, a unique id"
expect_message "pe 1 has left the job, by shmem_finalize or a start that failed, while this PE waits in shmem_barrier_all" "pe 1 left, a unique id"
finish
