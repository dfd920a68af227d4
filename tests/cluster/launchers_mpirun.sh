#!/bin/bash
# SPDX-License-Identifier: MIT
# Open MPI's mpirun.
. "$(dirname "$0")/cluster.sh"
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || skip "mpirun is not installed (package openmpi-bin)"
"$mpirun" --version 2>&1 | grep -qE "Open MPI|OpenRTE" || skip "$mpirun is not Open MPI's"
launched=$(program launched)
run="$mpirun --oversubscribe"

for n in 1 2 3 8; do
    job 30 $run -n $n "$launched" ranks $n
    expect_ranks $n "$n PEs"
done
job 30 $run -n 3 "$launched" again 3
expect_status 0 "init after finalize"
expect_lines 9 '^pe [0-2] of 3 ok$' "init after finalize"
input=$here/cluster.sh job 30 $run -n 3 "$launched" input
expect_lines 1 "^pe 0 read $(wc -c <"$here/cluster.sh") bytes\$" "input of PE 0"
expect_lines 2 '^pe [12] read 0 bytes$' "input of the others"
job 30 $run -n 4 "$launched" raise 9 3
expect_error_status "a PE killed by signal 9"
expect_message 'pe 3 |rank 3 ' "a PE killed by signal 9"
expect_within_ms 10000 "a PE killed by signal 9"
job 30 $run -n 4 "$launched" exit 5 2
expect_error_status "a PE that exits with 5"
job 30 $run -n 4 "$launched" global 6 1
expect_status 6 "shmem_global_exit(6)"
interrupted 4 '^pe [0-3] ready$' $run -n 4 "$launched" wait
expect_lines 4 '^pe [0-3] ready$' "Ctrl-C on a job that waits"
nothing_left

# Two virtual nodes: the PEs of another host name need a network, which is not here.
job 30 $run -n 2 sh -c 'SHMEM_TRANSPORT=verbs SHMEM_NODE=node$OMPI_COMM_WORLD_RANK exec "$0" ranks 2' "$launched"
expect_error_status "PEs on two nodes"
expect_message 'pe [01] is on node node[01] and this PE on node node[01], which needs RDMA|no port of an RDMA device' "PEs on two nodes"

# A launcher that started several but cannot be reached is an error, never N times "PE 0 of 1".
job 30 $run -n 2 sh -c 'unset $(env | sed -n "s/^\(PMIX_[A-Z0-9_]*\)=.*/\1/p"); exec "$0" ranks 2' "$launched"
expect_error_status "mpirun without PMIx"
expect_message 'started 2 processes \(OMPI_COMM_WORLD_SIZE\) but' "mpirun without PMIx"
expect_no_message '^pe 0 of 1 ' "mpirun without PMIx"

# The launcher itself is killed: PEs that wait for each other end, and say why.
waits=$(program waits)
env ISO_TEST_MARK="$mark" TMPDIR="$work/tmp" $run -n 3 "$waits" late 25 >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
sleep 1.5
kill -KILL $launcher
wait $launcher 2>/dev/null
for ((i = 0; i < 150; i++)); do
    left=$(pgrep -f "$waits late 25" | wc -l)
    [ "$left" -ne 0 ] || break
    sleep 0.1
done
[ "$left" -eq 0 ] || fail "mpirun killed: $left PEs are left"

both=$(program mpi_both 2>/dev/null)
if [ -x "$both" ]; then
    for first in mpi shmem; do
        job 30 $run -n 3 "$both" $first
        expect_status 0 "MPI and OpenSHMEM, $first first"
        expect_lines 3 '^good: MPI rank ([0-2]) of 3, PE \1 of 3$' "MPI and OpenSHMEM, $first first"
    done
    comm=$(program mpi_comm 2>/dev/null)
    if [ -x "$comm" ]; then # of the plain build for the CPU
        job 30 $run -n 4 "$comm"
        expect_ranks 3 "a start by a communicator"
    fi
else
    echo "not tested: MPI and OpenSHMEM in one program (mpi_both was not built, package libopenmpi-dev)"
fi
finish
