#!/bin/bash
# SPDX-License-Identifier: MIT
# `isomer-info --job` names the cause of jobs that hang, as text and as JSON, and changes nothing: the jobs that can go
# on do. PEs are late in user code, stopped, or in each other's way; on one node and on several. Another user sees
# nothing.
. "$(dirname "$0")/cluster.sh"
oshrun=$(program oshrun)
info=$(program isomer-info)
sick=$(program sick)
command -v python3 >/dev/null || skip "there is no python3"
export SHMEM_TIMEOUT=0
launcher=0

# begin NAME COMMAND...: a job in the background; `launcher` is the number of its process.
begin() {
    name=$1
    shift
    rm -f "$work/go"
    env ISO_TEST_MARK="$mark" TMPDIR="$work/tmp" "$@" >"$work/job_out" 2>"$work/job_err" </dev/null &
    launcher=$!
}

# Until the job's description matches.
shows() {
    for ((i = 0; i < 200; i++)); do
        job 30 "$info" --job $launcher
        grep -qE -- "$1" "$work/out" && return
        sleep 0.1
    done
    fail "$name: no line matches '$1'"
}

# says PYTHON: what is true of the JSON object `j`.
says() {
    job 30 "$info" --job $launcher --json
    expect_status 0 "$name, --json"
    python3 -c "import json, sys; j = json.load(open(sys.argv[1])); assert $1, j" "$work/out" 2>>"$work/err" ||
        fail "$name: not so: $1"
}

# The words of NCCL's RAS, by a monitor beside the job, of which PE 1 is stopped.
ras_answers() {
    local port
    port=$(python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])")
    ISO_TEST_MARK=$mark "$info" --job $launcher --ras "$port" 2>"$work/ras_err" &
    ras=$!
    cat >"$work/ask.py" <<'END'
import json, socket, sys, time
def ask(port, *words):
    for attempt in range(100):
        try:
            with socket.create_connection(("127.0.0.1", port), 20) as s:
                s.sendall("".join(w + "\n" for w in words).encode())
                return b"".join(iter(lambda: s.recv(65536), b"")).decode()
        except ConnectionRefusedError:
            time.sleep(0.1)
port = int(sys.argv[1])
head, _, rest = ask(port, "CLIENT PROTOCOL 2", "TIMEOUT 5", "set format json\r", "STATUS").partition("{")
assert head == "SERVER PROTOCOL 2\nOK\nOK\n", head
comm = json.loads("{" + rest)["communicators"][0]
assert comm["size"] == 3 and comm["ranks_count"] == 2 and [r["rank"] for r in comm["ranks"]] == [0, 2], comm
[missing] = comm["missing_ranks"]
assert missing["rank"] == 1 and missing["status"] == {"unresponsive": True, "considered_dead": False}, comm
assert "culprit: pe 1 " in ask(port, "VERBOSE STATUS")
assert "allowed: CLIENT PROTOCOL n" in ask(port, "MONITOR", "TIMEOUT x", "STATUS")
silent = socket.create_connection(("127.0.0.1", port), 20)
silent.sendall(b"TIMEOUT 0.5\n")
assert silent.recv(16) == b"OK\n" and silent.recv(16) == b""  # it is dropped
long = socket.create_connection(("127.0.0.1", port), 20)
long.sendall(b"x" * 300)
try:
    assert long.recv(16) == b""
except ConnectionResetError:
    pass
