/* SPDX-License-Identifier: MIT */
/* How the members of a team agree on a slot, without a message: the leader claims one index in the bitmaps of all
 * members, then writes a grant {key, first epoch} into each member's directory; members watch their own. An index is
 * free again when all members have closed it: the last one clears the bits. Epochs go on where the last user of the
 * index on any of the members stopped, so memory is reused as it is. Invariant: bit i of a PE is set <=> grant i of
 * that PE belongs to one team that is alive or being made or closed.
 * The leader is member 0. A team that its members make alone, from a list, is led by its lowest PE, which first waits
 * for a request of each other member: an array of entries by sender, each written by that sender alone.
 * Called by team.c, agree.c and coll/host/active_set.c. */
#include "slot.h"
#include "../../bootstrap/log.h"
#include "../node/channel.h"
#include "../node/peer.h"
#include "../node/wait.h"
#include "../transport/order.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_AGREED = 2, /* 0: world, 1: shared */
    SLOTS = ISO_SLOTS_ALL,
    REFUSALS = 64, /* entries behind the slots: a grant there means "no slot is free" */
    ENTRIES = SLOTS + REFUSALS,
    WORD_BITS = 64,
    CLAIM_ROUNDS = 8, /* over all indices; more than one because claims of other leaders may be undone again */
    TICKETS = 8 /* teams from lists that threads of one PE may be making at once; further threads wait */
};

enum { GRANT_NONE, GRANT_NEW, GRANT_TAKEN };

/* Of a refusal, `first` says why: an errno. Invariant: key, first are written by the leader before state; last, state
 * = NONE by the owner before `closed`. */
struct grant {
    _Alignas(ISO_LINE) struct slot_key key;
    uint64_t first;  /* epochs begin behind this number */
    uint64_t state;  /* pairs: signal of the leader, acquire of the owner */
    uint64_t last;   /* the owner's epoch when it closed the slot */
    uint64_t closed; /* the leader's is used: members that have closed */
};

struct directory {
    uint64_t used[ENTRIES / WORD_BITS]; /* atomic; leaders claim, last closers free */
    uint64_t closing;                   /* atomic; slots that this PE has closed and another member not yet */
    uint64_t tickets;                   /* atomic; those that threads of this PE hold */
    _Alignas(ISO_LINE) struct grant grants[ENTRIES];
};

enum { REQUEST_NONE, REQUEST_NEW, REQUEST_FAILED };

/* In the memory of the PE that leads the new team, for each sender TICKETS of them.
 * Invariant: the sender writes key and other before state; the leader sets NONE before it answers. */
struct slot_request {
    _Alignas(ISO_LINE) struct slot_key key;
    uint64_t other; /* FAILED: 1 + the PE that gives another list, 0: none, the sender has no memory */
    uint64_t state; /* pairs: signal of the sender, acquire of the leader */
};

/* The members of one call, and who is meant in reports. */
struct members {
    const int *world_of; /* in the order of the team */
    const int *sorted;   /* ascending */
    int n;
    const char *call;
    bool is_first_call;
};

/* ---- layout ---- */

static size_t page_up(size_t bytes) { return (bytes + SLOT_PAGE - 1) & ~(size_t)(SLOT_PAGE - 1); }

static size_t directory_offset(void) { return page_up(offsetof(struct control, slots)); }
static size_t request_offset(int sender, int ticket)
{
    size_t requests = directory_offset() + page_up(sizeof(struct directory));
    return requests + ((size_t)sender * TICKETS + (size_t)ticket) * sizeof(struct slot_request);
}
size_t iso_slot_offset(int index)
{
    return page_up(request_offset(ISO->n_pes, 0)) + (size_t)index * ISO->slot_bytes;
}

size_t iso_slot_control_bytes(int n_pes)
{
    struct state *self = ISO;
    assert(self->n_pes == n_pes); /* the layout of a slot depends on it */
    self->slot_bytes = iso_slot_stage_offset(self) + (size_t)n_pes * 2 * ISO_STAGE_BYTES;
    return iso_slot_offset(SLOTS);
}

static struct directory *my_directory(void)
{
    return (struct directory *)(void *)((char *)ISO->control + directory_offset());
}

static size_t used_offset(int index)
{
    return directory_offset() + offsetof(struct directory, used) + (size_t)index / WORD_BITS * sizeof(uint64_t);
}
static uint64_t used_bit(int index) { return (uint64_t)1 << (index % WORD_BITS); }

