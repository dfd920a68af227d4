/* SPDX-License-Identifier: MIT */
/* Queues, messages and registrations of the transport over a double of the device: limits that hold however many
 * threads and peers there are, answers that wait without holding up anybody, and nothing that stays registered. */
#include "../check.h"

#if !__has_include(<infiniband/verbs.h>)
int main(void) { return CHECK_SKIP("no header infiniband/verbs.h on this machine"); }
#else

#include "../../shmem/node/channel.h"
#include "said.h"
#include "verbs_double.h"

#include <pthread.h>
#include <signal.h>

#define MIB ((size_t)1 << 20)

/* ---- more threads than credits ---- */

enum { ASKERS = 2 };
static struct {
    pthread_t ids[ASKERS];
    bool looked[ASKERS]; /* atomic: that thread has polled, and so it waits for room in the queue */
    bool begun;
} askers;

static void note_poll(void)
{
    for (int i = 0; i < ASKERS && __atomic_load_n(&askers.begun, __ATOMIC_ACQUIRE); i++)
        if (pthread_equal(pthread_self(), askers.ids[i]))
            __atomic_store_n(&askers.looked[i], true, __ATOMIC_RELAXED);
}

static void check_credits(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
    const struct verbs_queue *q = ISO->verbs->queues[0];
    (void)wr;
    CHECK(qp == q->qp && q->asked - q->answered <= VERBS_CREDITS);
}

static void *ask(void *none)
{
    const struct amo add = {AMO_ADD, 8, 1, 0, true};
    (void)iso_verbs_amo(&ISO->ctx_default, place_at(1, 64), add);
    return none;
}

static uint64_t asked_of(struct verbs *v, const struct verbs_queue *q)
{
    iso_verbs_lock(v);
    uint64_t asked = q->asked;
    iso_verbs_unlock(v);
    return asked;
}

/* Requests that fill the queue, none of them complete. */
static void fill_queue(struct verbs *v, struct verbs_queue *q)
{
    const struct verbs_request request = {.slot = -1, .opcode = (uint8_t)IBV_WR_RDMA_WRITE};
    iso_verbs_lock(v);
    while (q->made < VERBS_DEPTH)
        (void)iso_verbs_add(v, q, &request);
    iso_verbs_post(v, q);
    iso_verbs_unlock(v);
}

static void answer_one(struct verbs *v, const struct verbs_queue *q, uint64_t serial)
{
    const struct verbs_message back = {.type = VERBS_ANSWER, .pe = 1, .serial = serial};
    while (asked_of(v, q) <= serial)
        check_pause();
    iso_verbs_lock(v);
    bring(v, q, &back);
    iso_verbs_unlock(v);
}

/* One credit is left, and both threads find it before either takes it. */
static void test_credits(void)
{
    struct verbs *v = open_double(2);
    struct verbs_queue *q = add_queue(v, 1, false, 128);
    nic.held = true;
    fill_queue(v, q);
    q->asked = q->asked_posted = VERBS_CREDITS - 1;
    nic.on_post = check_credits;
    nic.on_poll = note_poll;
    for (int i = 0; i < ASKERS; i++)
        CHECK_OR_EXIT(pthread_create(&askers.ids[i], NULL, ask, NULL) == 0);
    __atomic_store_n(&askers.begun, true, __ATOMIC_RELEASE);
    for (int i = 0; i < ASKERS; i++)
        while (!__atomic_load_n(&askers.looked[i], __ATOMIC_RELAXED))
            check_pause();
    __atomic_store_n(&nic.held, false, __ATOMIC_RELAXED);
    while (asked_of(v, q) < VERBS_CREDITS)
        check_pause();
    usleep(20000); /* for the other to do wrong */
    CHECK_EQ(asked_of(v, q), VERBS_CREDITS);
    answer_one(v, q, VERBS_CREDITS - 1);
    answer_one(v, q, VERBS_CREDITS);
    for (int i = 0; i < ASKERS; i++)
        pthread_join(askers.ids[i], NULL);
    CHECK_EQ(q->answered, VERBS_CREDITS + 1);
    close_double(v);
}

/* ---- answers ---- */

static uint64_t next_serial;

