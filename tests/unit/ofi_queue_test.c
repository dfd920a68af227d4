/* SPDX-License-Identifier: MIT */
/* Messages, RMAs and errors of the libfabric transport over a double of a provider: limits that hold, messages that
 * come in any order, a provider without room, and failures that break the job where errors return: one sentence, no
 * operation that seems to have worked, no wait without an end. */
#include "../check.h"

#if !__has_include(<rdma/fabric.h>)
int main(void) { return CHECK_SKIP("no header rdma/fabric.h on this machine"); }
#else

#include "../../bootstrap/log.h"
#include "../../shmem/node/channel.h"
#include "../../shmem/node/wait.h"
#include "ofi_double.h"
#include "said.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

static void put(struct place to, void *source, size_t len, bool nbi)
{
    iso_ofi_put(&ISO->ctx_default, to, &(struct far_local){source, len, false, nbi});
}

static void get(struct place from, void *dest, size_t len)
{
    iso_ofi_get(&ISO->ctx_default, from, &(struct far_local){dest, len, false, false});
}

static const struct amo add_one = {AMO_ADD, 8, 1, 0, true};

static struct ofi_message answer_to(uint64_t serial, bool shared)
{
    return (struct ofi_message){.type = OFI_ANSWER, .op = OFI_DONE, .pe = 1, .serial = serial, .shared = shared};
}

static struct ofi_message amo_of(uint64_t serial, enum amo_op op, uint64_t operand)
{
    return (struct ofi_message){.type = OFI_FETCH,
                                .op = (uint8_t)op,
                                .bytes = 8,
                                .pe = 1,
                                .serial = serial,
                                .addr = (uint64_t)(uintptr_t)ISO->segments[SEGMENT_INDEX_HEAP].base,
                                .operand = operand};
}

/* ---- limits ---- */

/* One answer at a time, for all messages so far, once no more may be sent. */
static void answer_when_full(void)
{
    const struct ofi_queue *q = (struct ofi_queue *)(void *)ISO->ofi->net.peers[1].out[0];
    uint64_t under_way = q != NULL ? q->asks.made - q->asks.done : 0;
    CHECK(under_way <= OFI_CREDITS);
    if (under_way == OFI_CREDITS)
        bring(answer_to(q->asks.made - 1, true), NULL);
}

static void test_credits(void)
{
    struct ofi *o = open_net(2, false);
    uint64_t word = 7;
    net.on_read = answer_when_full;
    for (int i = 0; i < 10 * OFI_CREDITS; i++)
        put(place_at(1, 8), &word, sizeof word, true);
    iso_transport_ofi.quiet(&ISO->ctx_default);
    CHECK_EQ(net.n_sent, 10 * OFI_CREDITS);
    CHECK(net.n_posts < 10 * OFI_CREDITS / 4);
    CHECK_EQ(o->own, 0);
    close_net(o);
}

/* An answer that several messages share leaves alone those between them that want a value. */
static void test_shared_answers(void)
{
    struct ofi *o = open_net(2, false);
    uint64_t word = 7, before = 1;
    struct ofi_message own = answer_to(1, false);
    own.operand = 99;
    put(place_at(1, 8), &word, sizeof word, true);
    iso_ofi_amo_nbi(&ISO->ctx_default, place_at(1, 64), add_one, &before);
    put(place_at(1, 8), &word, sizeof word, true);
    bring(answer_to(2, true), NULL);
    poll_net(o);
    const struct ofi_queue *q = (struct ofi_queue *)(void *)o->net.peers[1].out[0];
    CHECK(q->asks.done == 1 && before == 1);
    bring(own, NULL);
    bring(answer_to(0, true), NULL); /* was overtaken */
    poll_net(o);
    CHECK(q->asks.done == 3 && before == 99);
    iso_transport_ofi.quiet(&ISO->ctx_default);
    close_net(o);
}

/* Behind the first few, small messages travel together: from the next poll on, or with one that wants a value. */
static void test_packs(void)
{
    enum { WORDS = 30, LEN = 3000 };
    static char data[LEN];
    struct ofi *o = open_net(3, false);
    uint64_t words[WORDS], before;
    for (uint64_t i = 0; i < WORDS; i++) {
        words[i] = i;
        put(place_at(1 + i % 2, 8 * i), &words[i], 8, true);
    }
    CHECK(net.n_sent == 2 * OFI_JOIN_MIN && net.n_posts == net.n_sent);
    poll_net(o);
    CHECK(net.n_sent == WORDS && net.n_posts == 2 * OFI_JOIN_MIN + 2 && o->packed == NULL);
    CHECK_EQ(o->counts.joined, WORDS - 2 * OFI_JOIN_MIN - 2);
    uint64_t next[2] = {0, 0};
    for (unsigned i = 0; i < WORDS; i++) {
        const struct ofi_message *m = &net.sent[i];
        uint64_t which = (m->addr - REMOTE_BASE) / 8;
        CHECK(m->token == TOKEN_OUT && m->len == 8);
        CHECK(m->serial == next[which % 2] && which == 2 * m->serial + which % 2);
        next[which % 2]++;
    }
    unsigned sent = net.n_sent, posts = net.n_posts;
    iso_ofi_amo_nbi(&ISO->ctx_default, place_at(1, 0), add_one, NULL);
    iso_ofi_amo_nbi(&ISO->ctx_default, place_at(2, 0), add_one, NULL);
    CHECK_EQ(net.n_posts, posts);
    iso_ofi_amo_nbi(&ISO->ctx_default, place_at(1, 0), add_one, &before);
    CHECK(net.n_posts == posts + 1 && net.n_sent == sent + 2 && net.sent[sent + 1].type == OFI_FETCH);
    poll_net(o);
    CHECK(net.n_posts == posts + 2 && net.n_sent == sent + 3);
    posts = net.n_posts;
    for (int i = 0; i < 5; i++) /* two of them fit, with their heads */
        put(place_at(1, 0), data, LEN, true);
    CHECK(net.n_posts == posts + 2 && net.n_sent == sent + 7);
    poll_net(o);
    CHECK(net.n_posts == posts + 3 && net.n_sent == sent + 8);
    close_net(o);
}

