/* SPDX-License-Identifier: MIT */
/* Packets: a word that carries the number of its epoch, so no fence; in two banks by the parity of the epoch. In each epoch
 * every PE sends to every other and waits for every other, which is why nobody is two epochs ahead and no word is
 * overwritten unread. Broken with ONE_BANK, and with ONE_WAY: there PE 0 sends and waits for nobody. */
#define N 3
#define STEPS 4
#define PROCESSES N
#ifdef ONE_BANK
#define BANKS 1
#else
#define BANKS 2
#endif
#define WORDS (N * BANKS * N)
#define LINE(to, epoch, from) (((to) * BANKS + (epoch) % BANKS) * N + (from))
#include "weak.h"

#ifdef ONE_WAY
#define WAITS(me) ((me) != 0)
#define SENDS(me) ((me) == 0)
#define COMES_FROM(i) ((i) == 0)
#else
#define WAITS(me) true
#define SENDS(me) true
#define COMES_FROM(i) true
#endif

proctype pe(byte me)
{
    byte epoch = 1, i;
    do
    :: epoch > STEPS -> break
    :: else ->
        for (i : 0 .. N - 1) {
            if
            :: i != me && SENDS(me) -> store(me, LINE(i, epoch, me), epoch)
            :: else
            fi
        }
        for (i : 0 .. N - 1) {
            i == me || !WAITS(me) || !COMES_FROM(i) || LOAD(me, LINE(me, epoch, i)) == epoch;
        }
        epoch++
    od
}

init { atomic { run pe(0); run pe(1); run pe(2) } }
