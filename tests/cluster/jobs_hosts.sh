#!/bin/bash
# SPDX-License-Identifier: MIT
# `isomer-info --job` on one host of a job of two: the graph has the PEs of both, and names a culprit on the other one.
# The hosts are namespaces (network, names, processes) of this one, in which no process of the other is seen; the agent
# has a command run in the other one. A host that does not answer is named. Root only.
. "$(dirname "$0")/cluster.sh"
. "$here/nodes.sh"
info=$(program isomer-info)
sick=$(program sick)
command -v nsenter >/dev/null || skip "no nsenter (package util-linux)"
server=
stop_hosts() {
    local node
    umount "$work/proc" 2>/dev/null
    for node in $a $b; do
        [ ! -s "$work/$node" ] || kill -KILL "$(cat "$work/$node")" 2>/dev/null # process 1 there: all others end with it
    done
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
    remove_nodes
}
at_exit=stop_hosts
mkdir "$work/proc"
mount --bind /proc "$work/proc" || skip "/proc cannot be bound elsewhere"
for node in $a $b; do
    # shellcheck disable=SC2016
    ISO_TEST_MARK=$mark ip netns exec "$node" unshare -u -p -m -f --mount-proc sh -c 'hostname $0; exec sleep 300' "$node" &
    for ((i = 0; i < 100; i++)); do
        ps -eo pid=,args= | awk -v n="$node" '$2 == "sleep" { print $1 }' | while read -r pid; do
            [ "$(nsenter -t "$pid" -u hostname 2>/dev/null)" != "$node" ] || echo "$pid"
        done >"$work/$node"
        [ ! -s "$work/$node" ] || break
        sleep 0.05
    done
    [ -s "$work/$node" ] || skip "no process namespace can be made"
done

# on HOST COMMAND...: by the real /proc, which is seen in each of them
cat >"$work/on" <<S
#!/bin/bash
p=$work/proc/\$(cat "$work/\$1")/ns
shift
exec nsenter --net=\$p/net --uts=\$p/uts --mount=\$p/mnt --pid=\$p/pid "\$@"
S
# Namespaces of processes are entered from above only, so the agent asks this script to run its command.
mkfifo "$work/ask" "$work/answer"
cat >"$work/agent" <<S
#!/bin/bash
echo "\$1" >>"$work/asked"
echo "\$*" >"$work/ask"
cat "$work/answer"
S
chmod +x "$work/on" "$work/agent"
while read -r node command <"$work/ask"; do
    "$work/on" "$node" sh -c "$command" >"$work/answer"
done &
server=$!

uid=10.88.0.1:$((20000 + RANDOM % 12000)):$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
for rank in 0 1 2 3; do
    node=$([ $rank -lt 2 ] && echo "$a" || echo "$b")
    ISO_TEST_MARK=$mark "$work/on" "$node" env SHMEM_UID="$uid" SHMEM_SIZE=4 SHMEM_RANK=$rank SHMEM_TRANSPORT=ofi SHMEM_TIMEOUT=0 \
        "$sick" lost >"$work/pe$rank" 2>&1 &
    pes[rank]=$!
done
for ((i = 0; i < 200; i++)); do
    job 30 "$work/on" "$b" "$info" --jobs
    number=$(sed -n 's/^job \([0-9a-f]*\): 4 PEs, 2 of them on this host.*/\1/p' "$work/out")
    [ -z "$number" ] || break
    sleep 0.1
done
[ -n "$number" ] || fail "no job of two hosts: $(cat "$work"/pe?)"

# PE 1, on the first host, waits for a signal that nobody sends; asked on the second.
for ((i = 0; i < 100; i++)); do
    SHMEM_AGENT=$work/agent job 30 "$work/on" "$b" "$info" --job "$number"
    ! grep -q '^  culprit: pe 1 ' "$work/out" || break
    sleep 0.1
