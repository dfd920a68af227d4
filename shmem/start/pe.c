/* SPDX-License-Identifier: MIT */
/* The other PEs: who they are (one allgather), who shares pointers with us (equal node name and a working handshake
 * over a unix socket), and whether they live (node_file.c). Abstract names leave no file behind; a connection must come
 * from our own user (SO_PEERCRED) and carry the 128-bit token that only PEs of the job know, from the bootstrap.
 * Only a job with several nodes has a second allgather, of what segments brought: where they are, and who listens. */
#include "../../bootstrap/boot.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../bootstrap/net/auth.h"
#include "../state/alloc.h"
#include "../memory/memory.h"
#include "../team/slot.h"
#include "../transport/transport.h"
#include "../node/channel.h"
#include "../node/node_file.h"
#include "../node/node_socket.h"
#include "../node/flight.h"
#include "../profile/profile.h"
#include "../profile/trace.h"
#include "start_times.h"
#include "../ops/lock.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ROW_MAGIC 0x69736f31u

static uint64_t hash_bytes(const unsigned char *p, size_t n)
{
    uint64_t h = 1469598103934665603u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static int no_memory(void)
{
    log_error("shmem_init: no memory is left for the tables of %d PEs", ISO->n_pes);
    return -ENOMEM;
}

static int open_listener(struct row *row)
{
    struct sockaddr_un name;
    socklen_t len = sizeof name;
    memset(&name, 0, sizeof name);
    name.sun_family = AF_UNIX;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof(sa_family_t)) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&name, &len) != 0 ||
        len - offsetof(struct sockaddr_un, sun_path) > sizeof row->sock_name) {
        log_error("shmem_init: a unix socket for the PEs of this host cannot be made: %m");
        if (fd >= 0)
            close(fd);
        return -EIO;
    }
    row->sock_name_len = (int32_t)(len - offsetof(struct sockaddr_un, sun_path));
    memcpy(row->sock_name, name.sun_path, (size_t)row->sock_name_len);
    return fd;
}

/* Names longer than their field are cut, equally on all PEs. */
static void copy_text(char *to, size_t bytes, const char *from)
{
    size_t len = strlen(from);
    memcpy(to, from, ISO_MIN(len, bytes - 1));
}

static const char *node_name(void)
{
    const struct state *self = ISO;
#ifdef ISO_PES_AS_THREADS
    const char *nodes = getenv("SHMEM_TEST_NODES"); /* one character for each PE: threads have one environment */
    static const char *const names[] = {"a", "b", "c", "d"};
    if (nodes != NULL && strlen(nodes) > (size_t)self->my_pe)
        return names[nodes[self->my_pe] & 3];
#endif
    return self->env->node[0] != '\0' ? self->env->node : self->host;
}

static int fill_row(struct row *row)
{
    struct state *self = ISO;
    unsigned char build_id[20];
    size_t data_bytes;
    memset(row, 0, sizeof *row);
    row->magic = ROW_MAGIC;
    row->protocol = ISO_PROTOCOL;
    copy_text(row->version, sizeof row->version, ISO_VERSION);
    copy_text(row->node, sizeof row->node, node_name());
    copy_text(row->host, sizeof row->host, self->host);
    int rc = self->boot->ops->token == NULL ? iso_auth_draw(row->token) : 0; /* else it need not travel */
    if (rc != 0) {
        log_error("shmem_init: the system gives no random bytes: %s", strerror(-rc));
        return -EIO;
    }
    iso_segment_identity(build_id, &data_bytes);
    row->build_hash = hash_bytes(build_id, sizeof build_id);
    row->data_bytes = data_bytes;
    row->heap_wish = self->env->symmetric_size;
    row->local_wish = self->env->local_size;
    row->machine_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    row->begun_us = iso_start_times_begun();
    row->debug = self->debug;
    row->profile = iso_profile_is_asked(self->env);
    row->trace = iso_trace_is_asked(self->env);
    row->coll_hash = hash_bytes((const unsigned char *)self->env->coll, strlen(self->env->coll));
    row->has_rdma = iso_network_has_rdma();
    row->transport_hash = hash_bytes((const unsigned char *)self->env->transport, strlen(self->env->transport));
    self->listener = open_listener(row);
    return self->listener < 0 ? self->listener : 0;
}