static void check_order(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
    struct verbs_message m;
    if (qp != ISO->verbs->queues[0]->qp)
        return;
    memcpy(&m, (const void *)(uintptr_t)wr->sg_list->addr, sizeof m);
    CHECK(m.type == VERBS_ANSWER && m.serial == next_serial && m.operand == next_serial);
    next_serial++;
}

static void poll_once(struct verbs *v)
{
    iso_verbs_lock(v);
    iso_verbs_poll(v);
    iso_verbs_unlock(v);
}

static void bring_fetch(struct verbs *v, const struct verbs_queue *q, uint64_t serial)
{
    const struct verbs_message m = {.type = VERBS_FETCH,
                                    .op = AMO_ADD,
                                    .bytes = 8,
                                    .pe = 1,
                                    .serial = serial,
                                    .addr = (uint64_t)(uintptr_t)ISO->segments[SEGMENT_INDEX_HEAP].base,
                                    .operand = 1};
    bring(v, q, &m);
}

/* Takes every slot, in batches that nobody has posted. */
static void take_slots(struct verbs *v)
{
    const struct verbs_request request = {.slot = -1, .opcode = (uint8_t)IBV_WR_RDMA_WRITE};
    const uint64_t word = 0;
    iso_verbs_lock(v);
    for (int pe = 2; v->n_free_slots > 0; pe++) {
        struct verbs_queue *q = add_queue(v, pe, false, 0);
        for (int i = 0; i < VERBS_BATCH && v->n_free_slots > 0; i++)
            iso_verbs_attach_small(v, q, iso_verbs_add(v, q, &request), &word, sizeof word);
    }
    iso_verbs_unlock(v);
}

/* A device with no room for a message within the request. */
static void test_answers_without_slots(void)
{
    struct verbs *v = open_double(8);
    struct verbs_queue *q = add_queue(v, 1, true, 16);
    next_serial = 0;
    nic.on_post = check_order;
    nic.held = true;
    take_slots(v);
    for (uint64_t i = 0; i < VERBS_CREDITS; i++)
        bring_fetch(v, q, i);
    poll_once(v); /* returns, has applied them all, and asked for completions of what holds the slots */
    poll_once(v);
    uint64_t word;
    memcpy(&word, ISO->segments[SEGMENT_INDEX_HEAP].base, sizeof word);
    CHECK_EQ(word, VERBS_CREDITS);
    CHECK_EQ(next_serial, 0);
    CHECK(v->late == q);
    nic.held = false;
    for (int i = 0; i < 4; i++)
        poll_once(v);
    CHECK_EQ(next_serial, VERBS_CREDITS);
    CHECK(v->late == NULL && v->in_flight == 0);
    CHECK_EQ(v->n_free_slots, VERBS_SLOTS);
    close_double(v);
}

/* Answers go when requests have used all completions that they may. */
static void test_answers_when_requests_wait(void)
{
    struct verbs *v = open_double(2);
    struct verbs_queue *q = add_queue(v, 1, true, 128);
    next_serial = 0;
    nic.on_post = check_order;
    nic.held = true;
    v->in_flight = VERBS_COMPLETIONS - VERBS_DEPTH;
    bring_fetch(v, q, 0);
    poll_once(v);
    CHECK_EQ(next_serial, 1);
    v->in_flight = VERBS_COMPLETIONS; /* and those of the answers */
    bring_fetch(v, q, 1);
    poll_once(v);
    CHECK_EQ(next_serial, 1);
    v->in_flight = 1;
    poll_once(v);
    CHECK_EQ(next_serial, 2);
    nic.held = false;
    poll_once(v);
    CHECK_EQ(v->in_flight, 0);
    close_double(v);
}

/* ---- completions of many peers ---- */

static void put(struct place to, void *source, size_t len, bool nbi)
{
    iso_verbs_put(&ISO->ctx_default, to, &(struct far_local){source, len, false, nbi});
}

