/* SPDX-License-Identifier: MIT */
/* Dispatches: groups of waves with their registers, run in turns. All groups of a dispatch up to a limit are there at
 * once, since they may wait for one another; a wave goes on until it waits, or for a turn. */
#include "gfx9_own.h"

#include <hsa/hsa.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURN = 4000 /* instructions */, MAX_GROUPS = 2048, RECENT = 1 << 12, LATE_NS = 20000000 };

/* What a code object says of a kernel, 64 bytes. */
struct descriptor {
    uint32_t group_bytes, private_bytes, kernarg_bytes, reserved0;
    int64_t entry; /* from the descriptor */
    uint8_t reserved1[20];
    uint32_t rsrc3, rsrc1, rsrc2;
    uint16_t properties;
    uint8_t reserved2[6];
};
_Static_assert(sizeof(struct descriptor) == 64, "as in code objects");

enum { /* properties: which scalar registers a wave begins with, in this order */
       GIVES_PRIVATE_BUFFER = 1,
       GIVES_DISPATCH = 2,
       GIVES_QUEUE = 4,
       GIVES_KERNARG = 8,
       GIVES_DISPATCH_ID = 16,
       GIVES_FLAT_SCRATCH = 32,
       GIVES_PRIVATE_SIZE = 64
};

struct gfx9_run {
    struct gfx9_dispatch dispatch;
    const hsa_kernel_dispatch_packet_t *packet;
    struct descriptor kernel;
    uint64_t entry;
    uint32_t groups[3], n_groups, next_group; /* of the grid */
    uint32_t resident, room;
    uint32_t registers, waves_each, threads_each;
    struct group *slots; /* room of them; waves NULL: free */
    const struct instruction **recent;
    bool weak;         /* stores are late: gfx9_held.c */
    uint64_t idle_ns;  /* since when nothing has gone on; 0: something has */
    char error[ERROR_BYTES];
};

/* ---- decoded code, of all dispatches ---- */

