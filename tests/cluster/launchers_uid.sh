#!/bin/bash
# SPDX-License-Identifier: MIT
# Without a launcher: a unique id through the program's own pipes, and SHMEM_UID, SHMEM_RANK, SHMEM_SIZE from a script.
. "$(dirname "$0")/cluster.sh"
launched=$(program launched)
embedded=$(program uid_embedded)
. "$here/uid.sh"

for n in 1 2 3 8; do
    job 20 "$embedded" $n
    expect_ranks $n "embedded, $n PEs"
done
# The id is made before the fork, in a process that nothing listens in.
for mode in parent child; do
    for n in 1 2 5; do
        job 20 "$embedded" $n $mode
        expect_ranks $n "id before fork, rank 0 is the $mode, $n PEs"
    done
done
# Attributes come before PMIx and before the environment.
job 20 env SHMEM_UID="$(new_uid)" SHMEM_RANK=0 SHMEM_SIZE=7 "$embedded" 3
expect_ranks 3 "attributes before the environment"
for n in 1 2 4; do
    job 20 start_by_hand "$n" "$(new_uid)" "$launched" ranks "$n"
    expect_ranks "$n" "script, $n PEs"
done
job 20 start_by_hand 3 "$(new_uid)" "$launched" again 3
expect_status 0 "script, init after finalize"
expect_lines 9 '^pe [0-2] of 3 ok$' "script, init after finalize"
job 20 start_by_hand 3 "$(new_uid)" "$launched" raise 9 2
expect_error_status "a PE killed by signal 9"
expect_message 'pe 2 .*died' "a PE killed by signal 9"
expect_within_ms 5000 "a PE killed by signal 9"

# Half of the variables, or nonsense in them, is an error with a sentence, not PE 0 of 1.
job 20 env SHMEM_UID="$(new_uid)" SHMEM_RANK=5 SHMEM_SIZE=2 "$launched" ranks 2
expect_error_status "rank above size"
expect_message 'SHMEM_RANK|rank' "rank above size"
job 20 env SHMEM_UID=nonsense SHMEM_RANK=0 SHMEM_SIZE=2 "$launched" ranks 2
expect_error_status "a uid that is none"
expect_message 'SHMEM_UID|unique id' "a uid that is none"
job 20 env SHMEM_UID="$(new_uid)" SHMEM_RANK=0 SHMEM_SIZE=2000000000 "$launched" ranks 2
expect_error_status "a size that no file limit suffices for"
expect_message 'pe 0 of a job of 2000000000 PEs needs about [0-9]+ open files, .*raise ulimit -n' "a size that is too large"
job 20 start_by_hand 3 "$(new_uid)" sh -c '[ "$SHMEM_RANK" != 0 ] || ulimit -n 20; exec "$@"' sh "$launched" ranks 3
expect_error_status "too few files for pe 0"
expect_lines 0 '^pe ' "too few files for pe 0"
[ "$(grep -c '^\[pe [0-2]\].* pe 0 of a job of 3 PEs needs about 35 open files' "$work/err")" = 3 ] ||
    fail "too few files for pe 0: not all PEs say so"
expect_within_ms 5000 "too few files for pe 0"
job 20 env SHMEM_BOOT_TIMEOUT=2 SHMEM_UID="$(new_uid)" SHMEM_RANK=0 SHMEM_SIZE=2 "$launched" ranks 2
expect_error_status "a PE that never comes"
expect_within_ms 8000 "a PE that never comes"
finish
