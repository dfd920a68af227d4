#!/bin/bash
# SPDX-License-Identifier: MIT
# No launcher at all: one PE. And everything that merely looks like a launcher.
. "$(dirname "$0")/cluster.sh"
launched=$(program launched)
info=$(program isomer-info)

job 10 "$launched" ranks 1
expect_ranks 1 "no launcher"
job 10 "$launched" again 1
expect_lines 3 '^pe 0 of 1 ok$' "init after finalize"
job 10 "$launched" global 4 0
expect_status 4 "shmem_global_exit(4)"
job 10 bash -c 'exec "$0" stdio 0<&- 1>&- 2>&-' "$launched"
expect_status 0 "stdin, stdout and stderr that are closed"
for variable in OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS; do
    job 10 env $variable=4 "$launched" ranks 1
    expect_error_status "$variable=4 without PMIx"
    expect_message "started 4 processes \($variable\) but" "$variable=4 without PMIx"
    expect_no_message '^pe 0 of 1' "$variable=4 without PMIx"
    job 10 env $variable=1 "$launched" ranks 1
    expect_ranks 1 "$variable=1"
done
job 10 env SLURM_NTASKS=4 "$launched" ranks 1
expect_ranks 1 "SLURM_NTASKS, which a batch script has too"
job 10 env RANK=0 WORLD_SIZE=4 "$launched" ranks 1
expect_ranks 1 "torchrun, rank 0"
expect_message 'warning: RANK and WORLD_SIZE \(torchrun\) are set, but .* 4 processes: each is PE 0 of 1$' "torchrun, rank 0"
expect_message 'by calls: shmemx_get_uniqueid .*shmemx_init_attr' "torchrun, rank 0"
expect_message 'by variables: .*SHMEM_UID' "torchrun, rank 0"
for settings in "RANK=1 WORLD_SIZE=4" "RANK=0 WORLD_SIZE=1" "RANK=0" "WORLD_SIZE=4" "RANK=0 WORLD_SIZE=4 SHMEM_BOOT=single"; do
    job 10 env $settings "$launched" ranks 1
    expect_ranks 1 "$settings"
    expect_no_message 'warning' "$settings"
done
job 10 env PMIX_NAMESPACE=gone PMIX_RANK=0 "$launched" ranks 1
expect_error_status "a PMIx server that is gone"
expect_message 'PMIx_Init' "a PMIx server that is gone"
if echo 'int none;' | cc -shared -fPIC -x c - -o "$work/libpmix.so.2"; then
    job 10 env LD_LIBRARY_PATH="$work" PMIX_NAMESPACE=gone PMIX_RANK=0 "$launched" ranks 1
    expect_error_status "a libpmix without functions"
    expect_message 'libpmix\.so\.2 has no PMIx_' "a libpmix without functions"
    job 10 env LD_LIBRARY_PATH="$work" "$launched" ranks 1
    expect_ranks 1 "a libpmix that is not needed"
fi
job 10 env SHMEM_BOOT=single OMPI_COMM_WORLD_SIZE=4 "$launched" ranks 1
expect_ranks 1 "SHMEM_BOOT=single"
job 10 env SHMEM_BOOT=nonsense "$launched" ranks 1
expect_error_status "SHMEM_BOOT=nonsense"
expect_message 'SHMEM_BOOT' "SHMEM_BOOT=nonsense"

job 10 "$info"
expect_status 0 "isomer-info"
[ "$(wc -l <"$work/out")" -le 24 ] || fail "isomer-info: more than one screen"
expect_lines 1 '^environment variables: none of the library' "isomer-info without variables"
job 10 env SHMEM_SPIN=5 SHMEM_COLL= "$info"
expect_lines 1 '^  SHMEM_' "isomer-info with one variable"
expect_lines 1 '^  SHMEM_SPIN = 5 \(number, -1\)$' "isomer-info with one variable"
job 10 "$info" --variables
expect_status 0 "isomer-info --variables"
expect_lines 1 '^  SHMEM_SYMMETRIC_SIZE = ' "isomer-info --variables"
expect_lines 0 '^job: |^collective algorithms' "isomer-info --variables"
expect_lines 0 '^  SHMEM_(FORCE_PROXY|VIRTUAL_NODES) = |for tests' "isomer-info --variables"
users=$(grep -c '^  SHMEM_' "$work/out")
job 10 env SHMEM_VIRTUAL_NODES=0,1 "$info" --variables all
expect_status 0 "isomer-info --variables all"
expect_lines 1 '^  SHMEM_VIRTUAL_NODES = 0,1 \(text, empty, for tests\)$' "isomer-info --variables all"
expect_lines 1 '^  SHMEM_FORCE_PROXY = 0 \(flag, 0, for tests\)$' "isomer-info --variables all"
[ "$(grep -c '^  SHMEM_' "$work/out")" -eq $((users + $(grep -c 'for tests)$' "$work/out"))) ] ||
    fail "isomer-info --variables: must be all but those for tests"
