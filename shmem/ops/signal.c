/* SPDX-License-Identifier: MIT */
/* Put with signal, signal_set, signal_add, signal_fetch (section 9.8). The order data before signal is made here, for
 * each pair of paths: both by pointer, a release on the signal word; one of them by a transport or in device memory,
 * see put_signal_checked. */
#include "../transport/order.h"
#include "target.h"
#include "../transport/word.h"

#include <string.h>

struct message {
    void *dest;
    const void *source;
    size_t len;
    uint64_t *sig_addr;
    uint64_t signal;
    int sig_op;
    bool nbi;
};

static struct place place_signal(const struct target *t, const uint64_t *sig_addr)
{
    struct place place = iso_target_place(t, sig_addr, 8, "sig_addr");
    iso_check_aligned(t->call, "sig_addr", sig_addr, 8);
    return place;
}

/* Release: pairs with the acquire of signal_fetch, wait and test at the target; the data copied before is seen there.
 * (glibc's memcpy ends copies by non-temporal stores with a store fence.) */
ISO_INLINE void update(char *at, uint64_t signal, int sig_op)
{
    if (sig_op == SHMEM_SIGNAL_SET)
        iso_word_store(at, signal, 8);
    else
        __atomic_fetch_add((word64 *)(void *)at, signal, __ATOMIC_ACQ_REL);
}

static void update_at(const struct target *t, struct place at, uint64_t signal, int sig_op)
{
    if (at.cpu != NULL)
        update(at.cpu, signal, sig_op);
    else
        iso_far_signal(t->ctx, at, signal, sig_op, t->call);
}

/* All addresses are checked before anything is moved. */
static void put_signal_checked(const struct target *t, const struct message *m)
{
    if (ISO_CHECKS && ISO_UNLIKELY(m->sig_op != SHMEM_SIGNAL_SET && m->sig_op != SHMEM_SIGNAL_ADD))
        iso_fatal(t->call, "sig_op is %d, allowed: SHMEM_SIGNAL_SET (%d) or SHMEM_SIGNAL_ADD (%d)", m->sig_op,
                  SHMEM_SIGNAL_SET, SHMEM_SIGNAL_ADD);
    struct place at = place_signal(t, m->sig_addr);
    if (m->len != 0) {
        struct place to = iso_target_place(t, m->dest, m->len, "dest");
        iso_target_check_local(m->source, "source", t->call);
        if (to.cpu == NULL && at.cpu == NULL) {
            iso_far_put_signal(t->ctx,
                               &(struct far_message){to, at, m->source, m->len, m->signal, m->sig_op, m->nbi, t->call});
            return;
        }
        iso_far_put(t->ctx, to, m->source, m->len, t->call);
        if (to.cpu == NULL && at.cpu != NULL)
            iso_far_pe_quiet(t->ctx, to.pe); /* else the signal overtakes the transport */
        if (to.cpu != NULL && at.cpu == NULL)
            iso_fence(t->ctx); /* the data by pointer before a signal by transport */
    }
    update_at(t, at, m->signal, m->sig_op);
}

static ISO_NOINLINE void put_signal_slow(const struct target *t, const struct message *m)
{
    struct profile_span span = iso_target_count(PROFILE_PUT_SIGNAL, t, m->sig_addr, m->len);
    put_signal_checked(t, m);
    iso_profile_leave(&span);
}

static void put_signal(const struct target *t, const struct message *m)
{
    char *at = iso_target_near(t, m->sig_addr, 8, 8), *to = iso_target_near_memory(t, m->dest, m->len, 1);
    bool known = m->sig_op == SHMEM_SIGNAL_SET || m->sig_op == SHMEM_SIGNAL_ADD;
    if (ISO_UNLIKELY(at == NULL) || ISO_UNLIKELY(to == NULL) || ISO_UNLIKELY(!known) ||
        ISO_UNLIKELY(m->source == NULL)) {
        put_signal_slow(t, m);
        return;
    }
    iso_target_copy(to, m->source, m->len);
    update(at, m->signal, m->sig_op);
}

static ISO_NOINLINE void signal_slow(struct target t, const uint64_t *sig_addr, uint64_t signal, int sig_op)
{
    struct profile_span span = iso_target_count(PROFILE_SIGNAL, &t, sig_addr, 8);
    update_at(&t, place_signal(&t, sig_addr), signal, sig_op);
    iso_profile_leave(&span);
}

ISO_INLINE void signal_only(const struct target *t, const uint64_t *sig_addr, uint64_t signal, int sig_op)
{
    char *at = iso_target_near(t, sig_addr, 8, 8);
    if (ISO_LIKELY(at != NULL))
        update(at, signal, sig_op);
    else
        signal_slow(*t, sig_addr, signal, sig_op);
}

#define PUT_SIGNAL(name, T, bytes, nbi)                                                                      \
    ISO_TARGET_FORMS(                                                                                        \
        void, name,                                                                                          \
        (T * dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe), \
        put_signal(&target,                                                                                  \
                   &(struct message){dest, source, iso_target_bytes(nelems, bytes), sig_addr, signal, sig_op, nbi});)

#define TYPED(NAME, TYPE, ...)                               \
    PUT_SIGNAL(NAME##_put_signal, TYPE, sizeof(TYPE), false) \
    PUT_SIGNAL(NAME##_put_signal_nbi, TYPE, sizeof(TYPE), true)
SHMEM_RMA_TYPES(TYPED, )

#define SIZED(BITS, BYTES, ...)                        \
    PUT_SIGNAL(put##BITS##_signal, void, BYTES, false) \
    PUT_SIGNAL(put##BITS##_signal_nbi, void, BYTES, true)
SHMEM_SIZES(SIZED, )
SIZED(mem, 1, )

#define SIGNAL(name, sig_op)                                                     \
    ISO_TARGET_FORMS(void, name, (uint64_t * sig_addr, uint64_t signal, int pe), \
                     signal_only(&target, sig_addr, signal, sig_op);)
SIGNAL(signal_set, SHMEM_SIGNAL_SET)
SIGNAL(signal_add, SHMEM_SIGNAL_ADD)

static ISO_COLD uint64_t fetch_slow(const struct target *t, const uint64_t *sig_addr)
{
    struct place at = place_signal(t, sig_addr);
    return iso_place_is_device(&at) ? iso_far_load(t->ctx, at, 8, t->call) : iso_word_load(sig_addr, 8);
}

SHMEM_API(shmem_signal_fetch, pshmem_signal_fetch);
uint64_t pshmem_signal_fetch(const uint64_t *sig_addr)
{
    const struct target own = {&ISO->ctx_default, __func__, ISO->my_pe};
    /* A program may poll in a loop, for an answer to operations that this PE still has under way; after a barrier, too,
     * which the progress thread takes for a wait that looks at the network itself. */
    if (ISO_UNLIKELY(iso_ctx_is_dirty(&ISO->ctx_default) || iso_ctx_is_dirty(&ISO->ctx_words)))
        iso_transport_progress();
    if (ISO_LIKELY(iso_target_near(&own, sig_addr, 8, 8) != NULL))
        return iso_word_load(sig_addr, 8);
    return fetch_slow(&own, sig_addr);
}