/* The target has applied everything that it is asked about, and answers what wants an answer now. */
static void answer_what_asks(void)
{
    const struct ofi_queue *q = (struct ofi_queue *)(void *)ISO->ofi->net.peers[1].out[0];
    if (q != NULL && q->prompt > q->asks.done)
        bring(answer_to(q->prompt - 1, true), NULL);
}

/* Signals are answered with later messages; a quiet asks for the answer, and the next signals want theirs at once. No
 * quiet of the program waits for the words of slots. */
static void test_haste(void)
{
    struct ofi *o = open_net(2, false);
    uint64_t word = 7;
    iso_ofi_signal(&ISO->ctx_default, place_at(1, 8), 1, SHMEM_SIGNAL_SET); /* nobody has heard of the peer yet */
    CHECK(net.n_sent == 1 && net.sent[0].haste == OFI_NOW);
    net.on_read = answer_what_asks;
    iso_transport_ofi.quiet(&ISO->ctx_default);
    CHECK(net.n_sent == 1 && o->peers[1].heard);

    const struct ofi_queue *q = (struct ofi_queue *)(void *)o->net.peers[1].out[0];
    iso_ofi_signal(&ISO->ctx_words, place_at(1, 8), 2, SHMEM_SIGNAL_SET);
    iso_ofi_put_words(&ISO->ctx_words, place_at(1, 64), &word, sizeof word);
    CHECK(net.n_sent == 3 && net.sent[1].haste == OFI_NEVER_WANTED && net.sent[2].haste == OFI_NEVER_WANTED);
    iso_transport_ofi.quiet(&ISO->ctx_default);
    CHECK(net.n_sent == 3 && q->asks.made - q->asks.done == 2 && q->due == 0);
    iso_ofi_signal(&ISO->ctx_default, place_at(1, 8), 3, SHMEM_SIGNAL_SET);
    CHECK(net.n_sent == 4 && net.sent[3].haste == OFI_LATER);
    poll_net(o);
    CHECK_EQ(q->asks.made - q->asks.done, 3);
    iso_transport_ofi.quiet(&ISO->ctx_default);
    CHECK(net.n_sent == 5 && net.sent[4].type == OFI_FLUSH && q->asks.made == q->asks.done);
    for (unsigned i = 0; i < OFI_CREDITS; i++) {
        iso_ofi_signal(&ISO->ctx_default, place_at(1, 8), 4, SHMEM_SIGNAL_SET);
        poll_net(o);
        CHECK_EQ(net.sent[5 + i].haste, OFI_NOW);
    }
    iso_ofi_signal(&ISO->ctx_default, place_at(1, 8), 5, SHMEM_SIGNAL_SET);
    CHECK_EQ(net.sent[5 + OFI_CREDITS].haste, OFI_LATER);
    iso_ofi_signal(&ISO->ctx_words, place_at(1, 8), 6, SHMEM_SIGNAL_SET);
    iso_transport_ofi.quiet(&ISO->ctx_words); /* of all */
    CHECK(q->asks.made == q->asks.done && q->due == 0);
    close_net(o);
}

/* Half a window of messages that can wait has one answer, and a flush has one at once. */
static void test_late_answers(void)
{
    struct ofi *o = open_net(2, false);
    struct ofi_message m = amo_of(0, AMO_ADD, 1);
    m.type = OFI_AMO;
    m.haste = OFI_LATER;
    for (; m.serial < 3 * OFI_CREDITS / 2; m.serial++) {
        bring(m, NULL);
        poll_net(o);
        CHECK_EQ(net.n_sent, (m.serial + 1) / (OFI_CREDITS / 2));
    }
    for (uint64_t i = 0; i < 5; i++, m.serial++)
        bring(m, NULL);
    poll_net(o);
    CHECK_EQ(net.n_sent, 3);
    m.type = OFI_FLUSH;
    m.haste = OFI_NOW;
    bring(m, NULL);
    poll_net(o);
    CHECK(net.n_sent == 4 && net.sent[3].type == OFI_ANSWER && net.sent[3].op == OFI_DONE && net.sent[3].shared == 1);
    CHECK_EQ(net.sent[3].serial, m.serial);
    uint64_t word;
    memcpy(&word, ISO->segments[SEGMENT_INDEX_HEAP].base, sizeof word);
    CHECK_EQ(word, m.serial);
    close_net(o);
}

/* Data and its signal: one message of the provider while both fit. */
static void test_put_signal(void)
{
    static char data[2 * OFI_DATA_BYTES];
    const size_t most = OFI_DATA_BYTES - sizeof(struct ofi_message);
    const size_t sizes[] = {1, 8, most, most + 1, OFI_DATA_BYTES + 9};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct ofi *o = open_net(2, false);
        struct far_message m = {.to = place_at(1, 64), .at = place_at(1, 8), .source = data, .len = sizes[i],
                                .signal = 77, .sig_op = SHMEM_SIGNAL_ADD, .nbi = i % 2 != 0};
        iso_ofi_put_signal(&ISO->ctx_default, &m, &(struct far_local){data, sizes[i], false, m.nbi});
        unsigned puts = sizes[i] <= OFI_DATA_BYTES ? 1 : 2;
        CHECK(net.n_sent == puts + 1 && net.n_posts == (sizes[i] <= most ? 1 : puts + 1) && o->packed == NULL);
        CHECK(net.sent[0].type == OFI_PUT && net.sent[0].addr == REMOTE_BASE + 64);
        const struct ofi_message *signal = &net.sent[puts];
        CHECK(signal->type == OFI_AMO && signal->addr == REMOTE_BASE + 8 && signal->operand == 77 &&
              signal->serial == puts);
        close_net(o);
    }
}

/* RMAs to device memory that does not show writes in their order: a flush there comes before what must follow them,
 * once. Device memory of this PE goes by RMA, whatever its size. */