done
expect_status 0 "both hosts"
expect_lines 1 "^job $number: 4 PEs, begun [0-9]+ s ago; seen on this host: 2 PEs of 1 node, on other hosts: 2 PEs$" "both hosts"
expect_lines 1 '^  pe 0, 2-3 wait in shmem_barrier_all for pe 1, ' "both hosts"
expect_lines 1 "^  culprit: pe 1 \(pid [0-9]+ on $a\) waits in shmem_signal_wait_until .*: the signal was lost or never sent$" "both hosts"
SHMEM_AGENT=$work/agent job 30 "$work/on" "$b" "$info" --job "$number" --flight
expect_lines 1 '^  pe 1 has not come to call [0-9]+ of the world, shmem_barrier_all: its last one was call [0-9]+, ' "both hosts, --flight"
[ "$(sed -n 's/^{"pe": \([0-9]*\), .*/\1/p' "$work/out" | sort -u | tr -d '\n')" = 0123 ] || fail "both hosts, --flight: PEs are missing"
[ "$(sort -u "$work/asked")" = "$a" ] || fail "others than $a were asked: $(cat "$work/asked")"
SHMEM_AGENT=$work/agent job 30 "$work/on" "$b" "$info" --job "$number" --json
python3 -c "import json, sys; j = json.load(open(sys.argv[1])); assert j['n_seen'] == 4 and [c['pe'] for c in j['culprits']] == [1], j" \
    "$work/out" || fail "the JSON of both hosts"

SHMEM_AGENT=false job 30 "$work/on" "$b" "$info" --job "$number"
expect_status 0 "a host that does not answer"
expect_message "host $a has not answered: \"false\" ended without an answer \(status 1\); set SHMEM_AGENT" "a host that does not answer"
expect_lines 1 '^  not seen: 2 of the PEs, on hosts that were not asked or have not answered; ' "a host that does not answer"
SHMEM_AGENT=none job 30 "$work/on" "$b" "$info" --job "$number"
expect_no_message 'has not answered:' "nobody is asked"
printf '#!/bin/sh\nprintf "isomer-part 1 %s 4\\npe 0 2 7 S 0 0 0 0 x y\\nend\\n"\n' "$number" >"$work/liar"
chmod +x "$work/liar"
SHMEM_AGENT=$work/liar job 30 "$work/on" "$b" "$info" --job "$number"
expect_message "host $a has not answered:" "an answer of another protocol"
protocol=$("$info" 2>/dev/null | sed -n 's/.*(protocol \([0-9]*\)).*/\1/p')
cat >"$work/liar" <<S
#!/bin/sh
echo "a greeting of the shell"
echo "isomer-part $protocol $number 4"
echo "wait 1 2 3 4 5 0 0 0 0 1 4 shmem_early"
echo "pe 99 2 7 S 0 0 0 0 x y"
echo "wait 1 2 3 4 5 0 0 0 0 1 4 shmem_of_nobody"
echo "pe 2 2 7 S 0 0 0 0 x y"
echo "pe 1 77 7 S 0 0 0 0 x y"
printf 'pe 0 2 7 S 0 0 0 0 evil\033[2J y\n'
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do
    echo "wait 99999999999999999999 2 3 4 77 0 3 0 0 18446744073709551615 18446744073709551615 shmem_call_\$i"
done
echo end
S
SHMEM_AGENT=$work/liar job 30 "$work/on" "$b" "$info" --job "$number"
expect_status 0 "an answer that lies"
expect_lines 1 '^  0: 7 S, evil.\[2J, ' "an answer that lies"
[ "$(grep -c '^  pe 0 waits in shmem_call_' "$work/out")" -le 9 ] || fail "an answer that lies: more waits than a PE has"
expect_no_message 'shmem_(early|of_nobody)' "an answer that lies"

{
    kill -KILL "$server" "${pes[@]}" $(cat "$work/$a" "$work/$b")
    wait
} 2>/dev/null
finish
