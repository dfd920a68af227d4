/* SPDX-License-Identifier: MIT */
/* The two synchronisations of a round by copy engines, without a kernel: the streams themselves store words to the
 * members and wait for theirs (iso_gpu_stream_words). So not even a wave has to find a place beside the program's
 * kernels. Words are at the end of slot memory, two for each member: the number of the last round that the member is
 * `ready` for, and of the last round whose data from it has `arrived`. The host counts rounds, alike on all members. So
 * this is for calls outside graphs, whose rounds have numbers of their own.
 * A stream that waits can look neither at the clock nor at the abort word. So the stream also tells, in a word of
 * pinned memory, what it waits for, and the proxy's thread watches that word. Past the deadline the thread leaves the
 * record that a kernel would leave, and at an abort it stores the words itself. Invariant: words only grow until the
 * reset.
 * Called by coll_engine.c, stream_slot.c. */
#include "../../../bootstrap/log.h"
#include "../../../shmem/node/wait.h"
#include "../coll_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The word of pinned memory: state, call, the awaited member plus 1 (0: all others), round. */
enum { NO_WAIT, READY, ARRIVED };
enum { CALL_AT = 2, MEMBER_AT = 12, ROUND_AT = 28 };
_Static_assert(ISOD_CALL_COUNT <= 1 << (MEMBER_AT - CALL_AT), "a call fits");

#define RELEASED ((uint64_t)1 << 62) /* stored at an abort: no round has a larger number */

struct engine_words {
    struct device *device;
    const struct team *team;
    int number, n, me;
    shmemd_t handle;
    char *const *memory;      /* of the slot */
    size_t ready, arrived;    /* in each member's memory: its words of all members */
    uint64_t round;           /* the last */
    struct gpu_word *scratch; /* [2 n] of the call that enqueues; calls of a slot come one after the other */
    uint64_t *told, *told_by_stream;
    /* The watch's own: */
    uint64_t seen, since_ns;
    bool reported, released;
};

/* ---- words ---- */

static uint64_t *word(const struct engine_words *w, size_t kind, int owner, int of)
{
    return (uint64_t *)(void *)(w->memory[owner] + kind) + of;
}

static struct gpu_word tell(const struct engine_words *w, const struct stream_call *c, unsigned state, int member)
{
    uint64_t awaited = (uint64_t)(unsigned)(member + 1) << MEMBER_AT;
    uint64_t value = state | (uint64_t)c->args.call << CALL_AT | awaited | w->round << ROUND_AT;
    return (struct gpu_word){w->told_by_stream, value, false};
}

static int enqueue(const struct engine_words *w, const struct stream_call *c, int n, gpu_stream stream)
{
    int rc = iso_gpu_stream_words(w->device->gpu, w->scratch, n, stream);
    if (rc != 0)
        log_error("shmemx_coll_on_stream, %s: %s", c->call.name, iso_gpu_error(w->device->gpu));
    return rc == 0 ? 0 : 1;
}

/* Waits for all others (member < 0) or for one; then tells that the wait has ended. */
static int add_waits(struct engine_words *w, const struct stream_call *c, int n, unsigned state, int member)
{
    size_t kind = state == READY ? w->ready : w->arrived;
    w->scratch[n++] = tell(w, c, state, member);
    for (int i = 1; i < w->n; i++) {
        int m = (w->me + i) % w->n;
        if (member < 0 || m == member)
            w->scratch[n++] = (struct gpu_word){word(w, kind, w->me, m), w->round, true};
    }
    w->scratch[n++] = tell(w, c, NO_WAIT, -1);
    return n;
}

int iso_words_begin(struct engine_words *w, const struct stream_call *c)
{
    int n = 0;
    w->round++;
    for (int i = 1; i < w->n; i++) {
        int m = (w->me + i) % w->n;
        w->scratch[n++] = (struct gpu_word){word(w, w->ready, m, w->me), w->round, false};
    }
    return enqueue(w, c, add_waits(w, c, n, READY, -1), c->stream);
}

int iso_words_send(struct engine_words *w, const struct stream_call *c, int member, gpu_stream stream)
{
    w->scratch[0] = (struct gpu_word){word(w, w->arrived, member, w->me), w->round, false};
    return enqueue(w, c, 1, stream);
}

int iso_words_end(struct engine_words *w, const struct stream_call *c)
{
    if (c->args.to >= 0 && c->args.from == w->me)
        return 0; /* nothing comes */
    return enqueue(w, c, add_waits(w, c, 0, ARRIVED, c->args.to < 0 ? -1 : c->args.from), c->stream);
}

