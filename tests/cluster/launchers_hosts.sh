#!/bin/bash
# SPDX-License-Identifier: MIT
# oshrun --hosts: one job over several hosts. Here the agent runs every host's part on this machine, so what is tested is
# all but ssh and the network; soft_roce.sh starts jobs over two nodes this way.
. "$(dirname "$0")/cluster.sh"
oshrun=$(program oshrun)
launched=$(program launched)
agent=$work/agent
printf '#!/bin/sh\necho "$1" >>"%s/hosts"\nshift\nexec sh -c "$*"\n' "$work" >"$agent"
chmod +x "$agent"
export SHMEM_UID_ADDRESS=127.0.0.1

over() { # SECONDS HOSTS OSHRUN-WORDS...
    local seconds=$1 hosts=$2
    shift 2
    job "$seconds" "$oshrun" --hosts "$hosts" --agent "$agent" "$@"
}

what_works() {
    over 20 a:2,b:1,c --tag-output sh -c 'echo "$SHMEM_RANK of $SHMEM_SIZE, $1"; echo error >&2' - "it's \$HOME"
    expect_status 0 "three hosts"
    for pe in 0 1 2 3; do
        expect_lines 1 "^\\[$pe\\] $pe of 4, it's .HOME\$" "PE $pe of three hosts"
        grep -qx "\\[$pe\\] error" "$work/err" || fail "stderr of PE $pe"
    done
    [ "$(sort "$work/hosts" | tr '\n' ' ')" = "a b c " ] || fail "each host has one agent: $(cat "$work/hosts")"
    over 20 a:2,b:2 "$launched" ranks 4
    expect_ranks 4 "two hosts"
    over 20 a:3 "$launched" ranks 3
    expect_ranks 3 "one host"
    ISO_C='3 4' SHMEM_LOG=debug over 20 a:1,b:1 -x ISO_B=1 -x ISO_C --wdir / sh -c 'echo "$ISO_B $ISO_C $SHMEM_LOG"; pwd'
    expect_lines 2 '^1 3 4 debug$' "variables on other hosts"
    expect_lines 2 '^/$' "the folder on other hosts"
    input=$here/cluster.sh over 20 a:1,b:1 wc -c
    expect_lines 2 '^0$' "no PE has a stdin"
    over 20 a:1,b:1 sh -c 'tr "\0" "\n" </proc/$PPID/cmdline | grep -c "[0-9a-f]\{32\}"'
    expect_lines 2 '^0$' "the secret is in no command line"
}

what_fails() {
    over 10 a:2,b:2 sh -c '[ $SHMEM_RANK != 3 ] || kill -9 $$; sleep 100'
    expect_status 137 "a PE is killed"
    expect_message "^oshrun: PE 3 \\(sh, pid [0-9]+ on $(hostname)\\) was killed by signal 9" "a PE is killed"
    over 10 a:2,b:2 sh -c '[ $SHMEM_RANK != 0 ] || exit 7; sleep 100'
    expect_status 7 "a PE fails"
    expect_message "^oshrun: PE 0 \\(sh, pid [0-9]+ on $(hostname)\\) exited with status 7" "a PE fails"
    over 10 a:2,b:2 sh -c '[ $SHMEM_RANK != 1 ] || kill -9 $PPID; sleep 100'
    expect_error_status "the oshrun of a host is killed"
    expect_message '^oshrun: host a: .* was killed by signal 9; it did not reach the host, or lost it' "an oshrun is killed"
    over 10 a:1,b:1 /no/such/program
    expect_status 127 "no program"
    printf '#!/bin/sh\nexit 255\n' >"$work/unreached"
    chmod +x "$work/unreached"
    job 10 "$oshrun" --hosts a:1,b:1 --agent "$work/unreached" true
    expect_status 255 "an agent that fails"
    expect_message '^oshrun: host [ab]: .* exited with status 255; it did not reach the host' "an agent that fails"
    job 10 "$oshrun" --hosts a:1 --agent /no/such/agent true
    expect_status 127 "no agent"
    SHMEM_UID_ADDRESS= job 10 "$oshrun" --hosts localhost:1,b:1 --agent "$agent" true
    expect_error_status "an address that the second host cannot reach"
    expect_message '^oshrun: localhost is .* here, which b cannot reach; SHMEM_UID_ADDRESS names' "localhost and b"
    SHMEM_UID_ADDRESS= job 10 "$oshrun" --hosts no-such-host.invalid:1 --agent "$agent" true
    expect_message '^oshrun: the address of no-such-host.invalid is not known: ' "a host that is not known"
    for hosts in "" a:0 a:x a: :2 a,,b -oProxyCommand=x:1 a:5000; do
        over 10 "$hosts" true
        expect_status 2 "--hosts '$hosts'"
        expect_message '^oshrun: --hosts .*: entries are HOST or HOST:N' "--hosts '$hosts'"
    done
    over 10 a:1 -n 2 true
    expect_status 2 "--hosts and -n"
    job 10 "$oshrun" --node 0:1 true
    expect_status 2 "--node by hand"
}

# All PEs hear of a signal, whatever becomes of oshrun.
what_ends() {
    local prints='trap "echo ended $SHMEM_RANK; exit 3" INT TERM; echo here; while :; do sleep 0.1; done'
    for signal in INT TERM; do
        job 20 timeout --foreground -s $signal 2 "$oshrun" --hosts a:2,b:2 --agent "$agent" sh -c "$prints"
        expect_lines 4 '^ended [0-3]$' "SIG$signal"
    done
    # The agents run beside each other, as ssh and its remote side do: the head's death ends the one, not the other.
    printf '#!/bin/sh\nshift\nsh -c "$*"\nexit $?\n' >"$work/apart"
    chmod +x "$work/apart"
    job 20 "$oshrun" --hosts a:2,b:2 --agent "$work/apart" sh -c 'echo here
        [ $SHMEM_RANK != 1 ] || { sleep 0.5; kill -9 '"\$(cut -d' ' -f4 /proc/\$(cut -d' ' -f4 /proc/\$PPID/stat)/stat)"'; }; sleep 100'
    expect_status 137 "SIGKILL of the oshrun that the user called"
    for _ in $(seq 40); do
        [ "$(grep -c 'is gone' "$work/err")" -lt 2 ] || break
        sleep 0.1
    done
    [ "$(grep -c "^oshrun: the oshrun that started this job is gone, or the connection to it; ending the PEs on $(hostname)\$" "$work/err")" -eq 2 ] ||
        fail "the oshrun of each host says that the one that started the job is gone"
    job 20 timeout --foreground -s USR1 -k 1 1 "$oshrun" --hosts a:2,b:1 --agent "$agent" \
        sh -c 'trap "echo user" USR1; while :; do sleep 0.1; done'
    expect_lines 3 '^user$' "SIGUSR1, and then SIGKILL of oshrun"
    for _ in $(seq 50); do
        [ -n "$(marked_processes)" ] || break
        sleep 0.1
    done
    [ -z "$(marked_processes)" ] || fail "processes outlive oshrun"
}

what_works
what_fails
what_ends
finish
