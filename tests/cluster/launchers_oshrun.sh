#!/bin/bash
# SPDX-License-Identifier: MIT
# oshrun: what it promises for any program, and jobs of OpenSHMEM programs under it.
. "$(dirname "$0")/cluster.sh"
oshrun=$(program oshrun)
launched=$(program launched)
foreign=$(program foreign_pe)

plain_programs() {
    job 10 "$oshrun" -n 3 sh -c 'echo $PMIX_RANK $OSHRUN_VERSION'
    expect_status 0 "a plain program"
    expect_lines 3 '^[0-2] [0-9.]+$' "a plain program"
    input=$here/cluster.sh job 10 "$oshrun" -n 3 wc -c
    expect_lines 1 "^$(wc -c <"$here/cluster.sh")\$" "stdin to PE 0"
    expect_lines 2 '^0$' "stdin to PE 0 only"
    job 10 "$oshrun" -n 2 --wdir / pwd
    expect_lines 2 '^/$' "--wdir"
    ISO_A=1 job 10 "$oshrun" -n 2 -x ISO_B=2 -x ISO_A sh -c 'echo "$ISO_A$ISO_B"'
    expect_lines 2 '^12$' "-x"
    job 10 "$oshrun" -np 3 --tag-output sh -c 'echo one; echo two >&2; printf three'
    expect_lines 3 '^\[[0-2]\] one$' "--tag-output"
    expect_lines 3 '^\[[0-2]\] three$' "--tag-output of a line without end"
    [ "$(grep -c '^\[[0-2]\] two$' "$work/err")" -eq 3 ] || fail "--tag-output of stderr"
    job 10 "$oshrun" -n 2 --tag-output sh -c 'i=0; while [ $i -lt 5000 ]; do echo "line $i of many"; i=$((i+1)); done'
    expect_lines 10000 '^\[[01]\] line [0-9]+ of many$' "--tag-output of much"
    job 10 "$oshrun" --help
    expect_status 0 "--help"
    expect_lines 1 '^usage: oshrun' "--help"
}

refusals() {
    local arguments
    job 5 "$oshrun" -n 2 no-such-program
    expect_status 127 "unknown program"
    expect_message "^oshrun: cannot run 'no-such-program': not found in PATH$" "unknown program"
    job 5 "$oshrun" -n 2 "$here/cluster.sh"
    expect_status 126 "program that is not executable"
    for arguments in "-n 0 true" "-n x true" "-n 99999 true" "--no-such-option true" "--wdir /nonexistent true" ""; do
        job 5 "$oshrun" $arguments
        expect_status 2 "oshrun $arguments"
        expect_message '^oshrun: ' "oshrun $arguments"
    done
}

exit_statuses() {
    job 10 "$oshrun" -n 3 sh -c 'exit $((PMIX_RANK == 1 ? 7 : 0))'
    expect_status 7 "exit 7 of a PE"
    job 10 "$oshrun" -n 3 sh -c '[ $PMIX_RANK -ne 2 ] || kill -9 $$; sleep 50'
    expect_status 137 "a PE killed by signal 9"
    expect_within_ms 1500 "a PE killed by signal 9"
    expect_message '^oshrun: PE 2 \(sh, pid [0-9]+\) was killed by signal 9 \(Killed\); ending the job$' "death"
    job 10 "$oshrun" -n 3 sh -c 'trap "" TERM; [ $PMIX_RANK -ne 1 ] || kill -SEGV $$; while :; do sleep 1; done'
    expect_status 139 "a PE with a segmentation fault among PEs that ignore SIGTERM"
    expect_within_ms 2000 "PEs that ignore SIGTERM"
}

