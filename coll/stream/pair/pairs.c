/* SPDX-License-Identifier: MIT */
/* Sends and receives on streams, the host: checks, the records of pairs (pairs.h), and one launch for all calls of a
 * stream that come together. A record is made by this PE alone, in the front of its device heap, and stays until its
 * team is destroyed. Invariant: what is free there is zero, so a record begins as an empty one.
 * Called by coll_group.c, stream_slot.c. */
#include "pairs.h"
#include "../../../bootstrap/log.h"
#include "../../../shmem/team/slot.h"
#include "../coll_stream.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LANE_BYTES ((size_t)128 << 10) /* a lane more is worth its block from here on */
#define FEW_THREADS 128u
#define CPU_THREADS 32u
#define FEW_THREADS_BYTES ((size_t)8 << 10)
#define MOST_BYTES ((uint64_t)1 << 36) /* as of collectives */

struct pair {
    struct pair *next;
    const struct team *team;
    uint64_t key;
    int peer; /* world */
    bool sends;
    int lanes, entry; /* receiver */
    size_t offset;    /* of its record in the heap */
    size_t bytes;
    gpu_stream last[2]; /* as of a slot */
    shmemd_t h;         /* of its team, ... */
    bool is_joint;      /* ... or, from now on, the local one; device->lock */
};

struct pairs {
    struct pair *list; /* device->lock */
    size_t directory;  /* in the heap, alike on all PEs; NO_DIRECTORY: there was no room */
    uint32_t *entries; /* [n_pes] those of this PE in that PE's directory that are in use */
};
#define NO_DIRECTORY SIZE_MAX

#define DECLARE(name) extern void isod_stream_##name##_kernel(void);
ISOD_STREAM_PAIRS(DECLARE)
#undef DECLARE

static struct pairs *pairs_of(const struct device *d) { return (struct pairs *)d->pairs; }
static char *heap(void) { return ISO->segments[SEGMENT_INDEX_DEVICE].base; }
static size_t directory_bytes(void)
{
    return (size_t)ISO->n_pes * ISOD_PAIR_ENTRIES * sizeof(struct isod_pair_entry);
}
static const char *name_of(const struct pair_call *c)
{
    return c->sends ? "shmemx_send_on_stream" : "shmemx_recv_on_stream";
}

/* ---- start and stop ---- */

/* The first piece of every PE's slot memory: at the same place. */
int iso_pairs_start(struct device *d)
{
    struct pairs *p = (struct pairs *)calloc(1, sizeof *p);
    d->pairs = p;
    if (p == NULL)
        return -ENOMEM;
    p->entries = (uint32_t *)calloc((size_t)ISO->n_pes, sizeof *p->entries);
    if (p->entries == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&d->lock);
    if (iso_alloc_get(d->control, ISOD_PAIR_UNIT, directory_bytes(), &p->directory) != 0)
        p->directory = NO_DIRECTORY;
    pthread_mutex_unlock(&d->lock);
    return 0;
}

void iso_pairs_stop(struct device *d)
{
    struct pairs *p = pairs_of(d);
    d->pairs = NULL;
    if (p == NULL)
        return;
    while (p->list != NULL) {
        struct pair *next = p->list->next;
        free(p->list);
        p->list = next;
    }
    free(p->entries);
    free(p);
}

/* ---- records ---- */

/* Equal on both ends, and different from all others between these two PEs. A team of one PE has no slot, and no other
 * PE. */
static uint64_t team_key(const struct team *team)
{
    uint32_t number = team->slot.index >= 0 ? (uint32_t)team->slot.index + 1
                                            : (uint32_t)1 << 24 | (uint32_t)iso_handle_team_number(team);
    return (uint64_t)number << 32;
}

/* Of a receiver: with as many lanes as fit in a part of what is left. */
static int take_memory(struct device *d, struct pair *pair)
{
    const size_t stages = (size_t)ISOD_PAIR_STAGES * ISOD_PAIR_PIECE;
    size_t most = iso_alloc_stats(d->control).largest_free / 4;
    pair->lanes = pair->sends ? 0 : ISOD_PAIR_LANES;
    while (pair->lanes > 1 && sizeof(struct isod_pair) + (size_t)pair->lanes * stages > most)
        pair->lanes /= 2;
    pair->bytes = sizeof(struct isod_pair) + (size_t)pair->lanes * stages;
    return iso_alloc_get(d->control, ISOD_PAIR_UNIT, pair->bytes, &pair->offset);
}

