/* SPDX-License-Identifier: MIT */
/* Small exchanges of the library's own between the members of a team: agreement, and the comparison of SHMEM_DEBUG.
 * Each is one staged epoch of the team's slot, in which every member sends its inbox to every other one. */
#include "agree.h"
#include "../../bootstrap/log.h"
#include "../../device/api/state.h"
#include "inbox.h"
#include "../node/peer.h"
#include "../memory/segment.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The i-th other member, i = 1 .. n - 1, counted from this one, so that members do not all begin with the same. */
static int other(const struct team *team, int i) { return (team->my_pe + i) % team->n_pes; }

static struct inbox begin_agreement(struct team *team, const char *call)
{
    team->slot.staged++;
    return (struct inbox){&team->slot, ++team->slot.seq, team->my_pe, call};
}

static void send_words(const struct team *team, struct inbox box, const void *data, size_t bytes)
{
    if (iso_slot_is_broken(box.slot)) /* an exchange before may have given up: see struct slot_end */
        return;
    for (int i = 1; i < team->n_pes; i++)
        iso_inbox_send(box, box.slot->views[other(team, i)].near, other(team, i), data, bytes);
}

static const void *wait_for_words(struct inbox box, int from)
{
    return iso_inbox_wait(box, &box.slot->views[from], from);
}

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

/* "shmem_int_broadcast (64 bytes, root 0)", "shmem_team_split_strided (stride 2)", "shmem_barrier_all".
 * `what` names the argument in `value`; NULL: `value` is the length in bytes. */
static const char *agreed_text_of(const struct match *m, const char *what, char *text, size_t bytes)
{
    int n = snprintf(text, bytes, "%.*s", (int)sizeof(m->call), m->call);
    if (what != NULL)
        snprintf(text + n, bytes - (size_t)n, " (%s %" PRId64 ")", what, (int64_t)m->value);
    else if (m->value != 0)
        snprintf(text + n, bytes - (size_t)n, " (%" PRIu64 " bytes, root %d)", m->value, (int)m->root);
    return text;
}

static ISO_COLD int compare_agreed(struct inbox box, const struct match *mine, int from, const char *what)
{
    const struct match *theirs = (const struct match *)wait_for_words(box, from);
    int pe = box.slot->views[from].pe;
    char ours[96], other[96];
    if (iso_job_is_broken() || iso_slot_is_broken(box.slot))
        return -EIO;
    if (memcmp(mine->call, theirs->call, sizeof(mine->call)) != 0)
        return iso_refuse(box.call, "collective mismatch: pe %d calls %s, pe %d calls %s", ISO->my_pe,
                          agreed_text_of(mine, what, ours, sizeof(ours)), pe,
                          agreed_text_of(theirs, NULL, other, sizeof(other)));
    if (mine->value != theirs->value && what != NULL)
        return iso_refuse(box.call, "collective mismatch: %s is %" PRId64 " on pe %d and %" PRId64 " on pe %d", what,
                          (int64_t)mine->value, ISO->my_pe, (int64_t)theirs->value, pe);
    if (mine->value != theirs->value)
        return iso_refuse(
            box.call, "collective mismatch: the length is %" PRIu64 " bytes on pe %d and %" PRIu64 " bytes on pe %d",
            mine->value, ISO->my_pe, theirs->value, pe);
    if (mine->root != theirs->root)
        return iso_refuse(box.call, "collective mismatch: the root is %d on pe %d and %d on pe %d", (int)mine->root,
                          ISO->my_pe, (int)theirs->root, pe);
    if (mine->dest != theirs->dest && mine->dest != 0 && theirs->dest != 0)
        return iso_refuse(box.call, "collective mismatch: dest is not the same symmetric object on pe %d and pe %d",
                          ISO->my_pe, pe);
    return 0;
}

static int match_all(struct team *team, const struct match *mine, const char *call, const char *what)
{
    struct inbox box = begin_agreement(team, call);
    send_words(team, box, mine, sizeof(*mine));
    int rc = 0;
    for (int i = 1; i < team->n_pes; i++) { /* all: their inboxes are of this epoch */
        int one = compare_agreed(box, mine, other(team, i), what);
        rc = rc != 0 ? rc : one;
    }
    return rc;
}

int iso_agree_match(struct team *team, struct agree_args args)
{
    if (ISO_LIKELY(!ISO->debug))
        return 0;
    struct match mine = match_of(args.call, args.bytes, args.root);
    mine.dest = args.dest;
    return match_all(team, &mine, args.call, NULL);
}

int iso_agree_same(struct team *team, const char *call, const char *what, int64_t value)
{
    if (ISO_LIKELY(!ISO->debug))
        return 0;
    struct match mine = match_of(call, (uint64_t)value, 0);
    return match_all(team, &mine, call, what);
}

/* The library's own exchanges within a call are compared too: a member in another call is named. */
static int match_call(struct team *team, const char *call)
{
    return ISO_UNLIKELY(ISO->debug) ? iso_agree_match(team, (struct agree_args){call, 0, 0, 0}) : 0;
}

