/* SPDX-License-Identifier: MIT */
/* The local end of a put or get may be any memory: a thread's stack, the kernel's parameters, what a block shares. Odd
 * sizes at all alignments to each other, by a thread and by the block, contiguous and strided; every byte around what
 * was meant to change must be as it was. */
#include "device_test.h"

enum { THREADS = 64, ROOM = 48, LONGEST = 29, FLOATS = 3, SHORTS = 3 };

/* Symmetric; a row of ROOM bytes for each thread. */
struct rows {
    unsigned char put[THREADS][ROOM], put_parameter[THREADS][ROOM], put_shared[ROOM];
    unsigned char source[THREADS][ROOM], got[THREADS][ROOM], got_strided[THREADS][ROOM];
    float floats[THREADS][FLOATS];
    int16_t shorts[THREADS][2 * SHORTS];
};

struct local_args {
    shmemd_t h;
    struct rows *rows;
    int32_t to, n, local, remote; /* n bytes from that offset of each end */
    unsigned char text[ROOM];
};

#define BYTE_OF(pe, thread, i) ((unsigned char)((pe) * 89 + (int32_t)(thread) * 7 + (int32_t)(i) * 3 + 1))

SHMEMD_KERNEL(local_ends, struct local_args, a)
{
    SHMEMD_SHARED(unsigned char, shared, ROOM);
    uint32_t t = (uint32_t)shmemd_thread_index(), n = (uint32_t)a.n, local = (uint32_t)a.local;
    int32_t me = shmemd_my_pe(a.h);
    struct rows *r = a.rows;
    unsigned char bytes[ROOM];
    float floats[FLOATS];
    int16_t shorts[2 * SHORTS];
    for (uint32_t i = 0; i < ROOM; i++)
        bytes[i] = BYTE_OF(me, t, i);
    for (int i = 0; i < FLOATS; i++)
        floats[i] = (float)(me * 1000 + (int)t * 10 + i);
    for (int i = 0; i < 2 * SHORTS; i++)
        shorts[i] = (int16_t)(me * 1000 + (int)t * 10 + i);
    if (t < ROOM)
        shared[t] = BYTE_OF(me, THREADS, t);
    shmemd_group_sync(shmemd_block());
    shmemd_putmem(a.h, r->put[t] + a.remote, bytes + local, n, a.to);
    shmemd_putmem(a.h, r->put_parameter[t] + a.remote, a.text + local, n, a.to);
    shmemd_putmem_block(a.h, r->put_shared + a.remote, &shared[0] + local, n, a.to);
    shmemd_float_put(a.h, r->floats[t], floats, FLOATS, a.to);
    shmemd_int16_iput(a.h, r->shorts[t], shorts, 2, 2, SHORTS, a.to);
    shmemd_getmem(a.h, bytes + local, r->source[t] + a.remote, n, a.to);
    for (uint32_t i = 0; i < ROOM; i++)
        r->got[t][i] = bytes[i];
    shmemd_iget8(a.h, bytes, r->source[t] + a.remote, 1, 1, n, a.to);
    for (uint32_t i = 0; i < ROOM; i++)
        r->got_strided[t][i] = bytes[i];
}

/* What a row that was poison holds after n bytes of `pe`, `thread` from offset `local` have come to `remote`. */
static void check_row(const unsigned char *row, const struct local_args *a, int pe, int thread, const char *what)
{
    unsigned char expected[ROOM];
    memset(expected, CHECK_POISON, ROOM);
    for (int i = 0; i < a->n; i++)
        expected[a->remote + i] = BYTE_OF(pe, thread, (a->local + i));
    CHECK_BYTES_NAMED(row, expected, ROOM, what);
}

static void check_got(const struct rows *r, const struct local_args *a, int me, int t)
{
    unsigned char expected[ROOM];
    for (int i = 0; i < ROOM; i++)
        expected[i] = BYTE_OF(me, t, i);
    for (int i = 0; i < a->n; i++)
        expected[a->local + i] = BYTE_OF(a->to, t, (a->remote + i));
    CHECK_BYTES_NAMED(r->got[t], expected, ROOM, "got into the stack");
    for (int i = 0; i < a->n; i++)
        expected[i] = BYTE_OF(a->to, t, (a->remote + i));
    CHECK_BYTES_NAMED(r->got_strided[t], expected, ROOM, "got by elements into the stack");
}

static void check_rows(const struct rows *r, const struct local_args *a, int me, int from)
{
    check_row(r->put_shared, a, from, THREADS, "put from shared memory");
    for (int t = 0; t < THREADS; t++) {
        check_row(r->put[t], a, from, t, "put from the stack");
        check_row(r->put_parameter[t], a, from, 0, "put from a parameter");
        check_got(r, a, me, t);
        for (int i = 0; i < FLOATS; i++)
            CHECK_EQ(r->floats[t][i], (float)(from * 1000 + t * 10 + i));
        for (int i = 0; i < SHORTS; i++)
            CHECK_EQ(r->shorts[t][2 * i], from * 1000 + t * 10 + 2 * i);
    }
}

static int test_main(void)
{
    DEVICE_INIT();
    int me = shmem_my_pe(), n = shmem_n_pes();
    struct rows *seen = (struct rows *)malloc(sizeof(*seen)), *rows;
    struct local_args a;
    memset(&a, 0, sizeof(a));
    rows = a.rows = (struct rows *)shmemx_malloc(sizeof(*rows), SHMEMX_DEVICE);
    a.to = (me + 1) % n;
    CHECK_OR_EXIT(seen != NULL && rows != NULL && shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    for (uint32_t i = 0; i < ROOM; i++)
        a.text[i] = BYTE_OF(me, 0, i);
    for (a.n = 1; a.n <= LONGEST; a.n += a.n < 8 ? 1 : 5)
        for (int shift = 0; shift < 8; shift++) {
            if (!check_has_case((unsigned)(a.n + shift)))
                continue;
            a.local = (shift * 3 + a.n) % 16;
            a.remote = (shift * 5) % 16;
            memset(seen, CHECK_POISON, sizeof(*seen));
            for (int t = 0; t < THREADS; t++)
                for (uint32_t i = 0; i < ROOM; i++)
                    seen->source[t][i] = BYTE_OF(me, t, i);
            device_write(rows, seen, sizeof(*seen));
            shmem_barrier_all();
            DEVICE_RUN(local_ends, 1, THREADS, a);
            shmem_barrier_all();
            device_read(seen, rows, sizeof(*seen));
            check_rows(seen, &a, me, (me + n - 1) % n);
            shmem_barrier_all();
        }
    shmemx_free(rows);
    free(seen);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
