/* SPDX-License-Identifier: MIT */
/* The scheduler of the CPU device, and the runtime that prim_cpu.h calls in kernels.
 *
 * A stack is a coroutine that runs one thread of the grid after the other. A thread that never waits costs a call; only
 * threads that wait at the same time need a stack each. A thread that cannot go on picks the next one and switches to
 * it directly.
 *
 * Invariants, per block: `ready` is the set of threads that may run, also those not yet begun; ready + waiting +
 * returned = all threads; a barrier opens when all threads of its group that have not returned have arrived.
 *
 * One thread makes a call of the block (prim_call_begin) for all. Exceptions are a seed, which runs threads in unusual
 * orders, and ThreadSanitizer, which looks for accesses that the block leaves unordered.
 *
 * All of it belongs to one OS thread. ThreadSanitizer is told the order that synchronisation gives the threads of a
 * grid. */
#include "fiber.h"

#include "../../bootstrap/log.h"
#include "../../bootstrap/yield.h"
#include "fiber_context.h"
#include "../api/prim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if FIBER_ASAN || FIBER_TSAN
#define STACK_BYTES ((size_t)256 << 10)
enum { STACKS_PER_SLAB = 4 }; /* a fiber costs ThreadSanitizer a lot */
#else
#define STACK_BYTES ((size_t)64 << 10)
enum { STACKS_PER_SLAB = 16 };
#endif
enum {
    MOST_GUARDED = 8192,   /* stacks with a page below that traps: each is two mappings, and a process has 65530 */
    MOST_TSAN_APART = 128, /* ThreadSanitizer knows 8128 threads, and each costs all others */
    COLOURS = 61,          /* equal places on all stacks would be in the same few sets of the caches */
    COLOUR_BYTES = 192,
    RESTS_PER_LOOK = 32,  /* at the clock */
    POLLS_PER_YIELD = 16, /* in a round of many threads: mostly they all wait for the same peer, who needs the core */
    /* Of the program's own loops, prim_look: */
    IDLE_LOOKS = 4,        /* that find nothing new, until other threads run */
    OTHER_LOOKS = 64,      /* that find something */
    PASSES = 16,           /* prim_pass, likewise */
    LOOKS_PER_YIELD = 256, /* of the core: other threads of the OS are scheduled without it too */
    LOOKS_PER_CLOCK = 64,
    MOST_LOOKS_OF_TURN = 1 << 20,
};
#define STACK_CANARY 0x6f73697374616b21u /* at the low end of a stack without a guard */
#define MOST_LATE_BITS 17                /* of the number of switches that leave one block out */
#define REST_AFTER_NS 100000000u         /* of nothing but polls: then the OS thread sleeps between rounds */
#define REST_NS 50000

/* The findings of a thread's looks. A loop comes back to the word that an iteration began with, `anchor`. Nothing was
 * new when the values seen since add up to the same as in the iteration before. */
struct looks {
    const void *anchor;
    uint64_t sum, last; /* of this iteration so far; of the one before */
    uint32_t n, most;   /* looks of this iteration; with more than `most` it begins anew, with another word */
    uint32_t idle;      /* looks since a value was new; 0: the last iteration had a new value */
    uint64_t since_ns;  /* of the first of those, nearly; 0: the clock has not been looked at */
};

struct stack {
    struct context context;
    struct stack *next;
    uint64_t *canary;   /* NULL: guarded */
    struct looks looks; /* of the thread that runs on it */
};

struct slab {
    struct slab *next;
    char *base;
    size_t bytes;
    uint32_t n_guarded; /* the first ones have a guard page, the others a canary */
    struct stack stacks[STACKS_PER_SLAB];
};

/* Puts that are kept back, in the order of the calls. */
struct held {
    struct held *next;
    void *dest;
    size_t bytes;
    char data[];
};
struct held_list {
    struct held *first, *last;
};

/* Where the threads of a wave or a block synchronise. */
struct fiber_rendezvous {
    struct held_list held; /* settled: any thread of it may release that */
    uint32_t alive, arrived;
    uint32_t generation;
    uint64_t any, said[2]; /* of this generation so far; of the last two, by parity */
    char order[2]; /* for ThreadSanitizer; two, so that a slow leaver is not ordered after early comers of the next */
};

/* A call of the block that one thread makes for all. Threads that have not returned arrive, and all but `by` wait. */
struct call {
    struct fiber *by;               /* NULL: no thread is inside */
    uint32_t arrived;               /* threads that wait for the others; 0 while a thread is inside */
    uint32_t depth;                 /* of calls within calls */
    int rc;                         /* of the last call; each thread takes it before it arrives at the next call */
    struct shmemd_cpu_thread place; /* of `by`, which meanwhile has that of a block of one thread */
};

struct shared {
    struct shared *next;
    const void *key;
    size_t bytes;
    void *memory;
};

