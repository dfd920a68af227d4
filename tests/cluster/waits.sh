#!/bin/bash
# SPDX-License-Identifier: MIT
# Waits that last longer than SHMEM_TIMEOUT are told in one report for the job, which PE waits for which, and go on; or
# end the job where wished. A PE that is late comes when the report is there.
# A wait for a PE that has left ends the job; the last waits of PEs that all leave do not.
. "$(dirname "$0")/cluster.sh"
. "$here/uid.sh"
oshrun=$(program oshrun)
waits=$(program waits)
export WAITS_SAID=$work/err

# One report for the job, of a few lines. A PE that began to wait later than the first deadline may need a second one.
report_is_short() {
    local lines
    lines=$(grep -c '^\[pe [0-9]*\] ' "$work/err")
    [ "$lines" -ge 2 ] && [ "$lines" -le "$1" ] || fail "$2: $lines lines of reports, expected 2 to $1"
}

SHMEM_TIMEOUT=0.5 job 60 "$oshrun" -n 3 "$waits" late 15 "pe 1-2 wait in shmem_barrier_all"
expect_ranks 3 "late to a barrier"
expect_message "^\[pe [12]\] shmem_barrier_all: this PE has been waiting [0-9.]+ s, longer than SHMEM_TIMEOUT; all PEs:$" "late to a barrier"
expect_message "^\[pe [12]\]   pe 1-2 wait in shmem_barrier_all for pe 0, for [0-9.]+" "the others"
expect_message "^\[pe [12]\]   pe 0 does not wait in the library" "the one that is late"
expect_message "^\[pe [12]\]   pe 0 has not come to call [0-9]+ of the world, shmem_barrier_all: its last one was call [0-9]+, shmem_" "its calls"
report_is_short 10 "late to a barrier"
expect_message "^\[pe [12]\]   culprit: pe 0 \(pid [0-9]+ on .*\) does not wait in the library; its process [a-z ]+ and has used [0-9.]+ s of CPU time$" "the culprit"
SHMEM_TIMEOUT_NOTE=0.5 SHMEM_TIMEOUT=50 job 60 "$oshrun" -n 3 "$waits" late 15 "pe 1-2 wait in shmem_barrier_all"
expect_ranks 3 "a note"
[ "$(grep -cE '^\[pe [12]\] warning: shmem_barrier_all: this PE has been waiting [0-9.]+ s, longer than SHMEM_TIMEOUT_NOTE; all PEs:$' "$work/err")" -eq 1 ] || fail "not one note"
expect_message "^\[pe [12]\] warning:   culprit: pe 0 " "a note"
SHMEM_TIMEOUT=0.5 job 60 "$oshrun" -n 2 "$waits" late 15 "pe 1 waits in shmem_barrier_all"
expect_message "^\[pe 1\]   pe 1 waits in shmem_barrier_all for pe 0: address 0x[0-9a-f]+, expected [0-9]+, seen [0-9]+, for [0-9.]+ s$" "one PE that waits"
for kind in late collective; do
    SHMEM_TIMEOUT=1 job 60 "$oshrun" -n 32 "$waits" $kind 25 "pe 1-31 wait in"
    expect_ranks 32 "32 PEs, $kind"
    expect_message "^\[pe [0-9]+\]   pe 1-31 wait in shmem_(barrier_all|int_sum_reduce) for pe 0, for [0-9.]+" "32 PEs, $kind"
    report_is_short 16 "32 PEs, $kind"
done

for job_timeout in 0 50; do
    SHMEM_TIMEOUT=$job_timeout job 60 "$oshrun" -n 3 "$waits" team 12 "pe 1-2 wait in shmem_team_sync"
    expect_ranks 3 "late to a team, SHMEM_TIMEOUT=$job_timeout"
    expect_message "^\[pe [12]\] shmem_team_sync: this PE has been waiting [0-9.]+ s, longer than its team's timeout; all PEs:$" "late to a team"
    report_is_short 16 "late to a team" # of one PE first, where the other was late, too
done

