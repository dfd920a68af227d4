/* SPDX-License-Identifier: MIT */
/* Packets: by threads, waves and blocks, of no byte, about a line a thread and up to several, source and dest at any
 * address, one area used again and again, step numbers about 2^31 and 2^32. Nothing else is written: not the source,
 * nor what lies about dest and area. SHMEM_TEST_CASES: at most that many cases. */
#include "device_test.h"

enum { MOST_BYTES = 3000, MOST_UNITS = 64, SHIFTS = 8, ROUNDS = 3, MOST_CASES = 300 };

struct packet_args {
    shmemd_t h;
    char *source, *dest, *areas; /* of unit i: at i * of a unit */
    uint32_t source_bytes, dest_bytes, area_bytes;
    uint32_t bytes, step;
    int32_t form, to;
    int32_t *failed; /* [units] what get has returned */
};

/* Of the calling thread, wave or block in the grid; -1: not one that acts. Of waves the first of each block does. */
SHMEMD_FN int32_t unit_of(int32_t form)
{
    int32_t unit = form_unit(form == FORM_THREAD ? FORM_THREAD : FORM_BLOCK);
    bool rest = form == FORM_WAVE && (uint32_t)shmemd_thread_index() >= (uint32_t)shmemd_group_size(shmemd_wave());
    return unit < MOST_UNITS && !rest ? unit : -1;
}

/* Each unit sends to the same unit of `to`, and takes what comes to it. */
SHMEMD_KERNEL(exchange, struct packet_args, a)
{
    int32_t unit = unit_of(a.form);
    if (unit < 0)
        return;
    char *area = a.areas + (size_t)(uint32_t)unit * a.area_bytes;
    char *dest = a.dest + (size_t)(uint32_t)unit * a.dest_bytes;
    BY_FORM(a.form, put_packet, a.h, area, a.source + (size_t)(uint32_t)unit * a.source_bytes, a.bytes, a.step, a.to);
    int failed = BY_FORM(a.form, get_packet, a.h, dest, area, a.bytes, a.step);
    if (shmemd_group_rank(form_group(a.form)) == 0)
        a.failed[unit] = failed;
}

struct test {
    struct device_team team;
    struct area source, dest, areas;
    int32_t *failed; /* device memory */
};

struct packet_case {
    enum form form;
    uint32_t blocks, threads, units, bytes, source_shift, dest_shift, first_step, step_by;
};

static struct packet_case case_of(struct check_random *random)
{
    static const uint32_t steps[] = {1, 0x7fffffff, 0xfffffffd, 0x10000};
    static const uint32_t threads[] = {1, 32, 64, 128, 192};
    struct packet_case c;
    c.form = (enum form)check_random_below(random, FORM_COUNT);
    c.threads = threads[check_random_below(random, c.form == FORM_THREAD ? 2 : 5)];
    c.blocks = 1 + (uint32_t)check_random_below(random, 2);
    c.units = c.form == FORM_THREAD ? c.blocks * c.threads : c.blocks;
    uint32_t lanes = c.form == FORM_THREAD ? 1 : threads[check_random_below(random, 5)]; /* of a wave 32 or 64 */
    uint32_t about = 8 * lanes + (uint32_t)check_random_below(random, 19);
    uint32_t many = 8 * lanes * (uint32_t)check_random_below(random, 7) + (uint32_t)check_random_below(random, 9);
    c.bytes = check_random_below(random, 2) == 0 ? many : about < 9 ? 0 : about - 9;
    if (c.bytes > MOST_BYTES)
        c.bytes = MOST_BYTES;
    c.source_shift = check_random_below(random, 2) == 0 ? 0 : (uint32_t)check_random_below(random, SHIFTS);
    c.dest_shift = check_random_below(random, 2) == 0 ? 0 : (uint32_t)check_random_below(random, SHIFTS);
    c.first_step = steps[check_random_below(random, 4)];
    c.step_by = check_random_below(random, 2) == 0 ? 1 : 0x10000;
    return c;
}

static uint32_t round_up(uint32_t x, uint32_t to) { return (x + to - 1) / to * to; }

/* Steps differ from one round to the next, and none is 0. */
static uint32_t step_of(const struct packet_case *c, uint32_t round)
{
    uint32_t step = c->first_step + round * c->step_by;
    return step < c->first_step ? step + 1 : step;
}