/* ---- the watch ---- */

/* Records the members that are missing; at an abort they count as present from here on. */
static void look(struct engine_words *w, bool stop, uint64_t waited_ns)
{
    size_t kind = (w->seen & 3) == READY ? w->ready : w->arrived;
    int one = (int)(w->seen >> MEMBER_AT & ((1u << (ROUND_AT - MEMBER_AT)) - 1)) - 1; /* -1: all others */
    for (int m = 0; m < w->n; m++) {
        uint64_t *at = word(w, kind, w->me, m), seen;
        if (m == w->me || (one >= 0 && m != one) || (seen = iso_agent_load(at, 8)) >= w->seen >> ROUND_AT)
            continue;
        struct isod_record r;
        memset(&r, 0, sizeof r);
        r.state = stop ? ISOD_RECORD_GAVE_UP : ISOD_RECORD_LATE;
        r.call = (uint32_t)(w->seen >> CALL_AT & ((1u << (MEMBER_AT - CALL_AT)) - 1));
        r.pe = w->team->world_of[m];
        r.addr = (uint64_t)(uintptr_t)at;
        r.expected = w->seen >> ROUND_AT;
        r.seen = seen;
        r.waited_ns = waited_ns;
        r.team = (int32_t)iso_handle_team_number(w->team);
        r.slot = w->number;
        r.thread = ISOD_THREAD_OF_STREAM;
        if (stop) {
            iso_handle_give_up(w->handle); /* before the stream can go on */
            iso_agent_store(at, RELEASED, 8);
        }
        iso_proxy_report(w->device, &r);
    }
}

void iso_words_watch(struct engine_words *w, bool stop, uint64_t deadline_ns)
{
    uint64_t told = __atomic_load_n(w->told, __ATOMIC_ACQUIRE), now = iso_clock_now_ns(); /* pairs with tell */
    if (told != w->seen) {
        w->seen = told;
        w->since_ns = now;
        w->reported = w->released = false;
    }
    bool late = deadline_ns != 0 && now - w->since_ns > deadline_ns;
    if ((told & 3) == NO_WAIT || (stop ? w->released : !late || w->reported))
        return;
    look(w, stop, now - w->since_ns);
    w->reported = true;
    w->released = stop;
}

/* ---- life ---- */

struct engine_words *iso_words_open(struct device *d, const struct team *team, int number, shmemd_t handle,
                                    char *const *memory)
{
    char *host = NULL, *for_streams = NULL;
    size_t n = (size_t)handle.n_pes;
    struct engine_words *w = (struct engine_words *)calloc(1, sizeof *w);
    struct gpu_word *scratch = (struct gpu_word *)calloc(2 * n, sizeof *scratch);
    if (w == NULL || scratch == NULL || n >= 1u << (ROUND_AT - MEMBER_AT) ||
        iso_pool_get(d, &d->told, ISO_LINE, &host, &for_streams) != 0) {
        free(w);
        free(scratch);
        return NULL;
    }
    *w = (struct engine_words){.device = d, .team = team, .number = number, .n = handle.n_pes, .me = handle.my_pe};
    w->handle = handle;
    w->memory = memory;
    w->ready = (size_t)handle.lanes * (size_t)isod_lane_bytes(handle.n_pes, handle.inbox_bytes);
    w->arrived = w->ready + (size_t)isod_flags_bytes(handle.n_pes);
    w->scratch = scratch;
    w->told = (uint64_t *)(void *)host;
    w->told_by_stream = (uint64_t *)(void *)for_streams;
    *w->told = 0; /* the piece has been another slot's */
    return w;
}

void iso_words_close(struct engine_words *w)
{
    if (w == NULL)
        return;
    iso_pool_put(w->device, &w->device->told, w->told);
    free(w->scratch);
    free(w);
}

/* The words themselves have been zeroed, and no stream waits. */
void iso_words_reset(struct engine_words *w)
{
    w->round = w->seen = 0;
    __atomic_store_n(w->told, 0, __ATOMIC_RELAXED);
}

struct engine_words *iso_words_of(const struct stream_call *c)
{
    struct device *d = c->device;
    struct stream_slot *slot = c->slot;
    if (slot->words == NULL || !iso_gpu_has_words(d->gpu, c->stream))
        return NULL;
    if (!slot->watched) { /* calls of a slot come one after the other */
        pthread_mutex_lock(&d->lock);
        slot->watched = true;
        slot->next_watched = iso_streams_of(d)->watched;
        iso_streams_of(d)->watched = slot;
        pthread_mutex_unlock(&d->lock);
    }
    return slot->words;
}
