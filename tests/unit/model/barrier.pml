/* SPDX-License-Identifier: MIT */
/* The flag barrier: each PE stores its data, then behind a fence a flag of the step at every other PE, and waits for
 * theirs. After it everybody reads everybody's data of this step. Broken with NO_FENCE. */
#define N 3
#define STEPS 3
#define PROCESSES N
#define WORDS (N + N * N)
#define FLAG(to, from) (N + (to) * N + (from))
#include "weak.h"

proctype pe(byte me)
{
    byte step = 1, i;
    do
    :: step > STEPS -> break
    :: else ->
        if
        :: step % 2 == 1 -> store(me, me, step) /* the step between keeps readers and the next store apart */
        :: else
        fi;
#ifndef NO_FENCE
        FENCE(me);
#endif
        for (i : 0 .. N - 1) {
            if
            :: i != me -> store(me, FLAG(i, me), step)
            :: else
            fi
        }
        for (i : 0 .. N - 1) {
            i == me || LOAD(me, FLAG(me, i)) >= step;
        }
        for (i : 0 .. N - 1) {
            assert(step % 2 == 0 || LOAD(me, i) == step)
        }
        step++
    od
}

init { atomic { run pe(0); run pe(1); run pe(2) } }
