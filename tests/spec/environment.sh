#!/bin/sh
# SPDX-License-Identifier: MIT
# The environment variables of the specification: SHMEM_VERSION, SHMEM_INFO, SHMEM_SYMMETRIC_SIZE, SHMEM_DEBUG, and the
# deprecated SMA_ spellings, which lose against the SHMEM_ ones.
# usage: LAUNCH="oshrun -n" environment.sh PROGRAM
set -u
program=$1
failed=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
unset SHMEM_VERSION SHMEM_INFO SHMEM_SYMMETRIC_SIZE SHMEM_DEBUG SMA_VERSION SMA_INFO SMA_SYMMETRIC_SIZE SMA_DEBUG

# run "VARIABLES" ARGUMENTS...: output in $out, exit status in $seen
run() {
    variables=$1
    shift
    env $variables timeout 20 $LAUNCH 2 "$program" "$@" >"$out" 2>&1
    seen=$?
}
complain() {
    echo "environment: $1"
    cat "$out"
    failed=1
}
# must_run "VARIABLES" FITS TOO_MUCH
must_run() {
    run "$@"
    [ $seen -eq 0 ] && grep -q "program ran" "$out" || complain "with $1, fits $2, does not fit $3: status $seen"
}
must_print() {
    run "$1"
    [ $seen -eq 0 ] || complain "with $1: status $seen"
    grep -q -e "$2" "$out" || complain "with $1: expected '$2' in the output"
}
must_not_print() {
    run "$1"
    [ $seen -eq 0 ] || complain "with '$1': status $seen"
    grep -q -i -e "$2" "$out" && complain "with '$1': unexpected '$2' in the output"
}
must_fail() {
    run "$1"
    [ $seen -ne 0 ] && [ $seen -ne 124 ] || complain "with $1: expected a failure, seen status $seen"
    grep -q -e "$2" "$out" || complain "with $1: expected '$2' in the sentence"
}

# Nothing set: nothing printed.
must_not_print "UNRELATED=1" "symmetric_size"

# Any value prints.
must_print SHMEM_VERSION=1 '[0-9]\.[0-9]'
must_print SHMEM_VERSION=please '[0-9]\.[0-9]'
must_print SMA_VERSION=1 '[0-9]\.[0-9]'
for name in SHMEM_VERSION SHMEM_INFO SHMEM_SYMMETRIC_SIZE SHMEM_DEBUG; do
    must_print SHMEM_INFO=1 $name
    must_print SMA_INFO=1 $name
done
run SHMEM_INFO=1
[ "$(grep -c '^  SHMEM_TIMEOUT = ' "$out")" -eq 1 ] || complain "SHMEM_INFO: expected each variable once"
grep -q '^collective algorithms' "$out" && complain "SHMEM_INFO: more than variables"
SHMEM_INFO=1 timeout 20 $LAUNCH 2 "$program" 2>/dev/null >"$out"
grep -q SHMEM_DEBUG "$out" || complain "SHMEM_INFO: expected the variables on stdout"
must_run SHMEM_DEBUG=1 100000 0
must_run SMA_DEBUG=yes 100000 0

# Sizes: half of what was asked for fits, sixty-four times as much does not.
must_run SHMEM_SYMMETRIC_SIZE=20971520 10485760 1342177280
must_run SHMEM_SYMMETRIC_SIZE=20m 10485760 1342177280
must_run SHMEM_SYMMETRIC_SIZE=20M 10485760 1342177280
must_run SHMEM_SYMMETRIC_SIZE=3.1M 1625000 208037504
must_run SHMEM_SYMMETRIC_SIZE=.5m 262144 67108864
must_run SHMEM_SYMMETRIC_SIZE=0.5m 262144 67108864
must_run SHMEM_SYMMETRIC_SIZE=20480kk 10485760 1342177280
must_run SHMEM_SYMMETRIC_SIZE=4096K 2097152 268435456
must_run SHMEM_SYMMETRIC_SIZE=0.25g 134217728 17179869184
must_run SHMEM_SYMMETRIC_SIZE=1G 536870912 68719476736
must_run SHMEM_SYMMETRIC_SIZE=0.001T 536870912 70368744177
must_run SHMEM_SYMMETRIC_SIZE=0.001t 536870912 70368744177
must_run SHMEM_SYMMETRIC_SIZE=2e7 10000000 1342177280

# Without it, and empty, the machine's memory is the cap, and the sentence says so.
for size in UNRELATED=1 SHMEM_SYMMETRIC_SIZE=; do
    must_run $size 10485760 35184372088832
    grep -q "no room for .* its cap is the machine's memory, since SHMEM_SYMMETRIC_SIZE is not set" "$out" ||
        complain "with $size: no sentence about the machine's memory"
done
run SHMEM_SYMMETRIC_SIZE=20m 0 1342177280
grep -q 'no room for .* raise SHMEM_SYMMETRIC_SIZE' "$out" || complain "no advice to raise SHMEM_SYMMETRIC_SIZE"

# Not a size: an error that names variable and value.
for value in abc -5 -1m m 5x 1.2.3 nan inf 1e400 99999999999t; do
    must_fail SHMEM_SYMMETRIC_SIZE=$value SHMEM_SYMMETRIC_SIZE
    grep -q -F -e "$value" "$out" || complain "with SHMEM_SYMMETRIC_SIZE=$value: the sentence lacks the value"
done
must_fail SMA_SYMMETRIC_SIZE=abc SYMMETRIC_SIZE
# More than any heap can have, up to where rounding to whole pages would give a small number.
for value in 17592186044417 18446744073708503040 18446744073709551615; do
    must_fail SHMEM_SYMMETRIC_SIZE=$value "SHMEM_SYMMETRIC_SIZE is $value bytes, allowed: 1..17592186044416"
    [ "$(grep -c "SHMEM_SYMMETRIC_SIZE is" "$out")" -eq 1 ] || complain "with $value: expected one line for both PEs"
done

# The old name works, and loses.
must_run SMA_SYMMETRIC_SIZE=20m 10485760 1342177280
must_run "SMA_SYMMETRIC_SIZE=1g SHMEM_SYMMETRIC_SIZE=20m" 10485760 1342177280
must_run "SMA_SYMMETRIC_SIZE=abc SHMEM_SYMMETRIC_SIZE=20m" 10485760 1342177280
must_fail "SMA_SYMMETRIC_SIZE=20m SHMEM_SYMMETRIC_SIZE=abc" SHMEM_SYMMETRIC_SIZE
exit $failed
