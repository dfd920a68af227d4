#!/bin/bash
# SPDX-License-Identifier: MIT
# kill -9 of a random PE at a random time, in jobs of 2 to 8 PEs that do everything at once: the job must end soon, say
# who died, fail, and leave nothing behind. ISO_FAULTS (under oshrun, 200) and ISO_FAULTS_OTHER (under mpirun, srun, and
# without a launcher, 10) are the numbers of jobs; ISO_FAULT_SEED repeats a sequence.
. "$(dirname "$0")/cluster.sh"
. "$here/slurm.sh"
. "$here/uid.sh"
victim=$(program fault_victim)
oshrun=$(program oshrun)
RANDOM=${ISO_FAULT_SEED:-$$}
limit_ms=6000 # beside compilers and other tests

# Without a launcher the survivors end each other. A PE says which one died, and none blames another PE.
expect_right_name() {
    grep -qE "^\[pe [0-9]+\] .*pe $1 .*died|pe $1 .*(gone|lost|closed)" "$work/err" || fail "$2: no PE says that pe $1 died"
    ! grep -E '^\[pe [0-9]+\] .*pe [0-9]+ .*died' "$work/err" | grep -vq "\] .*pe $1 .*died" || fail "$2: blames another PE"
}

# fault LAUNCHER...: one job; "uid" starts it by hand. The last line of a failure says how to repeat it.
fault() {
    local n=$((2 + RANDOM % 7)) seed=$RANDOM after_ms=$((RANDOM % 120)) pe before=$failures what
    pe=$((RANDOM % n))
    local arguments="$victim $seed $after_ms $pe"
    # mpirun 4.1 itself can hang when a process dies in PMIx_Init, so there no PE is killed during shmem_init.
    case "$1" in
    "$oshrun") [ $((RANDOM % 2)) -eq 0 ] || arguments="$arguments early" ;;
    esac
    if [ "$1" = uid ]; then
        what="start_by_hand $n UID $arguments"
        job 30 start_by_hand $n "$(new_uid)" $arguments
        expect_right_name $pe "$what"
    else
        what="$* -n $n $arguments"
        job 30 "$@" -n $n $arguments
        expect_message "(PE|pe|rank|task|process rank) $pe[ :]" "$what: no message names PE $pe"
    fi
    expect_within_ms $((limit_ms + after_ms + start_ms)) "$what"
    expect_error_status "$what"
    nothing_left
    [ $failures -eq $before ] || echo "    (that was: $what)"
}

# What the launcher itself takes, twice, and that the loop ends well when no PE dies: the limit counts from the death.
measure_start() {
    if [ "$1" = uid ]; then
        job 30 start_by_hand 4 "$(new_uid)" "$victim" 1 0 -1
    else
        job 30 "$@" -n 4 "$victim" 1 0 -1
    fi
    expect_status 0 "the loop under $1, nobody dies"
    start_ms=$((2 * took_ms))
}

series() {
    local count=$1 i
    shift
    [ "$count" -gt 0 ] || return
    measure_start "$@"
    for ((i = 0; i < count && failures < 5; i++)); do
        fault "$@"
    done
    echo "$i jobs under $(basename "$1"): $failures failures so far"
}

series "${ISO_FAULTS:-200}" "$oshrun"
series "${ISO_FAULTS_OTHER:-10}" uid
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
if [ -n "$mpirun" ] && "$mpirun" --version 2>&1 | grep -qE "Open MPI|OpenRTE"; then
    series "${ISO_FAULTS_OTHER:-10}" "$mpirun" --oversubscribe
else
    echo "not tested: mpirun is not installed"
fi
if slurm_start; then
    series "${ISO_FAULTS_OTHER:-10}" srun --mpi=pmix -N1
else
    echo "not tested: srun: $reason"
fi
finish