struct fiber {
    struct shmemd_cpu_thread place;
    uint32_t rank; /* in the block, also within a call */
    struct fiber_block *block;
    struct fiber_rendezvous *wave;
    struct stack *stack; /* NULL: not begun, or returned */
    struct held_list held;
};

struct fiber_block {
    struct fiber_rendezvous all;
    struct fiber_rendezvous *waves;
    struct fiber *threads;
    uint64_t *ready, *alive; /* sets of threads */
    uint32_t n_ready;
    struct call call;
    struct shared *shared;
};

struct fibers {
    struct fiber *current;
    struct stack *running; /* stack of current */
    struct fiber_grid grid;
    bool one_for_all;          /* calls of a block are done by one thread */
    struct fiber_block **live; /* blocks with threads that have not returned */
    uint32_t n_live, at;       /* live[at]: whose turn it is */
    uint32_t n_ready;
    uint32_t polls; /* in a row, with nothing else between them */
    uint32_t rests; /* likewise: rounds that were nothing but polls */
    uint32_t looks; /* of all threads */
    bool reported;  /* a thread that only polls, since something was new */
    bool gives_up;  /* after such a report */
    uint64_t timeout_ns;
    uint64_t resting_since_ns;
    uint64_t random;
    uint32_t late, late_for; /* with a seed: live[late] has no turn in so many switches, or until the others only poll */
    struct stack *spare, *used; /* used: by this grid, when it must not be used again by it */
    struct context outside;     /* of iso_fibers_run */
    struct slab *slabs;
    uint32_t n_stacks;
    bool closing;
    char begin, end; /* ThreadSanitizer: the launch, and the end of all threads */
    /* Tables of the grid; they only grow. */
    struct fiber_block *blocks;
    struct fiber *threads;
    struct fiber_rendezvous *waves;
    uint64_t *bits;
    size_t most_blocks, most_live, most_threads, most_waves, most_bits;
};

static _Thread_local struct fibers *here;

static const struct shmemd_cpu_thread outside_of_kernels = {0, 1, 0, 1, 1, 0, 1, {1, 1}, {1, 1}};

static uint32_t words_of(uint32_t threads) { return (threads + 63) / 64; }

/* ---- stacks ---- */

FIBER_UNSEEN static int slab_add(struct fibers *f)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct slab *slab = (struct slab *)calloc(1, sizeof *slab);
    if (slab == NULL)
        return -ENOMEM;
    bool guarded = f->n_stacks < MOST_GUARDED;
    slab->bytes = STACKS_PER_SLAB * STACK_BYTES;
    slab->base = (char *)mmap(NULL, slab->bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (slab->base == MAP_FAILED) {
        free(slab);
        return -ENOMEM;
    }
    (void)madvise(slab->base, slab->bytes, MADV_NOHUGEPAGE); /* of most stacks only a page or two are used */
    for (uint32_t i = 0; i < STACKS_PER_SLAB && guarded; i++) {
        guarded = mprotect(slab->base + i * STACK_BYTES, page, PROT_NONE) == 0;
        slab->n_guarded += guarded;
    }
    slab->next = f->slabs;
    f->slabs = slab;
    return 0;
}

static void stack_main(void);

FIBER_UNSEEN static struct stack *stack_take(struct fibers *f)
{
    if (f->spare == NULL) {
        if (slab_add(f) != 0) {
            log_error("the CPU device has no memory for the stacks of more than %u threads that wait at once: %m",
                      f->n_stacks);
            abort();
        }
        for (uint32_t i = 0; i < STACKS_PER_SLAB; i++) {
            struct stack *s = &f->slabs->stacks[i];
            size_t page = i < f->slabs->n_guarded ? (size_t)sysconf(_SC_PAGESIZE) : 0;
            char *base = f->slabs->base + i * STACK_BYTES;
            context_make(&s->context, base + page, STACK_BYTES - page, f->n_stacks++ % COLOURS * COLOUR_BYTES,
                         stack_main);
            s->canary = page > 0 ? NULL : (uint64_t *)(void *)base;
            if (s->canary != NULL)
                *s->canary = STACK_CANARY;
            s->next = f->spare;
            f->spare = s;
        }
    }
    struct stack *s = f->spare;
    f->spare = s->next;
    return s;
}

/* ---- the order ---- */

