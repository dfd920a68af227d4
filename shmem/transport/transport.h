/* SPDX-License-Identifier: MIT */
/* How to reach what no pointer reaches. A transport is one file with one const table, and one row in transport.c.
 * Operations left NULL are filled in by "unsupported", which ends the job with a sentence. */
#ifndef ISO_TRANSPORT_H
#define ISO_TRANSPORT_H

#include "../internal.h"

struct transport_ops {
    const char *name;
    bool by_pointer; /* the segments of its peers are mapped here; else only the operations below reach them */
    /* Does it reach `peer`? *why gets a short reason either way, for isomer-info. */
    bool (*reaches)(const struct peer *peer, const char **why);
    void (*put)(struct ctx *ctx, struct place to, const void *source, size_t len);
    void (*get)(struct ctx *ctx, void *dest, struct place from, size_t len);
    uint64_t (*amo)(struct ctx *ctx, struct place at, struct amo op);
    /* Ordered after earlier puts of ctx to the same PE; sig_op as in put_signal. */
    void (*signal)(struct ctx *ctx, struct place at, uint64_t value, int sig_op);
    void (*fence)(struct ctx *ctx);
    void (*quiet)(struct ctx *ctx);
    /* Called by waits, now and then: moves what is on its way. */
    void (*progress)(void);
};

extern const struct transport_ops iso_transport_ipc; /* local peers: staged edges by cross-memory attach */
#ifdef ISO_PES_AS_THREADS
/* Test double: peers whose pointers are hidden (SHMEM_TEST_FAR=1), so that every call goes the far way. */
extern const struct transport_ops iso_transport_double;
#endif

/* The first row that reaches the peer, NULL: none (`why` says what each said). */
const struct transport_ops *iso_transport_choose(const struct peer *peer, const char **why);

#endif