static void test_device_memory(void)
{
    static char data[OFI_BULK_MIN];
    struct ofi *o = open_net(2, false);
    const struct network_key key = {.start = REMOTE_BASE, .end = REMOTE_BASE + HEAP_BYTES, .key = 1, .flushes = 1};
    struct far_local small = {ISO->segments[SEGMENT_INDEX_HEAP].base, 8, true, true};
    o->staged = false;
    CHECK_OR_EXIT(iso_range_add(&o->net.peers[1].keys, sizeof key, &key) != NULL);
    put(place_at(1, 0), data, sizeof data, true);
    CHECK(net.n_writes == 1 && net.n_sent == 0);
    const struct ofi_queue *q = (struct ofi_queue *)(void *)o->net.peers[1].out[0];
    for (uint64_t i = 0; i < 2; i++)
        iso_ofi_signal(&ISO->ctx_default, place_at(1, 8), i, SHMEM_SIGNAL_SET);
    poll_net(o);
    CHECK(net.n_sent == 3 && net.sent[0].type == OFI_FLUSH && net.sent[0].op == 1);
    CHECK(net.sent[1].type == OFI_AMO && net.sent[2].type == OFI_AMO);
    net.on_read = answer_what_asks;
    iso_ofi_put(&ISO->ctx_default, place_at(1, 0), &small);
    CHECK(net.n_writes == 2 && net.n_sent == 3);
    iso_transport_ofi.quiet(&ISO->ctx_default);
    CHECK(net.n_sent == 5 && net.sent[3].op == 1 && net.sent[4].type == OFI_FLUSH && net.sent[4].op == 0);
    CHECK(q->asks.made == q->asks.done && !q->unflushed);
    iso_ofi_put(&ISO->ctx_default, place_at(1, 0), &small);
    iso_transport_ofi.fence(&ISO->ctx_default);
    CHECK(net.n_writes == 3 && net.n_sent == 6 && net.sent[5].op == 1);
    close_net(o);
}

/* Many data with signals go out without a wait: each signal follows its data by itself, in the queue's order. */
static void test_signals_follow(void)
{
    static char data[OFI_BULK_MIN];
    struct ofi *o = open_net(2, false);
    const struct network_key key = {.start = REMOTE_BASE, .end = REMOTE_BASE + HEAP_BYTES, .key = 1};
    const struct far_local source = {data, sizeof data, false, true};
    struct far_message m = {.to = place_at(1, 64), .at = place_at(1, 8), .len = sizeof data, .nbi = true};
    o->staged = false;
    CHECK_OR_EXIT(iso_range_add(&o->net.peers[1].keys, sizeof key, &key) != NULL);
    for (m.signal = 0; m.signal < 8; m.signal++)
        iso_ofi_put_signal(&ISO->ctx_default, &m, &source);
    iso_ofi_amo_nbi(&ISO->ctx_default, place_at(1, 16), add_one, NULL); /* behind them, since they came first */
    CHECK(net.n_writes == 8 && net.n_sent == 0);
    poll_net(o);
    CHECK_EQ(net.n_sent, 9);
    for (unsigned i = 0; i < net.n_sent; i++)
        CHECK(net.sent[i].serial == i && net.sent[i].operand == (i < 8 ? i : 1));
    net.on_read = answer_what_asks;
    iso_transport_ofi.quiet(&ISO->ctx_default);
    CHECK_EQ(o->own, 0);
    close_net(o);
}

/* Memory that the provider does not take goes by messages, and so does the rest of the device's. */
static void test_device_refused(void)
{
    struct ofi *o = open_net(2, false);
    struct segment *s = &ISO->segments[SEGMENT_INDEX_HEAP];
    const struct network_key key = {.start = REMOTE_BASE, .end = REMOTE_BASE + HEAP_BYTES, .key = 1};
    struct network_key_info info = {.type = NETWORK_KEY, .addr = (uint64_t)(uintptr_t)s->base};
    CHECK_OR_EXIT(iso_range_add(&o->net.peers[1].keys, sizeof key, &key) != NULL);
    s->on_device = true;
    s->kind = SEGMENT_LOCAL; /* one range, without a device */
    CHECK(!iso_network_moves_device(&o->net, place_at(1, 0), s->base, 8) && net.registered == 0);
    o->net.device_direct = true;
    CHECK(iso_network_moves_device(&o->net, place_at(1, 0), s->base, HEAP_BYTES) && o->net.regions.n > 0);
    iso_network_forget(&o->net, s);
    net.register_error = ENOMEM;
    CHECK(!iso_network_moves_device(&o->net, place_at(1, 0), s->base, 8) && !o->net.device_direct);
    CHECK(strstr(o->device_why, strerror(ENOMEM)) != NULL);
    net.register_error = 0;
    CHECK_EQ(iso_ofi_make_key(1, s, s->base, &info.key), 0);
    CHECK(info.key.by_cpu == 1 && info.key.start <= info.addr && info.addr < info.key.end);
    s->on_device = false;
    close_net(o);
}

/* At the target they are messages like others: each in its turn, and one answer for all. */
static void test_packs_at_target(void)
{
    struct ofi *o = open_net(2, false);
    uint64_t words[] = {11, 12, 13}, there[3];
    struct ofi_message m = {.type = OFI_PUT, .pe = 1, .len = 8};
    m.addr = (uint64_t)(uintptr_t)ISO->segments[SEGMENT_INDEX_HEAP].base;
    m.serial = 1;
    bring(m, &words[1]);
    m.serial = 2;
    m.addr += 8;
    bring_behind(m, &words[2]);
    poll_net(o);
    CHECK(net.n_sent == 0 && o->counts.held == 2);
    m.serial = 0;
    m.addr -= 8;
    bring(m, &words[0]);
    poll_net(o);
    memcpy(there, ISO->segments[SEGMENT_INDEX_HEAP].base, sizeof there);
    CHECK(there[0] == 12 && there[1] == 13 && there[2] == 0);
    CHECK(net.n_sent == 1 && net.sent[0].serial == 2 && net.sent[0].shared == 1);
    m.serial = 3;
    bring(m, &words[0]);
    m.serial = 4;
    bring_behind(m, &words[0]);
    net.queue[(net.made - 1) % NET_QUEUE].entry.len -= 1; /* the second one is longer than what is there */
    poll_net(o);
    CHECK(o->counts.strangers == 1 && o->peers[1].in[0].expected == 4);
    close_net(o);
}

