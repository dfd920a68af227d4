#!/bin/bash
# SPDX-License-Identifier: MIT
# The flight recorder: its calls go to files at a deadline and at an error, and are asked for from outside of a job that
# hangs. The first call that differs is named, also where the PEs are on two nodes.
. "$(dirname "$0")/cluster.sh"
oshrun=$(program oshrun)
info=$(program isomer-info)
sick=$(program sick)
command -v python3 >/dev/null || skip "there is no python3"
cd "$work" || exit 1

differs='the first call that differs is call [0-9]+ of the world: pe 1 is in shmem_team_sync, pe 0 in shmem_long_sum_reduce of 8192 bytes$'
for which in one two; do
    rm -rf flight
    mkdir flight
    rm -f job_err
    start=("$oshrun" -n 2)
    # shellcheck disable=SC2016
    [ $which = one ] || start=(env "SHMEM_TRANSPORT=ofi:tcp;ofi_rxm" SHMEM_NETWORK=lo "$oshrun" -n 2 sh -c 'SHMEM_NODE=n$PMIX_RANK exec "$@"' sh)
    SHMEM_FLIGHT=flight SHMEM_TIMEOUT=0.5 ISO_TEST_MARK=$mark TMPDIR=$work/tmp "${start[@]}" "$sick" apart >job_out 2>job_err </dev/null &
    launcher=$!
    for ((i = 0; i < 200; i++)); do
        grep -qsE "$differs" job_err && break
        ! grep -qsE "libfabric|Operation not|No such" job_err || break
        sleep 0.1
    done
    if [ $which = two ] && grep -qE "libfabric|Operation not|No such" job_err; then
        echo "two nodes: not here"
        break
    fi
    grep -qE "$differs" job_err || fail "a mismatch, $which: no line names it: $(cat job_err)"
    kill -TERM $launcher
    wait $launcher
    job 60 "$info" --flight flight
    grep -qE "$differs" out || fail "a mismatch, $which: isomer-info does not name it"
    sed -n '/^{/p' out | python3 -c 'import json, sys
calls = [json.loads(line) for line in sys.stdin]
assert {c["pe"] for c in calls} == {0, 1}, calls
assert all(c["end_ns"] == 0 or 0 <= c["end_ns"] - c["begin_ns"] < 60e9 for c in calls), calls
assert max((c["number"], c["call"]) for c in calls if c["pe"] == 1)[1] == "shmem_team_sync", calls' 2>>err ||
        fail "a mismatch, $which: the lines of isomer-info"
done
rm -rf flight # the library makes it
SHMEM_FLIGHT=flight job 60 "$oshrun" -n 2 "$sick" wrong
[ "$status" -ne 0 ] || fail "a wrong PE: status 0"
grep -q '"why": "shmem_putmem: pe 99 is outside 0..1"' flight/flight.1.jsonl || fail "a wrong PE: no file says why"
rm flight/flight.1.jsonl && mkdir flight/flight.1.jsonl
SHMEM_FLIGHT=flight job 60 "$oshrun" -n 2 "$sick" wrong
expect_message "flight.1.jsonl cannot be written: Is a directory" "a file that cannot be written"
[ -z "$(find flight -name '*.jsonl.*')" ] || fail "a file that cannot be written leaves another one"

SHMEM_TIMEOUT=0 ISO_TEST_MARK=$mark TMPDIR=$work/tmp "$oshrun" -n 2 "$sick" apart >/dev/null 2>&1 &
launcher=$!
for ((i = 0; i < 100; i++)); do
    job 30 "$info" --job $launcher --flight
    grep -qE "$differs" out && break
    sleep 0.1
done
grep -qE "$differs" out || fail "--job --flight: no line names the call"
kill -TERM $launcher
wait $launcher
job 30 "$info" --flight "$work/tmp"
expect_status 1 "no flight"
expect_message "there is no file of SHMEM_FLIGHT in " "no flight"
finish
