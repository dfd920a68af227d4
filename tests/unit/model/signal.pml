/* SPDX-License-Identifier: MIT */
/* put_signal: two senders each put two words to PE 2, then behind a fence the signal: the one sets its own word, the
 * other adds to a counter (twice: its second put goes elsewhere). Who has seen a signal reads the data that came before.
 * Broken with NO_FENCE. */
#define PROCESSES 3
#define WORDS 9
#define SET_SIGNAL 6
#define COUNTER 7
#define ACK 8
#include "weak.h"

inline before_signal(me)
{
#ifndef NO_FENCE
    FENCE(me)
#else
    skip
#endif
}

inline signal_add(me)
{
#ifndef NO_FENCE
    fetch_add(me, COUNTER, 1)
#else
    atomic { mem[COUNTER] = mem[COUNTER] + 1 }
#endif
}

proctype setter()
{
    byte round;
    for (round : 1 .. 2) {
        store(0, 0, round);
        store(0, 1, round);
        before_signal(0);
        store(0, SET_SIGNAL, round);
        LOAD(0, ACK) >= round /* the data may be overwritten */
    }
}

proctype adder()
{
    store(1, 2, 7);
    store(1, 3, 7);
    signal_add(1);
    store(1, 4, 8);
    store(1, 5, 8);
    signal_add(1)
}

proctype receiver()
{
    byte round;
    for (round : 1 .. 2) {
        LOAD(2, SET_SIGNAL) == round;
        assert(LOAD(2, 0) == round && LOAD(2, 1) == round);
        store(2, ACK, round)
    }
    LOAD(2, COUNTER) >= 1;
    assert(LOAD(2, 2) == 7 && LOAD(2, 3) == 7);
    LOAD(2, COUNTER) == 2;
    assert(LOAD(2, 4) == 8 && LOAD(2, 5) == 8)
}

init { atomic { run setter(); run adder(); run receiver() } }
