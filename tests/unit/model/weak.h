/* SPDX-License-Identifier: MIT */
/* A memory in which the stores of a process become visible in any order, for the models beside it: one pending store
 * for each (process, word), which the process `memory` lets out whenever it likes; a later store to the same word takes
 * its place. Loads of a process are in order and see its own stores. Give WORDS and PROCESSES before including it, and
 * RELEASES (at most 32 words) for release(). */
#define PENDING (WORDS * PROCESSES)

byte mem[WORDS];
bool held[PENDING];
byte value[PENDING];
byte n_held[PROCESSES];

#ifdef RELEASES
int behind[PENDING]; /* words of the same process whose pending stores come before this one */
hidden int before;
hidden byte w;
#define IS_FREE(i) (behind[i] == 0)
#else
#define IS_FREE(i) true
#endif

#define LOAD(me, word) (held[(me) * WORDS + (word)] -> value[(me) * WORDS + (word)] : mem[word])

inline store(by, at, what)
{
    d_step {
        n_held[by] = n_held[by] + (held[(by) * WORDS + (at)] -> 0 : 1);
        held[(by) * WORDS + (at)] = true;
        value[(by) * WORDS + (at)] = what
    }
}

/* Earlier stores of the process are visible before this one; later ones need not wait for it. */
#ifdef RELEASES
inline release(by, at, what)
{
    atomic {
        !held[(by) * WORDS + (at)]; /* the last one to this word is visible */
        d_step {
            before = 0;
            w = 0;
            do
            :: w < WORDS ->
                before = before | (held[(by) * WORDS + w] -> 1 << w : 0);
                w++
            :: else -> break
            od;
            n_held[by]++;
            held[(by) * WORDS + (at)] = true;
            value[(by) * WORDS + (at)] = what;
            behind[(by) * WORDS + (at)] = before
        }
    }
}
#endif

/* Earlier stores are visible before later ones. */
#define FENCE(me) (n_held[me] == 0)

/* Acts on memory itself; a release too, as all read-modify-writes of the library are. */
inline fetch_add(by, at, what)
{
    atomic { n_held[by] == 0; mem[at] = mem[at] + what }
}

active proctype memory()
{
    byte i;
end:
    do
    :: atomic {
        n_held[0] + n_held[1] + n_held[PROCESSES - 1] > 0 ->
        do /* any of the pending stores */
        :: i < PENDING && held[i] && IS_FREE(i) -> break
        :: i < PENDING -> i++
        :: i == PENDING -> break
        od;
        if
        :: i < PENDING ->
            mem[i % WORDS] = value[i];
            held[i] = false;
            value[i] = 0;
            n_held[i / WORDS]--;
#ifdef RELEASES
            d_step {
                w = 0;
                do
                :: w < WORDS ->
                    behind[i / WORDS * WORDS + w] = behind[i / WORDS * WORDS + w] & ~(1 << (i % WORDS));
                    w++
                :: else -> break
                od
            }
#endif
        :: else
        fi;
        i = 0
       }
    od
}