/* ---- agreement: what must be equal on all PEs; the lowest PE that sees a difference says it ---- */

static int check_versions(const struct row *rows)
{
    const struct row *mine = &rows[ISO->my_pe];
    for (int pe = 0; pe < ISO->n_pes; pe++) {
        const struct row *r = &rows[pe];
        if (r->magic == ROW_MAGIC && r->protocol == mine->protocol && strcmp(r->version, mine->version) == 0)
            continue;
        log_error("shmem_init: pe %d runs isomer %.23s (protocol %u), this PE isomer %s (protocol %u); "
                  "all PEs must load the same library",
                  pe, r->magic == ROW_MAGIC ? r->version : "of unknown version", r->protocol, mine->version,
                  mine->protocol);
        return -EPROTO;
    }
    return 0;
}

/* All PEs see the same: one speaks for them. */
static int check_cap(const char *name, uint64_t bytes, const char *otherwise)
{
    if (bytes <= ISO_ALLOC_MOST)
        return 0;
    iso_log(ISO->my_pe == 0 ? LOG_ERROR : LOG_INFO,
            "shmem_init: %s is %llu bytes, allowed: 1..%zu (16 TiB), or 0 for %s", name, (unsigned long long)bytes,
            ISO_ALLOC_MOST, otherwise);
    return -EINVAL;
}

static int check_settings(const struct row *rows)
{
    const struct row *mine = &rows[ISO->my_pe];
    for (int pe = 0; pe < ISO->n_pes; pe++) {
        if (rows[pe].heap_wish != mine->heap_wish) {
            log_error("shmem_init: SHMEM_SYMMETRIC_SIZE is %llu bytes on pe %d and %llu on this PE; it must be equal",
                      (unsigned long long)rows[pe].heap_wish, pe, (unsigned long long)mine->heap_wish);
            return -EINVAL;
        }
        if (rows[pe].local_wish != mine->local_wish) {
            log_error("shmem_init: SHMEM_LOCAL_SIZE is %llu bytes on pe %d and %llu on this PE; it must be equal",
                      (unsigned long long)rows[pe].local_wish, pe, (unsigned long long)mine->local_wish);
            return -EINVAL;
        }
        if (rows[pe].coll_hash != mine->coll_hash) {
            log_error("shmem_init: SHMEM_COLL is \"%s\" here and something else on pe %d; it must be equal",
                      ISO->env->coll, pe);
            return -EINVAL;
        }
        if (rows[pe].transport_hash != mine->transport_hash) {
            log_error("shmem_init: SHMEM_TRANSPORT is \"%s\" here and something else on pe %d; it must be equal",
                      ISO->env->transport, pe);
            return -EINVAL;
        }
        if (rows[pe].profile != mine->profile) {
            log_error("shmem_init: SHMEM_PROFILE is %s on pe %d and %s on this PE; set it for all PEs or for none",
                      rows[pe].profile != 0 ? "set" : "empty", pe, mine->profile != 0 ? "set" : "empty");
            return -EINVAL;
        }
        if (rows[pe].trace != mine->trace) {
            log_error("shmem_init: SHMEM_TRACE is %s on pe %d and %s on this PE; set it for all PEs or for none",
                      rows[pe].trace != 0 ? "set" : "empty", pe, mine->trace != 0 ? "set" : "empty");
            return -EINVAL;
        }
        if (rows[pe].debug != mine->debug) {
            log_error("shmem_init: SHMEM_DEBUG is %d on pe %d and %d on this PE; it must be equal", rows[pe].debug, pe,
                      mine->debug);
            return -EINVAL;
        }
    }
    int rc = check_cap("SHMEM_LOCAL_SIZE", mine->local_wish, "a quarter of the heap");
    return rc != 0 ? rc : check_cap("SHMEM_SYMMETRIC_SIZE", mine->heap_wish, "the machine's memory");
}