END
    python3 "$work/ask.py" "$port" 2>>"$work/err" || fail "$name: the words of RAS"
    if [ "$(id -u)" -eq 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null; then
        said=$(setpriv --reuid=65534 --regid=65534 --clear-groups bash -c "exec 3<>/dev/tcp/127.0.0.1/$port
            echo STATUS >&3
            timeout 10 cat <&3" 2>/dev/null)
        [ -z "$said" ] || fail "$name: another user gets the answer $said"
        grep -q 'a connection of another user was dropped' "$work/ras_err" || fail "$name: another user was not noticed"
    fi
}

ends_well() {
    touch "$work/go"
    wait $launcher || fail "$name: the job ended with status $?"
    [ "$(grep -c ' ok$' "$work/job_out")" -eq "$1" ] || fail "$name: not all PEs came to the end"
    job 30 "$info" --job $launcher
    expect_status 1 "$name, after the end"
    expect_message 'no job of this user on this host is "[0-9]+"; allowed: ' "$name, after the end"
}

is_ended() {
    kill -TERM $launcher
    wait $launcher
}

for nodes in "" 0,1; do
    export SHMEM_VIRTUAL_NODES=$nodes
    begin "a late PE, nodes $nodes" "$oshrun" -n 4 "$sick" file "$work/go"
    shows '^  pe 1-3 wait in shmem_barrier_all for pe 0, for [0-9.]+'
    expect_lines 1 '^job [0-9a-f]{8}: 4 PEs, begun [0-9]+ s ago; seen on this host: 4 PEs of 1 node$' "$name"
    expect_lines 1 '^  pe 0 does not wait in the library$' "$name"
    expect_lines 1 '^  culprit: pe 0 \(pid [0-9]+ on .*\) does not wait in the library; its process [a-z ]+ and has used [0-9.]+ s of CPU time$' "$name"
    says "[c['pe'] for c in j['culprits']] == [0] and j['processes'][2]['waits_for'] == [0] and j['cycle'] == []"
    says "j['n_pes'] == j['n_seen'] == 4 and j['processes'][0]['resident_bytes'] > 0 and j['processes'][1]['steps'] > 0"
    says "j['processes'][1]['waits'][0]['call'] == 'shmem_barrier_all' and j['processes'][0]['heap_bytes'] > 0"
    number=$(sed -n 's/^{"job": "\([0-9a-f]*\)".*/\1/p' "$work/out")
    job 30 "$info" --jobs
    expect_lines 1 "^job $number: 4 PEs, 4 of them on this host, begun [0-9]+ s ago, process [0-9]+ sick$" "$name, --jobs"
    job 30 "$info" --jobs --json
    python3 -c "import json, sys; [j] = [j for j in json.load(open(sys.argv[1]))['jobs'] if j['job'] == '$number']" "$work/out" ||
        fail "$name: --jobs --json does not list it once"
    job 30 "$info" --job "$number"
    expect_message "^  culprit: pe 0 " "$name, by its digits"
    ends_well 4
done
unset SHMEM_VIRTUAL_NODES

begin "a stopped PE" "$oshrun" -n 3 "$sick" stop
shows '^  culprit: pe 1 \(pid [0-9]+ on .*\) is stopped, by a signal or a debugger; SIGCONT lets it go on$'
says "j['processes'][1]['state'] == 'stopped' and [c['pe'] for c in j['culprits']] == [1]"
pid=$(python3 -c "import json, sys; print(json.load(open(sys.argv[1]))['processes'][1]['pid'])" "$work/out")
ras_answers
kill -CONT "$pid"
ends_well 3

wait "$ras" || fail "a monitor ended with status $? behind the job"

begin "two locks" "$oshrun" -n 3 "$sick" locks
shows '^  cycle: pe [01] waits in shmem_set_lock for pe [01], pe [01] waits in shmem_set_lock for pe [01]$'
says "sorted(j['cycle']) == [0, 1] and j['culprits'] == []"
is_ended

begin "a lost signal" "$oshrun" -n 3 "$sick" lost
shows '^  culprit: pe 1 .* waits in shmem_signal_wait_until at address 0x[0-9a-f]+ \(expected == 7, seen 0\), and no PE is left that could store it: the signal was lost or never sent$'
expect_lines 1 '^  pe 0, 2 wait in shmem_barrier_all for pe 1, ' "$name"
says "[c['pe'] for c in j['culprits']] == [1] and 'shmem_signal_wait_until' in j['culprits'][0]['why']"
is_ended

begin "one PE" env SHMEM_BOOT=single "$sick" file "$work/go"
shows '^job [0-9a-f]{8}: 1 PE, '
expect_lines 1 '^  no PE waits in the library for longer than 10 ms$' "$name"
job 30 timeout 3 "$info" --job $launcher --watch
[ "$(grep -c '^job ' "$work/out")" -ge 2 ] || fail "$name: --watch does not come again"
if [ "$(id -u)" -eq 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups "$info" --version >/dev/null 2>&1; then
    job 30 setpriv --reuid=65534 --regid=65534 --clear-groups "$info" --job $launcher
    expect_status 1 "another user"
    expect_message 'no job of this user on this host' "another user"
fi
ends_well 1

job 30 "$info" --job "4x"
expect_status 1 "a wrong number"
expect_message 'no job of this user on this host is "4x"; allowed: the 8 digits' "a wrong number"
job 30 "$info" --job 12 --other
expect_status 2 "a wrong option"
finish