static void run_case(struct test *t, const struct packet_case *c)
{
    static const char *const forms[] = {FORM_NAMES};
    const struct device_team *w = &t->team;
    struct packet_args a;
    unsigned char sent[MOST_BYTES];
    int32_t failed[MOST_UNITS];
    char what[160];
    memset(&a, 0, sizeof(a));
    a.h = w->handle;
    a.bytes = c->bytes;
    a.form = (int32_t)c->form;
    a.source_bytes = round_up(c->bytes + SHIFTS, 8);
    a.dest_bytes = round_up(c->bytes + SHIFTS + 16, 8); /* with poison behind each */
    a.area_bytes = round_up(2 * c->bytes, 16) + 16;
    a.to = (w->me + 1) % w->n;
    a.failed = t->failed;
    int from = (w->me + w->n - 1) % w->n;
    area_poison(&t->areas, c->units * a.area_bytes);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        snprintf(what, sizeof(what), "%s, %u blocks of %u, %u bytes, shifts %u and %u, step %#x", forms[c->form],
                 c->blocks, c->threads, c->bytes, c->source_shift, c->dest_shift, step_of(c, round));
        area_poison(&t->source, c->units * a.source_bytes);
        memset(t->source.image, ~CHECK_POISON & 0xff, t->source.used); /* what is about it would be seen about dest */
        area_poison(&t->dest, c->units * a.dest_bytes);
        memset(failed, 0xff, sizeof(failed));
        device_write(t->failed, failed, sizeof(failed));
        for (uint32_t u = 0; u < c->units; u++) {
            check_fill(sent, c->bytes, w->me, (int)u, round);
            area_expect(&t->source, u * a.source_bytes + c->source_shift, sent, c->bytes);
        }
        area_upload(&t->source);
        shmem_barrier_all(); /* what an area brought last time has been taken */
        a.source = area_data(&t->source) + c->source_shift;
        a.dest = area_data(&t->dest) + c->dest_shift;
        a.areas = area_data(&t->areas);
        a.step = step_of(c, round);
        DEVICE_RUN(exchange, c->blocks, c->threads, a);
        for (uint32_t u = 0; u < c->units; u++) {
            check_fill(sent, c->bytes, from, (int)u, round);
            area_expect(&t->dest, u * a.dest_bytes + c->dest_shift, sent, c->bytes);
        }
        area_check(&t->dest, what);
        area_check(&t->source, what);
        device_read(failed, t->failed, sizeof(failed));
        for (uint32_t u = 0; u < c->units; u++)
            CHECK_EQ(failed[u], 0);
    }
    /* What lies between and about the areas: their lines carry what they like. */
    area_fetch(&t->areas);
    for (uint32_t u = 0; u < c->units; u++) {
        size_t at = AREA_MARGIN + (size_t)u * a.area_bytes;
        memcpy(t->areas.image + at, t->areas.seen + at, a.area_bytes - 16);
    }
    CHECK_BYTES_NAMED(t->areas.seen, t->areas.image, t->areas.used, what);
    shmem_barrier_all();
}

static int test_main(void)
{
    DEVICE_INIT();
    struct test t;
    struct check_random random = check_random_stream(7);
    long cases = device_number("SHMEM_TEST_CASES", 1000000);
    device_team_open(&t.team, SHMEM_TEAM_WORLD, 0);
    area_make(&t.source, MOST_UNITS * (MOST_BYTES + 2 * SHIFTS), SHMEMX_DEVICE);
    area_make(&t.dest, MOST_UNITS * (MOST_BYTES + 4 * SHIFTS), SHMEMX_DEVICE);
    area_make(&t.areas, MOST_UNITS * (2 * MOST_BYTES + 32), SHMEMX_DEVICE);
    t.failed = (int32_t *)shmemx_calloc(MOST_UNITS, 4, SHMEMX_DEVICE);
    CHECK_OR_EXIT(t.failed != NULL);
    for (long i = 0; i < cases && i < MOST_CASES; i++) {
        struct packet_case c = case_of(&random);
        run_case(&t, &c);
    }
    shmemx_free(t.failed);
    area_drop(&t.areas);
    area_drop(&t.dest);
    area_drop(&t.source);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
