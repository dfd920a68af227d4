/* SPDX-License-Identifier: MIT */
/* The protocols of slots on the host, one of these names each: FLAGS, DISSEMINATION (barriers, around data that is
 * rewritten), INBOX (a payload, then its number, in two banks), SCRATCH (data behind the central counter, in two
 * banks), PUSH (a root that runs ahead, with flags that only grow), PULL (an owner that rewrites its source), REUSE
 * (another team in the memory of one that has closed). A release store does not hold up its PE: release() in weak.h.
 * Broken with PLAIN (flags and numbers without release), ONE_BARRIER (data rewritten behind one), FEW_ROUNDS (of the
 * dissemination), ONE_BANK, ONE_WAY (PE 0 sends, no PE answers), NO_DONE (the owner does not wait for its reader),
 * FROM_ZERO (the next team's epochs begin again) and NOT_CLOSED (the next team begins before all have closed). */
#if defined(PUSH) || defined(PULL)
#define N 2
#else
#define N 3
#endif
#define PROCESSES N
#define RELEASES
#ifdef ONE_BANK
#define BANKS 1
#else
#define BANKS 2
#endif

/* Words at receiver `to`, of sender `from`. */
#define PAIR(to, from) ((to) * (N - 1) + ((from) + N - (to) - 1) % N)
#define PAIRS (N * (N - 1))
#define FLAG(to, from) PAIR(to, from)
#define DATA(pe) (PAIRS + (pe))
#define NUMBER(to, from, epoch) ((epoch) % BANKS * PAIRS + PAIR(to, from))
#define PAYLOAD(to, from, epoch) (BANKS * PAIRS + NUMBER(to, from, epoch))
#ifdef INBOX
#define WORDS (2 * BANKS * PAIRS)
#else
#define PLACE(pe, epoch) (PAIRS + (epoch) % BANKS * N + (pe))
#define COUNTER (PAIRS + BANKS * N)
#define RELEASED (COUNTER + 1)
#define CLOSED COUNTER
#define GRANT RELEASED
#define WORDS (RELEASED + 1)
#endif
#include "weak.h"

#ifdef PLAIN
#define publish store
#else
#define publish release
#endif

#define AWAIT(me, word, epoch) LOAD(me, word) >= (epoch)

#ifdef FLAGS
#define ROUNDS 2
inline barrier(me, epoch)
{
    for (i : 1 .. N - 1) {
        publish(me, FLAG((me + i) % N, me), epoch)
    }
    for (i : 1 .. N - 1) {
        AWAIT(me, FLAG(me, (me + i) % N), epoch)
    }
}
#endif
#ifdef DISSEMINATION
#define ROUNDS 2
#ifdef FEW_ROUNDS
#define DISTANCES 1
#else
#define DISTANCES 2
#endif
inline barrier(me, epoch)
{
    for (i : 1 .. DISTANCES) { /* 1, 2 */
        publish(me, FLAG((me + i) % N, me), epoch);
        AWAIT(me, FLAG(me, (me + N - i) % N), epoch)
    }
}
#endif

#if defined(FLAGS) || defined(DISSEMINATION)
proctype pe(byte me)
{
    byte round, i;
    for (round : 1 .. ROUNDS) {
        store(me, DATA(me), round);
        barrier(me, 2 * round - 1);
        for (i : 0 .. N - 1) {
            assert(LOAD(me, DATA(i)) == round)
        }
#ifndef ONE_BARRIER
        barrier(me, 2 * round)
#endif
    }
}
#endif