uint64_t iso_agree_min(struct team *team, uint64_t mine, const char *call)
{
    uint64_t least = mine;
    if (match_call(team, call) != 0)
        return 0;
    struct inbox box = begin_agreement(team, call);
    send_words(team, box, &mine, sizeof(mine));
    for (int i = 1; i < team->n_pes; i++) {
        uint64_t theirs = *(const uint64_t *)wait_for_words(box, other(team, i));
        least = ISO_MIN(least, theirs);
    }
    return iso_slot_rc(&team->slot, call) == 0 ? least : 0;
}

int iso_agree_gather(struct team *team, const void *mine, size_t bytes, void *all, const char *call)
{
    assert(bytes <= ISO_INBOX_BYTES);
    int rc = match_call(team, call);
    if (rc != 0)
        return rc;
    struct inbox box = begin_agreement(team, call);
    send_words(team, box, mine, bytes);
    memcpy((char *)all + (size_t)team->my_pe * bytes, mine, bytes);
    for (int i = 1; i < team->n_pes; i++)
        memcpy((char *)all + (size_t)other(team, i) * bytes, wait_for_words(box, other(team, i)), bytes);
    return iso_slot_rc(&team->slot, call);
}

/* Where one PE has it. */
struct agree_range {
    uint64_t base, len;
};

int iso_agree_addresses(struct team *team, char *base, size_t len, const char *call)
{
    struct state *self = ISO;
    struct agree_range mine = {(uint64_t)(uintptr_t)base, len}, *all;
    int rc = 0;
    if (self->n_nodes == 1)
        return 0;
    all = (struct agree_range *)calloc((unsigned)team->n_pes, sizeof *all);
    if (all == NULL)
        return iso_refuse_alone(call, "no memory for the addresses of %d PEs", team->n_pes);
    rc = iso_agree_gather(team, &mine, sizeof mine, all, call);
    for (int m = 0; m < team->n_pes && rc == 0; m++) {
        int pe = team->world_of[m];
        if (all[m].len != len) {
            log_error("%s: %zu bytes here and %llu on pe %d; it must be equal", iso_call_name(call), len,
                      (unsigned long long)all[m].len, pe);
            rc = -EINVAL;
        }
        for (int i = 0; i < self->n_segments && rc == 0 && !self->peers[pe].local; i++) {
            struct segment *s = &self->segments[i];
            if (s->len > 0 && s->base >= base && s->base < base + len)
                s->peers[pe].base = (char *)(uintptr_t)all[m].base + (s->base - base);
        }
    }
    free(all);
    return rc;
}

int iso_agree_segment_number(struct team *team, int *number, const char *call)
{
    for (int from = ISOD_SEGMENT_BUFFERS;;) {
        uint64_t mine = (uint64_t)iso_segment_free_number(from);
        uint64_t least = iso_agree_min(team, mine, call), most = ~iso_agree_min(team, ~mine, call);
        if (iso_slot_rc(&team->slot, call) != 0)
            return -EIO;
        if (most >= ISO_SEGMENTS_MAX) {
            log_error("%s: all %d segments are in use; unregister buffers that are no longer needed",
                      iso_call_name(call), ISO_SEGMENTS_MAX);
            return -ENOSPC;
        }
        *number = from = (int)most;
        if (least == most)
            return 0;
    }
}

int iso_agree_outcome(struct team *team, int rc, const char *sentence, const char *call)
{
    uint64_t mine = rc == 0 ? UINT64_MAX : (uint64_t)ISO->my_pe, least = iso_agree_min(team, mine, call);
    if (least == UINT64_MAX)
        return 0;
    if (iso_slot_rc(&team->slot, call) != 0)
        return -EIO;
    if (least == (uint64_t)ISO->my_pe)
        log_error("%s: pe %d %s", iso_call_name(call), ISO->my_pe, sentence);
    else
        iso_log_elsewhere("%s: pe %d failed and says why", iso_call_name(call), (int)least);
    return rc != 0 ? rc : -EIO;
}

/* ---- first calls ---- */

/* All members take part in an exchange before any of them can begin a first call of this number again, so there is one
 * grant of the key at a time. */
int iso_first_call_begin(struct first_call *f, struct team *team, int number, const char *call)
{
    int slot = iso_slot_of_users(number);
    /* Where threads take turns, members in different first calls wait for ever. */
    if (ISO->thread_level != SHMEM_THREAD_MULTIPLE && iso_agree_same(team, call, "slot", slot) != 0)
        return iso_slot_rc(&team->slot, call) != 0 ? -EIO : -EINVAL;
    uint64_t split = (uint64_t)(uint32_t)team->slot.index << 32 | (uint32_t)number;
    if (iso_slot_rc(&team->slot, call) != 0)
        return -EIO;
    struct slot_key key = {team->start, team->stride, team->n_pes, ISO_SLOT_OF_FIRST_CALL, split, (uint64_t)slot};
    f->team = team;
    f->number = number;
    f->members = (struct team){.handle = team->handle, .my_pe = team->my_pe, .n_pes = team->n_pes, .start = team->start,
                               .stride = team->stride, .world_of = team->world_of, .slot = {.of = &team->slot}};
    return iso_slot_open(&f->members.slot, key, team->world_of, team->n_pes, 0);
}

void iso_first_call_end(struct first_call *f) { iso_slot_close(&f->members.slot, f->team->world_of, f->team->n_pes); }
