/* SPDX-License-Identifier: MIT */
/* Other nodes by libfabric: addresses of peers, the progress thread, start and end, the text for isomer-info, and the
 * row in transport.c. ofi.h describes the state. */
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/library.h"
#include "../../../bootstrap/log.h"
#include "../../node/channel.h"
#include "../../node/wait.h"
#include "ofi.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Addresses and tokens, exchanged through the channel by the first operation on a peer. Both ends know each other then:
 * one request serves both directions. The provider makes its own connection when it first sends. */

/* 0 or -errno. */
static int fill_hello(struct ofi *o, int pe, struct ofi_hello *mine)
{
    struct ofi_peer *peer = &o->peers[pe];
    while (peer->token_in == 0)
        if (getrandom(&peer->token_in, sizeof peer->token_in, 0) != sizeof peer->token_in)
            return -errno;
    mine->token = peer->token_in;
    mine->format = o->info->addr_format;
    mine->name_len = (uint16_t)o->name_len;
    memcpy(mine->name, o->name, o->name_len);
    snprintf(mine->provider, sizeof mine->provider, "%.*s", OFI_PROVIDER_BYTES - 1, o->info->fabric_attr->prov_name);
    return 0;
}

/* 0 or -errno; -EPROTO: another provider. */
static int take_hello(struct ofi *o, int pe, const struct ofi_hello *theirs)
{
    struct ofi_peer *peer = &o->peers[pe];
    char text[160];
    if (peer->known)
        return 0;
    if (strncmp(theirs->provider, o->info->fabric_attr->prov_name, OFI_PROVIDER_BYTES - 1) != 0 ||
        theirs->format != o->info->addr_format || theirs->name_len > sizeof theirs->name)
        return -EPROTO;
    if (fi_av_insert(o->av, theirs->name, 1, &peer->address, 0, NULL) != 1)
        return -EADDRNOTAVAIL;
    peer->token_out = theirs->token;
    peer->known = true;
    o->early |= peer->in != NULL; /* it knows this PE since it has answered, and that answer was slower */
    log_debug("ofi: pe %d (host %s) is at %s", pe, ISO->peers[pe].host,
              iso_ofi_name_text(theirs->name, theirs->name_len, theirs->format, text, sizeof text));
    return 0;
}

/* Of struct network_port. */
static int ofi_answer_request(int pe, const void *request, void *answer)
{
    struct ofi *o = ISO->ofi;
    struct ofi_hello hello, mine = {0};
    struct network_key_info info = {0};
    _Static_assert(sizeof hello <= CHANNEL_BODY_BYTES, "one message of the channel");
    memcpy(&hello, request, sizeof hello);
    if (hello.type == OFI_STAGE) {
        int rc = iso_ofi_answer_stage(o, pe, &info.key);
        memcpy(answer, &info, sizeof info);
        return rc;
    }
    int rc = hello.type == OFI_HELLO ? fill_hello(o, pe, &mine) : -EPROTO;
    if (rc == 0)
        rc = take_hello(o, pe, &hello);
    memcpy(answer, &mine, sizeof mine);
    return rc;
}

static void exchange_addresses(struct ofi *o, int pe)
{
    struct ofi_hello mine = {.type = OFI_HELLO}, theirs = {0};
    const char *host = ISO->peers[pe].host;
    int rc = fill_hello(o, pe, &mine);
    if (rc == 0) {
        theirs = mine;
        rc = iso_network_ask(&o->net, pe, &theirs, sizeof theirs);
    }
    if (iso_network_has_lost(&o->net, pe))
        return;
    if (rc == 0)
        rc = theirs.error != 0 ? theirs.error : take_hello(o, pe, &theirs);
    if (rc == 0)
        return;
    if (rc == -EPROTO && strcmp(theirs.provider, mine.provider) == 0)
        iso_network_lose(&o->net, -1, "pe %d (host %s) has an address of libfabric's format %u and pe %d (host %s) one "
                         "of format %u (IPv4 is %d, IPv6 is %d); set SHMEM_NETWORK to addresses of one kind on all "
                         "hosts", ISO->my_pe, ISO->host, mine.format, pe, host, theirs.format, FI_SOCKADDR_IN,
                         FI_SOCKADDR_IN6);
    else if (rc == -EPROTO)
        iso_network_lose(&o->net, -1, "pe %d (host %s) uses libfabric's provider %s and pe %d (host %s) uses %s: they "
                         "cannot talk to each other; set SHMEM_TRANSPORT equal on all PEs, with a provider that all "
                         "hosts have", ISO->my_pe, ISO->host, o->info->fabric_attr->prov_name, pe, host,
                         theirs.provider[0] != '\0' ? theirs.provider : "another network");
    iso_network_lose(&o->net, pe, "pe %d (host %s) cannot exchange addresses with pe %d (host %s): %s", ISO->my_pe,
                     ISO->host, pe, host, o->lib.error_text(-rc));
}