/* The lock is held. NULL after a sentence. */
static struct pair *make_pairs(struct device *d, const struct pair_call *c, const struct pair *like)
{
    struct pairs *p = pairs_of(d);
    struct pair *pair = (struct pair *)malloc(sizeof *pair);
    uint32_t *used = &p->entries[like->peer];
    if (pair == NULL) {
        log_error("%s: no memory", name_of(c));
        return NULL;
    }
    *pair = *like;
    if (!pair->sends && *used == UINT32_MAX) {
        log_error("%s: tag %d is one too many: at most %d tags of teams that are alive may be in use from one PE to "
                  "another",
                  name_of(c), c->tag, (int)ISOD_PAIR_ENTRIES);
        free(pair);
        return NULL;
    }
    if (p->directory == NO_DIRECTORY || take_memory(d, pair) != 0) {
        log_error("%s: no room for the record of a pair: slots use %zu of %zu bytes; destroy teams, prepare slots with "
                  "fewer blocks (shmemx_slot_prepare) or raise SHMEM_DEVICE_HEAP_SIZE",
                  name_of(c), iso_alloc_stats(d->control).used, d->control_bytes);
        free(pair);
        return NULL;
    }
    if (!pair->sends) {
        pair->entry = __builtin_ctz(~*used);
        *used |= (uint32_t)1 << pair->entry;
    }
    pair->next = p->list;
    p->list = pair;
    return pair;
}
_Static_assert((int)ISOD_PAIR_ENTRIES == 32, "they are bits of a word");
_Static_assert(sizeof(struct isod_pair) % ISOD_PAIR_UNIT == 0, "stages begin on a line");

/* The lock is held. */
static struct pair *find_pair(struct device *d, const struct pair *like)
{
    struct pair *pair = pairs_of(d)->list;
    while (pair != NULL && (pair->key != like->key || pair->peer != like->peer || pair->sends != like->sends))
        pair = pair->next;
    return pair;
}

static struct pair *pairs_need(struct device *d, const struct pair_call *c)
{
    const struct team *team = iso_team_or_null(c->team);
    struct pair like = {.team = team,
                        .key = team_key(team) | (uint32_t)c->tag,
                        .peer = team->world_of[c->peer],
                        .sends = c->sends,
                        .last = {ISO_STREAM_NONE, ISO_STREAM_NONE}};
    pthread_mutex_lock(&d->lock);
    struct pair *pair = find_pair(d, &like);
    if (pair == NULL) {
        pthread_mutex_unlock(&d->lock);
        like.is_joint = !iso_handle_of_member(team, c->stream, &like.h);
        pthread_mutex_lock(&d->lock);
        pair = find_pair(d, &like); /* by another thread */
    }
    if (pair == NULL)
        pair = make_pairs(d, c, &like);
    pthread_mutex_unlock(&d->lock);
    return pair;
}

/* ---- what happens to teams and streams ---- */

bool iso_pairs_has_team(const struct team *team)
{
    struct device *d = ISO->device;
    bool has = false;
    if (d == NULL || pairs_of(d) == NULL)
        return false;
    pthread_mutex_lock(&d->lock);
    for (const struct pair *at = pairs_of(d)->list; at != NULL; at = at->next)
        has = has || at->team == team;
    pthread_mutex_unlock(&d->lock);
    return has;
}

bool iso_pairs_are_joint(const struct team *team)
{
    struct device *d = ISO->device;
    bool joint = false;
    if (d == NULL || pairs_of(d) == NULL)
        return false;
    pthread_mutex_lock(&d->lock);
    for (const struct pair *at = pairs_of(d)->list; at != NULL; at = at->next)
        joint = joint || (at->team == team && at->is_joint);
    pthread_mutex_unlock(&d->lock);
    return joint;
}

size_t iso_pairs_bytes(struct device *d, const struct team *team)
{
    size_t bytes = 0;
    pthread_mutex_lock(&d->lock);
    for (const struct pair *at = pairs_of(d)->list; at != NULL; at = at->next)
        bytes += at->team == team ? at->bytes : 0;
    pthread_mutex_unlock(&d->lock);
    return bytes;
}

