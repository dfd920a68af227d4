/* SPDX-License-Identifier: MIT */
/* Test double of device memory: addresses that the CPU cannot touch, in a segment with a GPU column only, behind a copy
 * agent that knows what they mean. Puts and gets of every kind must go by the agent, and by nothing else. */
#include "../../shmem/transport/transport.h"
#include "../check.h"

enum { LEN = 10007 };

/* Flips a bit that makes every address a fault when it is used as it is. */
static char *tag(const char *addr) { return (char *)((uintptr_t)addr ^ ((uintptr_t)1 << 62)); }
static char *untag(const char *addr) { return ((uintptr_t)addr >> 62) != 0 ? tag(addr) : (char *)(uintptr_t)addr; }

static void copy(void *dest, const void *source, size_t len)
{
    memcpy(untag((const char *)dest), untag((const char *)source), len);
}

static const struct copy_agent agent = {.copy = copy};

/* The double's memory lies in the heap of each PE, where all of them reach it. */
static char *add_device_segment(char *object)
{
    struct state *self = ISO;
    struct segment *s = &self->segments[self->n_segments];
    memset(s, 0, sizeof(*s));
    s->peers = (struct segment_peer *)calloc((size_t)self->n_pes, sizeof(*s->peers));
    CHECK_OR_EXIT(s->peers != NULL);
    s->base = tag(object);
    s->len = s->limit = LEN;
    s->kind = SEGMENT_DEVICE;
    s->fd = -1;
    for (int pe = 0; pe < self->n_pes; pe++)
        s->peers[pe].base = s->peers[pe].gpu_ptr = tag((char *)shmem_ptr(object, pe));
    self->n_segments++;
    return s->base;
}

static void remove_device_segment(void) { free(ISO->segments[--ISO->n_segments].peers); }

static void check_bulk(char *device, const char *object)
{
    int me = check_self.pe, npes = check_self.npes, next = (me + 1) % npes, previous = (me + npes - 1) % npes;
    static const size_t lengths[] = {0, 1, 7, 8, 100, 4096, LEN};
    char out[LEN], back[LEN];
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        unsigned round = (unsigned)i;
        check_fill(out, LEN, me, next, round);
        shmem_putmem(device, out, lengths[i], next);
        shmem_barrier_all();
        CHECK_FILLED(object, lengths[i], previous, me, round);
        memset(back, 0, sizeof(back));
        shmem_getmem(back, device, lengths[i], next);
        CHECK_FILLED(back, lengths[i], me, next, round);
        shmem_barrier_all();
    }
}

static void check_words(char *device, const char *object)
{
    int me = check_self.pe, npes = check_self.npes, next = (me + 1) % npes, previous = (me + npes - 1) % npes;
    long seen, strided[10], source[20];
    shmem_long_p((long *)(void *)(device + 64), 1000 + me, next);
    shmem_barrier_all();
    memcpy(&seen, object + 64, sizeof(seen));
    CHECK_EQ(seen, 1000 + previous);
    CHECK_EQ(shmem_long_g((long *)(void *)(device + 64), next), 1000 + me);
    for (int i = 0; i < 20; i++)
        source[i] = 100 * me + i;
    shmem_long_iput((long *)(void *)device, source, 3, 2, 10, next);
    shmem_barrier_all();
    for (int i = 0; i < 10; i++) {
        memcpy(&seen, object + 24 * i, sizeof(seen));
        CHECK_EQ(seen, 100 * previous + 2 * i);
    }
    shmem_long_iget(strided, (long *)(void *)device, 1, 3, 10, next);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(strided[i], 100 * me + 2 * i);
    shmem_barrier_all();
}

static int test_main(void)
{
    CHECK_INIT();
    char *object = (char *)shmem_malloc(LEN);
    CHECK_OR_EXIT(object != NULL);
    ISO->copy_agent = &agent;
    shmem_barrier_all();
    char *device = add_device_segment(object);
    CHECK(shmem_ptr(device, 0) == NULL && shmem_addr_accessible(device, 0) == 1);
    check_bulk(device, object);
    check_words(device, object);
    shmem_barrier_all();
    remove_device_segment();
    return CHECK_DONE();
}

CHECK_MAIN(test_main)