static size_t closing_offset(void) { return directory_offset() + offsetof(struct directory, closing); }

static size_t grant_offset(int index, size_t field)
{
    return directory_offset() + offsetof(struct directory, grants) + (size_t)index * sizeof(struct grant) + field;
}

/* ---- words of any PE's control area ---- */

static struct place control_place(size_t offset, int pe)
{
    struct segment *heap = &ISO->segments[SEGMENT_INDEX_HEAP];
    return iso_place_behind((struct place){ISO->peers[pe].control, heap, heap->base, pe}, offset);
}

/* The old value. */
static uint64_t control_amo(size_t offset, int pe, enum amo_op op, uint64_t operand, const char *call)
{
    struct place at = control_place(offset, pe);
    struct amo amo = {op, sizeof(uint64_t), operand, 0, true};
    uint64_t *word = (uint64_t *)(void *)at.cpu;
    if (word == NULL)
        return iso_far_amo(&ISO->ctx_default, at, amo, call);
    switch (op) {
    case AMO_ADD:
        return prim_fetch_add_u64(word, operand);
    case AMO_AND:
        return prim_fetch_and_u64(word, operand);
    case AMO_OR:
        return prim_fetch_or_u64(word, operand);
    default:
        return prim_load_acquire_u64(word);
    }
}

/* ---- the leader ---- */

static bool claim_one(int index, int pe, const char *call)
{
    uint64_t bit = used_bit(index);
    return (control_amo(used_offset(index), pe, AMO_OR, bit, call) & bit) == 0;
}
static void free_one(int index, int pe, const char *call)
{
    (void)control_amo(used_offset(index), pe, AMO_AND, ~used_bit(index), call);
}

/* In ascending order of PEs: of leaders that want the same index, the one that got furthest in this order gets it, so
 * they cannot all fail. */
static bool claim_on_all(const struct members *m, int index)
{
    for (int i = 0; i < m->n; i++) {
        if (claim_one(index, m->sorted[i], m->call))
            continue;
        while (--i >= 0)
            free_one(index, m->sorted[i], m->call);
        return false;
    }
    return true;
}

/* An index that now belongs to this team on all members, or -1. First calls take theirs from the end, where no team has
 * one: so teams may have all of theirs. */
static int claim_any(const struct members *m)
{
    int least = FIRST_AGREED, most = m->is_first_call ? SLOTS : ISO_SLOTS;
    for (int round = 0; round < CLAIM_ROUNDS; round++)
        for (int i = least; i < most; i++) {
            int index = m->is_first_call ? least + most - 1 - i : i;
            uint64_t mine = prim_load_relaxed_u64(&my_directory()->used[index / WORD_BITS]);
            if ((mine & used_bit(index)) == 0 && claim_on_all(m, index))
                return index;
        }
    return -1;
}

/* The same, after slots that are about to be free where there is none. Their count is taken before the look at the
 * bits: those that are given back in between are seen. Who closes has nothing to wait for, so this ends. Only a team
 * that was broken between two members' closes of a first call leaves a count for good. */
static int claim_index(const struct members *m, const struct slot *slot)
{
    struct wait wait = ISO_WAIT(m->call, -1, &my_directory()->closing, 0);
    int index = claim_any(m);
    wait.slot = slot->of != NULL ? slot : NULL;
    for (uint64_t closing = 1; index < 0 && closing != 0;) {
        closing = 0;
        for (int i = 0; i < m->n; i++)
            closing += control_amo(closing_offset(), m->world_of[i], AMO_FETCH, 0, m->call);
        index = claim_any(m);
        if (index < 0 && closing != 0 && iso_wait_pause(&wait, closing) != 0)
            break;
    }
    iso_wait_end(&wait);
    return index;
}

static void publish_key(int index, int pe, struct slot_key key, uint64_t first, const char *call)
{
    struct grant grant;
    memset(&grant, 0, sizeof(grant));
    grant.key = key;
    grant.first = first;
    size_t front = offsetof(struct grant, state);
    struct place to = control_place(grant_offset(index, 0), pe);
    struct place state = control_place(grant_offset(index, front), pe);
    if (to.cpu != NULL) {
        memcpy(to.cpu, &grant, front);
        prim_signal_u64(prim_group_thread(), (uint64_t *)(void *)state.cpu, GRANT_NEW); /* pairs with find_grant */
        return;
    }
    iso_far_put(&ISO->ctx_default, to, &grant, front, call);
    iso_far_signal(&ISO->ctx_default, state, GRANT_NEW, SHMEM_SIGNAL_SET, call);
    if (key.parent == ISO_SLOT_OF_LIST)
        iso_quiet(&ISO->ctx_default); /* a lower PE has its grant before a higher one has: see find_other */
}