/* Entries that receivers of this team have written here. No kernel of a member runs, but one of another team may write
 * at once to an entry that its PE has taken back: then the entry has another check, and stays. */
static void clear_entries(struct device *d, uint64_t key)
{
    struct isod_pair_entry *here = (struct isod_pair_entry *)(void *)(heap() + pairs_of(d)->directory);
    struct isod_pair_entry *copy = (struct isod_pair_entry *)malloc(directory_bytes());
    if (copy == NULL) {
        (void)iso_refuse_alone("shmem_team_destroy", "no memory for %zu bytes", directory_bytes());
        return;
    }
    iso_agent_copy(copy, here, directory_bytes());
    for (size_t i = 0; i < directory_bytes() / sizeof *copy; i++)
        if (copy[i].check != 0 && isod_pair_check(copy[i].check, copy[i].where) >> 32 == key >> 32)
            (void)iso_agent_amo(&here[i].check, (struct amo){AMO_CSWAP, 8, 0, copy[i].check, true});
    free(copy);
}

void iso_pairs_forget_team(struct device *d, const struct team *team)
{
    struct pairs *p = pairs_of(d);
    struct pair *gone = NULL;
    if (p == NULL || p->directory == NO_DIRECTORY || team == NULL)
        return;
    clear_entries(d, team_key(team));
    pthread_mutex_lock(&d->lock);
    for (struct pair **at = &p->list; *at != NULL;) {
        struct pair *pair = *at;
        if (pair->team == team) {
            *at = pair->next;
            pair->next = gone;
            gone = pair;
        } else {
            at = &pair->next;
        }
    }
    pthread_mutex_unlock(&d->lock);
    while (gone != NULL) {
        struct pair *next = gone->next;
        iso_agent_fill(heap() + gone->offset, 0, gone->bytes);
        pthread_mutex_lock(&d->lock);
        (void)iso_alloc_free(d->control, gone->offset);
        if (!gone->sends)
            p->entries[gone->peer] &= ~((uint32_t)1 << gone->entry);
        pthread_mutex_unlock(&d->lock);
        free(gone);
        gone = next;
    }
}

/* No member's kernels run. Entries stay: records are where they were. */
void iso_pairs_reset(struct device *d, const struct team *team)
{
    pthread_mutex_lock(&d->lock);
    struct pair *at = pairs_of(d)->list;
    pthread_mutex_unlock(&d->lock);
    for (; at != NULL; at = at->next) /* a record goes with its team only */
        if (at->team == team)
            iso_agent_fill(heap() + at->offset, 0, sizeof(struct isod_pair));
}

/* The lock is held. */
bool iso_pairs_forget_capture(struct device *d, gpu_stream stream)
{
    bool used = false;
    for (struct pair *at = pairs_of(d)->list; at != NULL; at = at->next)
        used = iso_stream_forget_capture(at->last, stream) || used;
    return used;
}
void iso_pairs_move_stream(struct device *d, gpu_stream stream, gpu_stream to)
{
    for (struct pair *at = pairs_of(d)->list; at != NULL; at = at->next)
        iso_stream_move(at->last, stream, to);
}

/* ---- checks ---- */

static bool data_is_valid(const struct device *d, const struct pair_call *c)
{
    const char *call = name_of(c), *arg = c->sends ? "source" : "dest";
    bool cpu = strcmp(d->info->flavour, "cpu") == 0;
    if (c->bytes == 0)
        return true;
    if (c->data == NULL) {
        log_error("%s: %s is a null pointer", call, arg);
        return false;
    }
    const struct segment *segment = iso_segment_of(c->data, 1);
    if (segment != NULL ? segment->on_device || cpu
                        : !ISO_UNLIKELY(ISO->debug) || cpu || /* asking the driver is slow */
                              iso_gpu_pointer_kind(d->gpu, c->data) != GPU_POINTER_HOST)
        return true;
    log_error("%s: %s %p is memory of the host, which kernels of this device do not use", call, arg, c->data);
    return false;
}

