#!/bin/bash
# SPDX-License-Identifier: MIT
# While something holds up the proxy, the library says so and prints the late waits of kernels; when it goes on, the
# work is done. Before, nobody said a word. usage: LAUNCH="oshrun -n" held_up.sh PROGRAM
set -u
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
unset SHMEM_DEBUG SMA_DEBUG SHMEM_LOG
SHMEM_FORCE_PROXY=1 SHMEM_TIMEOUT=1 timeout 100 $LAUNCH 2 "$1" >"$out" 2>&1
seen=$?
if grep -q "skipped: " "$out"; then
    cat "$out"
    exit 77
fi
problem=
[ $seen -eq 0 ] || problem="exit status, expected 0, seen $seen"
# said WHAT PATTERN: exactly once, and before the proxy goes on
said() {
    local n
    n=$(sed '/^held_up: released/,$d' "$out" | grep -cE "$2")
    [ "$n" -eq 1 ] || problem="$1, expected once while the proxy is held up, seen $n times"
}
said "the sentence about the proxy" "^\[pe 0\] the proxy of this PE has not run for [1-5]\.[0-9] s, and kernels may be waiting for it"
said "the kernel's late wait" "^\[pe 0\] shmemd_quiet: block 0, thread 0 has been waiting [1-5]\.[0-9] s for .*, longer than SHMEM_TIMEOUT"
grep -q "^held_up: released" "$out" || problem="nobody has held the proxy up"
if [ -z "$problem" ]; then # on GPUs, by a call of the vendor's
    SHMEM_TEST_VENDOR=1 SHMEM_FORCE_PROXY=1 SHMEM_TIMEOUT=2 SHMEM_TIMEOUT_ABORT=1 timeout 100 $LAUNCH 2 "$1" >"$out" 2>&1
    seen=$?
    grep -q "skipped: " "$out" && exit 0
    said "the sentence about the vendor's call" "^\[pe 0\] the proxy of this PE has been in shmemd_put for pe 1 for [1-5]\.[0-9] s, .* by a call that waits for kernels: (cuda|hip)Free,"
    [ $seen -ne 0 ] && [ $seen -ne 124 ] || problem="exit status, expected that of a job that is ended, seen $seen"
fi
[ -z "$problem" ] && exit 0
echo "held_up: $problem"
cat "$out"
exit 1
