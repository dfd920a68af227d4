/* SPDX-License-Identifier: MIT */
/* Test double of a network: with SHMEM_TEST_FAR=1 the other PEs (threads of this process) are not reached by pointer,
 * and a put is delivered as late as the rules allow: at the fence, quiet, signal, atomic, get or wait that follows it;
 * one that does not block is read as late, too.
 * What passes over it needs no pointer and orders its flags properly. With SHMEM_TEST_NODES (one character for each PE:
 * its node) it is that only between nodes. Only in the library build for tests. */
#include "../../shmem/transport/transport.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct late_put {
    struct late_put *next;
    char *to;
    const char *from; /* `bytes`, or, of what does not block, the caller's, who leaves them alone until quiet */
    size_t len;
    uint64_t *signal_at; /* behind it; NULL: nothing */
    uint64_t signal;
    int sig_op;
    char bytes[];
};

static bool reaches(const struct peer *peer, const char **why)
{
    *why = "test double: SHMEM_TEST_FAR or SHMEM_TEST_NODES is set";
    const char *wish = getenv("SHMEM_TEST_FAR");
    bool far = wish != NULL && strcmp(wish, "0") != 0;
    return peer->pe != ISO->my_pe && (getenv("SHMEM_TEST_NODES") != NULL ? !peer->local : far);
}

static char *target(struct place at) { return at.segment->peers[at.pe].base + iso_place_offset(at); }

