# SPDX-License-Identifier: MIT
# Sourced by scripts that say what wrong uses must print: each is refused, or ends its job, with one sentence: call,
# argument, value, allowed range. The program is $program, which makes the wrong use that its argument names, and lists
# them all without one; LAUNCH is "oshrun -n".
#   wrong VARIABLE=VALUE CASE CALL WORDS...   one line "[...] CALL: ..." must have all of WORDS (regular expressions)
#   wrong_end                                 every case of the program was looked at, and none failed
#   SHMEM_TEST_WRONG=3                        of the environment: a third of the cases, others every second
#   prefix, most_seconds                      whose line it must be, as a regular expression; how long a job may take
set -u
failed=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
unset SHMEM_DEBUG SMA_DEBUG SHMEM_LOG
any=NOTHING=1
subject=$(basename "$0" .sh)
prefix='^\[[^]]*\]'
most_seconds=20
parts=${SHMEM_TEST_WRONG:-1}
number=$(date +%s)

wrong() {
    number=$((number + 1))
    [ $((number % parts)) -eq 0 ] || return 0
    variables=$1
    name=$2
    call=$3
    shift 3
    begin=$(date +%s)
    env "$variables" timeout $((2 * most_seconds)) $LAUNCH 2 "$program" "$name" >"$out" 2>&1
    seen=$?
    took=$(($(date +%s) - begin))
    problem=
    if grep -q "skipped: " "$out"; then
        cat "$out"
        exit 77
    fi
    [ $seen -ne 0 ] || problem="exit status, expected nonzero, seen 0"
    [ $took -le $most_seconds ] || problem="seconds, expected at most $most_seconds, seen $took"
    grep -q "the call went through" "$out" && problem="the call went through"
    line=$(grep -E "$prefix $call: " "$out" | head -n 1)
    [ -n "$line" ] || problem="expected a line '$prefix $call: ...'"
    for word in "$@"; do
        printf '%s\n' "$line" | grep -q -i -E -e "$word" || problem="expected '$word' in: $line"
    done
    if [ -n "$problem" ]; then
        echo "$subject $name: $problem"
        cat "$out"
        failed=1
    fi
}

wrong_end() {
    for name in $("$program"); do
        grep -q -E "^wrong [^ ]+ $name " "$0" || {
            echo "$subject $name: not looked at by $subject.sh"
            failed=1
        }
    done
    exit $failed
}