/* splitmix64 */
FIBER_UNSEEN static uint64_t next_random(struct fibers *f)
{
    uint64_t z = (f->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The first ready thread from `from` on; -1: none. */
FIBER_UNSEEN static int ready_from(const struct fiber_block *b, uint32_t from, uint32_t n_words)
{
    for (uint32_t w = from / 64; w < n_words; w++) {
        uint64_t bits = b->ready[w];
        if (w == from / 64)
            bits &= ~(uint64_t)0 << (from % 64);
        if (bits != 0)
            return (int)(w * 64 + (uint32_t)__builtin_ctzll(bits));
    }
    return -1;
}

/* Every live block has ready threads: a block without is stuck, and that is found when its last thread stops. */
FIBER_UNSEEN static struct fiber *pick_next(struct fibers *f, uint32_t after)
{
    uint32_t n_words = words_of(f->grid.threads);
    int rank = -1;
    if (f->grid.seed != 0) {
        if (f->late_for-- == 0) { /* half of the time none */
            f->late = (uint32_t)(next_random(f) % (2 * f->n_live));
            f->late_for = (uint32_t)1 << next_random(f) % MOST_LATE_BITS;
        }
        f->at = (uint32_t)(next_random(f) % f->n_live);
        if (f->at == f->late)
            f->at = f->at + 1 < f->n_live ? f->at + 1 : 0;
        rank = ready_from(f->live[f->at], (uint32_t)(next_random(f) % f->grid.threads), n_words);
    } else {
        rank = ready_from(f->live[f->at], after, n_words);
        if (rank < 0)
            f->at = f->at + 1 < f->n_live ? f->at + 1 : 0;
    }
    if (rank < 0)
        rank = ready_from(f->live[f->at], 0, n_words);
    return &f->live[f->at]->threads[rank];
}

FIBER_UNSEEN static void go_to(struct fibers *f, struct fiber *next)
{
    struct stack *from = f->running;
    f->current = next;
    if (next->stack == NULL)
        next->stack = stack_take(f);
    if (next->stack == from)
        return;
    f->running = next->stack;
    context_switch(from != NULL ? &from->context : &f->outside, &next->stack->context);
}

FIBER_UNSEEN static void go_on(struct fibers *f)
{
    uint32_t after = f->current->rank + 1;
    go_to(f, pick_next(f, after < f->grid.threads ? after : f->grid.threads));
}

/* ---- what puts keep back, with a seed ----
 * As gfx9 has it: stores sit where only their own wave can wait for them, and a sync alone changes nothing. */

FIBER_UNSEEN static void held_append(struct held_list *to, struct held_list *from)
{
    if (from->first == NULL)
        return;
    if (to->first == NULL)
        to->first = from->first;
    else
        to->last->next = from->first;
    to->last = from->last;
    from->first = from->last = NULL;
}

/* Words whole, as the put would have stored them. Seen by ThreadSanitizer as stores of the thread whose fence it is. */
__attribute__((noinline)) static void held_store(const struct held *h)
{
    uint64_t v8 = 0;
    uint32_t v4 = 0;
    bool aligned = (uintptr_t)h->dest % h->bytes == 0;
    if (h->bytes == 8 && aligned) {
        memcpy(&v8, h->data, 8);
        prim_store_flag_u64((uint64_t *)h->dest, v8);
    } else if (h->bytes == 4 && aligned) {
        memcpy(&v4, h->data, 4);
        prim_store_flag_u32((uint32_t *)h->dest, v4);
    } else {
        memcpy(h->dest, h->data, h->bytes);
    }
}

/* A later fence of any thread comes behind it, see shmemd_cpu_release. */
FIBER_UNSEEN static void held_list_release(struct held_list *list)
{
    if (list->first == NULL)
        return;
    while (list->first != NULL) {
        struct held *h = list->first;
        list->first = h->next;
        FIBER_ACQUIRE(h);
        held_store(h);
        free(h);
    }
    FIBER_RELEASE(list);
}

/* Releases all puts that a fence of this thread covers. */
FIBER_UNSEEN static void held_release(struct fiber *t)
{
    held_list_release(&t->block->all.held);
    held_list_release(&t->wave->held);
    held_list_release(&t->held);
}

/* No thread goes on: a peer may be waiting for a put that no fence follows. */
FIBER_UNSEEN static void held_release_all(struct fibers *f)
{
    for (uint32_t i = 0; i < f->n_live; i++)
        for (uint32_t rank = 0; rank < f->grid.threads; rank++)
            held_release(&f->live[i]->threads[rank]);
}

/* A thread did something other than poll. */
FIBER_UNSEEN static void progress(struct fibers *f)
{
    f->polls = 0;
    f->rests = 0;
}

/* All threads that could run only poll: other OS threads go first. */
FIBER_UNSEEN static void rest_fiber(struct fibers *f)
{
    if (f->rests++ % RESTS_PER_LOOK == 0) {
        f->late_for = 0;
        uint64_t now = prim_clock_ns();
        if (f->rests == 1)
            f->resting_since_ns = now;
        if (now - f->resting_since_ns > REST_AFTER_NS) {
            struct timespec nap = {0, REST_NS};
            if (f->grid.seed != 0)
                held_release_all(f);
            (void)nanosleep(&nap, NULL);
            return;
        }
    }
    (void)iso_yield(NULL);
}

/* ---- synchronisation of waves and blocks ---- */

FIBER_UNSEEN static void stop_running(struct fibers *f, struct fiber *self)
{
    self->block->ready[self->rank / 64] &= ~((uint64_t)1 << (self->rank % 64));
    self->block->n_ready--;
    f->n_ready--;
}

/* Waiting threads of these words of the block may run. */
FIBER_UNSEEN static void make_ready(struct fibers *f, struct fiber_block *b, uint32_t word, uint64_t mask)
{
    uint64_t more = b->alive[word] & mask & ~b->ready[word];
    uint32_t n = (uint32_t)__builtin_popcountll(more);
    b->ready[word] |= more;
    b->n_ready += n;
    f->n_ready += n;
}

FIBER_UNSEEN static void make_all_ready(struct fibers *f, struct fiber_block *b)
{
    for (uint32_t w = 0; w < words_of(f->grid.threads); w++)
        make_ready(f, b, w, ~(uint64_t)0);
}

FIBER_UNSEEN static void open_rendezvous(struct fibers *f, struct fiber *by, struct fiber_rendezvous *m)
{
    m->said[m->generation & 1] = m->any;
    m->any = 0;
    m->arrived = 0;
    m->generation++;
    struct fiber_block *b = by->block;
    if (m == &b->all) {
        make_all_ready(f, b);
        return;
    }
    uint32_t first = by->rank - by->place.lane;
    uint64_t lanes = f->grid.wave == 64 ? ~(uint64_t)0 : (uint64_t)0xffffffffu;
    make_ready(f, b, first / 64, lanes << (first % 64));
}

FIBER_UNSEEN static _Noreturn void stuck(const struct fibers *f, const struct fiber_block *b)
{
    uint32_t in_waves = 0, threads = f->grid.threads;
    for (uint32_t w = 0; w < (threads + f->grid.wave - 1) / f->grid.wave; w++)
        in_waves += b->waves[w].arrived;
    log_error("a kernel on the CPU device can never end: of the %u threads of block %u of %u, %u wait for the whole "
              "block, %u wait for their wave, %u have returned, %u are in a collective that the others have not "
              "called, and none runs",
              threads, b->threads->place.block_index, f->grid.blocks, b->all.arrived, in_waves, threads - b->all.alive,
              b->call.arrived);
    abort();
}

/* Runs other threads until one makes this thread ready. */
FIBER_UNSEEN static void stop(struct fibers *f, struct fiber *self)
{
    stop_running(f, self);
    if (self->block->n_ready == 0)
        stuck(f, self->block);
    go_on(f);
}

uint64_t shmemd_cpu_sync(enum prim_group_kind kind, uint64_t value) FIBER_UNSEEN;
uint64_t shmemd_cpu_sync(enum prim_group_kind kind, uint64_t value)
{
    struct fibers *f = here;
    if (f == NULL)
        return value; /* a host thread is a block of one */
    struct fiber *self = f->current;
    if (self->block->call.by == self)
        return value; /* all others wait for it */
    struct fiber_rendezvous *m = kind == PRIM_BLOCK ? &self->block->all : self->wave;
    uint32_t parity = m->generation & 1;
    progress(f);
    FIBER_RELEASE(&m->order[parity]);
    m->any |= value;
    if (++m->arrived < m->alive) {
        stop(f, self);
    } else {
        open_rendezvous(f, self, m);
        if (f->grid.seed != 0)
            go_on(f);
    }
    FIBER_ACQUIRE(&m->order[parity]);
    return m->said[parity];
}

/* ---- one for all ---- */

FIBER_UNSEEN static void call_take(struct fiber_block *b, struct fiber *t)
{
    b->call.by = t;
    b->call.arrived = 0;
    b->call.depth = 1;
    b->call.place = t->place;
    t->place.rank = t->place.lane = 0;
    t->place.size = t->place.lanes = 1;
}

bool shmemd_cpu_call_begin(void) FIBER_UNSEEN;
bool shmemd_cpu_call_begin(void)
{
    struct fibers *f = here;
    if (f == NULL || !f->one_for_all)
        return true;
    struct fiber *self = f->current;
    struct fiber_block *b = self->block;
    if (b->call.by == self) {
        b->call.depth++;
        return true;
    }
    progress(f);
    if (++b->call.arrived == b->all.alive)
        call_take(b, self);
    else
        stop(f, self);
    return b->call.by == self;
}

int shmemd_cpu_call_end(int rc) FIBER_UNSEEN;
int shmemd_cpu_call_end(int rc)
{
    struct fibers *f = here;
    if (f == NULL || !f->one_for_all)
        return rc;
    struct fiber *self = f->current;
    struct call *c = &self->block->call;
    if (c->by != self)
        return c->rc;
    if (--c->depth == 0) {
        self->place = c->place;
        c->by = NULL;
        c->rc = rc;
        make_all_ready(f, self->block);
    }
    return rc;
}

/* ---- what else kernels call ---- */

bool shmemd_cpu_hold(void *dest, const void *source, size_t bytes) FIBER_UNSEEN;
bool shmemd_cpu_hold(void *dest, const void *source, size_t bytes)
{
    if (here == NULL || here->grid.seed == 0)
        return false;
    struct held *h = (struct held *)malloc(sizeof *h + bytes);
    if (h == NULL)
        return false;
    h->next = NULL;
    h->dest = dest;
    h->bytes = bytes;
    memcpy(h->data, source, bytes);
    struct held_list one = {h, h};
    held_append(&here->current->held, &one);
    FIBER_RELEASE(h);
    return true;
}

void shmemd_cpu_settle(enum prim_group_kind kind) FIBER_UNSEEN;
void shmemd_cpu_settle(enum prim_group_kind kind)
{
    if (here == NULL || here->grid.seed == 0)
        return;
    struct fiber *self = here->current;
    held_append(&self->wave->held, &self->held);
    if (kind == PRIM_BLOCK)
        held_append(&self->block->all.held, &self->wave->held);
}

void shmemd_cpu_release(void) FIBER_UNSEEN;
void shmemd_cpu_release(void)
{
    if (here == NULL || here->grid.seed == 0)
        return;
    struct fiber *self = here->current;
    held_release(self);
    FIBER_ACQUIRE(&self->block->all.held);
    FIBER_ACQUIRE(&self->wave->held);
    FIBER_ACQUIRE(&self->held);
}

const struct shmemd_cpu_thread *shmemd_cpu_self(void) FIBER_UNSEEN;
const struct shmemd_cpu_thread *shmemd_cpu_self(void)
{
    return here != NULL ? &here->current->place : &outside_of_kernels;
}

FIBER_UNSEEN static void poll(struct fibers *f)
{
    held_release(f->current);
    if (++f->polls >= f->n_ready) {
        f->polls = 0;
        rest_fiber(f);
    } else if (f->polls % POLLS_PER_YIELD == 0) {
        (void)iso_yield(NULL);
    }
    go_on(f);
}

void shmemd_cpu_pause(void) FIBER_UNSEEN;
void shmemd_cpu_pause(void)
{
    struct fibers *f = here;
    if (f == NULL) {
        prim_cpu_relax();
        return;
    }
    f->running->looks.idle = 0; /* a wait of the library, which has a deadline of its own */
    f->running->looks.since_ns = 0;
    poll(f);
}

void shmemd_cpu_seen(void) FIBER_UNSEEN;
void shmemd_cpu_seen(void)
{
    if (here != NULL)
        progress(here);
}

/* ---- looks of the program's own loops ---- */

/* Whether the last turn of the loop had nothing new. A loop whose turn is not found yet counts as having something. */
FIBER_UNSEEN static bool look_is_idle(struct looks *l, const void *addr, uint64_t value)
{
    uint64_t mixed = ((uint64_t)(uintptr_t)addr ^ value * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    l->sum += mixed ^ (mixed >> 31);
    if (addr == l->anchor) {
        bool same = l->sum == l->last;
        l->last = l->sum;
        l->sum = 0;
        l->n = 0;
        if (!same)
            l->idle = 0;
        return same;
    }
    if (++l->n > l->most) {
        l->anchor = addr;
        l->most = l->most < MOST_LOOKS_OF_TURN ? 2 * l->most + 1 : l->most;
        l->sum = l->last = 0;
        l->n = l->idle = 0;
    }
    return l->idle > 0;
}

/* Where the whole grid waits in vain, one thread reports it for all. */
FIBER_UNSEEN static void look_at_clock(struct fibers *f, const char *call, const void *addr, uint64_t value)
{
    struct looks *l = &f->running->looks;
    uint64_t now = prim_clock_ns();
    if (l->since_ns == 0)
        l->since_ns = now;
    if (f->reported || f->timeout_ns == 0 || now - l->since_ns <= f->timeout_ns)
        return;
    f->reported = true;
    uint32_t n_polling = 0; /* blocks */
    for (uint32_t i = 0; i < f->n_live; i++) {
        const struct fiber *t = f->live[i]->threads, *end = t + f->grid.threads;
        while (t < end && (t->stack == NULL || t->stack->looks.since_ns == 0))
            t++;
        n_polling += t < end;
    }
    log_error("%s: block %u, thread %u has been polling for %.1f s, longer than SHMEM_TIMEOUT, and nothing has "
              "changed: address %p, seen %llu (%u of the kernel's %u blocks poll)",
              call, f->current->place.block_index, f->current->rank, (double)(now - l->since_ns) / 1e9, addr,
              (unsigned long long)value, n_polling, f->grid.blocks);
    if (!f->gives_up)
        return;
    log_error("SHMEM_TIMEOUT_ABORT: the job ends, because a kernel has polled longer than SHMEM_TIMEOUT");
    abort();
}

/* Other threads run, after every so many calls. */
FIBER_UNSEEN static void pass(struct fibers *f, uint32_t every)
{
    if (++f->looks % every != 0)
        return;
    if (f->looks % LOOKS_PER_YIELD == 0)
        (void)iso_yield(NULL);
    if (f->n_ready > 1)
        go_on(f);
}

/* addr NULL: a pause in a loop of plain loads. */
void shmemd_cpu_look(const char *call, const void *addr, uint64_t value) FIBER_UNSEEN;
void shmemd_cpu_look(const char *call, const void *addr, uint64_t value)
{
    struct fibers *f = here;
    if (f == NULL)
        return;
    struct looks *l = &f->running->looks;
    bool idle = look_is_idle(l, addr, value);
    if (idle && ++l->idle % LOOKS_PER_CLOCK == 0) {
        if (f->grid.seed != 0)
            held_release_all(f); /* the value that is looked for may answer one of them */
        look_at_clock(f, call, addr, value);
    } else if (!idle) {
        l->since_ns = 0;
        f->reported = false;
        progress(f);
    }
    if (addr == NULL)
        poll(f);
    else
        pass(f, !idle ? OTHER_LOOKS : f->grid.seed == 0 ? IDLE_LOOKS : 1);
}

void shmemd_cpu_pass(void) FIBER_UNSEEN;
void shmemd_cpu_pass(void)
{
    if (here != NULL)
        pass(here, PASSES);
}

/* A wrong argument of a call of the calling thread: of C++ calls, __func__ is the name without its namespace. */
static void refuse_argument(const char *call, const char *why) __attribute__((noreturn)) FIBER_UNSEEN;
static void refuse_argument(const char *call, const char *why)
{
    const struct shmemd_cpu_thread *self = shmemd_cpu_self();
    log_error("%s%s: block %u, thread %u: %s", strncmp(call, "shmemd_", 7) == 0 ? "" : "shmemd::", call,
              self->block_index, here != NULL ? here->current->rank : self->rank, why);
    abort();
}
void shmemd_cpu_wrong_pe(const char *call, const char *arg, int pe, int n_pes) FIBER_UNSEEN;
void shmemd_cpu_wrong_pe(const char *call, const char *arg, int pe, int n_pes)
{
    char why[128];
    snprintf(why, sizeof(why), "%s %d is outside 0..%d, the PEs of the handle's team", arg, pe, n_pes - 1);
    refuse_argument(call, why);
}
void shmemd_cpu_wrong_addr(const char *call, const char *arg, const void *addr, size_t alignment) FIBER_UNSEEN;
void shmemd_cpu_wrong_addr(const char *call, const char *arg, const void *addr, size_t alignment)
{
    char why[128];
    if (addr == NULL)
        snprintf(why, sizeof(why), "%s is a null pointer", arg);
    else
        snprintf(why, sizeof(why), "%s %p is not aligned to %zu bytes", arg, addr, alignment);
    refuse_argument(call, why);
}
void shmemd_cpu_wrong_value(const char *call, const char *arg, int64_t value, const char *allowed) FIBER_UNSEEN;
void shmemd_cpu_wrong_value(const char *call, const char *arg, int64_t value, const char *allowed)
{
    char why[192];
    snprintf(why, sizeof(why), "%s is %" PRIi64 ", allowed: %s", arg, value, allowed);
    refuse_argument(call, why);
}

uint64_t shmemd_cpu_clock_ns(void) { return prim_clock_ns(); }

void *shmemd_cpu_shared(const void *key, size_t bytes) FIBER_UNSEEN;
void *shmemd_cpu_shared(const void *key, size_t bytes)
{
    if (here == NULL) {
        log_error("shared memory of a block was requested outside of a kernel");
        abort();
    }
    struct fiber_block *b = here->current->block;
    struct shared *s = b->shared;
    if (key == NULL)
        bytes = here->grid.shared_bytes;
    while (s != NULL && s->key != key)
        s = s->next;
    if (s == NULL) {
        s = (struct shared *)calloc(1, sizeof *s);
        void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + (bytes == 0) * 64);
        if (s == NULL || memory == NULL) {
            log_error("the CPU device has no memory for %zu bytes that a block shares", bytes);
            abort();
        }
        s->key = key;
        s->bytes = bytes;
        s->memory = memory;
        s->next = b->shared;
        b->shared = s;
        FIBER_RELEASE(s); /* the allocator's doings come before any use */
    }
    FIBER_ACQUIRE(s);
    return s->memory;
}

/* ---- the life of a thread, and of the grid ---- */

/* Threads that have returned are not waited for. */
FIBER_UNSEEN static void end_thread(struct fibers *f, struct fiber *self)
{
    struct fiber_block *b = self->block;
    progress(f);
    held_release(self);
    FIBER_RELEASE(&f->end);
    stop_running(f, self);
    b->alive[self->rank / 64] &= ~((uint64_t)1 << (self->rank % 64));
    if (--self->wave->alive > 0 && self->wave->arrived == self->wave->alive)
        open_rendezvous(f, self, self->wave);
    if (--b->all.alive > 0 && b->all.arrived == b->all.alive)
        open_rendezvous(f, self, &b->all);
    if (b->all.alive > 0 && b->call.arrived == b->all.alive) {
        /* All threads that have not returned wait, and one must go on. */
        uint32_t w = 0;
        while (b->alive[w] == 0)
            w++;
        uint64_t first = b->alive[w] & (0 - b->alive[w]);
        call_take(b, &b->threads[w * 64 + (uint32_t)__builtin_ctzll(first)]);
        make_ready(f, b, w, first);
    }

    /* Other threads of the grid may use the stack again. Under ThreadSanitizer they do not while there are few stacks,
     * because it would take their work for the work of one thread. */
    struct stack *s = self->stack, **list = FIBER_TSAN && f->n_stacks < MOST_TSAN_APART ? &f->used : &f->spare;
    if (s->canary != NULL && *s->canary != STACK_CANARY) {
        log_error("a thread of a kernel on the CPU device used more than its %zu bytes of stack", STACK_BYTES);
        abort();
    }
    s->next = *list;
    *list = s;
    self->stack = NULL;

    if (b->all.alive == 0) {
        FIBER_ACQUIRE(&f->end); /* the other threads' uses of what is freed */
        for (struct shared *shared; (shared = b->shared) != NULL;) {
            b->shared = shared->next;
            free(shared->memory);
            free(shared);
        }
        f->live[f->at] = f->live[--f->n_live];
        if (f->at >= f->n_live)
            f->at = 0;
    } else if (b->n_ready == 0) {
        stuck(f, b);
    }
    if (f->n_live > 0) {
        go_on(f);
        return;
    }
    struct stack *last = f->running;
    f->running = NULL;
    context_switch(&last->context, &f->outside);
}

FIBER_UNSEEN static void stack_main(void)
{
    struct fibers *f = here;
    context_began();
    for (;;) {
        if (f->closing)
            context_leave(&f->running->context, &f->outside);
        progress(f);
        memset(&f->running->looks, 0, sizeof f->running->looks);
        FIBER_ACQUIRE(&f->begin);
        (void)f->grid.kernel(f->grid.args);
        end_thread(f, f->current);
    }
}

/* At least n entries; what was in them is lost. */
FIBER_UNSEEN static int table_fit(void **table, size_t *most, size_t n, size_t bytes)
{
    if (n <= *most)
        return 0;
    void *larger = malloc(n * bytes);
    if (larger == NULL)
        return -ENOMEM;
    free(*table);
    *table = larger;
    *most = n;
    return 0;
}

FIBER_UNSEEN static struct fiber_rendezvous rendezvous_of(uint32_t alive)
{
    struct fiber_rendezvous m = {{NULL, NULL}, alive, 0, 0, false, {false, false}, {0, 0}};
    return m;
}

FIBER_UNSEEN static void begin_thread(struct fibers *f, struct fiber_block *b, uint32_t rank)
{
    const struct fiber_grid *g = &f->grid;
    struct fiber *t = &b->threads[rank];
    uint32_t lane = rank % g->wave, left = g->threads - (rank - lane);
    t->rank = t->place.rank = rank;
    t->place.size = g->threads;
    t->place.lane = lane;
    t->place.lanes = left < g->wave ? left : g->wave;
    t->place.wave_size = g->wave;
    t->place.block_index = (uint32_t)(b - f->blocks);
    t->place.block_count = g->blocks;
    for (int i = 0; i < 2; i++) {
        t->place.grid_dim[i] = g->grid_dim[i] != 0 ? g->grid_dim[i] : i == 0 ? g->blocks : 1;
        t->place.block_dim[i] = g->block_dim[i] != 0 ? g->block_dim[i] : i == 0 ? g->threads : 1;
    }
    t->block = b;
    t->wave = &b->waves[rank / g->wave];
    t->stack = NULL;
    t->held.first = t->held.last = NULL;
    if (lane == 0)
        *t->wave = rendezvous_of(t->place.lanes);
}

FIBER_UNSEEN static void begin_block(struct fibers *f, uint32_t index)
{
    const struct fiber_grid *g = &f->grid;
    struct fiber_block *b = &f->blocks[index];
    uint32_t n_words = words_of(g->threads);
    b->all = rendezvous_of(g->threads);
    b->threads = &f->threads[(size_t)index * g->threads];
    b->waves = &f->waves[(size_t)index * ((g->threads + g->wave - 1) / g->wave)];
    b->ready = &f->bits[(size_t)index * 2 * n_words];
    b->alive = b->ready + n_words;
    b->n_ready = g->threads;
    b->call.by = NULL;
    b->call.arrived = b->call.depth = 0;
    b->shared = NULL;
    for (uint32_t w = 0; w < n_words; w++) {
        uint32_t n = g->threads - w * 64;
        b->ready[w] = b->alive[w] = n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
    }
    for (uint32_t rank = 0; rank < g->threads; rank++)
        begin_thread(f, b, rank);
    f->live[index] = b;
}

FIBER_UNSEEN int iso_fibers_run(struct fibers *f, const struct fiber_grid *grid)
{
    if (grid->kernel == NULL || grid->blocks == 0 || grid->threads == 0 || grid->threads > FIBER_MOST_THREADS ||
        (grid->wave != 32 && grid->wave != 64) || (uint64_t)grid->blocks * grid->threads > FIBER_MOST_OF_GRID)
        return -EINVAL;
    size_t blocks = grid->blocks, waves = (grid->threads + grid->wave - 1) / grid->wave;
    int rc = table_fit((void **)&f->blocks, &f->most_blocks, blocks, sizeof *f->blocks);
    if (rc == 0)
        rc = table_fit((void **)&f->live, &f->most_live, blocks, sizeof(struct fiber_block *));
    if (rc == 0)
        rc = table_fit((void **)&f->threads, &f->most_threads, blocks * grid->threads, sizeof *f->threads);
    if (rc == 0)
        rc = table_fit((void **)&f->waves, &f->most_waves, waves * blocks, sizeof *f->waves);
    if (rc == 0)
        rc = table_fit((void **)&f->bits, &f->most_bits, (size_t)words_of(grid->threads) * 2 * blocks, sizeof *f->bits);
    if (rc != 0)
        return rc;

    f->grid = *grid;
    f->one_for_all = grid->seed == 0 && !FIBER_TSAN;
    for (uint32_t i = 0; i < grid->blocks; i++)
        begin_block(f, i);
    f->n_live = grid->blocks;
    f->n_ready = grid->blocks * grid->threads;
    f->at = 0;
    f->random = grid->seed;
    f->late_for = 0;
    f->running = NULL;
    f->reported = false;
    progress(f);

    context_adopt(&f->outside);
    here = f;
    FIBER_RELEASE(&f->begin);
    go_to(f, pick_next(f, 0));
    FIBER_ACQUIRE(&f->end);
    here = NULL;
    for (struct stack *s; (s = f->used) != NULL;) {
        f->used = s->next;
        s->next = f->spare;
        f->spare = s;
    }
    return 0;
}

struct fibers *iso_fibers_create(void) { return (struct fibers *)calloc(1, sizeof(struct fibers)); }

void iso_fibers_report_after(struct fibers *f, uint64_t timeout_ns, bool gives_up)
{
    f->timeout_ns = timeout_ns;
    f->gives_up = gives_up;
}

FIBER_UNSEEN bool iso_fibers_at(const void *addr, struct fiber_place *place)
{
    const struct fibers *f = here;
    if (f == NULL || f->running == NULL)
        return false;
    *place = (struct fiber_place){f->current->place.block_index, f->current->rank, false, STACK_BYTES};
    for (const struct slab *s = f->slabs; s != NULL; s = s->next) {
        size_t offset = (uintptr_t)addr - (uintptr_t)s->base;
        if (offset < s->n_guarded * STACK_BYTES)
            place->is_behind_stack = offset % STACK_BYTES < (size_t)sysconf(_SC_PAGESIZE);
    }
    return true;
}

unsigned iso_fibers_most_waiting(void) { return FIBER_TSAN ? 1024 : 32768; }

FIBER_UNSEEN void iso_fibers_destroy(struct fibers *f)
{
    if (f == NULL)
        return;
    if (FIBER_ASAN) { /* it keeps something for every stack until the stack is left for ever */
        here = f;
        f->closing = true;
        context_adopt(&f->outside);
        for (struct stack *s = f->spare; s != NULL; s = s->next) {
            f->running = s;
            context_switch(&f->outside, &s->context);
        }
        here = NULL;
    }
    while (f->slabs != NULL) {
        struct slab *slab = f->slabs;
        f->slabs = slab->next;
        for (uint32_t i = 0; i < STACKS_PER_SLAB; i++)
            context_unmake(&slab->stacks[i].context);
        munmap(slab->base, slab->bytes);
        free(slab);
    }
    free(f->blocks);
    free(f->live);
    free(f->threads);
    free(f->waves);
    free(f->bits);
    free(f);
}