static void signal_at(uint64_t *word, uint64_t value, int sig_op)
{
    if (sig_op == SHMEM_SIGNAL_ADD)
        __atomic_fetch_add(word, value, __ATOMIC_RELEASE);
    else
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* In order of issue: two puts to one place must not overtake each other across a fence. */
static void deliver_one(const struct late_put *put)
{
    uint64_t word = 0;
    bool aligned = ((uintptr_t)put->to & (put->len - 1)) == 0;
    memcpy(&word, put->from, ISO_MIN(put->len, sizeof word));
    /* Words arrive whole, and after what was delivered before them: pairs with the acquire of waits and tests. */
    if (put->len == 8 && aligned)
        __atomic_store_n((uint64_t *)(void *)put->to, word, __ATOMIC_RELEASE);
    else if (put->len == 4 && aligned)
        __atomic_store_n((uint32_t *)(void *)put->to, (uint32_t)word, __ATOMIC_RELEASE);
    else if (put->len == 2 && aligned)
        __atomic_store_n((uint16_t *)(void *)put->to, (uint16_t)word, __ATOMIC_RELEASE);
    else if (put->len == 1)
        __atomic_store_n(put->to, (char)word, __ATOMIC_RELEASE);
    else
        memcpy(put->to, put->from, put->len);
    if (put->signal_at != NULL)
        signal_at(put->signal_at, put->signal, put->sig_op);
}

static void deliver(struct late_put *put)
{
    while (put != NULL) {
        struct late_put *next = put->next;
        deliver_one(put);
        free(put);
        put = next;
    }
}

static bool flush_any(struct ctx *ctx)
{
    struct late_put *all = (struct late_put *)ctx->transport_priv;
    ctx->transport_priv = NULL;
    deliver(all);
    return all != NULL;
}

/* The words of slots keep their order with the default context's puts. */
static struct ctx *order_of(struct ctx *ctx) { return ctx == &ISO->ctx_words ? &ISO->ctx_default : ctx; }

static void flush(struct ctx *ctx) { (void)flush_any(order_of(ctx)); }

/* The last of those under way; `copied` bytes of room. */
static struct late_put *add(struct ctx *ctx, struct place to, size_t len, size_t copied)
{
    struct late_put *late = (struct late_put *)calloc(1, sizeof *late + copied);
    if (late == NULL)
        abort();
    late->to = target(to);
    late->len = len;
    struct late_put **end = (struct late_put **)&order_of(ctx)->transport_priv;
    while (*end != NULL)
        end = &(*end)->next;
    *end = late;
    return late;
}

static void put(struct ctx *ctx, struct place to, const struct far_local *source)
{
    struct late_put *late = add(ctx, to, source->len, source->nbi ? 0 : source->len);
    late->from = (const char *)(source->nbi ? source->addr : memcpy(late->bytes, source->addr, source->len));
}

static void get(struct ctx *ctx, struct place from, const struct far_local *dest)
{
    flush(ctx);
    memcpy(dest->addr, target(from), dest->len);
}

static uint64_t amo32(uint32_t *word, struct amo op)
{
    uint32_t operand = (uint32_t)op.operand, expected = (uint32_t)op.compare;
    switch (op.op) {
    case AMO_FETCH:
        return __atomic_load_n(word, __ATOMIC_ACQUIRE);
    case AMO_SET:
        return __atomic_exchange_n(word, operand, __ATOMIC_ACQ_REL);
    case AMO_SWAP:
        return __atomic_exchange_n(word, operand, __ATOMIC_ACQ_REL);
    case AMO_CSWAP:
        __atomic_compare_exchange_n(word, &expected, operand, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        return expected;
    case AMO_ADD:
        return __atomic_fetch_add(word, operand, __ATOMIC_ACQ_REL);
    case AMO_AND:
        return __atomic_fetch_and(word, operand, __ATOMIC_ACQ_REL);
    case AMO_OR:
        return __atomic_fetch_or(word, operand, __ATOMIC_ACQ_REL);
    case AMO_XOR:
        return __atomic_fetch_xor(word, operand, __ATOMIC_ACQ_REL);
    }
    abort();
}

static uint64_t amo64(uint64_t *word, struct amo op)
{
    uint64_t expected = op.compare;
    switch (op.op) {
    case AMO_FETCH:
        return __atomic_load_n(word, __ATOMIC_ACQUIRE);
    case AMO_SET:
        return __atomic_exchange_n(word, op.operand, __ATOMIC_ACQ_REL);
    case AMO_SWAP:
        return __atomic_exchange_n(word, op.operand, __ATOMIC_ACQ_REL);
    case AMO_CSWAP:
        __atomic_compare_exchange_n(word, &expected, op.operand, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        return expected;
    case AMO_ADD:
        return __atomic_fetch_add(word, op.operand, __ATOMIC_ACQ_REL);
    case AMO_AND:
        return __atomic_fetch_and(word, op.operand, __ATOMIC_ACQ_REL);
    case AMO_OR:
        return __atomic_fetch_or(word, op.operand, __ATOMIC_ACQ_REL);
    case AMO_XOR:
        return __atomic_fetch_xor(word, op.operand, __ATOMIC_ACQ_REL);
    }
    abort();
}

static uint64_t amo(struct ctx *ctx, struct place at, struct amo op)
{
    void *word = target(at);
    flush(ctx);
    return op.bytes == 4 ? amo32((uint32_t *)word, op) : amo64((uint64_t *)word, op);
}

static void signal_word(struct ctx *ctx, struct place at, uint64_t value, int sig_op)
{
    flush(ctx);
    signal_at((uint64_t *)(void *)target(at), value, sig_op);
}

static void put_signal(struct ctx *ctx, const struct far_message *m, const struct far_local *source)
{
    if (!m->nbi) {
        put(ctx, m->to, source);
        signal_word(ctx, m->at, m->signal, m->sig_op);
        return;
    }
    struct late_put *late = add(ctx, m->to, m->len, 0);
    late->from = (const char *)m->source;
    late->signal_at = (uint64_t *)(void *)target(m->at);
    late->signal = m->signal;
    late->sig_op = m->sig_op;
}

/* In an order of its own, and not all at once. */
static void put_words(struct ctx *ctx, struct place to, const void *words, size_t len)
{
    uint64_t *target_words = (uint64_t *)(void *)target(to), word;
    size_t n = len / sizeof word;
    flush(ctx);
    for (size_t i = 0; i < n; i++) {
        size_t at = n - 1 - (i + n / 2) % n;
        memcpy(&word, (const char *)words + at * sizeof word, sizeof word);
        __atomic_store_n(&target_words[at], word, __ATOMIC_RELEASE); /* pairs with the poll of whoever takes them */
        if (i % 4 == 1)
            sched_yield();
    }
}

static bool progress(void)
{
    bool any = flush_any(&ISO->ctx_default);
    for (int i = 0; i < ISO->n_ctxs; i++)
        if (ISO->ctxs[i] != NULL)
            any |= flush_any(ISO->ctxs[i]);
    return any;
}

const struct transport_ops iso_transport_double = {
    .name = "double",
    .reaches = reaches,
    .put = put,
    .get = get,
    .amo = amo,
    .signal = signal_word,
    .put_signal = put_signal,
    .put_words = put_words,
    .fence = flush,
    .quiet = flush,
    .progress = progress,
};