/* The provider has no room, again and again: nothing is lost, and the order of a peer stays. */
static void test_refusals(void)
{
    struct ofi *o = open_net(3, false);
    uint64_t word = 7;
    for (int i = 0; i < 40; i++) {
        net.refusals = (unsigned)i % 3;
        put(place_at(1 + i % 2, 8), &word, sizeof word, true);
    }
    for (int i = 0; i < 4; i++)
        poll_net(o);
    CHECK_EQ(net.n_sent, 40);
    uint64_t next[3] = {0};
    for (unsigned i = 0; i < net.n_sent; i++) {
        int pe = net.sent[i].addr == REMOTE_BASE + 8 && net.sent[i].serial == next[1] ? 1 : 2;
        CHECK_EQ(net.sent[i].serial, next[pe]);
        next[pe]++;
    }
    CHECK(next[1] == 20 && next[2] == 20 && o->first_waiting == -1);
    close_net(o);
}

/* What other PEs read of the wait. */
static struct wait_record shown;

static void free_part_when_shown(void)
{
    shown = ISO->control->waits[0];
    ISO->ofi->peers[1].free_parts = shown.since_ns != 0;
}

/* A wait for room has that name in reports. The number that it expects is small where no message is under way. */
static void test_wait_for_room(void)
{
    static char data[OFI_BULK_MIN];
    struct ofi *o = open_net(2, false);
    ISO->control = (struct control *)aligned_alloc(ISO_LINE, sizeof(struct control));
    CHECK_OR_EXIT(ISO->control != NULL);
    memset(ISO->control, 0, sizeof(struct control));
    o->peers[1].free_parts = 0;
    net.on_read = free_part_when_shown;
    put(place_at(1, 0), data, sizeof data, true);
    net.on_read = NULL;
    CHECK(net.n_writes == 1 && ISO->control->waits[0].since_ns == 0);
    CHECK(strcmp((const char *)shown.call, "room for an operation") == 0 && shown.peer == 1);
    CHECK(shown.expected == 1 && shown.seen == 0);
    free(ISO->control);
    ISO->control = NULL;
    close_net(o);
}

static struct { /* atomic: several threads sleep in other tests */
    unsigned n;
    long last_ns;
} naps;

int __real_nanosleep(const struct timespec *t, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest)
{
    __atomic_fetch_add(&naps.n, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&naps.last_ns, t->tv_nsec, __ATOMIC_RELAXED);
    return __real_nanosleep(t, rest);
}

/* No event of the descriptor says when the provider has room, so a wait naps without it. While all is lost the
 * descriptor is not used either. */
static void test_rest_without_room(void)
{
    struct ofi *o = open_net(2, false);
    uint64_t word = 7;
    o->fd = eventfd(1, EFD_NONBLOCK); /* readable: no rest lasts */
    net.refusals = 1;
    put(place_at(1, 8), &word, sizeof word, true);
    for (int round = 0; round < 2; round++) {
        unsigned before = __atomic_load_n(&naps.n, __ATOMIC_RELAXED);
        o->net.lost = round == 1;
        CHECK(iso_ofi_rest(900000000) && __atomic_load_n(&naps.last_ns, __ATOMIC_RELAXED) <= 1000000);
        CHECK(iso_ofi_rest(7) && __atomic_load_n(&naps.last_ns, __ATOMIC_RELAXED) == 7);
        CHECK(__atomic_load_n(&naps.n, __ATOMIC_RELAXED) - before == 2 && net.trywaits == 0);
        o->first_waiting = round == 0 ? -1 : 1;
    }
    o->net.lost = false;
    unsigned before = __atomic_load_n(&naps.n, __ATOMIC_RELAXED);
    poll_net(o);
    CHECK(net.n_sent == 1 && o->first_waiting < 0 && iso_ofi_rest(7) && net.trywaits == 1);
    CHECK_EQ(__atomic_load_n(&naps.n, __ATOMIC_RELAXED), before);
    close(o->fd);
    close_net(o);
}

/* ---- the end ---- */

/* A warning says that the endpoint does not close: the provider may still write to memory of this PE. */
static void test_open_endpoint(void)
{
    struct said said;
    struct ofi *o = open_net(2, false);
    net.close_error = FI_EBUSY;
    listen(&said);
    iso_ofi_endpoint_close(o);
    CHECK_EQ(lines_with(heard(&said), "fi_close of the endpoint of double failed: Device or resource busy"), 1);
    close_net(o);
}

/* The transport ends: the endpoint is closed behind the registrations that are bound to it, and before the pages of a
 * stage go, to which peers may write until then. One line tells its counts. */
static void test_stop(void)
{
    struct said said;
    for (int bind = 0; bind < 2; bind++) {
        static char data[OFI_BULK_MIN];
        struct ofi *o = open_net_with(2, true, bind != 0);
        struct network_key key;
        put(place_at(1, 0), data, sizeof data, true);
        CHECK_EQ(iso_ofi_answer_stage(o, 1, &key), 0);
        net.stage = o->peers[1].stage;
        CHECK(net.stage != NULL && net.registered > 1 && net.bound == (bind != 0 ? net.registered : 0));
        iso_log_set_level(LOG_DEBUG);
        listen(&said);
        iso_transport_ofi.stop();
        iso_log_set_level(LOG_WARN);
        CHECK_EQ(lines_with(heard(&said), "ofi: libfabric double at "), 1);
        CHECK(ISO->ofi == NULL && net.closed_eps == 1 && net.closed_mrs == net.registered);
        CHECK(net.stage_was_there);
        close_heap();
    }
}

