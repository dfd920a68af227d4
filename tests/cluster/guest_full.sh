# SPDX-License-Identifier: MIT
# Sourced by guest_tests.sh: jobs over the nodes a and b that together take too long for every run.
seconds=300
spec 1 locks moves active_sets globals deprecated atomics ordering generics profiling putget_globals atomics_globals signals_globals locks_globals
spec 2 putget setup active_sets globals symmetric_heap strided locks moves reinit deprecated signals atomics ordering generics \
    threads teams reductions
spec 3 setup barriers reductions moves active_sets teams
cases=60
device 1 heap handles slots litmus matrix_rma matrix_amo matrix_wait matrix_moves matrix_reduce
device 2 heap handles slots litmus matrix_rma matrix_amo matrix_wait matrix_moves matrix_reduce
SHMEM_TIMEOUT=1 device 1 deadline
SHMEM_FORCE_PROXY=1 device 1 coll_stream_matrix
SHMEM_VIRTUAL_NODES=0,0,1,1 device 2 coll_hier
right "random traffic, 100000 operations, 1 on each node" 600 "$LAUNCH" 1 "$build/bin/traffic" 100000 8
right "random traffic, 100000 operations, 2 on each node" 900 "$LAUNCH" 2 "$build/bin/traffic" 100000 8
right "random traffic, 100000 operations, 4 threads in 1 on each node" 900 "$LAUNCH" 1 "$build/bin/traffic" 100000 8 4
for round in $(seq 30); do
    ends "kill -9 of PE $((round % 4)) of 4, number $round" 30 "pe $((round % 4)) .*died" \
        "$LAUNCH" 2 "$build/bin/fault_victim" $RANDOM $((RANDOM % 2000)) $((round % 4))
done