static void test_many_peers(void)
{
    enum { PEERS = VERBS_COMPLETIONS + 500 };
    static uint64_t word;
    struct verbs *v = open_double(PEERS + 1);
    for (int pe = 1; pe <= PEERS; pe++) {
        (void)add_queue(v, pe, false, 128);
        give_key(v, pe, 0, HEAP_BYTES);
        put(place_at(pe, 8), &word, sizeof word, true);
    }
    iso_transport_verbs.quiet(&ISO->ctx_default);
    CHECK(nic.most > 0 && nic.most <= VERBS_COMPLETIONS);
    CHECK_EQ(nic.taken, PEERS);
    CHECK_EQ(v->in_flight, 0);
    close_double(v);
}

/* ---- registrations ---- */

static void check_unregistered(const char *what)
{
    CHECK_EQ_NAMED(nic.registered, 2, what); /* the transport's own memory is the first */
    CHECK_EQ_NAMED(nic.unregistered, 1, what);
    nic.registered = 1;
    nic.unregistered = 0;
}

/* Split at a piece of the peer's, so that the tail goes within a request. */
static void test_memory_of_one_operation(void)
{
    struct verbs *v = open_double(2);
    struct place at = place_at(1, 0);
    struct ctx *ctx = &ISO->ctx_default;
    char *local = (char *)malloc(MIB + 64);
    CHECK_OR_EXIT(local != NULL);
    memset(local, 7, MIB + 64);
    (void)add_queue(v, 1, false, 128);
    give_key(v, 1, 0, MIB);
    give_key(v, 1, MIB, 4 * MIB);
    put(at, local, MIB + 64, false);
    check_unregistered("put, a tail within the request");
    put(at, local, MIB + 64, true);
    iso_transport_verbs.quiet(ctx);
    check_unregistered("put_nbi, the same");
    iso_verbs_get(ctx, at, &(struct far_local){local, MIB + 64, false, false});
    check_unregistered("get, a tail in place");
    put(place_at(1, MIB), local, MIB, true);
    CHECK_EQ(nic.unregistered, 0); /* it is under way */
    iso_transport_verbs.quiet(ctx);
    check_unregistered("put_nbi in one piece");
    free(local);
    close_double(v);
}

/* Globals are registered as the heap is: what is near to what was touched. */
static void test_large_globals(void)
{
    const size_t len = 100 * MIB + 4096;
    int error;
    struct verbs *v = open_double(2);
    struct segment *data = &ISO->segments[SEGMENT_INDEX_DATA];
    *data = (struct segment){.base = (char *)(uintptr_t)(REMOTE_BASE / 2), .limit = len, .len = len};
    data->kind = SEGMENT_DATA;
    size_t before = nic.registered_bytes;
    const struct network_region *r = iso_network_region_of(&v->net, data->base + 100, &error);
    CHECK_OR_EXIT(r != NULL);
    CHECK(r->start == REMOTE_BASE / 2 && r->end == r->start + 4 * MIB);
    CHECK_EQ(nic.registered_bytes - before, 4 * MIB);
    r = iso_network_region_of(&v->net, data->base + len - 1, &error);
    CHECK_OR_EXIT(r != NULL);
    CHECK(r->end == REMOTE_BASE / 2 + len && r->start == REMOTE_BASE / 2 + 64 * MIB);
    close_double(v);
}

/* ---- errors that return ---- */

static void check_lost(struct verbs *v, const char *what)
{
    uint64_t word = 7;
    CHECK_NAMED(v->net.lost && iso_job_is_broken(), what);
    CHECK_EQ_NAMED(nic.errors, v->n_queues, what); /* the device leaves memory alone */
    unsigned made = nic.made;
    put(place_at(1, 8), &word, sizeof word, false);
    iso_verbs_get(&ISO->ctx_default, place_at(1, 8), &(struct far_local){&word, sizeof word, false, false});
    CHECK_EQ_NAMED(iso_verbs_amo(&ISO->ctx_default, place_at(1, 64), (struct amo){AMO_ADD, 8, 1, 0, true}), 0, what);
    iso_transport_verbs.quiet(&ISO->ctx_default);
    CHECK_EQ_NAMED(nic.made, made, what); /* nothing is posted any more */
    CHECK_EQ_NAMED(word, 7, what);
    CHECK_EQ_NAMED(v->in_flight, 0, what);
    CHECK_EQ_NAMED(v->n_free_slots, VERBS_SLOTS, what);
}