/* A start that fails has no counts to tell. */
static void test_failed_start(void)
{
    struct said said;
    struct ofi *o = (struct ofi *)calloc(1, sizeof *o);
    CHECK_OR_EXIT(o != NULL);
    o->fd = o->first_waiting = -1;
    CHECK_EQ(iso_network_open(&o->net, &iso_ofi_port), 0);
    ISO->ofi = o;
    iso_log_set_level(LOG_DEBUG);
    listen(&said);
    iso_transport_ofi.stop();
    iso_log_set_level(LOG_WARN);
    CHECK_EQ(lines_with(heard(&said), "ofi: "), 0);
    CHECK(ISO->ofi == NULL);
}

/* ---- the thread ---- */

/* While it sleeps without an end, what is posted wakes it: a provider may repeat lost packets in calls alone. */
static void test_wakes_thread(void)
{
    struct ofi *o = open_net(2, false);
    uint64_t word = 7, wakes = 0;
    o->net.wake = eventfd(0, EFD_NONBLOCK);
    o->asleep = true;
    for (int i = 0; i < 2; i++)
        put(place_at(1, 8), &word, sizeof word, true);
    CHECK(!o->asleep && read(o->net.wake, &wakes, sizeof wakes) == sizeof wakes && wakes == 1);
    close(o->net.wake);
    close_net(o);
}

static bool soon(struct ofi *o, bool (*is_so)(const struct ofi *o))
{
    uint64_t limit_ns = iso_clock_now_ns() + 10000000000u;
    for (bool is = false;; check_pause()) {
        iso_ofi_lock(o);
        is = is_so(o);
        iso_ofi_unlock(o);
        if (is || iso_clock_now_ns() > limit_ns)
            return is;
    }
}

static bool sleeps(const struct ofi *o) { return o->asleep; }
static bool has_looked(const struct ofi *o) { return !o->asleep && net.reads >= 4; }
static bool heeds_wake(const struct ofi *o)
{
    struct pollfd fd = {o->net.wake, POLLIN, 0};
    return poll(&fd, 1, 0) == 0;
}

/* The thread sleeps without an end, wakes, and looks again and again while something is under way. */
static void test_thread_wakes(void)
{
    struct ofi *o = open_net(2, false);
    uint64_t word = 7;
    o->fd = eventfd(0, EFD_NONBLOCK); /* nothing comes */
    net.held = true;
    CHECK_EQ(iso_network_thread_start(&o->net), 0);
    CHECK(soon(o, sleeps));
    iso_ofi_lock(o);
    net.reads = 0;
    iso_ofi_unlock(o);
    put(place_at(1, 8), &word, sizeof word, true);
    CHECK(soon(o, has_looked));
    CHECK(soon(o, heeds_wake));
    iso_network_thread_stop(&o->net);
    close(o->fd);
    close_net(o);
}

static void bring_one(void)
{
    static uint64_t serial;
    struct ofi_message m = amo_of(ISO->ofi->peers[1].in == NULL ? serial = 0 : serial, AMO_ADD, 1);
    m.type = OFI_AMO;
    serial++;
    bring(m, NULL);
}

/* Messages come without an end: calls of this PE get the lock all the same. */
static void test_thread_and_calls(void)
{
    struct ofi *o = open_net(2, false);
    net.on_read = bring_one;
    CHECK_EQ(iso_network_thread_start(&o->net), 0);
    for (uint64_t messages = 0, before; messages < 1000; messages = before) {
        iso_ofi_lock(o);
        before = o->peers[1].in != NULL ? o->peers[1].in[0].expected : 0;
        iso_ofi_unlock(o);
        check_pause();
    }
    iso_network_thread_stop(&o->net);
    net.on_read = NULL;
    close_net(o);
}

/* ---- at the target ---- */

/* All messages of a window, in random order, each time another one. Each tells what was there before it. */
static void test_order(void)
{
    struct ofi *o = open_net(2, false);
    struct check_random random = check_random_stream(1);
    uint64_t order[OFI_CREDITS], answered = 0;
    for (uint64_t round = 0; round < 20; round++) {
        for (uint64_t i = 0; i < OFI_CREDITS; i++) {
            uint64_t j = check_random_below(&random, i + 1);
            order[i] = order[j];
            order[j] = round * OFI_CREDITS + i;
        }
        for (int i = 0; i < OFI_CREDITS; i++) {
            bring(amo_of(order[i], AMO_SWAP, order[i] + 1), NULL);
            poll_net(o);
        }
        for (; answered < net.n_sent; answered++) {
            const struct ofi_message *m = &net.sent[answered % NET_SENT];
            CHECK(m->type == OFI_ANSWER && m->serial == answered && m->operand == answered);
        }
        CHECK_EQ(answered, (round + 1) * OFI_CREDITS);
    }
    CHECK(o->counts.held > 0 && o->peers[1].in[0].held == NULL);
    close_net(o);
}

/* The pieces of a registered buffer are segments that follow one another, and end elsewhere on another node. */
static void test_pieces(void)
{
    enum { PIECE = 4096, LEN = 100, SHIFT = 37 };
    struct ofi *o = open_net(2, false);
    struct segment *first = &ISO->segments[SEGMENT_INDEX_HEAP], *second = &ISO->segments[SEGMENT_INDEX_LOCAL];
    unsigned char data[LEN];
    check_random_fill(&(struct check_random){7}, data, LEN);
    *second = (struct segment){.base = first->base + PIECE, .limit = PIECE, .len = PIECE, .kind = SEGMENT_LOCAL};
    first->limit = PIECE;
    char *at = second->base - SHIFT, *end = second->base + PIECE;
    struct ofi_message m = {.type = OFI_PUT, .pe = 1, .addr = (uint64_t)(uintptr_t)at, .len = LEN};
    bring(m, data);
    poll_net(o);
    CHECK(net.n_sent == 1 && net.sent[0].op == OFI_DONE);
    CHECK_BYTES(at, data, LEN);
    CHECK(at[-1] == 0 && at[LEN] == 0);
    m = (struct ofi_message){.type = OFI_GET, .pe = 1, .serial = 1, .addr = m.addr, .len = LEN};
    bring(m, NULL);
    poll_net(o);
    CHECK(net.n_sent == 2 && net.sent[1].op == OFI_DONE && net.sent[1].len == LEN);
    CHECK_BYTES(net.last_data, data, LEN);
    m = (struct ofi_message){.type = OFI_PUT, .pe = 1, .serial = 2, .len = LEN};
    m.addr = (uint64_t)(uintptr_t)end - SHIFT;
    bring(m, data);
    poll_net(o);
    CHECK(net.n_sent == 3 && net.sent[2].op == OFI_REFUSED && end[-SHIFT] == 0 && end[0] == 0);
    close_net(o);
}

