/* SPDX-License-Identifier: MIT */
/* Host collectives: checks of arguments, the far halves of the hooks, the comparison of SHMEM_DEBUG, and the run.
 * Called by coll_sync.c, coll_move.c, coll_reduce.c; iso_coll_debug_match also by what is collective elsewhere. */
#include "../../shmem/agree.h"
#include "../../shmem/node/wait.h"
#include "../../shmem/transport/far.h"
#include "../select/select.h"
#include "coll.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* ---- arguments ---- */

size_t iso_coll_bytes(size_t a, size_t b, size_t c)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product) || __builtin_mul_overflow(product, c, &product))
        return SIZE_MAX;
    return product;
}

struct team *iso_coll_team(shmem_team_t handle, const char *call)
{
    iso_check_life(call);
    if (ISO_LIKELY(handle == SHMEM_TEAM_WORLD))
        return &ISO->world;
    if (handle == SHMEM_TEAM_INVALID)
        return NULL;
    return iso_team(handle, call);
}

struct coll_mem iso_coll_mem(const void *addr, size_t bytes, const char *arg, const char *call)
{
    struct coll_mem mem = {(char *)(uintptr_t)addr, NULL, 0};
    if (bytes == 0)
        return mem;
    mem.segment = iso_segment_of(addr, bytes);
    if (ISO_UNLIKELY(mem.segment == NULL) || ISO_UNLIKELY(ISO->debug)) {
        struct place place = iso_place_slow(addr, bytes, ISO->my_pe, call, arg);
        mem.segment = place.segment;
    }
    if (ISO_UNLIKELY(mem.segment == NULL))
        return mem;
    if (ISO_UNLIKELY(mem.segment->on_device))
        iso_fatal(call,
                  "%s %p is device memory: collectives of the host work on host memory; use those of shmem_device.h in "
                  "a kernel",
                  arg, addr);
    mem.offset = (size_t)(mem.base - mem.segment->base);
    return mem;
}

/* ---- far halves of the hooks ---- */

static struct place mem_place(struct coll *c, const struct coll_mem *mem, size_t offset, int pe)
{
    struct place place = {NULL, mem->segment, mem->offset + offset, c->views[pe].pe};
    return place;
}

void iso_coll_far_put(struct coll *c, const struct coll_mem *to, size_t offset, const void *source, size_t bytes,
                      int pe)
{
    char *dest = to->base + offset;
    struct place place =
        to->segment != NULL ? mem_place(c, to, offset, pe) : iso_place(dest, bytes, c->views[pe].pe, c->call, "dest");
    if (place.cpu != NULL) {
        memcpy(place.cpu, source, bytes);
        return;
    }
    iso_far_put(&ISO->ctx_default, place, dest, source, bytes, c->call);
    if (c->views[pe].near != NULL)
        iso_far_quiet(&ISO->ctx_default); /* the flag will go by pointer and must not overtake the data */
}

void iso_coll_far_read(struct coll *c, void *into, const struct coll_mem *from, size_t offset, size_t bytes, int pe)
{
    const char *source = from->base + offset;
    struct place place = from->segment != NULL ? mem_place(c, from, offset, pe)
                                               : iso_place(source, bytes, c->views[pe].pe, c->call, "source");
    if (place.cpu != NULL)
        memcpy(into, place.cpu, bytes);
    else
        iso_far_get(&ISO->ctx_default, into, place, source, bytes, c->call);
}

/* Flags of a near member would go by pointer and overtake a transport. */
void iso_coll_far_put_flag(struct coll *c, const struct coll_mem *to, size_t offset, const void *source, size_t bytes,
                           int pe)
{
    if (bytes == 0 || to->segment == NULL || c->views[pe].near != NULL) {
        if (bytes > 0)
            iso_coll_far_put(c, to, offset, source, bytes, pe);
        coll_flag_set(c, pe);
        return;
    }
    struct far_message message = {mem_place(c, to, offset, pe),
                                  iso_slot_place(c->slot, iso_slot_flag_offset(c->me), c->views[pe].pe),
                                  to->base + offset,
                                  source,
                                  bytes,
                                  c->epoch,
                                  SHMEM_SIGNAL_SET,
                                  true,
                                  c->call};
    iso_far_put_signal(&ISO->ctx_default, &message);
}

void iso_coll_far_done(void)
{
    if (iso_ctx_is_dirty(&ISO->ctx_default))
        iso_far_quiet(&ISO->ctx_default);
}