#ifdef INBOX
#define ROUNDS 3
#ifdef ONE_WAY
#define SENDS(from, to) ((from) == 0)
#else
#define SENDS(from, to) true
#endif
proctype pe(byte me)
{
    byte round, i;
    for (round : 1 .. ROUNDS) {
        for (i : 1 .. N - 1) {
            if
            :: SENDS(me, (me + i) % N) ->
                store(me, PAYLOAD((me + i) % N, me, round), 10 * me + round);
                publish(me, NUMBER((me + i) % N, me, round), round)
            :: else
            fi
        }
        for (i : 1 .. N - 1) {
            if
            :: SENDS((me + i) % N, me) ->
                AWAIT(me, NUMBER(me, (me + i) % N, round), round);
                assert(LOAD(me, PAYLOAD(me, (me + i) % N, round)) == 10 * ((me + i) % N) + round)
            :: else
            fi
        }
    }
}
#endif

#ifdef SCRATCH
#define ROUNDS 4
proctype pe(byte me)
{
    byte round, i;
    for (round : 1 .. ROUNDS) {
        store(me, PLACE(me, round), 10 * me + round);
        atomic { /* acquire and release; the last one resets the counter before it releases the others */
            n_held[me] == 0;
            mem[COUNTER] = mem[COUNTER] + 1;
            if
            :: mem[COUNTER] == N ->
                store(me, COUNTER, 0);
                publish(me, RELEASED, round)
            :: else
            fi
        }
        AWAIT(me, RELEASED, round);
        for (i : 0 .. N - 1) {
            assert(LOAD(me, PLACE(i, round)) == 10 * i + round)
        }
    }
}
#endif

#ifdef PUSH
#define ROUNDS 4
proctype pe(byte me)
{
    byte round;
    for (round : 1 .. ROUNDS) {
        if
        :: me == 0 ->
            store(me, PAIRS + round - 1, round);
            publish(me, FLAG(1, 0), round)
        :: else ->
            AWAIT(me, FLAG(1, 0), round);
            assert(LOAD(me, PAIRS + round - 1) == round)
        fi
    }
}
#endif

#ifdef PULL
#define ROUNDS 4
proctype pe(byte me)
{
    byte round;
    for (round : 1 .. ROUNDS) {
        if
        :: me == 0 ->
            store(me, DATA(0), round);
            publish(me, FLAG(1, 0), round);
#ifndef NO_DONE
            AWAIT(me, FLAG(0, 1), round)
#endif
        :: else ->
            AWAIT(me, FLAG(1, 0), round);
            assert(LOAD(me, DATA(0)) == round);
            publish(me, FLAG(0, 1), round)
        fi
    }
}
#endif

/* Team 1 is PEs 0 and 1, with two barriers, and an epoch in which PE 0 sends and PE 1 does not wait. Team 2 is PEs 1 and
 * 2 in the same memory: flags of member i lie in place i, so PE 2 writes where PE 0 wrote. */
#ifdef REUSE
#define EPOCHS 2
#ifdef FROM_ZERO
#define FIRST 0
#else
#define FIRST (EPOCHS + 1)
#endif
proctype pe(byte me)
{
    byte epoch;
    if
    :: me == 2 ->
        AWAIT(me, GRANT, 1);
        store(me, DATA(2), 77);
        publish(me, FLAG(1, 0), FIRST + 1)
    :: else ->
        for (epoch : 1 .. EPOCHS) {
            publish(me, FLAG(1 - me, me), epoch);
            AWAIT(me, FLAG(me, 1 - me), epoch)
        }
        if
        :: me == 0 -> publish(me, FLAG(1, 0), EPOCHS + 1)
        :: else
        fi;
        fetch_add(me, CLOSED, 1);
        if
        :: me == 0
        :: else ->
#ifndef NOT_CLOSED
            AWAIT(me, CLOSED, 2);
#endif
            publish(me, GRANT, 1);
            AWAIT(me, FLAG(1, 0), FIRST + 1);
            assert(LOAD(me, DATA(2)) == 77);
            assert(LOAD(me, FLAG(1, 0)) == FIRST + 1)
        fi
    fi
}
#endif

init {
    atomic {
        run pe(0);
        run pe(1);
#if N == 3
        run pe(2)
#endif
    }
}