int iso_pairs_check(const struct pair_call *c)
{
    const char *call = name_of(c);
    struct device *d = iso_device_running(call);
    const struct team *team = d != NULL ? iso_team_or_null(c->team) : NULL;
    if (d == NULL)
        return -EIO;
    if (team == NULL) {
        log_error("%s: team is not a team of this PE (destroyed, or SHMEM_TEAM_INVALID?)", call);
        return -EINVAL;
    }
    if (iso_slot_is_broken(&team->slot))
        return iso_slot_refuse(&team->slot, call);
    if (c->peer < 0 || c->peer >= team->n_pes) {
        log_error("%s: %s %d is outside 0..%d", call, c->sends ? "to" : "from", c->peer, team->n_pes - 1);
        return -EINVAL;
    }
    if (c->tag < 0) {
        log_error("%s: tag %d is outside 0..%d", call, c->tag, INT_MAX);
        return -EINVAL;
    }
    if (c->bytes >= MOST_BYTES) {
        log_error("%s: bytes is %zu; it has to be less than 64 GiB", call, c->bytes);
        return -EINVAL;
    }
    return data_is_valid(d, c) ? 0 : -EINVAL;
}

/* ---- enqueue ---- */

/* The use of the pair in this launch, a new one at the end if there is none. */
static struct isod_pair_use *use_of(struct isod_pairs_many *args, const struct pair *pair)
{
    uint32_t at = (uint32_t)(pair->offset / ISOD_PAIR_UNIT), i = 0;
    while (i < args->n && args->uses[i].at != at)
        i++;
    struct isod_pair_use *use = &args->uses[i];
    if (i < args->n)
        return use;
    args->n++;
    *use = (struct isod_pair_use){pair->key, at, pair->peer, 0, 0, pair->sends, (uint8_t)pair->lanes,
                                  (uint8_t)pair->entry, 0};
    return use;
}

/* Messages of a pair stand together, in the order of the calls. */
static void fill_messages(struct isod_pairs_many *args, const struct pair_call *const *calls, struct pair *const *pairs,
                          size_t n)
{
    uint16_t at = 0;
    for (size_t i = 0; i < n; i++)
        use_of(args, pairs[i])->n++;
    for (uint32_t u = 0; u < args->n; u++) {
        args->uses[u].first = at;
        at = (uint16_t)(at + args->uses[u].n);
        args->uses[u].n = 0;
    }
    for (size_t i = 0; i < n; i++) {
        struct isod_pair_use *use = use_of(args, pairs[i]);
        args->messages[use->first + use->n++] =
            (struct isod_pair_message){(char *)calls[i]->data, calls[i]->bytes};
    }
}

static int order(struct device *d, const struct pair_call *c, struct pair *pair)
{
    int rc = iso_stream_order(d, pair->last, c->stream);
    if (rc != 0)
        log_error("%s: the stream cannot wait for that of the last call of tag %d: %s", name_of(c), c->tag,
                  iso_gpu_error(d->gpu));
    return rc;
}

static int launch(struct device *d, const struct pair_call *const *calls, struct isod_pairs_many *args, size_t n)
{
    const struct pair_call *first = calls[0];
    size_t most_bytes = 0, bytes = 0;
    unsigned blocks;
    struct isod_pairs_few few;
    struct gpu_launch l = {.early = true};
    if (iso_stream_pair_blocks(d, name_of(first), first->stream, &blocks) != 0)
        return 1;
    for (size_t i = 0; i < n; i++) {
        most_bytes = ISO_MAX(most_bytes, calls[i]->bytes);
        bytes += calls[i]->bytes;
    }
    args->directory = pairs_of(d)->directory;
    args->parts = 1;
    while (args->parts < ISOD_PAIR_LANES && args->parts * LANE_BYTES < most_bytes &&
           args->n * args->parts * 2 <= blocks)
        args->parts *= 2;
    l.grid.x = ISO_MIN(args->n * args->parts, blocks);
    l.block.x = most_bytes <= FEW_THREADS_BYTES ? FEW_THREADS : ISOD_PAIR_THREADS;
    if (strcmp(d->info->flavour, "cpu") == 0) /* one thread does all, or they run in turn */
        l.block.x = CPU_THREADS;
    l.kernel = isod_stream_pairs_many_kernel;
    l.args = args;
    l.args_bytes = sizeof *args;
    if (n <= ISOD_PAIRS_FEW) {
        memset(&few, 0, sizeof few);
        few.h = args->h;
        few.directory = args->directory;
        few.n = args->n;
        few.parts = args->parts;
        memcpy(few.uses, args->uses, sizeof few.uses);
        memcpy(few.messages, args->messages, sizeof few.messages);
        l.kernel = isod_stream_pairs_few_kernel;
        l.args = &few;
        l.args_bytes = sizeof few;
    }
    struct stream_span span;
    iso_device_trace_enter(&span, PROFILE_STREAM, name_of(first), bytes, first->stream);
    span.host.pe = args->n == 1 ? args->uses[0].peer : -1;
    int rc = iso_gpu_launch(d->gpu, &l, first->stream);
    iso_device_trace_leave(&span);
    if (rc != 0)
        log_error("%s: %s", name_of(first), iso_gpu_error(d->gpu));
    return rc == 0 ? 0 : 1;
}

