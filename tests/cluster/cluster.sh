# SPDX-License-Identifier: MIT
# Sourced by the tests of this folder: `. cluster.sh`. Takes the build folder from $1 or ISO_BUILD, offers
#   program NAME            path of a program of the build
#   job SECONDS COMMAND...  runs it under a time limit, marked, with its own TMPDIR; sets status, seconds, $work/{out,err}
#   expect ...              checks that count failures
#   nothing_left            no process, socket or file of the jobs so far; the host has its name still
#   skip REASON / finish    ends the test with 77 / with 0 or 1
set -u
export LC_ALL=C

build=${1:-${ISO_BUILD:-}}
if [ -z "$build" ] || [ ! -d "$build" ]; then
    echo "usage: $0 build-folder (or ISO_BUILD)" >&2
    exit 2
fi
build=$(cd "$build" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/iso-cluster.XXXXXX")
mark=$(basename "$work")
failures=0
at_exit=: # a command of the test's own
host=$(hostname)
mkdir "$work/tmp"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PMIX_MCA_pcompress_base_silence_warning=1
# This test is started by nobody: variables of a launcher around it would mislead the programs.
for name in $(env | sed -n 's/^\(PMIX_[A-Z]*\|PMI_[A-Z]*\|OMPI_COMM_WORLD_[A-Z_]*\|SLURM_[A-Z_]*\|SHMEM_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done

marked_processes() {
    local file pid
    for file in $(grep -lzx "ISO_TEST_MARK=$mark" /proc/[0-9]*/environ 2>/dev/null); do
        pid=${file#/proc/}
        echo "${pid%/environ}"
    done
}

clean_up() {
    $at_exit
    local pids
    pids=$(marked_processes)
    [ -z "$pids" ] || kill -KILL $pids 2>/dev/null
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

skip() {
    echo "skipped: $*"
    exit 77
}

fail() {
    echo "FAILED: $*"
    sed 's/^/    out: /' "$work/out" 2>/dev/null | head -20
    sed 's/^/    err: /' "$work/err" 2>/dev/null | head -20
    failures=$((failures + 1))
}

finish() {
    nothing_left
    [ $failures -eq 0 ] && echo "passed" && exit 0
    echo "$failures failures"
    exit 1
}

program() {
    local path
    for path in "$build/bin/$1" "$build/tests/cluster/$1" "$build/tests/$1" "$build/$1"; do
        [ -x "$path" ] && [ -f "$path" ] && echo "$path" && return
    done
    path=$(find "$build" -name "$1" -type f -perm -u+x 2>/dev/null | head -1)
    [ -n "$path" ] || echo "program $1 is not in $build" >&2
    echo "${path:-/missing/$1}"
}

milliseconds() {
    date +%s%3N
}

# ENDING: the signal that the time limit would send; a status of 124 or 137 with the limit reached is a hang.
job() {
    local limit=$1 start
    shift
    start=$(milliseconds)
    env ISO_TEST_MARK="$mark" TMPDIR="$work/tmp" timeout -k 2 "$limit" "$@" >"$work/out" 2>"$work/err" <"${input:-/dev/null}"
    status=$?
    took_ms=$(($(milliseconds) - start))
    [ $took_ms -lt $((limit * 1000)) ] || fail "hangs: $* (ended by the time limit of $limit s)"
}

# interrupted COUNT PATTERN COMMAND...: `job` that gets SIGINT as soon as COUNT lines of its out match.
interrupted() {
    job 30 bash -c 'out=$1 count=$2 pattern=$3; shift 3
        env --default-signal=INT "$@" &
        until [ "$(grep -cE -- "$pattern" "$out")" -ge "$count" ]; do sleep 0.05; done
        kill -INT $!
        wait $!' - "$work/out" "$@"
}

expect_status() {
    [ "$status" -eq "$1" ] || fail "$2: exit status $status, expected $1"
}

expect_error_status() {
    [ "$status" -ne 0 ] || fail "$1: exit status 0, expected an error"
}

# Lines of out that match exactly.
expect_lines() {
    local seen
    seen=$(grep -cE -- "$2" "$work/out")
    [ "$seen" -eq "$1" ] || fail "$3: $seen lines match '$2', expected $1"
}

expect_message() {
    grep -qE -- "$1" "$work/err" "$work/out" || fail "$2: no message matches '$1'"
}

expect_no_message() {
    ! grep -qE -- "$1" "$work/err" "$work/out" || fail "$2: a message matches '$1'"
}

expect_within_ms() {
    [ $took_ms -le "$1" ] || fail "$2: took $took_ms ms, at most $1 allowed"
}

# `job` for N PEs that must all be one job: never N times "PE 0 of 1".
expect_ranks() {
    expect_status 0 "$2"
    expect_lines "$1" "^pe [0-9]+ of $1 ok$" "$2"
    local distinct
    distinct=$(grep -E "^pe [0-9]+ of $1 ok$" "$work/out" | sort -u | wc -l)
    [ "$distinct" -eq "$1" ] || fail "$2: only $distinct different PEs"
}

# Abstract unix sockets that the kernel named (as the library's are): "inode name".
named_sockets() {
    awk '$8 ~ /^@[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]$/ { print $7, $8 }' /proc/net/unix | sort
}
named_sockets >"$work/sockets"

# New ones that no process holds; those of other programs are no concern of ours.
leaked_sockets() {
    named_sockets | comm -13 "$work/sockets" - | while read -r inode name; do
        find /proc/[0-9]*/fd -lname "socket:\[$inode\]" 2>/dev/null | grep -q . && continue
        ! named_sockets | grep -q "^$inode " || echo "$name" # still there: its owner has not just ended
    done
}

nothing_left() {
    local tries pids sockets files
    for tries in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        pids=$(marked_processes)
        [ -z "$pids" ] && break
        sleep 0.1
    done
    [ -z "$pids" ] || fail "processes are left: $(ps -o pid,args -p "$(echo $pids | tr ' ' ,)" | tail -n +2)"
    # Of another job's that just begins, the process that holds it may not have been there yet, or be gone already.
    for tries in 1 2 3 4 5 6 7 8 9 10; do
        sockets=$(leaked_sockets)
        [ -z "$sockets" ] && break
        sleep 0.2
    done
    [ -z "$sockets" ] || fail "sockets are left: $sockets"
    files=$(find "$work/tmp" -mindepth 1 \( -name 'oshrun*' -o -name '*isomer*' \) | head -5)
    files="$files$(find /dev/shm -maxdepth 1 -name '*isomer*' | head -5)"
    [ -z "$files" ] || fail "files are left: $files"
    [ "$(hostname)" = "$host" ] || { fail "the host's name is $(hostname), and was $host" && hostname "$host"; }
}