/* PE 1 has this PE's address and token by a request, and its answer is slower than its first messages. */
static void test_early_messages(void)
{
    struct ofi *o = open_net(2, false);
    struct ofi_hello hello = {.type = OFI_HELLO, .token = 99, .provider = "double"}, answer;
    unsigned char request[CHANNEL_BODY_BYTES] = {0}, back[CHANNEL_BODY_BYTES];
    o->peers[1].known = false;
    for (uint64_t i = 0; i < 3; i++)
        bring(amo_of(2 - i, AMO_SWAP, 3 - i), NULL);
    poll_net(o);
    CHECK(net.n_sent == 0 && o->counts.strangers == 0);
    memcpy(request, &hello, sizeof hello);
    iso_network_answer(&o->net, 1, request, back);
    memcpy(&answer, back, sizeof answer);
    CHECK(answer.error == 0 && answer.token == TOKEN_IN && o->peers[1].known);
    poll_net(o);
    CHECK_EQ(net.n_sent, 3);
    for (unsigned i = 0; i < net.n_sent; i++)
        CHECK(net.sent[i].serial == i && net.sent[i].operand == i && net.sent[i].token == 99);
    bring(amo_of(3, AMO_SWAP, 4), NULL);
    poll_net(o);
    CHECK_EQ(net.n_sent, 4);
    close_net(o);
}

static void test_strangers(void)
{
    struct said said;
    struct ofi *o = open_net(2, false);
    struct ofi_message m = amo_of(0, AMO_SWAP, 7);
    listen(&said);
    bring(m, NULL);
    memset(net.buffers[0] + offsetof(struct ofi_message, token), 0, 8);
    m.pe = 2; /* there is none */
    bring(m, NULL);
    m.pe = 1;
    m.type = OFI_PUT; /* says that it is longer */
    m.len = 8;
    bring(m, "1234567");
    net.queue[2].entry.len -= 1;
    poll_net(o);
    CHECK_EQ(lines_with(heard(&said), "does not come from a PE of this job"), 1);
    CHECK(o->counts.strangers == 3 && o->peers[1].in == NULL && net.n_sent == 0);
    close_net(o);
}

/* In place of libc's. */
static bool no_random;
ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
    errno = ENOSYS;
    return no_random ? -1 : syscall(SYS_getrandom, bytes, len, flags);
}

/* A key that can be guessed is no key. */
static void test_no_random_key(void)
{
    static char bytes[64];
    struct said said;
    struct fid_mr *mr = NULL;
    struct ofi *o = open_net(2, false);
    unsigned before = net.registered;
    o->prov_key = false;
    no_random = true;
    listen(&said);
    CHECK(iso_ofi_register(o, bytes, sizeof bytes, OFI_REMOTE, &mr) < 0 && mr == NULL && net.registered == before);
    CHECK_EQ(lines_with(heard(&said), "the system gives no random bytes"), 1);
    no_random = false;
    close_net(o);
}

/* ---- errors that return ---- */

static void begin_fault(struct said *said)
{
    ISO->errors = SHMEMX_ERRORS_RETURN;
    listen(said);
}

/* One sentence, however much fails behind it; then all is without effect, and nothing waits. */
static void end_fault(struct ofi *o, struct said *said, const char *word)
{
    static char large[2 * OFI_BULK_MIN];
    uint64_t mine = 7;
    unsigned sent = net.n_sent, moved = net.n_writes + net.n_reads;
    bool lost = o->net.lost && iso_job_is_broken() && strstr(ISO->broken.cause.why, word) != NULL;
    net_complete(NULL, 0, EIO);
    poll_net(o);
    for (int i = 0; i < 2 * OFI_CREDITS; i++)
        put(place_at(1, 8), &mine, sizeof mine, true);
    put(place_at(1, 8), large, sizeof large, false);
    get(place_at(1, 8), &mine, sizeof mine);
    get(place_at(1, 8), large, sizeof large);
    iso_ofi_signal(&ISO->ctx_default, place_at(1, 8), 1, SHMEM_SIGNAL_ADD);
    uint64_t before = iso_ofi_amo(&ISO->ctx_default, place_at(1, 64), add_one);
    iso_transport_ofi.fence(&ISO->ctx_default);
    iso_transport_ofi.quiet(&ISO->ctx_default);
    int times = lines_with(heard(said), word), lines = lines_with(said->text, "[isomer");
    if (!CHECK_NAMED(lost && times == 1 && lines == 1, word))
        fprintf(stderr, "said: %s", said->text);
    CHECK_NAMED(net.n_sent == sent && net.n_writes + net.n_reads == moved && mine == 7 && before == 0, word);
    CHECK_EQ_NAMED(net.closed_eps, 1, word); /* the provider leaves memory alone */
    iso_job_mend();
    ISO->errors = SHMEMX_ERRORS_ABORT;
    close_net(o);
}