/* A link is down: each request under way fails. The job breaks by the first, which is said once, and all waits end. */
static void test_lost(void)
{
    struct said said;
    uint64_t word = 7;
    struct verbs *v = open_double(3);
    ISO->errors = SHMEMX_ERRORS_RETURN;
    for (int pe = 1; pe < 3; pe++) {
        (void)add_queue(v, pe, false, pe == 1 ? 128 : 0);
        give_key(v, pe, 0, HEAP_BYTES);
        for (int i = 0; i < 20; i++)
            put(place_at(pe, 8), &word, sizeof word, true);
        iso_verbs_amo_nbi(&ISO->ctx_default, place_at(pe, 64), (struct amo){AMO_ADD, 8, 1, 0, true}, &word);
    }
    nic.bad = 100;
    listen(&said);
    iso_transport_verbs.quiet(&ISO->ctx_default);
    check_lost(v, "a request fails");
    CHECK_EQ(lines_with(heard(&said), "failed: no answer"), 1);
    CHECK_EQ(lines_with(said.text, "[isomer"), 1);
    iso_job_mend();
    close_double(v);
}

/* The channel says that a peer died, and the device's error is only what follows. */
static void test_death(void)
{
    struct said said;
    uint64_t word = 7;
    pthread_t thread;
    struct verbs *v = open_double(2);
    (void)add_queue(v, 1, false, 128);
    give_key(v, 1, 0, HEAP_BYTES);
    put(place_at(1, 8), &word, sizeof word, true);
    nic.bad = 1;
    listen(&said);
    CHECK_OR_EXIT(pthread_create(&thread, NULL, find_death, NULL) == 0);
    iso_transport_verbs.quiet(&ISO->ctx_default);
    pthread_join(thread, NULL);
    CHECK_EQ(strlen(heard(&said)), 0);
    CHECK(v->net.lost && nic.errors == 1 && strcmp(ISO->broken.cause.why, "pe 1 died") == 0);
    iso_job_mend();
    close_double(v);
}

/* Where this PE masks deaths, only what is under way to the dead PE is over: its completions and messages that come
 * later are passed over, and the queues of the others keep what they had. */
static void test_outlives(void)
{
    struct said said;
    uint64_t word = 7;
    const struct amo add = {AMO_ADD, 8, 1, 0, true};
    struct verbs *v = open_double(3);
    const struct verbs_queue *of_1 = add_queue(v, 1, false, 0), *of_2 = add_queue(v, 2, false, 128);
    const struct verbs_message late = {.type = VERBS_ANSWER, .pe = 1};
    uint64_t id = (uint64_t)of_1->index << VERBS_ID_BITS | 3;
    ISO->errors = SHMEMX_ERRORS_RETURN;
    iso_job_mask(true);
    for (int pe = 2; pe > 0; pe--) {
        give_key(v, pe, 0, HEAP_BYTES);
        for (int i = 0; i < 5; i++)
            put(place_at(pe, 8), &word, sizeof word, true);
    }
    iso_verbs_amo_nbi(&ISO->ctx_default, place_at(1, 64), add, &word);
    bring(v, of_1, &late);
    nic.bad = 1;
    listen(&said);
    iso_transport_verbs.pe_quiet(&ISO->ctx_default, 1);
    CHECK(iso_job_is_broken() && iso_job_outlives() && ISO->broken.cause.pe == 1 && !v->net.lost);
    CHECK(lines_with(heard(&said), "failed: no answer") == 1 && lines_with(said.text, "[isomer") == 1);
    CHECK(nic.destroyed == 1 && nic.errors == 0 && of_1->qp == &v->no_qp && of_1->done == of_1->made);
    CHECK(of_2->made == 5 && of_2->done == 0 && v->in_flight == 1);
    unsigned made = nic.made;
    put(place_at(1, 8), &word, sizeof word, false);
    CHECK_EQ(iso_verbs_amo(&ISO->ctx_default, place_at(1, 64), add), 0);
    iso_verbs_signal(&ISO->ctx_default, place_at(1, 8), 1, SHMEM_SIGNAL_ADD);
    iso_transport_verbs.pe_quiet(&ISO->ctx_default, 1);
    CHECK_EQ(nic.made, made);
    nic.completions[nic.made++ % NIC_COMPLETIONS] = id;
    put(place_at(2, 8), &word, sizeof word, true);
    iso_transport_verbs.quiet(&ISO->ctx_default);
    CHECK(!v->net.lost && nic.made > made && of_2->made == 6 && of_2->done == 6);
    CHECK(v->in_flight == 0 && v->n_free_slots == VERBS_SLOTS && nic.read == nic.arrived);
    iso_job_mend();
    close_double(v);
}