/* Records, and an order behind earlier calls, for all: no launch of a batch stands behind another one of it. */
static int prepare(struct device *d, const struct pair_call *const *calls, struct pair **pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pairs[i] = pairs_need(d, calls[i]);
        if (pairs[i] == NULL)
            return 1;
        for (size_t k = 0; k < i; k++)
            if (pairs[k] == pairs[i] && calls[k]->stream != calls[i]->stream) {
                log_error("%s: tag %d is on two streams in one batch; calls of one pair and tag must be on one stream",
                          name_of(calls[i]), calls[i]->tag);
                return 1;
            }
    }
    unsigned blocks; /* the streams' state, which the order needs, is made with them */
    if (n > 0 && iso_stream_pair_blocks(d, name_of(calls[0]), calls[0]->stream, &blocks) != 0)
        return 1;
    for (size_t i = 0; i < n; i++)
        if (order(d, calls[i], pairs[i]) != 0)
            return 1;
    return 0;
}

/* The launch ends with its team, or by the local handle with the job. 0, or -errno after a sentence. shmemx_team_break
 * looks at is_joint behind its break: so either it sees this launch, or the launch sees the break. */
static int choose_handle(struct device *d, const struct pair_call *const *calls, struct pair *const *pairs, size_t n,
                         shmemd_t *h)
{
    bool joint = false;
    size_t broken = n;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < n; i++)
        joint = joint || pairs[i]->team != pairs[0]->team || pairs[i]->is_joint;
    for (size_t i = 0; i < n && joint; i++)
        broken = iso_slot_is_broken(&pairs[i]->team->slot) ? i : broken;
    for (size_t i = 0; i < n && broken == n; i++)
        pairs[i]->is_joint = joint;
    pthread_mutex_unlock(&d->lock);
    *h = joint ? iso_handle_local() : pairs[0]->h;
    return broken == n ? 0 : iso_slot_refuse(&pairs[broken]->team->slot, name_of(calls[broken]));
}

/* Those of the first call's stream, which then leave the list: how many are left, or -1 after a sentence. */
static int launch_first(struct device *d, const struct pair_call **calls, struct pair **pairs, int n)
{
    struct isod_pairs_many args;
    const struct pair_call *of_stream[ISOD_PAIRS_MANY];
    struct pair *their[ISOD_PAIRS_MANY];
    shmemx_stream_t stream = calls[0]->stream;
    size_t here = 0;
    int left = 0;
    for (int i = 0; i < n; i++) {
        if (calls[i]->stream != stream) {
            calls[left] = calls[i];
            pairs[left++] = pairs[i];
            continue;
        }
        if (here == ISOD_PAIRS_MANY) {
            log_error("shmemx_coll_group_end: a batch has more than %d sends and receives on one stream",
                      (int)ISOD_PAIRS_MANY);
            return -1;
        }
        of_stream[here] = calls[i];
        their[here++] = pairs[i];
    }
    memset(&args, 0, sizeof args);
    fill_messages(&args, of_stream, their, here);
    if (choose_handle(d, of_stream, their, here, &args.h) != 0)
        return -1;
    return launch(d, of_stream, &args, here) == 0 ? left : -1;
}

int iso_pairs_enqueue(const struct pair_call **calls, size_t n)
{
    struct device *d = ISO->device;
    struct pair **pairs = (struct pair **)malloc((n + 1) * sizeof *pairs);
    int left = pairs != NULL && prepare(d, calls, pairs, n) == 0 ? (int)n : -1;
    if (pairs == NULL)
        log_error("shmemx_coll_group_end: no memory for %zu calls", n);
    while (left > 0)
        left = launch_first(d, calls, pairs, left);
    free(pairs);
    return left == 0 ? 0 : 1;
}
