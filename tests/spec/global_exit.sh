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
exit $failed
