#!/bin/bash
# SPDX-License-Identifier: MIT
# Random traffic finds what a library could get wrong: with each fault that traffic.c makes on purpose it fails, with the
# sentence of the check that is there for it; without one it passes. `traffic_faults.sh BUILD-FOLDER`
. "$(dirname "$0")/cluster.sh"
oshrun=$(program oshrun)
traffic=$(program traffic)

finds() { # FAULT EXPRESSION...
    local fault=$1 expression
    shift
    SHMEM_TEST_FAULT=$fault job 60 "$oshrun" -n 2 "$traffic" 200 1
    expect_error_status "$fault"
    for expression in "$@"; do
        expect_message "traffic: .*: $expression" "$fault"
    done
}

read_back="a lane read back has other bytes, PE 1"
owner="memory here is not what its writer wrote: PE = writer, offset = lane, PE 0, offset 2"
job 60 "$oshrun" -n 2 "$traffic" 200 1
[ "$status" -eq 0 ] || fail "random traffic without a fault: status $status"
finds get "a get has other bytes, PE 1, offset 4096, 64 bytes"
finds get_nbi "a get that quiet completed has other bytes, PE 1, offset 4096, 64 bytes"
finds lost "$read_back" "$owner"
finds stray "$read_back" "$owner"
finds twice "a common word is not the sum of what was added: offset = word, PE 1, offset 0"
finds fetched "fetch_add has another value, PE 1"
finds signal "the signal is here and its message is not, PE 0"
finds unknown "SHMEM_TEST_FAULT knows"
finish