/* One put: each word carries its epoch. */
void iso_coll_far_inbox(struct coll *c, int to, const void *data, size_t bytes)
{
    uint64_t words[ISO_FAR_WORDS];
    uint32_t parts[ISO_INBOX_BYTES / 4] = {0};
    size_t n = 1 + (bytes + 3) / 4;
    if (bytes > 0)
        memcpy(parts, data, bytes);
    words[0] = iso_slot_far_word(c->epoch, (uint32_t)bytes);
    for (size_t i = 1; i < n; i++)
        words[i] = iso_slot_far_word(c->epoch, parts[i - 1]);
    struct place place = iso_slot_place(c->slot, iso_slot_far_inbox_offset(c->me, c->slot->staged), c->views[to].pe);
    iso_far_put_words(&ISO->ctx_default, place, words, n, c->call);
}

/* A word of this epoch is here. Acquire: pairs with its arrival (put_words of the transport); earlier puts of its
 * sender, as into a stage, are there too. */
static bool has_come(const uint64_t *word, uint64_t epoch)
{
    return prim_poll_u64(word) >> 32 == iso_slot_far_word(epoch, 0) >> 32;
}

bool iso_coll_far_take(struct coll *c, char *memory, int from)
{
    uint64_t *words = (uint64_t *)(void *)(memory + iso_slot_far_inbox_offset(from, c->slot->staged));
    struct slot_inbox *inbox = coll_inbox_at(c, memory, from);
    if (!has_come(words, c->epoch))
        return false;
    size_t n = 1 + ((uint32_t)prim_poll_u64(words) + 3) / 4;
    for (size_t i = 1; i < n; i++)
        if (!has_come(words + i, c->epoch))
            return false;
    for (size_t i = 0; i < n; i++) {
        uint32_t part = (uint32_t)prim_poll_u64(words + i);
        prim_store_relaxed_u64(words + i, 0); /* the sender needs an inbox of this member first */
        if (i > 0)
            memcpy(inbox->payload + 4 * (i - 1), &part, sizeof(part));
    }
    prim_signal_u64(prim_group_thread(), &inbox->seq, c->epoch); /* pairs with hier_speaker of this node */
    return true;
}

void iso_coll_far_wait(struct coll *c, int from)
{
    const uint64_t *word =
        (const uint64_t *)(const void *)(c->slot->memory + iso_slot_far_inbox_offset(from, c->slot->staged));
    struct wait wait = ISO_WAIT(c->call, c->views[from].pe, word, iso_slot_far_word(c->epoch, 0));
    wait.slot = c->slot;
    while (!iso_coll_far_take(c, c->slot->memory, from))
        iso_wait_pause(&wait, prim_poll_u64(word));
    iso_wait_end(&wait);
}

static struct coll begin(struct team *team, const char *call)
{
    struct coll c = {&team->slot, team->slot.views, 0, team->my_pe, team->n_pes, call, team};
    return c;
}

/* ---- SHMEM_DEBUG ---- */

/* A description of a member's call. */
struct match {
    char call[40];
    uint64_t value; /* bytes, or another argument */
    int32_t root;
    uint32_t dest; /* 1 + its offset, modulo 2^32; 0: none */
};
_Static_assert(sizeof(struct match) <= ISO_INBOX_BYTES, "it fits an inbox");

static struct match match_of(const char *call, uint64_t value, int root)
{
    struct match m;
    memset(&m, 0, sizeof(m));
    strncpy(m.call, iso_call_name(call), sizeof(m.call) - 1);
    m.value = value;
    m.root = root;
    return m;
}

/* what: the argument that `value` is; NULL: the length in bytes. */
/* "shmem_int_broadcast (64 bytes, root 0)", "shmem_team_split_strided (stride 2)", "shmem_barrier_all". */
static const char *text_of(const struct match *m, const char *what, char *text, size_t bytes)
{
    int n = snprintf(text, bytes, "%.*s", (int)sizeof(m->call), m->call);
    if (what != NULL)
        snprintf(text + n, bytes - (size_t)n, " (%s %" PRId64 ")", what, (int64_t)m->value);
    else if (m->value != 0)
        snprintf(text + n, bytes - (size_t)n, " (%" PRIu64 " bytes, root %d)", m->value, (int)m->root);
    return text;
}

