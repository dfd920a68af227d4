/* SPDX-License-Identifier: MIT */
/* The ring to the proxy: two producers take tickets by compare-and-swap when the entry of the ticket is done and its
 * last user has read the result; the entry is written, then its number behind a fence; the proxy executes in order and
 * stores the result, then `done` behind a fence. Producer 0 waits for results, producer 1 does not and leaves its entry
 * to the next ticket at once. Broken with NO_FENCE (entry and number), NO_PROXY_FENCE (result and
 * done), NO_CREDIT (tickets without looking at done) and NO_TURN (without waiting for who still reads his result). */
#define ENTRIES 2
#define POSTS 2
#define PRODUCERS 2
#define PROCESSES 3
#define PROXY 2
#define WORDS (4 * ENTRIES + 2)
#define HEAD 0
#define DONE 1
#define WORD(t) (2 + (t) % ENTRIES)
#define SEQ(t) (2 + ENTRIES + (t) % ENTRIES)
#define RESULT(t) (2 + 2 * ENTRIES + (t) % ENTRIES)
#define TURN(t) (2 + 3 * ENTRIES + (t) % ENTRIES)
#include "weak.h"

byte posted[PRODUCERS * POSTS]; /* what the taker of a ticket will write */

#ifdef NO_CREDIT
#define HAS_CREDIT(t) true
#else
#define HAS_CREDIT(t) ((t) < ENTRIES || LOAD(me, DONE) + ENTRIES >= (t) + 1)
#endif
#ifdef NO_TURN
#define HAS_TURN(t) true
#else
#define HAS_TURN(t) (LOAD(me, TURN(t)) == (t))
#endif

proctype producer(byte me)
{
    byte i, t;
    bool mine;
    for (i : 1 .. POSTS) {
        mine = false;
        do
        :: mine -> break
        :: else ->
            t = LOAD(me, HEAD);
            if
            :: HAS_CREDIT(t) && HAS_TURN(t) ->
                atomic {
                    n_held[me] == 0;
                    if
                    :: mem[HEAD] == t -> mem[HEAD] = t + 1; posted[t] = 10 * me + i; mine = true
                    :: else
                    fi
                }
            :: mem[HEAD] != t -> skip /* look again */
            fi
        od;
        if
        :: me == 1 -> store(me, TURN(t), t + ENTRIES)
        :: else
        fi;
        store(me, WORD(t), 10 * me + i);
#ifndef NO_FENCE
        FENCE(me);
#endif
        store(me, SEQ(t), t + 1);
        if
        :: me == 0 ->
            LOAD(me, DONE) >= t + 1;
            assert(LOAD(me, RESULT(t)) == 100 + 10 * me + i);
            FENCE(me); /* the turn is a release store */
            store(me, TURN(t), t + ENTRIES)
        :: else
        fi
    }
}

proctype proxy()
{
    byte t, word;
    for (t : 0 .. PRODUCERS * POSTS - 1) {
        LOAD(PROXY, SEQ(t)) == t + 1;
        word = LOAD(PROXY, WORD(t));
        assert(word == posted[t]);
        store(PROXY, RESULT(t), 100 + word);
#ifndef NO_PROXY_FENCE
        FENCE(PROXY);
#endif
        store(PROXY, DONE, t + 1)
    }
}

init {
    atomic {
        byte e;
        for (e : 0 .. ENTRIES - 1) { mem[TURN(e)] = e }
        run producer(0);
        run producer(1);
        run proxy()
    }
}