static void test_lost_messages(void)
{
    struct said said;
    struct ofi *o = open_net(2, false);
    begin_fault(&said);
    bring(amo_of(0, AMO_SWAP, 1), NULL);
    bring(amo_of(OFI_CREDITS + 1, AMO_SWAP, 2), NULL); /* one before it can never come */
    bring(amo_of(1, AMO_SWAP, 3), NULL);
    poll_net(o);
    uint64_t word;
    memcpy(&word, ISO->segments[SEGMENT_INDEX_HEAP].base, sizeof word);
    CHECK_EQ(word, 1);
    end_fault(o, &said, "message 65 of pe 1 (host ) has come where pe 0 (host ) expects 1");

    o = open_net(2, false);
    begin_fault(&said);
    bring(amo_of(0, AMO_SWAP, 1), NULL);
    bring(amo_of(0, AMO_SWAP, 1), NULL); /* twice */
    poll_net(o);
    end_fault(o, &said, "message 0 of pe 1 (host ) has come where pe 0 (host ) expects 1");
}

/* The answer of peer 1, which is asked for its address. */
static struct ofi_hello hello_of_peer;

int __wrap_iso_channel_ask(int pe, const void *request, void *answer);
int __wrap_iso_channel_ask(int pe, const void *request, void *answer)
{
    struct ofi_hello asked;
    memcpy(&asked, request, sizeof asked);
    CHECK(pe == 1 && asked.type == OFI_HELLO);
    memcpy(answer, &hello_of_peer, sizeof hello_of_peer);
    return 0;
}

/* The addresses of two PEs, or their providers, do not fit. Either PE may find out, and the sentence says which. */
static void test_unlike_peers(void)
{
    struct said said;
    uint64_t word = 7;
    for (int round = 0; round < 4; round++) {
        const char *provider = round / 2 == 0 ? "double" : "another";
        uint32_t format = round / 2 == 0 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
        struct ofi *o = open_net(2, false);
        net.info.addr_format = FI_SOCKADDR_IN;
        o->peers[1].known = false;
        hello_of_peer = (struct ofi_hello){.token = 99, .format = format, .error = round % 2 == 0 ? 0 : -EPROTO};
        snprintf(hello_of_peer.provider, sizeof hello_of_peer.provider, "%s", provider);
        begin_fault(&said);
        put(place_at(1, 8), &word, sizeof word, true);
        CHECK(!o->peers[1].known && net.n_sent == 0);
        end_fault(o, &said, round / 2 == 0 ? "an address of libfabric's format 2 and pe 1 (host ) one of format 3"
                                           : "provider double and pe 1 (host ) uses another: they cannot talk");
    }
}

static void test_wrong_answers(void)
{
    struct said said;
    uint64_t word = 7;
    struct ofi *o = open_net(2, false);
    begin_fault(&said);
    iso_ofi_amo_nbi(&ISO->ctx_default, place_at(1, 64), add_one, &word);
    struct ofi_message refused = answer_to(0, false);
    refused.op = OFI_REFUSED;
    refused.addr = 0x10000000040;
    bring(refused, NULL);
    iso_transport_ofi.quiet(&ISO->ctx_default); /* ends */
    end_fault(o, &said, "an operation at address 0x10000000040 from pe 0");

    o = open_net(2, false); /* the refusal is overtaken by an answer to it and the next one */
    begin_fault(&said);
    put(place_at(1, 8), &word, sizeof word, true);
    put(place_at(1, 64), &word, sizeof word, true);
    bring(answer_to(1, true), NULL);
    poll_net(o);
    bring(refused, NULL);
    poll_net(o);
    end_fault(o, &said, "an operation at address 0x10000000040 from pe 0");

    o = open_net(2, false);
    begin_fault(&said);
    bring(answer_to(3, true), NULL);
    poll_net(o);
    end_fault(o, &said, "an answer to message 3 has come, which was not sent");
}

static void test_provider_errors(void)
{
    struct said said;
    uint64_t word = 7;
    struct ofi *o = open_net(2, false);
    begin_fault(&said);
    net.post_error = ENETDOWN;
    put(place_at(1, 8), &word, sizeof word, true);
    net.post_error = 0;
    end_fault(o, &said, "failed: Network is down");

    o = open_net(2, false);
    begin_fault(&said);
    net.complete_error = ECONNRESET;
    put(place_at(1, 8), &word, sizeof word, true);
    iso_transport_ofi.quiet(&ISO->ctx_default);
    end_fault(o, &said, "failed: Connection reset by peer (the double)");
}

/* A provider that wants local memory registered, and cannot. */
static void test_no_memory(void)
{
    static char large[2 * OFI_BULK_MIN];
    struct said said;
    uint64_t word = 7;
    struct ofi *o = open_net(2, true);
    begin_fault(&said);
    put(place_at(1, 8), &word, sizeof word, true); /* operations are there */
    net.register_error = ENOMEM;
    put(place_at(1, 8), large, sizeof large, true);
    net.register_error = 0;
    end_fault(o, &said, "registering 65536 bytes at ");

    o = open_net(2, true);
    begin_fault(&said);
    net.register_error = ENOMEM;
    net.held = true; /* operations are not free again */
    for (int i = 0; i < OFI_CREDITS && !o->net.lost; i++)
        put(place_at(1, 8), &word, sizeof word, true);
    net.register_error = 0;
    end_fault(o, &said, "pe 0 (host ) has no memory for the messages of libfabric");

    o = open_net(2, true); /* for the answers to a peer */
    begin_fault(&said);
    net.register_error = ENOMEM;
    net.held = true;
    for (uint64_t i = 0; i < OFI_CREDITS && !o->net.lost; i++) {
        bring(amo_of(i, AMO_ADD, 1), NULL);
        poll_net(o);
    }
    net.register_error = 0;
    end_fault(o, &said, "pe 0 (host ) has no memory for the messages of libfabric");
}

/* The channel says that a peer died, and the provider's error is only what follows. */
static void test_death(void)
{
    struct said said;
    uint64_t word = 7;
    pthread_t thread;
    struct ofi *o = open_net(2, false);
    begin_fault(&said);
    CHECK_OR_EXIT(pthread_create(&thread, NULL, find_death, NULL) == 0);
    net.complete_error = ECONNRESET;
    put(place_at(1, 8), &word, sizeof word, true);
    iso_transport_ofi.quiet(&ISO->ctx_default);
    pthread_join(thread, NULL);
    CHECK_EQ(strlen(heard(&said)), 0);
    CHECK(o->net.lost && net.closed_eps == 1 && strcmp(ISO->broken.cause.why, "pe 1 died") == 0);
    iso_job_mend();
    ISO->errors = SHMEMX_ERRORS_ABORT;
    close_net(o);
}