static ISO_COLD void compare(struct coll *c, const struct match *mine, int from, const char *what)
{
    const struct match *theirs = (const struct match *)coll_inbox_wait(c, from);
    int pe = c->views[from].pe;
    char ours[96], other[96];
    if (memcmp(mine->call, theirs->call, sizeof(mine->call)) != 0)
        iso_fatal(c->call, "collective mismatch: pe %d calls %s, pe %d calls %s", ISO->my_pe,
                  text_of(mine, what, ours, sizeof(ours)), pe, text_of(theirs, NULL, other, sizeof(other)));
    if (mine->value != theirs->value && what != NULL)
        iso_fatal(c->call, "collective mismatch: %s is %" PRId64 " on pe %d and %" PRId64 " on pe %d", what,
                  (int64_t)mine->value, ISO->my_pe, (int64_t)theirs->value, pe);
    if (mine->value != theirs->value)
        iso_fatal(c->call,
                  "collective mismatch: the length is %" PRIu64 " bytes on pe %d and %" PRIu64 " bytes on pe %d",
                  mine->value, ISO->my_pe, theirs->value, pe);
    if (mine->root != theirs->root)
        iso_fatal(c->call, "collective mismatch: the root is %d on pe %d and %d on pe %d", (int)mine->root, ISO->my_pe,
                  (int)theirs->root, pe);
    if (mine->dest != theirs->dest && mine->dest != 0 && theirs->dest != 0)
        iso_fatal(c->call, "collective mismatch: dest is not the same symmetric object on pe %d and pe %d", ISO->my_pe,
                  pe);
}

static void match_all(struct team *team, const struct match *mine, const char *call, const char *what)
{
    struct coll c = begin(team, call);
    coll_begin_staged_epoch(&c);
    for (int i = 1; i < c.n; i++)
        coll_inbox_send(&c, coll_other(&c, i), mine, sizeof(*mine));
    for (int i = 1; i < c.n; i++)
        compare(&c, mine, coll_other(&c, i), what);
}

void iso_coll_debug_match(struct team *team, struct coll_args args)
{
    if (ISO_LIKELY(!ISO->debug))
        return;
    struct match mine = match_of(args.call, args.bytes, args.root);
    match_all(team, &mine, args.call, NULL);
}

void iso_coll_debug_same(struct team *team, const char *call, const char *what, int64_t value)
{
    if (ISO_LIKELY(!ISO->debug))
        return;
    struct match mine = match_of(call, (uint64_t)value, 0);
    match_all(team, &mine, call, what);
}

/* The library's own exchanges within a call are compared too: a member in another call is named. */
static void match_call(struct team *team, const char *call)
{
    if (ISO_UNLIKELY(ISO->debug))
        iso_coll_debug_match(team, (struct coll_args){call, 0, 0});
}

/* ---- run ---- */

void iso_coll_run(enum coll_op op, struct team *team, const struct coll_work *w, const char *call)
{
    struct coll c = begin(team, call);
    if (ISO_UNLIKELY(ISO->debug)) {
        struct match mine = match_of(call, op == COLL_COLLECT ? w->elem_bytes : w->bytes, w->root);
        mine.dest = w->dest.segment != NULL ? (uint32_t)w->dest.offset + 1 : 0;
        match_all(team, &mine, call, NULL);
    }
    iso_host_choose(op, team, w)->run_host(&c, w);
}

uint64_t iso_coll_all_min(struct team *team, uint64_t mine, const char *call)
{
    struct coll c = begin(team, call);
    uint64_t least = mine;
    match_call(team, call);
    coll_begin_staged_epoch(&c);
    for (int i = 1; i < c.n; i++)
        coll_inbox_send(&c, coll_other(&c, i), &mine, sizeof(mine));
    for (int i = 1; i < c.n; i++) {
        uint64_t theirs = *(const uint64_t *)coll_inbox_wait(&c, coll_other(&c, i));
        least = ISO_MIN(least, theirs);
    }
    return least;
}

void iso_coll_all_gather(struct team *team, const void *mine, size_t bytes, void *all, const char *call)
{
    struct coll c = begin(team, call);
    assert(bytes <= ISO_INBOX_BYTES);
    match_call(team, call);
    coll_begin_staged_epoch(&c);
    for (int i = 1; i < c.n; i++)
        coll_inbox_send(&c, coll_other(&c, i), mine, bytes);
    memcpy((char *)all + (size_t)c.me * bytes, mine, bytes);
    for (int i = 1; i < c.n; i++) {
        int from = coll_other(&c, i);
        coll_inbox_recv(&c, from, (char *)all + (size_t)from * bytes, bytes);
    }
}