/* This one and the next are of struct network_port. */
static struct network_queue *ofi_nowhere(int pe)
{
    ISO->ofi->nowhere.pe = pe;
    return &ISO->ofi->nowhere.link;
}

static struct network_queue *ofi_make_queue(int pe, int group)
{
    struct ofi *o = ISO->ofi;
    if (!o->peers[pe].known)
        exchange_addresses(o, pe);
    if (iso_network_has_lost(&o->net, pe))
        return NULL;
    struct ofi_queue *q = (struct ofi_queue *)calloc(1, sizeof *q);
    if (q == NULL) {
        iso_network_lose(&o->net, -1, "pe %d (host %s) has no memory for a queue to pe %d", ISO->my_pe, ISO->host,
                         pe);
        return NULL;
    }
    q->pe = pe;
    q->group = group;
    return &q->link;
}

/* The progress thread serves peers while this PE computes: most providers make progress only when they are called. It
 * sleeps on the descriptor of the completion queue; where there is none, for NETWORK_LOOK_NS. Waits of this PE poll the
 * queue themselves. The thread leaves it alone as long as they do, and looks more rarely whether they still do when
 * nothing comes. */

/* When nothing has come for IDLE_LOOKS, the next looks follow after IDLE_NS. */
enum { IDLE_LOOKS = 100, IDLE_NS = 8000000, NAP_NS = 50000 };
enum { FD_CHANNEL, FD_WAKE, FD_EVENTS, FDS };

static bool ofi_progress(void)
{
    struct ofi *o = ISO->ofi;
    if (o == NULL || !iso_network_begin_look(&o->net))
        return false;
    iso_ofi_poll(o);
    return iso_network_end_look(&o->net);
}

/* May this thread sleep on the descriptor? Else something has come meanwhile; a second queue knows nothing of that.
 * While lost there is no endpoint, and rxm of libfabric 1.17 would read the memory of the closed one here. */
static bool may_sleep(struct ofi *o)
{
    struct fid *fid = o->bell != NULL ? &o->bell->fid : &o->cq->fid;
    return !o->net.lost && fi_trywait(o->fabric, &fid, 1) == FI_SUCCESS && (o->bell == NULL || !iso_ofi_poll(o));
}

/* A wait that sleeps. It polls before and after: a poll makes a dozen system calls in a provider made of software. */
bool iso_ofi_rest(uint64_t ns)
{
    struct ofi *o = ISO->ofi;
    const struct timespec t = {0, (long)ns}, nap = {0, (long)ISO_MIN(ns, (uint64_t)NAP_NS)};
    if (o == NULL || o->fd < 0 || iso_network_failed(&o->net))
        return false;
    struct pollfd fd = {o->fd, POLLIN, 0};
    iso_ofi_lock(o);
    o->net.sleepers++;
    o->net.polls += NETWORK_BUSY_POLLS + 1;
    o->counts.sleeps++;
    iso_ofi_watch(o);
    if (o->first_waiting >= 0 || o->net.lost) { /* nothing says when the provider has room */
        iso_ofi_unlock(o);
        nanosleep(&nap, NULL);
        iso_ofi_lock(o);
    } else if (may_sleep(o)) {
        iso_ofi_unlock(o);
        int n = ppoll(&fd, 1, &t, NULL);
        iso_ofi_lock(o);
        if (n > 0)
            iso_ofi_poll(o);
    }
    o->net.sleepers--;
    iso_ofi_unlock(o);
    return true;
}

/* ---- the thread ---- */