job 10 "$info" --variables some
expect_status 2 "isomer-info --variables some"
job 10 env SHMEM_FORCE_PROXY=1 "$info"
expect_lines 1 '^  SHMEM_FORCE_PROXY = 1 ' "isomer-info with a variable for tests"
job 10 "$info" --table
expect_lines 1 '^collective algorithms:$' "isomer-info --table"
expect_lines 1 '^collective algorithms on streams:$' "isomer-info --table"
expect_lines 0 '^job: |SHMEM_' "isomer-info --table"
job 10 env SHMEM_TIMEOUT=5 "$info" SHMEM_TIMEOUT
expect_status 0 "isomer-info SHMEM_TIMEOUT"
expect_lines 1 '^  SHMEM_TIMEOUT = 5 \(seconds, 600\)$' "isomer-info SHMEM_TIMEOUT"
expect_lines 1 'report a wait' "isomer-info SHMEM_TIMEOUT"
[ "$(wc -l <"$work/out")" -eq 2 ] || fail "isomer-info SHMEM_TIMEOUT: more than that variable"
job 10 "$info" SHMEM_TIME
expect_status 2 "isomer-info SHMEM_TIME"
expect_message '^isomer-info: there is no environment variable SHMEM_TIME; ' "isomer-info SHMEM_TIME"
job 10 "$info" --version
expect_status 0 "isomer-info --version"
expect_lines 1 'OpenSHMEM 1\.[0-9]+$' "isomer-info --version"
job 10 "$info" --doctor
[ "$status" -le 1 ] || fail "isomer-info --doctor: status $status"
if grep -q '^problem: ' "$work/out"; then
    expect_status 1 "isomer-info --doctor with a problem"
else
    expect_status 0 "isomer-info --doctor without a problem"
fi

# What would end a program, the doctor names, in the same words.
for setting in SHMEM_BOOT=mpi SHMEM_COLL=x=y SHMEM_COLL=stream.foo SHMEM_DEVICE=7777 SHMEM_WAVE=13 SHMEM_DEVICE_BLOCKS=0 SHMEM_VIRTUAL_NODES=a \
    SHMEM_DEVICE_SHARING=foo SHMEM_DEVICE_RDMA=foo SHMEM_NIC=nosuch9 SHMEM_NETWORK=nosuch0 \
    SHMEM_COLL_TABLE=/nonexist; do
    job 10 env "$setting" "$info" --doctor
    expect_status 1 "isomer-info --doctor, $setting"
    expect_message "^problem: .*${setting%%=*}\\b" "isomer-info --doctor, $setting"
    expect_no_message "variables have values that are allowed" "isomer-info --doctor, $setting"
done
job 10 env SHMEM_SYMETRIC_SIZE=1g SHMEM_TEST_SEED=1 "$info" --doctor
expect_message "^warning: environment variable SHMEM_SYMETRIC_SIZE is not known; the most similar one is SHMEM_SYMMETRIC_SIZE" \
    "the doctor, a wrong name"
expect_no_message "SHMEM_TEST_SEED" "the doctor, a test's variable"
job 10 env SHMEM_SYMETRIC_SIZE=1g SHMEM_HOME=/x "$launched" ranks 1
expect_ranks 1 "a wrong name"
expect_message "^\[pe 0\] warning: environment variable SHMEM_SYMETRIC_SIZE is not known; .* SHMEM_SYMMETRIC_SIZE$" "a wrong name"
expect_message "^\[pe 0\] warning: environment variable SHMEM_HOME is not known and not used; isomer-info --variables" "a name of somebody else's"
for name in SHMEM_SYMMETRIC_HEAP_SIZE SHMEM_HEAP_SIZE; do
    job 10 env $name=1g "$launched" ranks 1
    expect_ranks 1 "$name"
    expect_message "^\[pe 0\] warning: environment variable $name is not known; the most similar one is SHMEM_SYMMETRIC_SIZE$" "$name"
done
job 20 env SHMEM_HOME=/x SHMEM_HEAP_SIZE=1g SHMEM_PLACE=y "$(program oshrun)" -n 3 "$launched" ranks 3
expect_ranks 3 "unknown names, 3 PEs"
[ "$(grep -c warning: "$work/err")" -eq 2 ] || fail "unknown names, 3 PEs: not two lines of PE 0"
expect_message "variables SHMEM_(HOME, SHMEM_PLACE|PLACE, SHMEM_HOME) are not known" "unknown names, 3 PEs"
job 10 env SHMEM_SYMMETRIC_SIZE= "$launched" ranks 1
expect_ranks 1 "an empty value"
job 10 env SHMEM_DEBUG=1 "$launched" ranks 1
expect_message " debug: " "SHMEM_DEBUG without SHMEM_LOG"
job 10 env SHMEM_DEBUG=1 SHMEM_LOG=warn "$launched" ranks 1
expect_ranks 1 "SHMEM_DEBUG with SHMEM_LOG=warn"
expect_no_message " debug: " "SHMEM_DEBUG with SHMEM_LOG=warn"
for name in $(grep -ohE '\bshmemx_[a-z0-9_]+\(' "$here"/../../include/shmemx*.h | sort -u); do
    grep -qwF -- "${name%(}" "$here/calls_return.c" || fail "calls_return.c has no call of ${name%(}"
done
finish