/* Each member gets a refusal in an entry of its own: no agreement is needed for that. */
static void refuse_key(int pe, struct slot_key key, int status, const char *call)
{
    struct wait wait = ISO_WAIT(call, pe, &my_directory()->used[SLOTS / WORD_BITS], 0);
    int index;
    do {
        index = SLOTS;
        while (index < ENTRIES && !claim_one(index, pe, call))
            index++;
    } while (index == ENTRIES && iso_wait_pause(&wait, UINT64_MAX) == 0);
    iso_wait_end(&wait);
    if (index < ENTRIES)
        publish_key(index, pe, key, (uint64_t)-status, call);
}

static int lead(const struct members *m, struct slot_key key, struct slot *slot)
{
    int index = claim_index(m, slot);
    if (index >= 0) {
        slot->index = index;
        slot->seq = 0;
        for (int i = 0; i < m->n; i++) { /* where the last users of this index stopped: no flag of a member is larger */
            uint64_t last =
                control_amo(grant_offset(index, offsetof(struct grant, last)), m->world_of[i], AMO_FETCH, 0, m->call);
            slot->seq = ISO_MAX(slot->seq, last);
        }
        prim_store_relaxed_u64(&my_directory()->grants[index].state, GRANT_TAKEN);
    }
    for (int i = 0; i < m->n; i++)
        if (m->sorted[i] == ISO->my_pe)
            continue;
        else if (index >= 0)
            publish_key(index, m->sorted[i], key, slot->seq, m->call);
        else
            refuse_key(m->sorted[i], key, -ENOSPC, m->call);
    return index >= 0 ? 0 : -ENOSPC;
}

/* ---- the other members ---- */

static bool keys_equal(const struct slot_key *a, const struct slot_key *b)
{
    return a->start == b->start && a->stride == b->stride && a->size == b->size && a->parent == b->parent &&
           a->split == b->split && a->list == b->list;
}

/* Takes a new grant for `key` among the claimed entries of this PE: its index, or -1. A grant that was taken stays,
 * with its key, but is no longer new: so a key may come again once its first use has been taken. The lock: no leader
 * writes an entry again before its grant was taken, so no thread reads a key that is being written. */
static int find_grant(const struct slot_key *key)
{
    struct directory *directory = my_directory();
    int found = -1;
    pthread_mutex_lock(&ISO->slots_lock);
    for (int word = 0; word < ENTRIES / WORD_BITS && found < 0; word++) {
        uint64_t bits = prim_load_relaxed_u64(&directory->used[word]);
        for (; bits != 0 && found < 0; bits &= bits - 1) {
            int index = word * WORD_BITS + __builtin_ctzll(bits);
            struct grant *grant = &directory->grants[index];
            if (prim_load_acquire_u64(&grant->state) == GRANT_NEW && keys_equal(&grant->key, key))
                found = index;
        }
    }
    if (found >= 0)
        prim_store_relaxed_u64(&directory->grants[found].state, GRANT_TAKEN);
    pthread_mutex_unlock(&ISO->slots_lock);
    return found;
}

/* Of the grant that find_grant has taken. 0, or the -errno of a refusal. */
static int read_grant(const struct members *m, int index, struct slot *slot)
{
    struct grant *grant = &my_directory()->grants[index];
    if (index >= SLOTS) {
        int status = -(int)grant->first;
        prim_store_relaxed_u64(&grant->state, GRANT_NONE);
        free_one(index, ISO->my_pe, m->call); /* orders the store before it for the next leader */
        return status;
    }
    slot->index = index;
    slot->seq = grant->first;
    return 0;
}

static int follow(const struct members *m, struct slot_key key, struct slot *slot)
{
    struct wait wait = ISO_WAIT(m->call, m->world_of[0], my_directory()->grants, GRANT_NEW);
    int index;
    wait.slot = slot->of != NULL ? slot : NULL;
    while ((index = find_grant(&key)) < 0 && iso_wait_pause(&wait, GRANT_NONE) == 0)
        continue;
    iso_wait_end(&wait);
    if (index < 0)
        return -EIO;
    return read_grant(m, index, slot);
}

