/* SPDX-License-Identifier: MIT */
/* Inboxes and the counter of a slot, by two threads that are the members of a team. A payload is whole when its epoch is
 * seen. It is intact when the payload of the next epoch has arrived. The counter is zero again before a member arrives
 * for the next epoch. */
#include "../check.h"

#include "../../shmem/team/inbox.h"
#include "../../shmem/node/wait.h"

#include <pthread.h>
#include <stdlib.h>

enum { MEMBERS = 2, EPOCHS = 50000, PASSES = 20000 };

static struct pair {
    struct slot_view views[MEMBERS];
    struct slot slots[MEMBERS];
    uint64_t torn, lost; /* of both */
} pair;

/* A slot of each member, zeroed. */
static void set_up(void)
{
    ISO->n_pes = MEMBERS; /* what the layout of a slot depends on */
    ISO->spin = ISO->spin_alone = 1000;
    size_t bytes = iso_slot_control_bytes(MEMBERS);
    for (int m = 0; m < MEMBERS; m++) {
        pair.views[m] = (struct slot_view){(char *)aligned_alloc(4096, bytes), m};
        CHECK_OR_EXIT(pair.views[m].near != NULL);
        memset(pair.views[m].near, 0, bytes);
    }
    for (int m = 0; m < MEMBERS; m++) {
        pair.slots[m].views = pair.views;
        pair.slots[m].n_pes = MEMBERS;
        pair.slots[m].memory = pair.views[m].near;
        pair.slots[m].central = pair.views[0].near;
    }
}

static struct inbox next_epoch(int me)
{
    struct slot *slot = &pair.slots[me];
    slot->staged++;
    return (struct inbox){slot, ++slot->seq, me, "inbox_test"};
}

/* Words that differ from those of any other epoch. */
static void fill(uint64_t *words, uint64_t epoch)
{
    for (int i = 0; i < ISO_INBOX_BYTES / 8; i++)
        words[i] = epoch * 8 + (uint64_t)i;
}

static bool holds(const void *payload, uint64_t epoch)
{
    uint64_t expected[ISO_INBOX_BYTES / 8];
    fill(expected, epoch);
    return memcmp(payload, expected, sizeof expected) == 0;
}

/* Member 1 sends and then waits. Member 0 waits first: the payload of the last epoch must be intact until it sends. */
static void *run(void *argument)
{
    int me = (int)(intptr_t)argument, other = 1 - me;
    uint64_t words[ISO_INBOX_BYTES / 8], torn = 0, lost = 0;
    const void *before = NULL;
    for (int i = 0, epochs = check_times(EPOCHS); i < epochs; i++) {
        struct inbox box = next_epoch(me);
        fill(words, box.epoch);
        if (me == 1)
            iso_inbox_send(box, pair.views[other].near, other, words, sizeof words);
        const void *payload = iso_inbox_wait(box, &pair.views[other], other);
        torn += !holds(payload, box.epoch);
        lost += me == 0 && before != NULL && !holds(before, box.epoch - 1);
        before = payload;
        if (me == 0)
            iso_inbox_send(box, pair.views[other].near, other, words, sizeof words);
    }
    for (int i = 0, passes = check_times(PASSES); i < passes; i++)
        iso_slot_central_pass(&pair.slots[me], MEMBERS, ++pair.slots[me].seq, "inbox_test");
    __atomic_fetch_add(&pair.torn, torn, __ATOMIC_RELAXED);
    __atomic_fetch_add(&pair.lost, lost, __ATOMIC_RELAXED);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    alarm(100); /* a member that waits for ever is a failure */
    set_up();
    CHECK_OR_EXIT(pthread_create(&thread, NULL, run, (void *)(intptr_t)1) == 0);
    run(NULL);
    pthread_join(thread, NULL);
    CHECK_EQ_NAMED(pair.torn, 0, "payloads that were not whole when their epoch was seen");
    CHECK_EQ_NAMED(pair.lost, 0, "payloads that the next epoch has overwritten");
    for (int m = 0; m < MEMBERS; m++)
        free(pair.views[m].near);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
