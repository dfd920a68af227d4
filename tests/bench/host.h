/* SPDX-License-Identifier: MIT */
/* The measuring frame of the host benchmark: what a benchmark is, and the helpers its three files share.
 * Only the public OpenSHMEM interface is used, so that one source measures this library and its peers. With a 1.5
 * library teams and signals are measured too, with a 1.6 one scans. */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

#include <shmem.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
#define HAVE_15 1
#endif
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 6
#define HAVE_16 1
#endif

enum place { HEAP, GLOB, PLACES };

struct bench {
    /* Set by the caller. `body` runs on every PE when `everybody`, else on PE 0 while the others wait in a barrier. */
    const char *unit;                                 /* "us", "MB/s" or "Mmsg/s" */
    void (*body)(struct bench *b, long iters);        /* what is timed */
    void (*prepare)(struct bench *b, long stamp);     /* every PE, before each batch: fresh data, cleared results */
    bool (*right)(const struct bench *b, long stamp); /* every PE, after each batch: is the data what it must be? */
    double (*seconds_per_iter)(struct bench *b, long iters); /* on PE 0 after a batch, NULL: elapsed / iters */
    bool everybody;
    enum place place;
    size_t len_bytes;
    /* Set by bench_add and bench_go. */
    char name[64];
    char *source, *dest; /* BENCH_BYTES each, symmetric */
    uint64_t *flag;      /* a cache line of its own, symmetric */
    long iters;          /* of the batch just run */
    long failed;         /* set by a body that saw wrong data */
    long sequence;       /* kept from batch to batch; the same on all PEs */
};

extern int bench_me, bench_npes;
extern const char *const bench_place_name[PLACES];

/* Benchmarks that are compared with each other form a group: their batches are run in turn, so that what changes on the
 * machine meanwhile hits all of them. bench_add takes a copy if the name (a format) matches the wanted expression;
 * bench_go runs the group, checks the data of every batch, prints a JSON line for each. */
void bench_add(struct bench b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bench_go(void);
/* The room in b->source and b->dest: what the largest benchmark at this number of PEs needs. */
size_t bench_bytes(void);
double bench_now(void); /* seconds, the same clock in all processes of the machine */
double bench_median(double *values, size_t count);
const char *bench_size_name(size_t bytes); /* "8B", "64KiB"; valid until the next call but three */
void bench_fill(void *dest, size_t len_bytes, uint64_t seed);
bool bench_holds(const void *data, size_t len_bytes, uint64_t seed);
/* Barriers by atomics on memory that all PEs map, without the library: the floor. false: no shmem_ptr here. */
bool bench_bare_ready(void);
void bench_bare_yield(void);
void bench_bare_futex(void);

void bench_rma(void);  /* host_rma.c: PEs 0 and 1 */
void bench_sync(void); /* host_coll.c: barriers and syncs */
void bench_coll(void); /* host_coll.c: data collectives on active sets and teams */

#endif