/* ---- teams from lists: requests ---- */

static struct slot_request *my_request(int sender, int ticket)
{
    return (struct slot_request *)(void *)((char *)ISO->control + request_offset(sender, ticket));
}

static int take_request_ticket(const char *call)
{
    struct directory *directory = my_directory();
    struct wait wait = ISO_WAIT(call, -1, &directory->tickets, 0);
    int i;
    do {
        i = 0;
        while (i < TICKETS && (prim_fetch_or_u64(&directory->tickets, (uint64_t)1 << i) >> i & 1) != 0)
            i++;
    } while (i == TICKETS && iso_wait_pause(&wait, (1 << TICKETS) - 1) == 0);
    iso_wait_end(&wait);
    return i < TICKETS ? i : -EIO;
}

/* The fields from `begin` on, then the state. */
static void send_request(int pe, int ticket, const struct slot_request *request, size_t begin, const char *call)
{
    size_t end = offsetof(struct slot_request, state), at = request_offset(ISO->my_pe, ticket);
    struct place to = control_place(at + begin, pe), state = control_place(at + end, pe);
    const char *fields = (const char *)request + begin;
    if (to.cpu != NULL) {
        memcpy(to.cpu, fields, end - begin);
        prim_signal_u64(prim_group_thread(), (uint64_t *)(void *)state.cpu,
                        request->state); /* pairs with look_for_answer */
        return;
    }
    iso_far_put(&ISO->ctx_default, to, fields, end - begin, call);
    iso_far_signal(&ISO->ctx_default, state, request->state, SHMEM_SIGNAL_SET, call);
}

enum answer { ANSWER_NONE, ANSWER_SAME, ANSWER_FAILED, ANSWER_OTHER };
struct finding {
    struct slot_request *request;
    struct slot_key key;
    uint64_t other;
};

/* Whether `pe` has sent a request to this PE for the same team, or else for another list under the same tag. */
static enum answer look_for_answer(const struct slot_key *key, int pe, struct finding *found)
{
    enum answer answer = ANSWER_NONE;
    pthread_mutex_lock(&ISO->slots_lock); /* no thread sets NONE, after which the sender may write another key */
    for (int i = 0; i < TICKETS && answer != ANSWER_SAME && answer != ANSWER_FAILED; i++) {
        struct slot_request *r = my_request(pe, i);
        uint64_t state = prim_load_acquire_u64(&r->state);
        if (state == REQUEST_NONE || r->key.split != key->split)
            continue;
        answer = !keys_equal(&r->key, key) ? ANSWER_OTHER : state == REQUEST_NEW ? ANSWER_SAME : ANSWER_FAILED;
        found->request = r;
        found->key = r->key;
        found->other = state == REQUEST_FAILED ? r->other : 0;
    }
    pthread_mutex_unlock(&ISO->slots_lock);
    return answer;
}

/* Before the answer, after which the sender uses the entry again. */
static void end_request(const struct finding *found)
{
    pthread_mutex_lock(&ISO->slots_lock);
    prim_store_relaxed_u64(&found->request->state, REQUEST_NONE);
    pthread_mutex_unlock(&ISO->slots_lock);
}

/* A member that does not ask this PE, because by its list another one leads: that one has said so. */
static bool is_named(const struct members *m, const struct slot_key *key, int pe)
{
    struct finding found;
    for (int i = 0; i < m->n; i++)
        if (look_for_answer(key, m->sorted[i], &found) == ANSWER_FAILED && found.other == (uint64_t)pe + 1)
            return true;
    return false;
}

/* Refuses all that have asked this PE for that team. */
static void refuse_team(struct slot_key key, int status, const char *call)
{
    struct finding found;
    for (int pe = 0; pe < ISO->n_pes; pe++) {
        enum answer answer = look_for_answer(&key, pe, &found);
        if (answer != ANSWER_SAME && answer != ANSWER_FAILED)
            continue;
        end_request(&found);
        refuse_key(pe, key, status, call);
    }
}

static void say_other(const struct members *m, int pe, uint64_t tag)
{
    log_error("%s: pe %d lists this PE with others or in another order under tag %#llx; pes must be equal on all "
              "members",
              m->call, pe, (unsigned long long)tag);
}