/* Default cap: the machine's memory, but all heaps of a node must fit the address space of one PE. */
static size_t heap_cap(const struct row *rows)
{
    uint64_t cap = rows[0].heap_wish, space = (uint64_t)16 << 40;
    const size_t huge = (size_t)2 << 20;
#ifdef __SANITIZE_THREAD__
    space = (uint64_t)1 << 40;
#endif
    if (cap != 0)
        return (size_t)(cap + huge - 1) & ~(huge - 1);
    /* The PEs of the fullest node, so that the cap is equal on all PEs. */
    int most = 1, *count = (int *)calloc((size_t)ISO->n_nodes, sizeof *count);
    for (int pe = 0; count != NULL && pe < ISO->n_pes; pe++) {
        int here = ++count[ISO->peers[pe].node_number];
        most = ISO_MAX(most, here);
    }
    free(count);
    cap = space / (unsigned)most;
    for (int pe = 0; pe < ISO->n_pes; pe++)
        cap = ISO_MIN(cap, rows[pe].machine_bytes);
    return (size_t)cap & ~(huge - 1);
}

/* ---- the node map ---- */

/* Numbers the nodes in the order of their lowest PEs, by a table of names with open addressing. */
static int number_nodes(void)
{
    struct state *self = ISO;
    size_t places = 16;
    while (places < 2 * (size_t)self->n_pes)
        places *= 2;
    int *table = (int *)calloc(places, sizeof *table); /* number of the node + 1; 0: free */
    self->node_first = (int *)calloc((size_t)self->n_pes, sizeof *self->node_first);
    if (table == NULL || self->node_first == NULL) {
        free(table);
        return no_memory();
    }
    for (int pe = 0; pe < self->n_pes; pe++) {
        struct peer *p = &self->peers[pe];
        size_t at = hash_bytes((const unsigned char *)p->node, strlen(p->node)) & (places - 1);
        while (table[at] != 0 && strcmp(self->peers[self->node_first[table[at] - 1]].node, p->node) != 0)
            at = (at + 1) & (places - 1);
        if (table[at] == 0) {
            self->node_first[self->n_nodes++] = pe;
            table[at] = self->n_nodes;
        }
        p->node_number = table[at] - 1;
    }
    free(table);
    return 0;
}

static int make_peers(const struct row *rows)
{
    struct state *self = ISO;
    size_t n = (unsigned)self->n_pes;
    self->peers = (struct peer *)calloc(n, sizeof *self->peers);
    self->local_pes = (int *)calloc(n, sizeof *self->local_pes);
    if (self->peers == NULL || self->local_pes == NULL)
        return no_memory();
    for (int pe = 0; pe < self->n_pes; pe++) {
        struct peer *p = &self->peers[pe];
        p->pe = pe;
        p->sock = -1;
        memcpy(p->host, rows[pe].host, sizeof p->host);
        memcpy(p->node, rows[pe].node, sizeof p->node);
        p->local = strcmp(p->node, rows[self->my_pe].node) == 0;
        if (p->local) {
            if (pe == self->my_pe)
                self->my_local = self->n_local;
            p->place = self->n_local;
            self->local_pes[self->n_local++] = pe;
        }
    }
    return number_nodes();
}

int iso_pe_choose_transports(const struct row *rows)
{
    struct state *self = ISO;
    int rc = iso_transport_check();
    self->prefers_ofi = false;
    for (int pe = 0; pe < self->n_pes; pe++)
        self->prefers_ofi |= rows[pe].has_rdma == 0;
    for (int pe = 0; rc == 0 && pe < self->n_pes; pe++) {
        struct peer *p = &self->peers[pe];
        const char *why = NULL;
        p->transport = iso_transport_choose(p, &why);
        p->by_pointer = p->transport != NULL && p->transport->by_pointer;
        if (p->transport != NULL)
            continue;
        log_error("shmem_init: pe %d is on node %s and this PE on node %s: %s; start all PEs on one host, or set "
                  "SHMEM_NODE equal on PEs that share memory",
                  pe, p->node, self->peers[self->my_pe].node, why);
        return -EHOSTUNREACH;
    }
    return rc != 0 ? rc : iso_transport_open();
}

/* ---- the other nodes ---- */

