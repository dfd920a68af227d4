/* SPDX-License-Identifier: MIT */
/* Physical memory that one PE alone adds to the local and team parts of its device memory. Each PE of the node has a
 * thread with a unix socket of its own. The owner sends it the descriptor of a chunk; the thread maps the chunk and
 * answers. The owner hands memory out only after all have answered, so a pointer that any PE has is mapped everywhere.
 * A chunk stays mapped until the end, or until it is lent back (device_suspend.c). Invariant: the thread takes no lock
 * that a thread holds while it waits for answers, so PEs may add memory to each other at the same time. Called by
 * device_heap.c and local.c. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../bootstrap/thread.h"
#include "../node/node_file.h"
#include "../node/node_socket.h"
#include "../node/wait.h"
#include "device.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { NAME_BYTES = 8, LOOK_MS = 10 };
#define LATE_NS 5000000000 /* for a connected PE to send its one message */

struct grow_name {
    char bytes[NAME_BYTES]; /* abstract unix address, made by the kernel */
    int len;                /* 0: no thread there */
};

struct grow_import {
    int local; /* whose */
    struct device_chunk chunk;
};

struct grow {
    struct state *state;
    struct device *device;
    struct grow_name *names; /* [n_local] */
    int listener, stop; /* stop: an eventfd; -1: none */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;        /* the two below */
    struct grow_import *imports;
    size_t n_imports;
};

/* The body of a message. */
struct addition {
    uint64_t at, len; /* from the owner's heap's base on */
    unsigned char key[64];
};

/* ---- the thread: maps what others have added ---- */

/* 0 or -errno; takes fd. */
static int import_locked(struct grow *g, int local, const struct addition *addition, int fd)
{
    struct device *d = g->device;
    struct gpu_key key;
    _Static_assert(sizeof key.bytes == sizeof addition->key, "keys travel whole");
    char *at = ISO->segments[SEGMENT_INDEX_DEVICE].peers[ISO->local_pes[local]].gpu_ptr;
    struct grow_import *grown = (struct grow_import *)realloc(g->imports, (g->n_imports + 1) * sizeof *grown);
    if (grown != NULL)
        g->imports = grown;
    if (grown == NULL || at == NULL) {
        iso_node_socket_close_fds(&fd, 1);
        return grown == NULL ? -ENOMEM : -ENXIO;
    }
    memcpy(key.bytes, addition->key, sizeof key.bytes);
    key.fd = fd;
    int rc = iso_gpu_chunk_import(d->gpu, at + addition->at, addition->len, &key);
    if (rc == 0)
        g->imports[g->n_imports++] = (struct grow_import){local, {addition->at, addition->len}};
    return rc;
}

static int import(struct grow *g, int local, const struct addition *addition, int fd)
{
    pthread_mutex_lock(&g->lock);
    int rc = import_locked(g, local, addition, fd);
    pthread_mutex_unlock(&g->lock);
    return rc;
}

/* One message and its answer. Another program of this user may connect: its message is awaited for LATE_NS at most. */
static void serve_chunks(struct grow *g, int sock)
{
    const struct device *d = g->device;
    struct node_socket_message m;
    struct addition addition;
    int fds[NODE_SOCKET_FDS_MAX], n_fds = 0, rc = -EAGAIN;
    int64_t late = (int64_t)iso_clock_now_ns() + LATE_NS;
    while (rc == -EAGAIN && (int64_t)iso_clock_now_ns() < late) {
        struct pollfd ready = {sock, POLLIN, 0};
        (void)poll(&ready, 1, LOOK_MS);
        rc = iso_node_socket_receive(sock, &m, fds, &n_fds);
    }
    if (rc != 0 && rc != -EMFILE)
        return;
    memcpy(&addition, m.body, sizeof addition);
    if (rc == 0 && m.type == NODE_SOCKET_CHUNK && m.local >= 0 && m.local < ISO->n_local &&
        addition.at >= d->heap_bytes && addition.at < d->span_bytes && addition.len > 0 &&
        addition.len <= d->span_bytes - addition.at)
        m.local = import(g, m.local, &addition, n_fds > 0 ? fds[0] : -1);
    else {
        iso_node_socket_close_fds(fds, n_fds);
        m.local = rc != 0 ? rc : -EPROTO;
    }
    (void)iso_node_socket_send(sock, &m, NULL, 0);
}

static void *grow_main(void *argument)
{
    struct grow *g = (struct grow *)argument;
    iso_thread_adopt(g->state);
    for (;;) {
        struct pollfd ready[] = {{g->listener, POLLIN, 0}, {g->stop, POLLIN, 0}};
        if (poll(ready, 2, -1) < 0)
            continue;
        if (ready[1].revents != 0)
            return NULL;
        int sock = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC);
        if (sock < 0)
            continue;
        if (iso_node_socket_peer_is_user(sock))
            serve_chunks(g, sock);
        close(sock);
    }
}

