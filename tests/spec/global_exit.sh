#!/bin/sh
# SPDX-License-Identifier: MIT
# shmem_global_exit ends all PEs at once, with the status given, with stdio flushed and atexit handlers run.
# usage: LAUNCH="oshrun -n" global_exit.sh PROGRAM
set -u
program=$1
failed=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT

for pes in 1 2 4; do
    for who in first last all waiting; do
        for status in 0 3 200; do
            begin=$(date +%s)
            timeout 20 $LAUNCH $pes "$program" $who $status >"$out" 2>&1
            seen=$?
            took=$(($(date +%s) - begin))
            case "$who" in last) leaver=$((pes - 1)) ;; *) leaver=0 ;; esac
            if [ $seen -ne $status ]; then
                echo "global_exit $who at $pes PEs: exit status, expected $status, seen $seen"
                cat "$out"
                failed=1
            fi
            if [ $took -gt 8 ]; then
                echo "global_exit $who at $pes PEs: seconds, expected at most 8, seen $took"
                failed=1
            fi
            if [ "$who" != all ] || [ $pes = 1 ]; then
                grep -q "pe $leaver leaves without a newline" "$out" && grep -q "atexit of pe $leaver" "$out" || {
                    echo "global_exit $who at $pes PEs: stdio was not flushed or atexit not run on pe $leaver"
                    cat "$out"
                    failed=1
                }
            fi
        done
    done
done

# The PE that is wrong has its handler called with the sentence, and the others with what they learn; once each.
for pes in 1 3; do
    timeout 20 $LAUNCH $pes "$program" handler >"$out" 2>&1
    seen=$?
    if [ $seen -eq 0 ] || [ $seen -gt 127 ] ||
        [ "$(grep -c "handled with its argument: shmem_long_p: pe 99 is outside" "$out")" -ne 1 ] ||
        [ "$(grep -c "handled with" "$out")" -gt $pes ]; then
        echo "an error with a handler at $pes PEs: status $seen"
        cat "$out"
        failed=1
    fi
done

# A program that is wrong, and ends all the same: by its own status, or because the others have waited for one that left.
for round in 1 2 3 4 5 6 7 8 9 10 11 12; do
    timeout 20 $LAUNCH $((round % 3 + 1)) "$program" inside $((round % 2)) >"$out" 2>&1
    seen=$?
    if [ $seen -gt 1 ] || grep -q "killed by signal" "$out"; then
        echo "exit inside of a barrier: status, expected 0 or 1, seen $seen"
        cat "$out"
        failed=1
    fi
done
exit $failed
