#!/bin/bash
# SPDX-License-Identifier: MIT
# A wait that lasts longer than SHMEM_TIMEOUT says who waits for whom, once, and goes on; or ends the job where wished.
. "$(dirname "$0")/cluster.sh"
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
finish
