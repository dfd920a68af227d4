# SPDX-License-Identifier: MIT
# What may be under way where, on any path through a kernel: gfx9 assembly with one instruction a line becomes a line for
# each kernel whose name matches `kernels`, with the words of what some path does:
#   load_at_barrier   a load of 16 bytes (payload) has not come back when its wave reaches a barrier
#   unflushed         a flag is stored while a store is not written back, or the write-back is not waited for
#   ungathered        the same, or no barrier stands between that wait and the flag: other waves may not be so far
#   overtaken         a signal (an addition to 8 bytes) is sent while payload (stores of 16 bytes or of one) may be under
#                     way in another wave: since that store each wave has not waited for its own and then met the others
#   call              a function is called, of which nothing is known
# Flags are stores of 8 bytes and system scope at addresses without an offset (words of a lane have offsets); gfx942 only,
# since gfx90a does not spell scopes. A path that the program never takes counts too. Used by isa.sh.

# Before instruction i: stores[i], a set: 1 a store is in this wave's caches, 2 its write-back is under way, 4 it is
# done. 8 payload is on its way, 16 this wave has waited for it, and met no other since. loads[i]: memory instructions since the last load, itself the first; they end in order; 0: it has come back.
function merge(i, set, count) {
    if (i > n || (i in stores && or_bits(stores[i], set) == stores[i] && (count == 0 || (loads[i] > 0 && loads[i] <= count))))
        return
    stores[i] = i in stores ? or_bits(stores[i], set) : set
    loads[i] = i in loads && loads[i] > 0 && (count == 0 || loads[i] < count) ? loads[i] : count
    work[++todo] = i
}
function has(set, bit) { return int(set / bit) % 2 }
function or_bits(a, b,  bit, sum) {
    for (bit = 1; bit <= 16; bit *= 2)
        sum += (has(a, bit) || has(b, bit)) * bit
    return sum
}
function move_bit(set, from, to) { return has(set, from) ? or_bits(set - from, to) : set }

function memory(i) {
    if (count > 0 && count < 64)
        count++
    if (op[i] ~ /_load_dwordx4/)
        count = 1
    if (op[i] ~ /_atomic_add_x2/)
        found["overtaken"] = found["overtaken"] || has(set, 8) || has(set, 16)
    if (op[i] !~ /_store/)
        return
    if (op[i] ~ /_store_(dwordx4|byte)/)
        set = or_bits(set, 8)
    if (arg[i] !~ / sc0 sc1$/)
        set = or_bits(set, 1)
    else if (op[i] ~ /dwordx2/ && arg[i] !~ /offset/) {
        found["unflushed"] = found["unflushed"] || has(set, 1) || has(set, 2)
        found["ungathered"] = found["ungathered"] || set % 8 > 0
    }
}
function wait(i,  left) {
    if (!match(arg[i], /vmcnt\([0-9]+\)/))
        return
    left = substr(arg[i], RSTART + 6, RLENGTH - 7) + 0
    if (count > left)
        count = 0
    if (left == 0)
        set = move_bit(move_bit(set, 2, 4), 8, 16)
}
# From i to the instructions that may follow.
function step(i) {
    set = stores[i]
    count = loads[i]
    if (op[i] ~ /^(global|flat|buffer|scratch)_(load|store|atomic)/)
        memory(i)
    else if (op[i] == "buffer_wbl2")
        set = move_bit(set, 1, 2)
    else if (op[i] == "s_waitcnt")
        wait(i)
    else if (op[i] == "s_barrier") {
        found["load_at_barrier"] = found["load_at_barrier"] || count > 0
        set -= 4 * has(set, 4) + 16 * has(set, 16)
    } else if (op[i] ~ /^s_swappc/)
        found["call"] = 1
    if (op[i] ~ /^s_c?branch/)
        merge(at[arg[i]], set, count)
    if (op[i] !~ /^s_(branch|endpgm)/)
        merge(i + 1, set, count)
}
function kernel(  line, word) {
    split("", found)
    todo = 0
    merge(1, 0, 0)
    while (todo > 0)
        step(work[todo--])
    line = name
    for (word in found)
        if (found[word])
            line = line " " word
    print line
}

/^[A-Za-z_][A-Za-z0-9_]*:/ {
    name = $1
    sub(/:.*/, "", name)
    split("", op); split("", arg); split("", at); split("", stores); split("", loads)
    n = 0
}
/^\.LBB/ { label = $1; sub(/:.*/, "", label); at[label] = n + 1 }
/^\t[a-z]/ && name ~ kernels {
    sub(/ *;.*/, "")
    op[++n] = $1
    arg[n] = $0
    sub(/^\t[^ \t]*[ \t]*/, "", arg[n])
}
/^\.Lfunc_end/ && n > 0 { if (name ~ kernels) kernel(); n = 0 }