/* An operation of a peer on what is no segment is refused to it; an answer that refuses breaks the job. */
static void test_refused(void)
{
    struct said said;
    struct verbs *v = open_double(2);
    struct verbs_queue *q = add_queue(v, 1, false, 128);
    give_key(v, 1, 0, HEAP_BYTES);
    const struct verbs_message refused = {.type = VERBS_ANSWER, .pe = 1, .serial = 0, .addr = 1};
    iso_verbs_amo_nbi(&ISO->ctx_default, place_at(1, 64), (struct amo){AMO_ADD, 8, 1, 0, false}, NULL);
    bring(v, q, &refused);
    bring(v, q, &refused); /* is not read */
    listen(&said);
    iso_transport_verbs.quiet(&ISO->ctx_default);
    check_lost(v, "refused");
    CHECK_EQ(lines_with(heard(&said), "was refused: there is no segment"), 1);
    CHECK_EQ(lines_with(said.text, "[isomer"), 1);
    iso_job_mend();
    ISO->errors = SHMEMX_ERRORS_ABORT;
    close_double(v);
}

/* The network that fails while a thread waits for its lock; NULL: none. One thread of the test sets it and locks. The
 * linker's --wrap leads the library's calls of pthread_mutex_lock here. */
static struct network *fails_at_lock;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    int rc = __real_pthread_mutex_lock(lock);
    if (fails_at_lock != NULL && lock == &fails_at_lock->lock)
        fails_at_lock->failed = true;
    return rc;
}

/* A PE that ends, or has lost the network, says so to one that asks for a key, and waits for nothing: not even where
 * the network fails while it takes the lock. */
static void test_requests_at_the_end(void)
{
    struct verbs *v = open_double(2);
    char request[CHANNEL_BODY_BYTES] = {0}, answer[CHANNEL_BODY_BYTES];
    for (int round = 0; round < 5; round++) {
        struct network_key_info info = {.type = NETWORK_KEY};
        info.addr = (uint64_t)(uintptr_t)ISO->segments[SEGMENT_INDEX_HEAP].base;
        memcpy(request, &info, sizeof info);
        memset(answer, 0, sizeof answer);
        v->net.lost = round == 1;
        v->net.failed = round == 2;
        fails_at_lock = round == 4 ? &v->net : NULL;
        iso_network_answer(round == 3 ? NULL : &v->net, 1, request, answer);
        memcpy(&info, answer, sizeof info);
        CHECK_EQ(info.error != 0, round > 0);
    }
    fails_at_lock = NULL;
    v->net.failed = false;
    close_double(v);
}

/* ---- the progress thread ---- */

static bool runs(struct verbs *v)
{
    iso_verbs_lock(v);
    bool looked = v->net.looked_ns != 0;
    iso_verbs_unlock(v);
    return looked;
}

/* A signal that the program's threads block, to take it by sigwait, does not end the program. */
static void test_signals(void)
{
    const struct timespec limit = {5, 0};
    struct verbs *v = open_double(2);
    sigset_t set;
    CHECK_EQ(iso_network_thread_start(&v->net), 0);
    while (!runs(v))
        check_pause();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR1);
    CHECK_EQ(sigtimedwait(&set, NULL, &limit), SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    iso_network_thread_stop(&v->net);
    close_double(v);
}

int main(void)
{
    alarm(60); /* waits that never end are what some of this is about */
    test_credits();
    test_answers_without_slots();
    test_answers_when_requests_wait();
    test_many_peers();
    test_memory_of_one_operation();
    test_large_globals();
    test_lost();
    test_death();
    test_outlives();
    test_refused();
    test_requests_at_the_end();
    test_signals();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

#endif