/* What every PE tells all others once its segments exist. */
struct site {
    uint64_t heap_base, data_base;
    struct host_addresses address;
};

/* An address that only its own host reaches. Two that have no other may be in one network namespace. Both say so. */
static int check_reach(int pe, const struct host_addresses *theirs, const struct host_addresses *mine)
{
    bool is_theirs = iso_interface_is_loopback(theirs), is_mine = iso_interface_is_loopback(mine);
    const struct peer *lonely = &ISO->peers[is_theirs ? pe : ISO->my_pe],
                      *other = &ISO->peers[is_theirs ? ISO->my_pe : pe];
    if (is_theirs == is_mine || strcmp(lonely->host, other->host) == 0)
        return 0;
    log_error("shmem_init: pe %d on host %s has no address but loopback, which pe %d on host %s cannot reach; bring the "
              "network of %s up, or name an address by SHMEM_NETWORK there",
              lonely->pe, lonely->host, other->pe, other->host, lonely->host);
    return -EADDRNOTAVAIL;
}

static int sync_nodes(const struct row *rows)
{
    struct state *self = ISO;
    struct site mine, *sites;
    _Static_assert(sizeof rows->token == CHANNEL_TOKEN_BYTES, "the channel proves the tokens of the rows");
    if (self->n_nodes == 1)
        return 0;
    memset(&mine, 0, sizeof mine);
    mine.heap_base = (uint64_t)(uintptr_t)self->segments[SEGMENT_INDEX_HEAP].base;
    mine.data_base = (uint64_t)(uintptr_t)self->segments[SEGMENT_INDEX_DATA].base;
    int rc = iso_channel_open(&mine.address);
    sites = rc == 0 ? (struct site *)calloc((size_t)self->n_pes, sizeof *sites) : NULL;
    if (rc == 0)
        rc = sites != NULL ? iso_boot_allgather(self->boot, &mine, sizeof mine, sites) : no_memory();
    for (int pe = 0; rc == 0 && pe < self->n_pes; pe++)
        rc = check_reach(pe, &sites[pe].address, &mine.address);
    if (rc == 0) {
        for (int pe = 0; pe < self->n_pes; pe++) {
            iso_channel_know(pe, &sites[pe].address, rows[pe].token);
            if (self->peers[pe].local)
                continue;
            self->segments[SEGMENT_INDEX_HEAP].peers[pe].base = (char *)(uintptr_t)sites[pe].heap_base;
            self->segments[SEGMENT_INDEX_DATA].peers[pe].base = (char *)(uintptr_t)sites[pe].data_base;
        }
        rc = iso_channel_start();
    }
    free(sites);
    return rc != 0 ? rc : iso_transport_start();
}

/* ---- hooks of the end of the job ---- */

static void tell_exit(const struct end_cause *cause)
{
    iso_node_tell_exit(cause);
    iso_channel_tell_exit(cause);
}

/* Any thread that hears of it, and no lock of a network is held. The PEs of this node find it in their file; those of
 * other nodes hear it from the channel at its next progress. */
static void drop_pe(int pe)
{
    if (__atomic_exchange_n(&ISO->peers[pe].gone, true, __ATOMIC_RELEASE)) /* pairs with iso_peer_is_gone */
        return;
    iso_node_tell_lost(pe);
    __atomic_fetch_add(&ISO->n_gone, 1, __ATOMIC_RELEASE); /* pairs with tell_gone in channel.c */
    iso_transport_drop_pe(pe);
}

/* Peers end at their next wait; local ones that do not wait within the grace are asked by SIGTERM, since there may be
 * no launcher that would do it. */
static void end_stragglers(void)
{
    struct state *self = ISO;
    for (int tries = 0; self->node_joined && tries < 20; tries++) {
        int left = 0;
        for (int i = 0; i < self->n_local; i++) {
            const struct peer *peer = &self->peers[self->local_pes[i]];
            bool there = i != self->my_local && !peer->threaded && iso_node_is_alive(i);
            left += there;
            if (there && tries == 19 && peer->pid > 0)
                kill(peer->pid, SIGTERM);
        }
        if (left == 0)
            return;
        usleep(10000);
    }
}

/* ---- all ---- */