/* ---- start and end ---- */

static int listen_by_name(struct grow_name *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(sa_family_t);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return -errno;
    bool is_open = bind(sock, (struct sockaddr *)&address, len) == 0 && listen(sock, 64) == 0;
    len = sizeof address;
    is_open = is_open && getsockname(sock, (struct sockaddr *)&address, &len) == 0;
    name->len = is_open ? (int)(len - offsetof(struct sockaddr_un, sun_path)) : 0;
    if (name->len <= 0 || name->len > NAME_BYTES) {
        close(sock);
        return -EADDRNOTAVAIL;
    }
    memcpy(name->bytes, address.sun_path, (size_t)name->len);
    return sock;
}

int iso_grow_start(struct device *d, struct pe_offer *offer)
{
    struct grow_name mine = {{0}, 0};
    bool imports = false;
    for (int i = 0; i < ISO->n_local; i++)
        imports |= iso_device_imports(d, i);
    if (d->sharing != GPU_SHARE_VMM || !imports)
        return 0;
    struct grow *g = (struct grow *)calloc(1, sizeof *g);
    if (g == NULL)
        return -ENOMEM;
    d->grow = g; /* iso_grow_stop takes it down, whatever fails */
    pthread_mutex_init(&g->lock, NULL);
    g->state = ISO;
    g->device = d;
    g->stop = eventfd(0, EFD_CLOEXEC);
    g->listener = listen_by_name(&mine);
    g->names = (struct grow_name *)calloc((size_t)ISO->n_local, sizeof *g->names);
    if (g->names == NULL || g->stop < 0 || g->listener < 0)
        return g->listener < 0 ? g->listener : -ENOMEM;
    memcpy(offer->key, mine.bytes, NAME_BYTES);
    offer->extra = mine.len;
    int rc = iso_thread_start(&g->thread, "isomer-grow", grow_main, g);
    g->started = rc == 0;
    return rc;
}

void iso_grow_meet(struct device *d, const struct pe_offer *theirs)
{
    for (int i = 0; d->grow != NULL && i < ISO->n_local; i++) {
        memcpy(d->grow->names[i].bytes, theirs[i].key, NAME_BYTES);
        d->grow->names[i].len = ISO_MIN((int)theirs[i].extra, NAME_BYTES);
    }
}

void iso_grow_drop_peers(struct device *d)
{
    struct grow *g = d->grow;
    if (g == NULL)
        return;
    pthread_mutex_lock(&g->lock);
    for (size_t i = 0; i < g->n_imports; i++) {
        int pe = ISO->local_pes[g->imports[i].local];
        char *at = ISO->segments[SEGMENT_INDEX_DEVICE].peers[pe].gpu_ptr;
        iso_gpu_chunk_release(d->gpu, at + g->imports[i].chunk.at, g->imports[i].chunk.len);
    }
    g->n_imports = 0;
    pthread_mutex_unlock(&g->lock);
}

void iso_grow_stop(struct device *d)
{
    struct grow *g = d->grow;
    if (g == NULL)
        return;
    if (g->started) {
        (void)eventfd_write(g->stop, 1);
        pthread_join(g->thread, NULL);
    }
    iso_grow_drop_peers(d);
    pthread_mutex_destroy(&g->lock);
    if (g->listener >= 0)
        close(g->listener);
    if (g->stop >= 0)
        close(g->stop);
    free(g->imports);
    free(g->names);
    free(g);
    d->grow = NULL;
}

/* ---- the owner ---- */

/* A socket, or -errno. */
static int call_up(const struct grow_name *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (name->len <= 0)
        return -ENOTCONN;
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -errno;
    memcpy(address.sun_path, name->bytes, (size_t)name->len);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)name->len);
    if (connect(sock, (struct sockaddr *)&address, len) == 0)
        return sock;
    int rc = -errno;
    close(sock);
    return rc;
}

/* 0, or -errno of either side. Looks for PEs that have died, and for the deadline. */
static int await_answer(int sock, int pe, const char *call)
{
    struct wait w = ISO_WAIT(call, pe, NULL, 0);
    struct node_socket_message m;
    int fds[NODE_SOCKET_FDS_MAX], n_fds, rc;
    while ((rc = iso_node_socket_receive(sock, &m, fds, &n_fds)) == -EAGAIN) {
        struct pollfd ready = {sock, POLLIN, 0};
        (void)poll(&ready, 1, LOOK_MS);
        if (iso_wait_pause(&w, 0) != 0)
            return -EIO;
    }
    iso_wait_end(&w);
    if (rc != 0)
        return rc;
    iso_node_socket_close_fds(fds, n_fds);
    return m.local;
}