/* Until the member has come, with this list or another. 0 or -errno. */
static int await_request(const struct members *m, const struct slot_key *key, int pe)
{
    struct finding found = {NULL, *key, 0};
    struct wait wait = ISO_WAIT(m->call, pe, &my_request(pe, 0)->state, REQUEST_NEW);
    enum answer answer = ANSWER_NONE;
    int rc = 0;
    while (rc == 0 && (answer = look_for_answer(key, pe, &found)) == ANSWER_NONE && !is_named(m, key, pe))
        rc = iso_wait_pause(&wait, REQUEST_NONE);
    iso_wait_end(&wait);
    if (rc != 0)
        return rc;
    if (answer == ANSWER_OTHER) {
        say_other(m, pe, key->split);
        refuse_team(found.key, -EINVAL, m->call);
    }
    if (answer == ANSWER_FAILED && found.other == 0)
        return -ENOMEM;
    return answer == ANSWER_SAME ? 0 : -EINVAL;
}

/* By the lowest PE. All members have come when it returns; `status`: of this one. */
static int lead_list(const struct members *m, struct slot_key key, struct slot *slot, int status)
{
    struct finding found;
    for (int i = 1; i < m->n; i++) {
        int theirs = await_request(m, &key, m->sorted[i]);
        status = status != 0 ? status : theirs;
    }
    if (status != 0) {
        refuse_team(key, status, m->call);
        return status;
    }
    for (int i = 1; i < m->n; i++)
        if (look_for_answer(&key, m->sorted[i], &found) == ANSWER_SAME)
            end_request(&found);
    return lead(m, key, slot);
}

/* A member that has asked this PE to lead another list under the same tag; -1: none. Each of the two waits for the
 * other then, unless this PE has its grant: members leave a creation only with theirs, those are given in ascending
 * order, and a PE is asked by higher ones only. So the caller looks for its grant once more. */
static int find_other(const struct members *m, const struct slot_key *key, struct finding *found)
{
    for (int i = 0; i < m->n; i++)
        if (look_for_answer(key, m->sorted[i], found) == ANSWER_OTHER)
            return m->sorted[i];
    return -1;
}

/* Tells the leader whom this one has found with another list, and goes on waiting: the leader answers all. */
static int follow_list(const struct members *m, struct slot_key key, struct slot *slot, int status)
{
    struct wait wait = ISO_WAIT(m->call, m->sorted[0], my_directory()->grants, GRANT_NEW);
    int index, ticket = take_request_ticket(m->call), other, rc = 0;
    struct slot_request mine;
    struct finding found;
    if (ticket < 0)
        return ticket;
    memset(&mine, 0, sizeof(mine));
    mine.key = key;
    mine.state = status == 0 ? REQUEST_NEW : REQUEST_FAILED;
    send_request(m->sorted[0], ticket, &mine, 0, m->call);
    while ((index = find_grant(&key)) < 0 && rc == 0) {
        if (mine.state == REQUEST_NEW && (other = find_other(m, &key, &found)) >= 0) {
            if ((index = find_grant(&key)) >= 0)
                break;
            say_other(m, other, key.split);
            refuse_team(found.key, -EINVAL, m->call);
            mine.other = (uint64_t)other + 1;
            mine.state = REQUEST_FAILED;
            send_request(m->sorted[0], ticket, &mine, offsetof(struct slot_request, other), m->call);
        }
        rc = iso_wait_pause(&wait, GRANT_NONE);
    }
    iso_wait_end(&wait);
    (void)prim_fetch_and_u64(&my_directory()->tickets, ~((uint64_t)1 << ticket));
    return index >= 0 ? read_grant(m, index, slot) : rc;
}

/* ---- open and close ---- */

/* ---- nodes ---- */

static void free_nodes(struct slot *slot)
{
    if (slot->nodes != NULL) {
        free(slot->nodes->begin);
        free(slot->nodes->members);
    }
    free(slot->nodes);
    slot->nodes = NULL;
}

/* Members by node, in the order of the members: counted, then placed. `of`: [n_nodes of the job + 1], zeroed. */
static void sort_by_node(struct slot_nodes *nodes, const int *world_of, int n_pes, int *of)
{
    const struct peer *peers = ISO->peers;
    int *number = of; /* of the node in the team + 1; 0: not seen yet */
    for (int i = 0; i < n_pes; i++) {
        int *seen = &number[peers[world_of[i]].node_number];
        if (*seen == 0)
            *seen = ++nodes->n;
        nodes->begin[*seen]++;
    }
    for (int k = 0; k < nodes->n; k++) {
        nodes->most_near = ISO_MAX(nodes->most_near, nodes->begin[k + 1]);
        nodes->begin[k + 1] += nodes->begin[k];
    }
    for (int i = n_pes - 1; i >= 0; i--)
        nodes->members[--nodes->begin[number[peers[world_of[i]].node_number]]] = i;
    /* begin[k] is where node k - 1 begins now */
    for (int k = 0; k < nodes->n; k++)
        nodes->begin[k] = nodes->begin[k + 1];
    nodes->begin[nodes->n] = n_pes;
    nodes->mine = number[iso_pe_my_node()] - 1;
}

