#!/bin/bash
# SPDX-License-Identifier: MIT
# Slurm's srun --mpi=pmix, in a private Slurm of two virtual nodes on this machine.
. "$(dirname "$0")/cluster.sh"
. "$here/slurm.sh"
launched=$(program launched)
slurm_start || skip "$reason"
run="srun --mpi=pmix --export=ALL"

for n in 1 2 3 8; do
    job 30 $run -N1 -n $n "$launched" ranks $n
    expect_ranks $n "$n PEs"
done
job 30 $run -N1 -n 3 "$launched" again 3
expect_status 0 "init after finalize"
expect_lines 9 '^pe [0-2] of 3 ok$' "init after finalize"
input=$here/cluster.sh job 30 $run -i 0 -N1 -n 3 "$launched" input
expect_lines 1 "^pe 0 read $(wc -c <"$here/cluster.sh") bytes\$" "input of PE 0"
expect_lines 2 '^pe [12] read 0 bytes$' "input of the others"
job 30 $run -N1 -n 4 "$launched" raise 9 3
expect_error_status "a PE killed by signal 9"
expect_message 'pe 3 |task 3|tasks 3' "a PE killed by signal 9"
expect_within_ms 6000 "a PE killed by signal 9"
job 30 $run -N1 -n 4 "$launched" global 6 1
expect_error_status "shmem_global_exit(6)"

# The node map: PEs of n1 and n2 do not share pointers, although it is one machine; equal SHMEM_NODE says that they do.
SHMEM_TRANSPORT=verbs job 30 $run -N2 -n 4 "$launched" ranks 4
expect_error_status "PEs on two nodes"
expect_message 'pe [0-3] is on node n[12] and this PE on node n[12], which needs RDMA|no port of an RDMA device' "PEs on two nodes"
SHMEM_NODE=one job 30 $run -N2 -n 4 "$launched" ranks 4
expect_ranks 4 "two Slurm nodes that are one SHMEM_NODE"

job 30 srun --mpi=none -N1 -n 2 "$launched" ranks 2
expect_error_status "srun without PMIx"
expect_message 'started 2 processes \(SLURM_STEP_NUM_TASKS\) but' "srun without PMIx"
expect_no_message '^pe 0 of 1 ' "srun without PMIx"
# SLURM_NTASKS alone, as in a batch script, is no launcher.
SLURM_NTASKS=4 job 30 "$launched" ranks 1
expect_ranks 1 "SLURM_NTASKS without srun"
nothing_left
finish