int iso_pe_start(struct row **rows)
{
    struct state *self = ISO;
    struct row mine;
    *rows = (struct row *)calloc((size_t)self->n_pes, sizeof **rows);
    if (*rows == NULL)
        return no_memory();
    self->at_end.tell_peers = tell_exit;
    self->at_end.record = iso_flight_record;
    self->at_end.drop_pe = drop_pe;
    self->at_end.end_peers = end_stragglers;
    self->above.progress = iso_transport_progress;
    self->above.rest = iso_transport_rest;
    self->above.lock_holder = iso_lock_holder;
    self->above.give_up_team = iso_slot_give_up;
    self->above.hear_team_end = iso_slot_hear_end;
    if (self->n_pes > 1)
        iso_tcp_raise_files(); /* the lowest PE has a socket to each PE of its node */
    int rc = fill_row(&mine);
    if (rc == 0)
        rc = iso_boot_allgather(self->boot, &mine, sizeof mine, *rows);
    for (int pe = 0; rc == 0 && pe < self->n_pes; pe++)
        iso_boot_token(self->boot, pe, (*rows)[pe].token);
    if (rc == 0)
        rc = check_versions(*rows);
    if (rc == 0)
        rc = check_settings(*rows);
    if (rc == 0)
        rc = make_peers(*rows);
    return rc;
}

size_t iso_pe_part_bytes(size_t heap, size_t wish)
{
    const size_t huge = (size_t)2 << 20, least = (size_t)64 << 20;
    size_t part = wish != 0 ? wish : ISO_MAX(heap / 4, least);
    return (part + huge - 1) & ~(huge - 1);
}

int iso_pe_start_segments(const struct row *rows)
{
    ISO->control_bytes = iso_slot_control_bytes(ISO->n_pes);
    size_t heap = heap_cap(rows);
    return iso_segment_start(iso_segment_heap_start() + heap, iso_pe_part_bytes(heap, (size_t)rows[0].local_wish));
}

static void close_listener(struct state *self)
{
    if (self->listener >= 0)
        close(self->listener);
    self->listener = -1;
}

int iso_pe_join(const struct row *rows)
{
    struct state *self = ISO;
    const struct row *mine = &rows[self->my_pe];
    /* Different programs may share a job (their heaps are symmetric), but not their global variables. */
    for (int pe = 0; pe < self->n_pes && self->data_refusal == NULL; pe++)
        if (rows[pe].build_hash != mine->build_hash || rows[pe].data_bytes != mine->data_bytes)
            self->data_refusal = rows[pe].data_bytes == 0
                                     ? "another PE's are not symmetric (isomer-info there says why)"
                                     : "the PEs run different programs";
    if (self->data_refusal != NULL)
        self->segments[SEGMENT_INDEX_DATA].limit = 0;
    int rc = iso_rendezvous_hold(rows);
    if (rc != 0)
        close_listener(self);
    return rc;
}

int iso_pe_join_nodes(const struct row *rows)
{
    int rc = sync_nodes(rows);
    close_listener(ISO); /* all PEs are in, so no other process may connect */
    return rc;
}

/* ---- start and end ---- */

void iso_pe_part(void)
{
    bool ends = ISO->life == LIFE_ENDING;
    /* On several nodes the end waits for all PEs. A PE that makes one more call must first learn that all have left. */
    if (ends && ISO->n_nodes > 1) {
        iso_node_tell_left(ISO->left_at);
        iso_channel_tell_left(ISO->left_at);
    }
    iso_transport_stop();
    if (ends)
        iso_channel_bye();
    iso_channel_close();
}

void iso_pe_stop(void)
{
    struct state *self = ISO;
    close_listener(self); /* where the start failed before all had joined */
    iso_node_leave();
    for (int pe = 0; self->peers != NULL && pe < self->n_pes; pe++)
        if (self->peers[pe].sock >= 0)
            close(self->peers[pe].sock);
    free(self->peers);
    free(self->local_pes);
    free(self->node_first);
    self->peers = NULL;
    self->local_pes = NULL;
    self->node_first = NULL;
    self->n_local = 0;
    self->n_nodes = 0;
    self->n_gone = 0;
}
