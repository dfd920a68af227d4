/* SPDX-License-Identifier: MIT */
/* The flag barrier: each PE stores its data, then behind a fence a flag of the epoch at every other PE, and waits for
 * theirs. After it everybody reads everybody's data of this epoch. Broken with NO_FENCE. */
#define N 3
#define STEPS 3
#define PROCESSES N
#define WORDS (N + N * N)
#define FLAG(to, from) (N + (to) * N + (from))
#include "weak.h"

proctype pe(byte me)
{
    byte epoch = 1, i;
    do
    :: epoch > STEPS -> break
    :: else ->
        if
        :: epoch % 2 == 1 -> store(me, me, epoch) /* the epoch between keeps readers and the next store apart */
        :: else
        fi;
#ifndef NO_FENCE
        FENCE(me);
#endif
        for (i : 0 .. N - 1) {
            if
            :: i != me -> store(me, FLAG(i, me), epoch)
            :: else
            fi
        }
        for (i : 0 .. N - 1) {
            i == me || LOAD(me, FLAG(me, i)) >= epoch;
        }
        for (i : 0 .. N - 1) {
            assert(epoch % 2 == 0 || LOAD(me, i) == epoch)
        }
        epoch++
    od
}

init { atomic { run pe(0); run pe(1); run pe(2) } }