static int make_nodes(struct slot *slot, const int *world_of, int n_pes)
{
    struct slot_nodes *nodes = (struct slot_nodes *)calloc(1, sizeof(*nodes));
    int *of = (int *)calloc((size_t)ISO->n_nodes, sizeof(*of));
    slot->nodes = nodes;
    if (nodes != NULL) {
        nodes->begin = (int *)calloc((size_t)n_pes + 2, sizeof(*nodes->begin));
        nodes->members = (int *)calloc((size_t)n_pes, sizeof(*nodes->members));
    }
    bool made = of != NULL && nodes != NULL && nodes->begin != NULL && nodes->members != NULL;
    if (made)
        sort_by_node(nodes, world_of, n_pes, of);
    free(of);
    if (!made || nodes->n == 1) {
        free_nodes(slot);
        return made ? 0 : -ENOMEM;
    }
    int begin = nodes->begin[nodes->mine];
    nodes->n_near = nodes->begin[nodes->mine + 1] - begin;
    while (world_of[nodes->members[begin + nodes->me_near]] != ISO->my_pe)
        nodes->me_near++;
    nodes->central = slot->views[nodes->members[begin]].near;
    nodes->in_order = true;
    for (int i = 0; i < n_pes; i++)
        nodes->in_order = nodes->in_order && nodes->members[i] == i;
    return 0;
}

/* central needs one answer on all members: all are on one node, which the node map says alike on all PEs, and pointers
 * are hidden from all PEs or from none. */
