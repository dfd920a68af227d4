/* SPDX-License-Identifier: MIT */
/* Looks at what has come, and waits. Each look takes completions, sends kept answers and reads messages, so a PE that
 * waits serves its peers. The files below this one, verbs_queue.c and verbs_receive.c, never wait for room or an
 * answer: else two PEs could wait for each other. Called by the other verbs files, with network.lock held. */
#include "../../node/wait.h"
#include "verbs.h"

bool iso_verbs_poll(struct verbs *v)
{
    bool any = iso_verbs_reap(v);
    if (ISO_UNLIKELY(v->late != NULL))
        iso_verbs_answer_late(v);
    any |= iso_verbs_read(v);
    v->net.pending_events |= any;
    return any;
}

static void pause_and_poll(struct verbs *v, struct wait *wait, uint64_t seen)
{
    if (!iso_network_pause(&v->net, wait, seen))
        return;
    v->net.polls++;
    wait->worked |= iso_verbs_poll(v);
}

static bool can_add(const struct verbs *v, const struct verbs_queue *q, unsigned requests, int slots)
{
    return q->made + requests - q->done <= VERBS_DEPTH && v->n_free_slots >= slots &&
           v->in_flight + requests < VERBS_COMPLETIONS - VERBS_DEPTH;
}

void iso_verbs_make_room(struct verbs *v, struct verbs_queue *q, unsigned requests, int slots)
{
    if (ISO_LIKELY(can_add(v, q, requests, slots)))
        return;
    struct wait wait = ISO_WAIT("room in a send queue", q->pe, NULL, q->made + requests - VERBS_DEPTH);
    iso_verbs_post_all(v);
    iso_verbs_poll(v);
    while (!can_add(v, q, requests, slots)) {
        pause_and_poll(v, &wait, q->done);
        if (v->net.lost)
            iso_verbs_post_all(v);
    }
    iso_wait_end(&wait);
    if (ISO_UNLIKELY(v->net.lost))
        iso_network_await_break(&v->net);
}

static bool is_done(const struct verbs_queue *q, uint64_t made, uint64_t asked)
{
    return q->done >= made && q->answered >= asked;
}

void iso_verbs_wait(struct verbs *v, struct verbs_queue *q, uint64_t made, uint64_t asked, const char *what)
{
    if (is_done(q, made, asked) && ISO_LIKELY(!v->net.lost))
        return;
    struct wait wait = ISO_WAIT(what, q->pe, NULL, made > q->done ? made : asked);
    iso_verbs_post(v, q);
    iso_verbs_poll(v);
    while (!is_done(q, made, asked)) {
        pause_and_poll(v, &wait, made > q->done ? q->done : q->answered);
        if (v->net.lost)
            iso_verbs_drop(v, q);
    }
    iso_wait_end(&wait);
    if (ISO_UNLIKELY(v->net.lost))
        iso_network_await_break(&v->net);
}