/* Where this PE masks deaths, only what is under way to the dead PE is over: what the provider still has of it may fail
 * later, and its answers may come; the messages to the others go on. */
static void test_outlives(void)
{
    static char large[2 * OFI_BULK_MIN];
    struct said said;
    uint64_t word = 7;
    struct ofi *o = open_net(3, true);
    struct ofi_message answer = answer_to(0, true);
    begin_fault(&said);
    iso_job_mask(true);
    net.held = true; /* the provider never completes these */
    put(place_at(1, 8), large, sizeof large, true); /* with a message that follows it */
    put(place_at(1, 8), &word, sizeof word, true);
    net.held = false;
    put(place_at(2, 8), &word, sizeof word, true);
    net.complete_error = ECONNRESET;
    net.refusals = 1;
    put(place_at(1, 8), &word, sizeof word, true); /* waits to be posted */
    iso_transport_ofi.pe_quiet(&ISO->ctx_default, 1);
    net.complete_error = 0;
    CHECK(iso_job_outlives() && ISO->broken.cause.pe == 1 && !o->net.lost && net.closed_eps == 0);
    CHECK(lines_with(heard(&said), "failed: Connection reset by peer") == 1 && lines_with(said.text, "[isomer") == 1);
    unsigned sent = net.n_sent, moved = net.n_writes + net.n_reads;
    for (int i = 0; i < 2 * OFI_CREDITS; i++)
        put(place_at(1, 8), &word, sizeof word, true);
    put(place_at(1, 8), large, sizeof large, false);
    get(place_at(1, 8), large, sizeof large);
    iso_ofi_signal(&ISO->ctx_default, place_at(1, 8), 1, SHMEM_SIGNAL_ADD);
    CHECK_EQ(iso_ofi_amo(&ISO->ctx_default, place_at(1, 64), add_one), 0);
    iso_transport_ofi.pe_quiet(&ISO->ctx_default, 1);
    CHECK(net.n_sent == sent && net.n_writes + net.n_reads == moved && o->first_waiting < 0);
    bring(answer, NULL);
    bring(amo_of(0, AMO_ADD, 1), NULL); /* is applied, and not answered */
    answer.pe = 2;
    bring(answer, NULL);
    iso_transport_ofi.quiet(&ISO->ctx_default);
    put(place_at(2, 8), &word, sizeof word, true);
    CHECK(net.n_sent == sent + 1 && !o->net.lost);
    iso_job_mend();
    ISO->errors = SHMEMX_ERRORS_ABORT;
    close_net(o);
}

/* ---- one thread finds it, and another one waits ---- */

static bool begins; /* atomic */

static void *fail_slowly(void *argument)
{
    struct ofi *o = (struct ofi *)argument;
    iso_ofi_lock(o);
    __atomic_store_n(&begins, true, __ATOMIC_RELEASE);
    net_complete(NULL, 0, EIO);
    iso_ofi_poll(o);
    iso_ofi_unlock(o);
    return NULL;
}

/* No operation returns without effect before the job is broken, so that its caller can learn of it. A second failure
 * meanwhile is not said. */
static void test_two_threads(void)
{
    struct said said;
    uint64_t word = 7;
    pthread_t thread;
    struct ofi *o = open_net(2, false);
    begin_fault(&said);
    CHECK_OR_EXIT(pthread_create(&thread, NULL, fail_slowly, o) == 0);
    while (!__atomic_load_n(&begins, __ATOMIC_ACQUIRE))
        check_pause();
    iso_ofi_lock(o); /* which the thread gives up when it has failed */
    iso_network_lose(&o->net, -1, "this follows from it");
    iso_ofi_unlock(o);
    get(place_at(1, 8), &word, sizeof word);
    CHECK(iso_job_is_broken() && word == 7);
    pthread_join(thread, NULL);
    end_fault(o, &said, "receiving a message by double of pe 0 (host ) failed: Input/output error (the double)");
}

/* A PE may ask twice: the second answer is the first one again. */
static void test_requests_twice(void)
{
    struct ofi *o = open_net(2, false);
    char request[CHANNEL_BODY_BYTES] = {0}, answer[CHANNEL_BODY_BYTES];
    uint64_t starts[4];
    for (int round = 0; round < 4; round++) {
        struct network_key_info info = {.type = round % 2 == 0 ? (uint32_t)NETWORK_KEY : (uint32_t)OFI_STAGE};
        info.addr = (uint64_t)(uintptr_t)ISO->segments[SEGMENT_INDEX_HEAP].base;
        memcpy(request, &info, sizeof info);
        iso_network_answer(&o->net, 1, request, answer);
        memcpy(&info, answer, sizeof info);
        CHECK(info.error == 0 && info.key.start < info.key.end);
        starts[round] = info.key.start;
    }
    CHECK(starts[0] == starts[2] && starts[1] == starts[3] && net.registered == 2);
    close_net(o);
}

int main(void)
{
    alarm(60); /* waits that never end are what some of this is about */
    test_credits();
    test_shared_answers();
    test_packs();
    test_haste();
    test_late_answers();
    test_put_signal();
    test_device_memory();
    test_signals_follow();
    test_device_refused();
    test_packs_at_target();
    test_refusals();
    test_order();
    test_pieces();
    test_early_messages();
    test_wait_for_room();
    test_rest_without_room();
    test_open_endpoint();
    test_stop();
    test_failed_start();
    test_wakes_thread();
    test_thread_wakes();
    test_thread_and_calls();
    test_requests_twice();
    test_strangers();
    test_no_random_key();
    test_lost_messages();
    test_unlike_peers();
    test_wrong_answers();
    test_provider_errors();
    test_no_memory();
    test_death();
    test_outlives();
    test_two_threads();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

#endif