/* This one and the next are of struct network_port. */
static uint64_t ofi_look_for_work(void)
{
    struct ofi *o = ISO->ofi;
    uint64_t next_ns = NETWORK_LOOK_NS;
    iso_ofi_lock(o);
    o->asleep = false;
    iso_ofi_watch(o);
    if (iso_network_is_busy(&o->net, iso_clock_now_ns(), NETWORK_BUSY_POLLS)) {
        o->net.busy_looks = o->counts.completions + o->received == o->looked_events ? o->net.busy_looks + 1 : 0;
        o->looked_events = o->counts.completions + o->received;
        next_ns = o->net.busy_looks < IDLE_LOOKS ? next_ns : (uint64_t)IDLE_NS;
    } else if (!o->net.lost) {
        o->net.busy_looks = 0;
        bool more = true; /* not for ever: calls of this PE want the lock, perhaps for what its peers are waiting for */
        for (int i = 0; i < NETWORK_BUSY_POLLS && more; i++)
            more = iso_ofi_poll(o);
        bool waits = o->first_waiting >= 0 || o->unposted != NULL || o->posted > 0;
        if (more || (o->fd >= 0 && !may_sleep(o)))
            next_ns = 1;
        else if (o->fd >= 0)
            next_ns = waits ? NETWORK_LOOK_NS : 0;
    }
    o->asleep = next_ns == 0;
    iso_ofi_unlock(o);
    return next_ns;
}

static void ofi_sleep_until_work(uint64_t look_ns)
{
    struct ofi *o = ISO->ofi;
    const struct timespec look = {0, (long)look_ns};
    struct pollfd fds[FDS] = {[FD_CHANNEL] = {iso_channel_fd(), POLLIN, 0},
                              [FD_WAKE] = {o->net.wake, POLLIN, 0},
                              [FD_EVENTS] = {o->fd, POLLIN, 0}};
    uint64_t wakes;
    int n = ppoll(fds, look_ns >= NETWORK_LOOK_NS ? FD_EVENTS : FDS, look_ns != 0 ? &look : NULL, NULL);
    if (n > 0 && fds[FD_WAKE].revents != 0) /* `stopping` is set before */
        (void)!read(o->net.wake, &wakes, sizeof wakes);
    if (n > 0 && fds[FD_CHANNEL].revents != 0)
        iso_channel_progress();
}

static bool ofi_reaches(const struct peer *peer, const char **why)
{
    *why = peer->local ? "same node: by pointer" : ISO->prefers_ofi && ISO->env->transport[0] == '\0'
                                                           ? "another node: by libfabric, as a host has no RDMA port"
                                                           : "another node: by libfabric (SHMEM_TRANSPORT)";
    return !peer->local;
}

static const char *moves_text(const struct ofi *o)
{
    return !o->bulk ? "messages" : o->staged ? "RMA, puts through a stage" : "RMA";
}

static size_t text(char *at, size_t bytes)
{
    const struct ofi *o = ISO->ofi;
    char name[96];
    size_t n;
    if (o == NULL || o->info == NULL)
        return 0;
    n = (size_t)snprintf(at, bytes, "libfabric %s at %s, large moves by %s%s%s%s%s%s: keys %llu, ",
                         o->info->fabric_attr->prov_name,
                         iso_ofi_name_text(o->name, o->name_len, o->info->addr_format, name, sizeof name),
                         moves_text(o), o->local_keys ? ", FI_MR_LOCAL" : "",
                         o->virt_addr ? ", FI_MR_VIRT_ADDR" : "", o->prov_key ? ", FI_MR_PROV_KEY" : "",
                         o->net.pins ? ", FI_MR_ALLOCATED" : "", o->bind_endpoint ? ", FI_MR_ENDPOINT" : "",
                         (unsigned long long)o->net.asked_keys);
#define X(field)                                                                                     \
    n += (size_t)snprintf(n < bytes ? at + n : NULL, n < bytes ? bytes - n : 0, "%s %llu, ", #field, \
                          (unsigned long long)o->counts.field);
    OFI_COUNTS(X)
#undef X
    return n + (size_t)snprintf(n < bytes ? at + n : NULL, n < bytes ? bytes - n : 0, "device memory by %s%s%s",
                                o->net.device_direct ? "RMA" : "messages: ", o->device_why,
                                o->net.device_direct && o->hmem ? ", FI_HMEM" : "");
}

static const char *error_text(int error) { return ISO->ofi->lib.error_text(error); }

static void ofi_complete(void)
{
    struct ofi *o = ISO->ofi;
    for (int group = 0; group < NETWORK_GROUPS; group++)
        for (struct ofi_queue *q = iso_ofi_first(o, group); q != NULL; q = iso_ofi_next(q))
            iso_ofi_settle(o, q, q->asks.made, q->moves.made, "shmem_finalize");
}