SHMEM_TIMEOUT=0.5 job 60 "$oshrun" -n 2 "$waits" signal 15 "pe 1 waits in shmem_signal_wait_until"
expect_ranks 2 "late signal"
expect_message "pe 1 waits in shmem_signal_wait_until for any PE: address 0x[0-9a-f]+, expected == 7, seen 0" "late signal"

for debug in 0 1; do
    SHMEM_DEBUG=$debug SHMEM_LOG=warn SHMEM_TIMEOUT=0.5 job 60 "$oshrun" -n 4 "$waits" lock 12 "pe 0, 2-3 wait in shmem_set_lock"
    expect_ranks 4 "a lock, SHMEM_DEBUG=$debug"
    lines=$(grep -cE "^\[pe [023]\]   pe 0, 2-3 wait in shmem_set_lock for pe 1, which holds the lock, for" "$work/err")
    [ "$lines" -eq 2 ] || fail "a lock, SHMEM_DEBUG=$debug: $lines reports name the holder of the two locks"
    expect_message "^\[pe [023]\]   pe 1 does not wait in the library" "the holder, SHMEM_DEBUG=$debug"
done

SHMEM_TIMEOUT=0.5 job 60 "$oshrun" -n 3 "$waits" stream 15 "[pe 2]   pe 1 has a kernel that waits"
if [ "$status" -ne 77 ]; then
    expect_ranks 3 "a stream"
    expect_message "^\[pe 2\]   pe 1 waits in shmemx_stream_synchronize for the work in its stream: stream 0x[0-9a-f]+, for" "a stream"
    expect_message "^\[pe 2\]   pe 1 has a kernel that waits in shmemx_signal_wait_until_on_stream for any PE: address 0x[0-9a-f]+" "the kernel there"
fi

SHMEM_TIMEOUT=0.5 job 60 "$oshrun" -n 3 "$waits" returned 15 "pe 1 has returned from main"
expect_error_status "PE 1 returned from main"
expect_message "^\[pe 1\]   pe 1 waits in shmem_finalize for pe 0, 2: address" "PE 1 returned from main"
expect_message "^\[pe 1\]   pe 1 has returned from main, or called exit, without shmem_finalize$" "PE 1 returned from main"
expect_message "^\[pe [02]\] pe 1 has returned from main, or called exit, without shmem_finalize, while this PE waits in shmem_barrier_all; ending it" "PE 1 has gone"
sentences=$(grep -c 'ending it$' "$work/err")
[ "$sentences" -eq "$(grep -c '^\[pe [02]\] .*ending it$' "$work/err")" ] || fail "oshrun repeats the sentence of a PE"

SHMEM_TIMEOUT=0.5 SHMEM_TIMEOUT_ABORT=1 job 60 "$oshrun" -n 3 "$waits" late 250
expect_error_status "SHMEM_TIMEOUT_ABORT"
expect_message "shmem_barrier_all: this PE has been waiting" "SHMEM_TIMEOUT_ABORT"
expect_within_ms 20000 "SHMEM_TIMEOUT_ABORT"

SHMEM_TIMEOUT=0 job 60 "$oshrun" -n 2 "$waits" late 12
expect_ranks 2 "no timeout"
expect_no_message "has been waiting" "no timeout"

SHMEM_DEBUG=1 job 30 "$oshrun" -n 2 "$waits" freed 0
expect_error_status "buffer freed too early"
expect_message "shmemx_buffer_unregister: the buffer 0x[0-9a-f]+ \(8192 bytes\) was freed before it was unregistered" "buffer freed too early"
SHMEM_COLL_EXPLAIN=1 job 60 "$oshrun" -n 2 "$waits" late 0
expect_ranks 2 "SHMEM_COLL_EXPLAIN"
expect_message "^\[pe 0\] barrier of 0 bytes on 2 PEs.*: .* \(row of the built-in table for the host: " "SHMEM_COLL_EXPLAIN"
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
        SHMEM_COLL=host.barrier=$barrier job 60 "$oshrun" -n $npes "$waits" sessions 30
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
