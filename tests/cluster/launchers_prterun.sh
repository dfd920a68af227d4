#!/bin/bash
# SPDX-License-Identifier: MIT
# PRRTE's prterun, where there is one.
. "$(dirname "$0")/cluster.sh"
prterun=$(command -v prterun) || skip "prterun is not installed"
launched=$(program launched)
run="$prterun --allow-run-as-root --map-by :oversubscribe"

for n in 1 2 4; do
    job 30 $run -n $n "$launched" ranks $n
    expect_ranks $n "$n PEs"
done
job 30 $run -n 4 "$launched" raise 9 3
expect_error_status "a PE killed by signal 9"
expect_within_ms 6000 "a PE killed by signal 9"
job 30 $run -n 4 "$launched" global 6 1
expect_error_status "shmem_global_exit(6)"
finish