# kill(1) of oshrun itself, by several signals; what the PEs started goes too.
interrupts() {
    local name pid tries
    for name in TERM HUP KILL; do
        env ISO_TEST_MARK="$mark" TMPDIR="$work/tmp" "$oshrun" -n 3 sh -c 'sleep 100 & echo started; sleep 100' \
            >"$work/out" 2>"$work/err" </dev/null &
        pid=$!
        for tries in $(seq 100); do
            [ "$(grep -c started "$work/out")" -eq 3 ] && break
            sleep 0.05
        done
        kill -$name $pid
        wait $pid 2>/dev/null
        status=$?
        [ $status -gt 128 ] || fail "SIG$name: status $status, expected one of a signal"
        nothing_left
    done
    # A background job of a script ignores SIGINT, so this one runs in the foreground.
    job 5 timeout --foreground -s INT 0.5 "$oshrun" -n 3 sh -c 'sleep 100 & sleep 100'
    expect_status 124 "Ctrl-C"
    expect_within_ms 2500 "Ctrl-C"
    nothing_left
}

shmem_programs() {
    local n
    for n in 1 2 3 8; do
        job 20 "$oshrun" -n $n "$launched" ranks $n
        expect_ranks $n "$n PEs"
    done
    job 20 "$oshrun" -n 3 "$launched" again 3
    expect_status 0 "init after finalize"
    expect_lines 9 '^pe [0-2] of 3 ok$' "init after finalize"
    input=$here/cluster.sh job 20 "$oshrun" -n 3 "$launched" input
    expect_lines 1 "^pe 0 read $(wc -c <"$here/cluster.sh") bytes\$" "input of PE 0"
    expect_lines 2 '^pe [12] read 0 bytes$' "input of the others"
    job 20 "$oshrun" -n 3 --tag-output "$launched" ranks 3
    expect_lines 3 '^\[([0-2])\] pe \1 of 3 ok$' "tags are PE numbers"
}

shmem_ends() {
    job 20 "$oshrun" -n 4 "$launched" raise 9 3
    expect_status 137 "a PE killed by signal 9"
    expect_message 'PE 3 \(.*launched, pid [0-9]+\) was killed by signal 9 \(Killed\)' "a PE killed by signal 9"
    expect_within_ms 2500 "a PE killed by signal 9"
    job 20 "$oshrun" -n 4 "$launched" exit 5 2
    expect_status 5 "a PE that exits with 5"
    job 20 "$oshrun" -n 4 "$launched" exit 0 2
    expect_error_status "a PE that leaves the job with status 0"
    job 20 "$oshrun" -n 4 "$launched" global 6 1
    expect_status 6 "shmem_global_exit(6)"
    job 20 "$oshrun" -n 4 "$launched" global 0 1
    expect_status 0 "shmem_global_exit(0)"
    job 20 timeout --foreground -s INT 1.5 "$oshrun" -n 4 "$launched" wait
    expect_lines 4 '^pe [0-3] ready$' "Ctrl-C on a job that waits"
    nothing_left
}

# A PE on another node needs a network, whatever the launcher says.
nodes() {
    job 20 "$oshrun" -n 2 sh -c 'SHMEM_NODE=node$PMIX_RANK exec "$0" ranks 2' "$launched"
    expect_error_status "PEs on two nodes"
    expect_message 'pe [01] is on node node[01] and this PE on node node[01], which needs RDMA|no port of an RDMA device' "PEs on two nodes"
    job 20 "$oshrun" -n 2 sh -c 'SHMEM_NODE=same exec "$0" ranks 2' "$launched"
    expect_ranks 2 "equal SHMEM_NODE"
}

versions() {
    job 20 "$oshrun" -n 3 sh -c '[ $PMIX_RANK -ne 1 ] || exec "$0"; exec "$1" ranks 3' "$foreign" "$launched"
    expect_error_status "a PE of another protocol"
    expect_message 'pe 1 runs .*9\.9\.9 .*protocol 999.*protocol [0-9]+' "a PE of another protocol"
}

plain_programs
refusals
exit_statuses
interrupts
shmem_programs
shmem_ends
nodes
versions
finish