enum { BUCKETS = 1 << 16 };
struct known {
    struct instruction in;
    struct known *next;
};
static struct known *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct instruction *look_up(struct gfx9_run *run, uint64_t pc)
{
    struct known **bucket = &buckets[pc / 4 % BUCKETS], *found;
    uint64_t raw[2];
    memcpy(raw, (const void *)(uintptr_t)pc, sizeof(raw));
    pthread_mutex_lock(&lock);
    for (found = *bucket; found != NULL; found = found->next)
        if (found->in.pc == pc && memcmp(found->in.raw, raw, (size_t)found->in.len) == 0)
            break;
    if (found == NULL) {
        found = malloc(sizeof(*found));
        if (found != NULL && gfx9_decode(run->dispatch.isa, pc, &found->in, run->error)) {
            found->next = *bucket;
            *bucket = found;
        } else {
            free(found);
            found = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    if (found == NULL && run->error[0] == '\0')
        snprintf(run->error, sizeof(run->error), "no memory for decoded code");
    return found == NULL ? NULL : &found->in;
}

static const struct instruction *instruction_at(struct gfx9_run *run, uint64_t pc)
{
    const struct instruction **recent = &run->recent[pc / 4 % RECENT];
    if (*recent == NULL || (*recent)->pc != pc)
        *recent = look_up(run, pc);
    return *recent;
}

/* ---- groups ---- */

static int give(struct wave *w, int at, uint64_t value, int words)
{
    w->s[at] = (uint32_t)value;
    if (words > 1)
        w->s[at + 1] = (uint32_t)(value >> 32);
    return at + words;
}

static void start_scalars(const struct gfx9_run *run, struct wave *w, const uint32_t id[3])
{
    uint32_t properties = run->kernel.properties, rsrc2 = run->kernel.rsrc2;
    int at = 0;
    if (properties & GIVES_PRIVATE_BUFFER)
        at = give(w, give(w, at, SCRATCH_RESOURCE, 2), 0, 2);
    if (properties & GIVES_DISPATCH)
        at = give(w, at, (uint64_t)(uintptr_t)run->packet, 2);
    if (properties & GIVES_QUEUE)
        at = give(w, at, (uint64_t)(uintptr_t)run->dispatch.queue, 2);
    if (properties & GIVES_KERNARG)
        at = give(w, at, (uint64_t)(uintptr_t)run->packet->kernarg_address, 2);
    if (properties & GIVES_DISPATCH_ID)
        at = give(w, at, run->dispatch.dispatch_id, 2);
    if (properties & GIVES_FLAT_SCRATCH)
        at = give(w, at, 0, 2);
    if (properties & GIVES_PRIVATE_SIZE)
        at = give(w, at, run->kernel.private_bytes, 1);
    at = (int)(rsrc2 >> 1 & 31);
    for (int d = 0; d < 3; d++)
        if (rsrc2 >> (7 + d) & 1)
            at = give(w, at, id[d], 1);
    if (rsrc2 >> 10 & 1)
        at = give(w, at, 0, 1);
    if (rsrc2 & 1)
        give(w, at, 0, 1); /* where the wave's scratch begins: the interpreter knows */
}

/* The numbers of threads first to first + 63 in their block, x, y and z in 10 bits each; lanes behind the last are off.
 */
static void start_lanes(const struct gfx9_run *run, struct wave *w, uint32_t first)
{
    const hsa_kernel_dispatch_packet_t *packet = run->packet;
    uint32_t nx = packet->workgroup_size_x, ny = packet->workgroup_size_y;
    uint64_t exec = 0;
    for (uint32_t l = 0; l < LANES && first + l < run->threads_each; l++) {
        uint32_t t = first + l;
        lanes_of(w, 0)[l] = t % nx | (t / nx % ny) << 10 | (t / nx / ny) << 20;
        exec |= 1ull << l;
    }
    w->s[EXEC] = (uint32_t)exec;
    w->s[EXEC + 1] = (uint32_t)(exec >> 32);
}

static void end_group(struct gfx9_run *run, struct group *group)
{
    for (uint32_t i = 0; group->waves != NULL && i < run->waves_each; i++) {
        free(group->waves[i].v);
        free(group->waves[i].scratch);
    }
    if (group->held != NULL)
        gfx9_held_all(group->held);
    free(group->held);
    free(group->waves);
    free(group->shared);
    memset(group, 0, sizeof(*group));
}

static bool start_group(struct gfx9_run *run, struct group *group, uint32_t number)
{
    uint32_t id[3] = {number % run->groups[0], number / run->groups[0] % run->groups[1],
                      number / run->groups[0] / run->groups[1]};
    uint32_t shared_bytes = run->packet->group_segment_size, scratch_bytes = run->packet->private_segment_size;
    group->waves = calloc(run->waves_each, sizeof(*group->waves));
    group->shared = malloc(shared_bytes + 16);
    group->held = run->weak ? gfx9_held_new() : NULL;
    bool ok = group->waves != NULL && group->shared != NULL && (group->held != NULL || !run->weak);
    if (ok)
        memset(group->shared, 0xa5, shared_bytes + 16);
    group->n_waves = run->waves_each;
    for (uint32_t i = 0; ok && i < run->waves_each; i++) {
        struct wave *w = &group->waves[i];
        w->v = malloc(run->registers * LANES * sizeof(uint32_t));
        w->scratch = malloc((size_t)scratch_bytes * LANES + 16);
        ok = w->v != NULL && w->scratch != NULL;
        if (!ok)
            break;
        memset(w->v, 0x5a, run->registers * LANES * sizeof(uint32_t));
        memset(w->s, 0x5a, sizeof(w->s));
        w->scratch_bytes = scratch_bytes;
        w->shared_bytes = shared_bytes;
        w->group = group;
        w->error = run->error;
        w->pc = run->entry;
        start_scalars(run, w, id);
        start_lanes(run, w, i * LANES);
    }
    if (!ok)
        end_group(run, group);
    return ok;
}

/* ---- the run ---- */

static void fill_slots(struct gfx9_run *run)
{
    for (uint32_t i = 0; i < run->room && run->next_group < run->n_groups; i++) {
        if (run->slots[i].waves != NULL)
            continue;
        if (!start_group(run, &run->slots[i], run->next_group)) {
            if (run->resident == 0)
                snprintf(run->error, sizeof(run->error), "no memory for a block of threads");
            return;
        }
        run->next_group++;
        run->resident++;
    }
}

/* Registers of each lane: accumulators, where there are any, stand behind the largest number of the others. */
static uint32_t registers_of(const struct descriptor *kernel)
{
    uint32_t all = ((kernel->rsrc1 & 63) + 1) * 8, vectors = ((kernel->rsrc3 & 63) + 1) * 4;
    return all > vectors ? 2 * ACCUMULATORS : vectors; /* all is rounded up: a few of them may be none */
}

struct gfx9_run *gfx9_start(const struct gfx9_dispatch *dispatch)
{
    struct gfx9_run *run = calloc(1, sizeof(*run));
    if (run == NULL)
        return NULL;
    run->dispatch = *dispatch;
    run->packet = dispatch->packet;
    const hsa_kernel_dispatch_packet_t *p = run->packet;
    memcpy(&run->kernel, (const void *)(uintptr_t)p->kernel_object, sizeof(run->kernel));
    run->entry = p->kernel_object + (uint64_t)run->kernel.entry;
    run->groups[0] = (p->grid_size_x + p->workgroup_size_x - 1) / p->workgroup_size_x;
    run->groups[1] = (p->grid_size_y + p->workgroup_size_y - 1) / p->workgroup_size_y;
    run->groups[2] = (p->grid_size_z + p->workgroup_size_z - 1) / p->workgroup_size_z;
    run->n_groups = run->groups[0] * run->groups[1] * run->groups[2];
    run->threads_each = (uint32_t)p->workgroup_size_x * p->workgroup_size_y * p->workgroup_size_z;
    run->waves_each = (run->threads_each + LANES - 1) / LANES;
    run->registers = registers_of(&run->kernel);
    run->weak = getenv("GFX9_WEAK") != NULL && strcmp(getenv("GFX9_WEAK"), "1") == 0;
    run->room = run->n_groups < MAX_GROUPS ? run->n_groups : MAX_GROUPS;
    run->slots = calloc(run->room, sizeof(*run->slots));
    run->recent = calloc(RECENT, sizeof(*run->recent));
    if (run->slots == NULL || run->recent == NULL) {
        gfx9_end(run);
        return NULL;
    }
    return run;
}

static void run_wave(struct gfx9_run *run, struct wave *w)
{
    for (int i = 0; i < TURN && w->state == WAVE_RUNS; i++) {
        const struct instruction *in = instruction_at(run, w->pc);
        if (in == NULL) {
            w->state = WAVE_ENDED;
            return;
        }
        w->pc += (uint64_t)in->len;
        in->rule->execute(w, in);
    }
}

/* Returns true when one of its waves did something other than wait. */
static bool run_group(struct gfx9_run *run, struct group *group)
{
    uint32_t ended = 0, at_barrier = 0;
    bool worked = false;
    for (uint32_t i = 0; i < group->n_waves && run->error[0] == '\0'; i++) {
        struct wave *w = &group->waves[i];
        if (w->state == WAVE_SLEEPS)
            w->state = WAVE_RUNS;
        if (w->state == WAVE_RUNS) {
            run_wave(run, w);
            worked |= w->state != WAVE_SLEEPS;
        }
        ended += w->state == WAVE_ENDED;
        at_barrier += w->state == WAVE_AT_BARRIER;
    }
    if (at_barrier > 0 && at_barrier + ended == group->n_waves)
        for (uint32_t i = 0; i < group->n_waves; i++)
            if (group->waves[i].state == WAVE_AT_BARRIER)
                group->waves[i].state = WAVE_RUNS;
    if (ended == group->n_waves) {
        end_group(run, group);
        run->resident--;
    }
    return worked;
}

/* Nothing has gone on in this round: what is late must not be so for ever. */
static void stores_arrive(struct gfx9_run *run)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    if (run->idle_ns == 0)
        run->idle_ns = now_ns;
    for (uint32_t i = 0; now_ns - run->idle_ns > LATE_NS && i < run->room; i++)
        if (run->slots[i].held != NULL)
            gfx9_held_all(run->slots[i].held);
}

enum gfx9_progress gfx9_go_on(struct gfx9_run *run)
{
    bool worked = false;
    fill_slots(run);
    for (uint32_t i = 0; i < run->room && run->error[0] == '\0'; i++)
        if (run->slots[i].waves != NULL)
            worked |= run_group(run, &run->slots[i]);
    if (worked)
        run->idle_ns = 0;
    else if (run->weak)
        stores_arrive(run);
    if (run->error[0] != '\0')
        return GFX9_FAILED;
    if (run->resident == 0 && run->next_group == run->n_groups)
        return GFX9_ENDED;
    return worked ? GFX9_BUSY : GFX9_WAITING;
}

const char *gfx9_error(const struct gfx9_run *run) { return run->error; }

void gfx9_end(struct gfx9_run *run)
{
    if (run == NULL)
        return;
    for (uint32_t i = 0; run->slots != NULL && i < run->room; i++)
        end_group(run, &run->slots[i]);
    free(run->slots);
    free(run->recent);
    free(run);
}