const struct network_port iso_ofi_port = {
    .name = "ofi",
    .drop = iso_ofi_drop_all,
    .drops_late = true,
    .drop_pe = iso_ofi_drop_pe,
    .nowhere = ofi_nowhere,
    .connect = ofi_make_queue,
    .fence = iso_ofi_fence,
    .begin_quiet = iso_ofi_begin_quiet,
    .end_quiet = iso_ofi_end_quiet,
    .complete = ofi_complete,
    .look = ofi_look_for_work,
    .sleep = ofi_sleep_until_work,
    .text = text,
    .error_text = error_text,
    .expose = iso_ofi_expose,
    .conceal = iso_ofi_conceal,
    .make_key = iso_ofi_make_key,
    .answer = ofi_answer_request,
};

/* ---- start ---- */

static const struct library_function functions[] = {
#define X(field, name) {#name, offsetof(struct ofi_library, field)},
    OFI_FUNCTIONS(X)
#undef X
    {NULL, 0}};
static const struct library_needs needs = {
    .file = "libfabric.so.1",
    .purpose = "this job has PEs on several nodes, which needs an active RDMA port on each host, or libfabric",
    .install = "the package libfabric1",
    .newer = "libfabric1 1.15 or later",
    .functions = functions,
};

static int open_ofi(void)
{
    struct ofi *o = (struct ofi *)calloc(1, sizeof *o);
    if (o == NULL)
        return -ENOMEM;
    ISO->ofi = o;
    o->fd = o->first_waiting = -1;
    o->peers = (struct ofi_peer *)calloc((size_t)ISO->n_pes, sizeof *o->peers);
    int rc = iso_network_open(&o->net, &iso_ofi_port);
    if (rc == 0)
        rc = o->peers != NULL ? iso_library_open(&needs, &o->lib) : -ENOMEM;
    return rc != 0 ? rc : iso_ofi_fabric_open(o);
}

NETWORK_FORWARDERS(ofi)

static int start(void)
{
    struct ofi *o = ISO->ofi;
    char at[96];
    iso_ofi_lock(o);
    int rc = iso_ofi_post_start(o);
    iso_ofi_unlock(o);
    if (rc != 0)
        return rc;
    ISO->soft_network = o->info->nic == NULL; /* its packets take time of these cores */
    iso_channel_set_handler(answer);
    log_debug("ofi: %s at %s, large moves by %s", o->info->fabric_attr->prov_name,
              iso_ofi_name_text(o->name, o->name_len, o->info->addr_format, at, sizeof at),
              moves_text(o));
    return iso_network_thread_start(&o->net);
}

/* ---- end ---- */

static void ofi_destroy(struct ofi *o)
{
    iso_ofi_endpoint_close(o);
    iso_ofi_unregister(o);
    iso_ofi_memory_stop(o);
    iso_ofi_post_stop(o);
    iso_ofi_fabric_close(o);
    for (int pe = 0; o->peers != NULL && pe < ISO->n_pes; pe++) {
        for (int group = 0; group < NETWORK_GROUPS; group++) {
            struct ofi_incoming *in = o->peers[pe].in != NULL ? &o->peers[pe].in[group] : NULL;
            while (in != NULL && in->held != NULL) {
                struct ofi_held *held = in->held;
                in->held = held->next;
                free(held);
            }
            free(o->net.peers[pe].out[group]);
        }
        free(o->peers[pe].in);
    }
    iso_network_close(&o->net);
    free(o->peers);
    free(o);
}

static void ofi_stop(void)
{
    struct ofi *o = ISO->ofi;
    if (o == NULL)
        return;
    iso_network_stop(&o->net);
    ISO->ofi = NULL;
    ofi_destroy(o);
}

const struct transport_ops iso_transport_ofi = {
    .name = "ofi",
    .open = open_ofi,
    .start = start,
    .stop = ofi_stop,
    NETWORK_ROW,
    .text = text,
    .reaches = ofi_reaches,
    .put = iso_ofi_put,
    .get = iso_ofi_get,
    .amo = iso_ofi_amo,
    .amo_nbi = iso_ofi_amo_nbi,
    .signal = iso_ofi_signal,
    .put_signal = iso_ofi_put_signal,
    .put_words = iso_ofi_put_words,
    .progress = ofi_progress,
    .rest = iso_ofi_rest,
};
