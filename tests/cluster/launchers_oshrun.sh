#!/bin/bash
# SPDX-License-Identifier: MIT
# oshrun: what it promises for any program, and jobs of OpenSHMEM programs under it.
. "$(dirname "$0")/cluster.sh"
oshrun=$(program oshrun)
launched=$(program launched)
foreign=$(program foreign_pe)
held=$(program held)
buffers=$(program buffers)

plain_programs() {
    job 10 "$oshrun" -n 3 sh -c 'echo $PMIX_RANK $OSHRUN_NPES $OSHRUN_VERSION'
    expect_status 0 "a plain program"
    expect_lines 3 '^[0-2] 3 [0-9.]+$' "a plain program"
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

# What the reader takes late is not lost; what nobody can take is said.
tagged_output() {
    job 30 bash -c '"$@" --tag-output sh -c "seq 10000" | { sleep 2.5; cat; }; exit ${PIPESTATUS[0]}' - "$oshrun" -n 4
    expect_status 0 "--tag-output with a slow reader"
    expect_lines 40000 '^\[[0-3]\] [0-9]+$' "--tag-output with a slow reader"
    job 10 bash -c '"$@" >/dev/full' - "$oshrun" --tag-output echo one
    expect_error_status "--tag-output on a full device"
    expect_message '^oshrun: output of the PEs was lost: No space left on device$' "--tag-output on a full device"
    job 20 "$oshrun" --tag-output sh -c 'setsid sleep 100 & echo one'
    expect_status 0 "--tag-output with a process that holds the pipe"
    expect_lines 1 '^\[0\] one$' "--tag-output with a process that holds the pipe"
    kill $(marked_processes) 2>/dev/null
    mkfifo "$work/fifo"
    job 20 bash -c 'exec 9<>"$1"; shift; "$@" >&9' - "$work/fifo" timeout --foreground -s INT 5 "$oshrun" --tag-output yes
    expect_message '^oshrun: output of the PEs was lost: its reader did not take it$' "Ctrl-C with a reader that is stuck"
}

# Descriptors of the caller reach the PEs, those of oshrun do not; an ignored signal stays ignored.
inheritance() {
    job 10 bash -c 'exec 7<"$0"; exec "$@"' "$here/cluster.sh" "$oshrun" sh -c 'head -1 <&7'
    expect_lines 1 '^# SPDX' "a descriptor of the caller"
    job 60 "$oshrun" -n 32 sh -c 'ls -l /proc/self/fd; exec "$0" ranks 32' "$launched"
    expect_status 0 "descriptors of oshrun"
    expect_lines 0 'socket:' "descriptors of oshrun"
    job 10 sh -c 'trap "" HUP; exec "$@"' - "$oshrun" -n 2 sh -c 'kill -HUP $PPID; sleep 0.3; echo here'
    expect_status 0 "SIGHUP under nohup"
    expect_lines 2 '^here$' "SIGHUP under nohup"
    job 10 "$oshrun" sh -c 'echo "$PMIX_NAMESPACE"; env | grep TMPDIR | grep -c -- "$PMIX_NAMESPACE"'
    expect_lines 1 '^oshrun-[0-9]+-[0-9a-f]{32}$' "128 random bits in the name of the job"
    expect_lines 1 '^0$' "a folder that does not tell the name of the job"
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
    expect_within_ms 5000 "a PE killed by signal 9"
    expect_message '^oshrun: PE 2 \(sh, pid [0-9]+\) was killed by signal 9 \(Killed\); ending the job$' "death"
    job 10 "$oshrun" -n 3 sh -c 'trap "" TERM; [ $PMIX_RANK -ne 1 ] || kill -SEGV $$; while :; do sleep 1; done'
    expect_status 139 "a PE with a segmentation fault among PEs that ignore SIGTERM"
    expect_within_ms 6000 "PEs that ignore SIGTERM"
}

# kill(1) of oshrun itself, by several signals; what the PEs started goes too.
interrupts() {
    local name pid tries
    for name in TERM HUP KILL; do
        : >"$work/out" # or the lines of the job before would be taken for this one's, and the signal come too early
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
    interrupted 3 '^started$' "$oshrun" -n 3 sh -c 'sleep 100 & echo started; sleep 100'
    expect_status 130 "Ctrl-C"
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
    SHMEM_BOOT_TIMEOUT=0 job 60 "$oshrun" -n 32 "$launched" ranks 32
    expect_ranks 32 "SHMEM_BOOT_TIMEOUT=0, which is never"
    job 20 "$oshrun" -n 3 "$launched" threads 3
    expect_ranks 3 "init and finalize by six threads at once"
    job 20 "$launched" threads 1
    expect_ranks 1 "init and finalize by six threads of one PE"
    job 20 "$oshrun" -n 2 "$launched" atexit 2
    expect_ranks 2 "shmem_finalize in an exit handler from before shmem_init"
    job 20 "$oshrun" -n 2 "$launched" nested
    expect_status 0 "a PE that starts another program of the library"
    expect_lines 1 '^the inner program failed: 1$' "a PE that starts another program of the library"
    expect_message 'shmem_init: pe 0 \(pid [0-9]+\) of this job has started this process' "a nested program"
    SHMEM_BOOT_TIMEOUT=1 job 20 "$oshrun" -n 2 "$launched" closed
    expect_status 0 "a program that closes all descriptors"
    expect_message 'PMIx_Finalize has not ended within 1 s \(SHMEM_BOOT_TIMEOUT\)' "a program that closes all descriptors"
    SHMEM_BOOT_TIMEOUT=1 job 20 "$oshrun" -n 2 sh -c '[ $PMIX_RANK -ne 1 ] || sleep 8; exec "$0" ranks 2' "$launched"
    expect_error_status "a PE that comes late"
    expect_message 'not all of the 2 PEs have arrived within 1 s \(SHMEM_BOOT_TIMEOUT\)' "a PE that comes late"
    job 20 "$oshrun" -n 3 --tag-output "$launched" ranks 3
    expect_lines 3 '^\[([0-2])\] pe \1 of 3 ok$' "tags are PE numbers"
}

shmem_ends() {
    job 20 "$oshrun" -n 4 "$launched" raise 9 3
    expect_status 137 "a PE killed by signal 9"
    expect_message 'PE 3 \(.*launched, pid [0-9]+\) was killed by signal 9 \(Killed\)' "a PE killed by signal 9"
    expect_within_ms 6000 "a PE killed by signal 9"
    job 20 "$oshrun" -n 4 "$launched" exit 5 2
    expect_status 5 "a PE that exits with 5"
    job 20 "$oshrun" -n 4 "$launched" exit 0 2
    expect_error_status "a PE that leaves the job with status 0"
    job 20 "$oshrun" -n 4 "$launched" global 6 1
    expect_status 6 "shmem_global_exit(6)"
    job 20 "$oshrun" -n 4 "$launched" global 0 1
    expect_status 0 "shmem_global_exit(0)"
    interrupted 4 '^pe [0-3] ready$' "$oshrun" -n 4 "$launched" wait
    expect_lines 4 '^pe [0-3] ready$' "Ctrl-C on a job that waits"
    nothing_left
}

# One PE never comes: it ended before the others had joined, or after.
absent_pes() {
    local pause
    for pause in 0 1.5; do
        job 20 "$oshrun" -n 3 sh -c '[ $PMIX_RANK -ne 1 ] || { sleep "$1"; exit 0; }; exec "$0" ranks 3' "$launched" $pause
        expect_error_status "a PE that ends before shmem_init after $pause s"
        expect_message '^oshrun: PE 1 .* exited with status 0 without joining the job' "a PE that ends before shmem_init"
    done
    job 20 "$oshrun" -n 2 sh -c '[ $PMIX_RANK -ne 1 ] || exit 0; sleep 1.5; echo late'
    expect_status 0 "PEs that never call shmem_init"
    expect_lines 1 '^late$' "PEs that never call shmem_init"
}

# What PEs did counts in its order, however late a thread of oshrun hears of it.
late_threads() {
    job 20 "$held" main 700 "$oshrun" -n 4 "$launched" global
    if [ "$status" -eq 77 ]; then
        echo "skipped: late threads, since this user cannot stop them"
        return
    fi
    expect_status 3 "shmem_global_exit while oshrun is held up"
    expect_message '^oshrun: PE 2 \(.*launched, pid [0-9]+\) aborted the job with status 3: shmem_global_exit' "the PE that called shmem_global_exit"
    job 20 "$held" pmix 1400 "$oshrun" -n 2 "$launched" late
    expect_status 0 "PEs that have left the job while PMIx is held up"
    expect_no_message '^oshrun: ' "PEs that have left the job while PMIx is held up"
}

# runs COMMAND... under these limits of open files, as a user who is not root
limited() {
    local limits=$1
    shift
    chmod 755 "$work" && chmod 1777 "$work/tmp"
    job 60 $as_user sh -c 'ulimit '"$limits"' && exec "$@"' - "$@"
}

open_files() {
    as_user=
    [ "$(id -u)" -ne 0 ] || as_user="setpriv --reuid 65534 --regid 65534 --clear-groups"
    if ! $as_user test -x "$launched"; then
        echo "skipped: open files, since $launched is not for other users"
        return
    fi
    limited '-n 256' "$oshrun" -n 32 "$launched" ranks 32 # without care more descriptors are under way than that
    expect_ranks 32 "32 PEs with 256 open files"
    limited '-n 128' "$oshrun" -n 32 "$launched" ranks 32 # with care too
    expect_ranks 32 "32 PEs with 128 open files"
    limited '-n 128' "$oshrun" -n 24 "$buffers" # each of its buffers is a descriptor from every PE to every PE
    expect_status 0 "buffers of 24 PEs with 128 open files"
    limited '-Sn 48' "$oshrun" -n 40 "$launched" ranks 40
    expect_ranks 40 "40 PEs with 48 open files that can be raised"
    limited '-n 40' "$oshrun" -n 32 "$launched" ranks 32
    expect_error_status "32 PEs with 40 open files"
    expect_message '^oshrun: 32 PEs need about [0-9]+ open files, allowed are 40: raise ulimit -n$' "oshrun with 40 open files"
    limited '-n 128' "$oshrun" -n 32 sh -c 'ulimit -n 30; exec "$0" ranks 32' "$launched"
    expect_error_status "32 PEs with 30 open files"
    expect_message 'shmem_init: .* no file descriptor left .*raise ulimit -n' "32 PEs with 30 open files"
    expect_no_message 'was dropped|not a PE|Protocol error' "32 PEs with 30 open files"
}

long_host_name() {
    local name
    name=$(printf 'h%.0s' $(seq 60))
    if ! unshare --uts hostname "$name" 2>/dev/null; then
        echo "skipped: a long host name, since this user cannot set one"
        return
    fi
    job 20 unshare --uts sh -c 'hostname "$0" && exec "$@"' "$name" "$oshrun" -n 2 "$launched" ranks 2
    expect_ranks 2 "a host name of 60 letters"
}

# A PE on another node needs a network, whatever the launcher says.
nodes() {
    job 20 "$oshrun" -n 2 sh -c 'SHMEM_TRANSPORT=verbs SHMEM_NODE=node$PMIX_RANK exec "$0" ranks 2' "$launched"
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

# Open MPI does not know oshrun, and makes each PE an MPI job of 1: never that many jobs with status 0.
mpi_programs() {
    local both mpirun
    both=$(program mpi_both 2>/dev/null)
    if [ ! -x "$both" ]; then
        echo "not tested: programs with MPI (mpi_both was not built, package libopenmpi-dev)"
        return
    fi
    job 20 "$oshrun" -n 2 "$both" mpi
    expect_error_status "MPI_Init before shmem_init"
    expect_message 'shmem_init: oshrun started 2 PEs, but MPI_Init has made this process an MPI job of 1: .* by mpirun$' "MPI_Init before shmem_init"
    expect_no_message 'PE 0 of 1' "MPI_Init before shmem_init"
    job 20 "$oshrun" -n 2 "$both" shmem
    expect_error_status "MPI_Init after shmem_init"
    expect_message '^\[pe [01]\] shmem_finalize: MPI_Init has made this process an MPI job of 1, but oshrun.* started 2 PEs' "MPI_Init after shmem_init"
    job 20 "$oshrun" -n 3 "$both" none
    expect_ranks 3 "MPI that is linked and not called"
    job 20 "$oshrun" -n 1 "$both" mpi
    expect_status 0 "MPI in a job of one PE"
    mpirun=$(command -v mpirun.openmpi || command -v mpirun) || return
    job 30 "$oshrun" -n 2 "$mpirun" --oversubscribe -n 1 "$both" mpi
    expect_status 0 "mpirun in PEs of oshrun"
    expect_lines 2 '^good: MPI rank 0 of 1, PE 0 of 1$' "mpirun in PEs of oshrun"
}

plain_programs
tagged_output
inheritance
refusals
exit_statuses
interrupts
shmem_programs
shmem_ends
absent_pes
late_threads
mpi_programs
open_files
long_host_name
nodes
versions
finish