static int make_views(struct slot *slot, const int *world_of, int n_pes)
{
    size_t offset = iso_slot_offset(slot->index);
    bool direct = true;
    for (int i = 0; i < n_pes; i++) {
        int pe = world_of[i];
        char *cpu = ISO->peers[pe].control;
        slot->views[i].near = cpu != NULL ? cpu + offset : NULL;
        direct = direct && cpu != NULL && ISO->peers[pe].local;
    }
    slot->memory = (char *)ISO->control + offset;
    if (slot->of == NULL)
        slot->end = iso_slot_end(slot->memory);
    slot->central = direct ? slot->views[0].near : NULL;
    return direct || ISO->n_nodes == 1 ? 0 : make_nodes(slot, world_of, n_pes);
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void say_why(const struct members *m, const struct slot *slot, struct slot_key key, int status)
{
    if (iso_slot_rc(slot, m->call) != 0) /* members that came no more */
        return;
    if (status == -ENOSPC)
        log_error("%s: all %d slots are in use on one of the %d PEs; destroy teams that are no longer needed", m->call,
                  ISO_SLOTS, m->n);
    else if (status == -ENOMEM)
        log_error("%s: a member of a team of %d has no memory left", m->call, m->n);
    else
        log_error("%s: members of this team of %d have given different lists under tag %#llx", m->call, m->n,
                  (unsigned long long)key.split);
}

/* Memory is allocated before the others hear of this member, so that afterwards nothing can fail on one alone. */
int iso_slot_open(struct slot *slot, struct slot_key key, const int *world_of, int n_pes, int status)
{
    char first_call[64];
    snprintf(first_call, sizeof first_call, "the first call of slot %d of a team", (int)key.list);
    const char *call = key.parent == ISO_SLOT_OF_SET          ? "a collective on a new active set"
                       : key.parent == ISO_SLOT_OF_LIST       ? "shmemx_team_create"
                       : key.parent == ISO_SLOT_OF_FIRST_CALL ? first_call
                                                              : "shmem_team_split";
    const struct slot *of = key.parent == ISO_SLOT_OF_FIRST_CALL ? slot->of : NULL;
    memset(slot, 0, sizeof(*slot));
    slot->index = -1;
    slot->n_pes = n_pes;
    if (n_pes == 1)
        return 0;
    if (of != NULL) { /* for waits before there is an index, too */
        slot->of = of;
        slot->end = of->end;
        slot->timeout_ns = __atomic_load_n(&of->timeout_ns, __ATOMIC_RELAXED);
    }
    int *sorted = (int *)malloc((size_t)n_pes * sizeof(*sorted));
    slot->views = (struct slot_view *)calloc((size_t)n_pes, sizeof(*slot->views));
    if (sorted == NULL || slot->views == NULL) {
        free(sorted);
        return iso_refuse_alone(call, "no memory for a team of %d", n_pes);
    }
    for (int i = 0; i < n_pes; i++)
        slot->views[i].pe = world_of[i];
    memcpy(sorted, world_of, (size_t)n_pes * sizeof(*sorted));
    qsort(sorted, (size_t)n_pes, sizeof(*sorted), by_number);
    struct members m = {world_of, sorted, n_pes, call, key.parent == ISO_SLOT_OF_FIRST_CALL};
    if (key.parent == ISO_SLOT_OF_START)
        slot->index = (int)key.split;
    else if (key.parent == ISO_SLOT_OF_LIST) /* else the parent's members agree on the status afterwards */
        status = ISO->my_pe == sorted[0] ? lead_list(&m, key, slot, status) : follow_list(&m, key, slot, status);
    else
        status = ISO->my_pe == world_of[0] ? lead(&m, key, slot) : follow(&m, key, slot);
    /* Acquire: pairs with the increment of another thread of this PE that gave the index back before. The other members
     * order the two threads already; ThreadSanitizer, which sees one process, needs it said here. */
    (void)prim_load_acquire_u64(&my_directory()->closing);
    if (status != 0)
        say_why(&m, slot, key, status);
    free(sorted);
    slot->calls = slot->seq;
    if (status == 0)
        return make_views(slot, world_of, n_pes);
    free(slot->views);
    slot->views = NULL;
    return status;
}

/* The last member to close gives the index back on all of them: until then a member may still write flags here. */
static void give_slot_back(const struct slot *slot, const struct members *m)
{
    struct grant *mine = &my_directory()->grants[slot->index];
    size_t closed = grant_offset(slot->index, offsetof(struct grant, closed));
    prim_store_relaxed_u64(&mine->last, slot->seq);
    prim_store_relaxed_u64(&mine->state, GRANT_NONE);
    (void)control_amo(closing_offset(), ISO->my_pe, AMO_ADD, 1, m->call);
    for (int i = 0; i < m->n; i++) /* flags that a transport still carries */
        if (ISO->peers[m->world_of[i]].transport != NULL)
            iso_far_pe_quiet(&ISO->ctx_words, m->world_of[i]);
    /* Release: what this member did in the slot is before; acquire in the last one, whose freeing releases it again to
     * the leader that claims the index next. */
    if (control_amo(closed, m->world_of[0], AMO_ADD, 1, m->call) != (uint64_t)m->n - 1)
        return;
    (void)control_amo(closed, m->world_of[0], AMO_AND, 0, m->call);
    for (int i = 0; i < m->n; i++)
        free_one(slot->index, m->world_of[i], m->call);
    for (int i = 0; i < m->n; i++) /* when it is free on all of them */
        (void)control_amo(closing_offset(), m->world_of[i], AMO_ADD, (uint64_t)-1, m->call);
}

void iso_slot_await_others(const struct slot *slot, int my_pe, const char *call)
{
    if (slot->index < FIRST_AGREED || my_pe != 0)
        return;
    /* Acquire: pairs with the increment of each member that has closed. */
    const uint64_t *closed = &my_directory()->grants[slot->index].closed;
    (void)iso_slot_wait(slot, closed, (uint64_t)slot->n_pes - 1, -1, call);
}

void iso_slot_close(struct slot *slot, const int *world_of, int n_pes)
{
    struct members m = {world_of, NULL, n_pes, "shmem_team_destroy", false};
    if (slot->index >= FIRST_AGREED && !iso_slot_is_broken(slot)) /* flags may come late, and are of any epoch */
        give_slot_back(slot, &m);
    free(slot->views);
    free_nodes(slot);
    memset(slot, 0, sizeof(*slot));
    slot->index = -1;
}

/* ---- broken teams ---- */

static void tell_reason(struct slot_end *end, const char *why)
{
    if (why == NULL || prim_fetch_or_u64(&end->told, SLOT_TELLING) != 0)
        return;
    snprintf(end->why, sizeof end->why, "%s", why);
    prim_signal_u64(prim_group_thread(), &end->told, SLOT_TOLD); /* pairs with reason_of */
}

static void tell_end(char *memory, uint64_t by, const char *why)
{
    struct slot_end *end = iso_slot_end(memory);
    tell_reason(end, why);
    prim_signal_u64(prim_group_thread(), &end->by, by); /* pairs with iso_slot_is_broken */
}

/* While a member still writes it here, another one may have stored `by`. Each of them had the reason before. */
static const char *reason_of(const struct slot *slot)
{
    const struct slot *team = slot->of != NULL ? slot->of : slot;
    for (int i = 0; i < team->n_pes; i++) {
        const struct slot_end *end = team->views[i].near != NULL ? iso_slot_end(team->views[i].near) : NULL;
        if (end != NULL && (prim_load_acquire_u64(&end->told) & SLOT_TOLD) != 0)
            return end->why;
    }
    return NULL;
}

/* Those of this node. */
static void tell_members(const struct slot *slot, uint64_t by, const char *why)
{
    for (int i = 0; i < slot->n_pes; i++)
        if (slot->views[i].near != NULL && slot->views[i].near != slot->memory)
            tell_end(slot->views[i].near, by, why);
}

void iso_slot_break(const struct slot *slot, const char *why)
{
    struct slot_end end = {.by = 1 + (uint64_t)ISO->my_pe};
    snprintf(end.why, sizeof end.why, "%s", why);
    tell_reason(slot->end, why);
    tell_members(slot, end.by, why);
    for (int i = 0; i < slot->n_pes; i++)
        if (slot->views[i].near == NULL)
            iso_channel_tell_team_end(slot->views[i].pe, slot->index, &end);
    tell_end(slot->memory, end.by, why);
}

/* The index belongs to the same team as at the sender, which has the slot for good (iso_slot_close). */
void iso_slot_hear_end(int index, const void *told)
{
    struct slot_end end;
    memcpy(&end, told, sizeof end);
    end.why[sizeof end.why - 1] = '\0';
    if (index >= FIRST_AGREED && index < ISO_SLOTS)
        tell_end((char *)ISO->control + iso_slot_offset(index), end.by, end.why);
}
_Static_assert(sizeof(struct slot_end) == CHANNEL_BODY_BYTES, "one message of the channel");

#define TEAM_BROKEN "this team was broken by pe %d%s%s"
int iso_slot_refuse(const struct slot *slot, const char *call)
{
    int by = (int)prim_load_acquire_u64(&slot->end->by) - 1;
    const char *why = reason_of(slot);
    iso_log_elsewhere("%s: " TEAM_BROKEN, iso_call_name(call), by, why != NULL ? ": " : "", why != NULL ? why : "");
    return -EIO;
}

int iso_slot_give_up(const struct slot *slot, const char *call)
{
    uint64_t by = prim_load_acquire_u64(&slot->end->by);
    const char *why = reason_of(slot);
    tell_members(slot->of != NULL ? slot->of : slot, by, why); /* before this member goes on */
    bool destroys = ISO->errors == SHMEMX_ERRORS_RETURN && strcmp(iso_call_name(call), "shmem_team_destroy") == 0;
    if (iso_error_returns(call) || destroys) /* it has nothing more to wait for */
        return iso_slot_refuse(slot, call);
    iso_fatal(call, TEAM_BROKEN, (int)by - 1, why != NULL ? ": " : "", why != NULL ? why : "");
}

/* ---- far halves and waits of slot.h ---- */

struct place iso_slot_place(const struct slot *slot, size_t offset, int pe)
{
    return control_place(iso_slot_offset(slot->index) + offset, pe);
}

void iso_slot_far_signal(const struct slot *slot, size_t offset, int pe, uint64_t value, const char *call)
{
    iso_far_signal(&ISO->ctx_words, iso_slot_place(slot, offset, pe), value, SHMEM_SIGNAL_SET, call);
}

int iso_slot_wait(const struct slot *slot, const uint64_t *word, uint64_t expected, int pe, const char *call)
{
    struct wait wait = ISO_WAIT(call, pe, word, expected);
    uint64_t seen;
    int rc = 0;
    wait.slot = slot;
    while (rc == 0 && (seen = prim_poll_u64(word)) < expected)
        rc = iso_wait_pause(&wait, seen);
    iso_wait_end(&wait);
    return rc;
}
