#!/bin/sh
# SPDX-License-Identifier: MIT
# isomer-info --tune: a table is made where SHMEM_COLL_TABLE says, calls take its rows, a broken one gets its sentence
# and can be made anew.
# usage: LAUNCH="oshrun -n" [UNEVEN_CLOCK=uneven_clock.so] coll_tune.sh ISOMER_INFO PROGRAM (coll_tune.c)
set -u
info=$1
program=$2
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
unset SHMEM_DEBUG SMA_DEBUG SHMEM_LOG SHMEM_COLL
export SHMEM_COLL_TABLE="$dir/made/here/table"
failed=0

fail() {
    echo "coll_tune: $1"
    cat "$dir/out"
    failed=1
}
# run STATUS COMMAND...: into $dir/out
run() {
    expected=$1
    shift
    timeout 100 "$@" >"$dir/out" 2>&1
    status=$?
    if grep -q "there is no device" "$dir/out"; then
        cat "$dir/out"
        exit 77
    fi
    [ $status -eq "$expected" ] || fail "exit status, expected $expected, seen $status: $*"
}
# says LINES...: regular expressions
says() {
    for line in "$@"; do
        grep -q -E -e "$line" "$dir/out" || fail "expected '$line'"
    done
}

run 2 $LAUNCH 1 "$info" --tune
says 'isomer-info: --tune .* 1 PE' 'oshrun -n 4 isomer-info --tune'
for size in 1023 -4k 4x 4kk k 99999999999999999999 ''; do
    run 2 $LAUNCH 1 "$info" --tune --tune-most "$size"
    says "isomer-info: --tune-most $size is not a size; allowed: "
done
run 2 "$info" --tune --tune-most
says '^usage: '
[ ! -e "$dir/made" ] || fail "a table was written for nothing"

# All kinds, the world and its largest team; nothing is left beside the table. On a busy machine copy engines may be the
# fastest, and calls that lack what those need take no row of theirs: only kinds with another row are looked at below.
for_any=''
run 0 $LAUNCH 3 "$info" --tune --tune-most 4k
for kind in allreduce reducescatter fcollect alltoall broadcast permute; do
    says "^$kind +2 PEs +[0-9]+ bytes: .* us " "^$kind +3 PEs +[0-9]+ bytes: .* us "
    grep -q -E "^$kind +[a-z0-9_]+ +[0-9]+ +3 +[0-9]+ +[0-9]+ +[a-z]" "$SHMEM_COLL_TABLE" || fail "no row of $kind for 3 PEs"
    grep -E "^$kind .* 3 +[0-9]+ +[0-9]+ +any\$" "$SHMEM_COLL_TABLE" | grep -q -v engines && for_any="$for_any $kind"
done
[ "$(echo "$for_any" | wc -w)" -ge 3 ] || fail "rows for any call: $for_any"
says "^[0-9]+ rows are in $SHMEM_COLL_TABLE; .* [0-9.]+ times "
[ "$(ls "$dir/made/here")" = table ] || fail "beside the table: $(ls "$dir/made/here")"
grep -v '^permute' "$SHMEM_COLL_TABLE" | sed 's/^\(broadcast .*\) 3 /\1 2 /' >"$dir/part"

export SHMEM_TEST_TUNE=0
run 0 env SHMEM_COLL_EXPLAIN=1 $LAUNCH 3 "$program"
for kind in $for_any; do
    says "\\[pe 0\\] .*$kind of [0-9]+ bytes on 3 PEs, .*\\(row of the table in $SHMEM_COLL_TABLE: "
done
# What it says nothing about is as before.
run 0 env "SHMEM_COLL_TABLE=$dir/part" SHMEM_COLL_EXPLAIN=1 $LAUNCH 3 "$program"
kept=$(echo "$for_any" | tr ' ' '\n' | grep -v -E 'broadcast|permute' | tail -n 1)
says "$kept of .*row of the table in $dir/part" 'broadcast of .*built-in table' 'permute of .*built-in table'

# Rows for calls beside a computation are for these alone.
{
    grep ' x ' "$SHMEM_COLL_TABLE"
    echo 'fcollect staged any any 1 32 background'
    echo 'reducescatter pipelined any any 1 32 background "few blocks"'
} >"$dir/beside"
run 0 env "SHMEM_COLL_TABLE=$dir/beside" SHMEM_TEST_BACKGROUND=1 SHMEM_COLL_EXPLAIN=1 $LAUNCH 3 "$program"
says 'fcollect of .*, beside a computation: staged, 1 block of .*beside: ' 'reducescatter of .*, beside .*: few blocks' \
    'permute of .*, beside a computation: .*built-in table'
run 0 env "SHMEM_COLL_TABLE=$dir/beside" SHMEM_COLL_EXPLAIN=1 $LAUNCH 3 "$program"
says 'fcollect of .*, on a stream: .*built-in table' 'reducescatter of .*, on a stream: .*built-in table'

echo 'allreduce' >>"$SHMEM_COLL_TABLE"
run 1 $LAUNCH 3 "$program"
says "SHMEM_COLL_TABLE: $SHMEM_COLL_TABLE:[0-9]+: 1 fields; a row has 6"
run 0 $LAUNCH 2 "$info" --tune --tune-most 1k
run 0 $LAUNCH 2 "$program"

# Times that differ from one measurement to the next are said.
if [ -n "${UNEVEN_CLOCK:-}" ]; then
    run 0 env "LD_PRELOAD=$UNEVEN_CLOCK" $LAUNCH 2 "$info" --tune --tune-most 4k
    says 'shmemx_coll_tune: of [0-9]+ calls [0-9]+ took 15 % longer or more in one of two measurements'
fi

run 1 env "SHMEM_COLL_TABLE=$SHMEM_COLL_TABLE/below" $LAUNCH 2 "$info" --tune --tune-most 1k
says "cannot be written to $SHMEM_COLL_TABLE/below"

# A path that leaves no room for the name of the file beside it: what is there stays.
deep="$dir/$(printf '%0200d/%0200d' 0 0)"
mkdir -p "$deep"
long="$deep/$(printf "%0$((510 - ${#deep}))d" 0)"
echo kept >"$long"
run 1 env "SHMEM_COLL_TABLE=$long" $LAUNCH 2 "$info" --tune --tune-most 1k
says "cannot be written to .*: File name too long"
[ "$(cat "$long")" = kept ] || fail "a table whose path is too long was deleted"
exit $failed