/* All are asked before the first answer is awaited. */
static int tell_chunk(struct device *d, struct device_chunk c, const struct gpu_key *key, const char *call)
{
    struct node_socket_message m;
    struct addition addition = {c.at, c.len, {0}};
    int rc = 0, n = ISO->n_local;
    int *socks = (int *)malloc((size_t)n * sizeof *socks);
    if (socks == NULL)
        return -ENOMEM;
    memset(&m, 0, sizeof m);
    m.type = NODE_SOCKET_CHUNK;
    m.local = ISO->my_local;
    memcpy(addition.key, key->bytes, sizeof addition.key);
    memcpy(m.body, &addition, sizeof addition);
    for (int i = 0; i < n; i++) {
        socks[i] = -1;
        if (d->grow == NULL || !iso_device_imports(d, i))
            continue;
        socks[i] = rc == 0 ? call_up(&d->grow->names[i]) : -1;
        if (rc == 0)
            rc = socks[i] < 0 ? socks[i] : iso_node_socket_send(socks[i], &m, &key->fd, key->fd >= 0 ? 1 : 0);
    }
    for (int i = 0; i < n; i++) {
        if (socks[i] < 0)
            continue;
        int answer = rc == 0 ? await_answer(socks[i], ISO->local_pes[i], call) : 0;
        if (answer != 0)
            log_error("%s: pe %d cannot map %zu bytes that pe %d has added to its device memory: %s", call,
                      ISO->local_pes[i], c.len, ISO->my_pe, strerror(-answer));
        rc = rc != 0 ? rc : answer;
        close(socks[i]);
    }
    free(socks);
    return rc;
}

/* -ENOMEM: nothing has changed. Another error: some PEs have mapped it. */
static int create_chunk(struct device *d, struct device_chunk c, const char *call)
{
    struct gpu_key key = {{0}, -1};
    char *base = ISO->segments[SEGMENT_INDEX_DEVICE].base;
    if (iso_gpu_chunk_create(d->gpu, base + c.at, c.len, GPU_COMMUNICATION, &key) != 0)
        return -ENOMEM;
    int rc = tell_chunk(d, c, &key, call);
    if (key.fd >= 0)
        close(key.fd);
    return rc != 0 ? -EIO : 0;
}

int iso_grow_make_again(struct device *d, const char *call)
{
    int rc = 0;
    for (int c = 0; rc == 0 && c < d->n_grown; c++) {
        rc = create_chunk(d, d->grown[c], call);
        if (rc == -ENOMEM)
            log_error("%s: no device memory for %zu bytes: %s", call, d->grown[c].len, iso_gpu_error(d->gpu));
    }
    return rc;
}

/* At the end of what is backed. -ENOMEM: nothing has changed. */
static int add_numbered_chunk(struct device *d, int number, struct device_chunk c, const char *call)
{
    int rc = d->n_grown < 2 * ISO_DEVICE_CHUNKS ? create_chunk(d, c, call) : -ENOMEM;
    if (rc == -ENOMEM)
        return rc;
    d->grown[d->n_grown] = c;
    __atomic_store_n(&d->n_grown, d->n_grown + 1, __ATOMIC_RELEASE); /* pairs with chunk_of (range.c) */
    d->grow_failed[number] = rc != 0;
    if (rc == 0) /* pairs with the acquire of iso_grow_back */
        __atomic_store_n(&d->grown_bytes[number], d->grown_bytes[number] + c.len, __ATOMIC_RELEASE);
    return rc;
}

static size_t round_to_granule(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

/* Twice what there is, where the device has that much left; else what is asked for. */
int iso_grow_back(const struct segment *part, size_t bytes, const char *call)
{
    struct device *d = ISO->device;
    int number = part == &ISO->segments[SEGMENT_INDEX_DEVICE_TEAM];
    if (bytes <= __atomic_load_n(&d->grown_bytes[number], __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(&d->grow_lock);
    size_t backed = d->grown_bytes[number], start = (size_t)(part->base - part->within->base) + backed;
    int rc = d->grow_failed[number] ? -EIO : 0;
    if (rc != 0)
        log_error("%s: memory cannot be added any more, since a PE could not map it before", call);
    if (rc == 0 && bytes > backed) {
        size_t least = round_to_granule(bytes - backed, d->granularity), wanted = ISO_MAX(least, backed);
        wanted = ISO_MIN(ISO_MAX(wanted, round_to_granule((size_t)2 << 20, d->granularity)), part->len - backed);
        rc = add_numbered_chunk(d, number, (struct device_chunk){start, wanted}, call);
        if (rc == -ENOMEM && wanted > least)
            rc = add_numbered_chunk(d, number, (struct device_chunk){start, least}, call);
        if (rc == -ENOMEM)
            log_error("%s: no device memory for %zu more bytes: %s", call, least, iso_gpu_error(d->gpu));
    }
    pthread_mutex_unlock(&d->grow_lock);
    return rc;
}
