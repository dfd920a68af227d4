/* SPDX-License-Identifier: MIT */
/* The RDMA device of this PE: its port, registered memory, and the method by which it reaches device memory. Called by
 * the other verbs files. */
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/library.h"
#include "../../../bootstrap/log.h"
#include "../../../device/gpu.h"
#include "../device_agent.h"
#include "verbs.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PORTS_MAX = 64, GIDS_MAX = 256, ENTRY_BYTES = 80 };

struct candidate {
    struct verbs_port port;
    struct ibv_device *device;
    int distance; /* 0: at the node of this PE's core, or unknown */
};

struct device_search {
    struct verbs *v;
    struct candidate found[PORTS_MAX];
    int n_found;
    int wanted_port, wanted_gid; /* by SHMEM_NIC; -1: any */
    char why[256];               /* findings, for the message */
    char devices[256];           /* all names, for the message */
};

/* ---- SHMEM_NIC: device[:port[:gid]], a list is dealt out by local number ---- */

static int number_after(const char *text, char mark, const char **end)
{
    *end = text;
    if (*text != mark)
        return -1;
    char *after;
    long n = strtol(text + 1, &after, 10);
    *end = after;
    return after == text + 1 || n < 0 || n > 255 ? -2 : (int)n;
}

/* The entry for this PE into `name`; "" where the variable is not set. */
static int parse_wish(struct device_search *s, char name[ENTRY_BYTES])
{
    const char *text = ISO->env->nic, *end;
    int n = 1;
    name[0] = '\0';
    s->wanted_port = s->wanted_gid = -1;
    if (*text == '\0')
        return 0;
    for (const char *p = text; *p != '\0'; p++)
        n += *p == ',';
    for (int skip = ISO->my_local % n; skip > 0; skip--)
        text = strchr(text, ',') + 1;
    size_t len = strcspn(text, ":,");
    if (len == 0 || len >= ENTRY_BYTES)
        return -EINVAL;
    memcpy(name, text, len);
    name[len] = '\0';
    s->wanted_port = number_after(text + len, ':', &end);
    s->wanted_gid = number_after(end, ':', &end);
    return s->wanted_port < -1 || s->wanted_gid < -1 || (*end != '\0' && *end != ',') ? -EINVAL : 0;
}

/* ---- properties of a device ---- */

/* The higher the better; 0: of no use. */
static int gid_rank(const struct ibv_gid_entry *g)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, zero[16] = {0};
    if (memcmp(g->gid.raw, zero, sizeof zero) == 0)
        return 0;
    if (g->gid_type != IBV_GID_TYPE_ROCE_V2)
        return 1;
    if (memcmp(g->gid.raw, mapped, sizeof mapped) == 0)
        return 4;
    return g->gid.raw[0] == 0xfe && (g->gid.raw[1] & 0xc0) == 0x80 ? 2 : 3;
}

/* Its index, or -1. */
static int choose_gid(const struct device_search *s, struct ibv_context *device, struct verbs_port *port)
{
    struct ibv_gid_entry entries[GIDS_MAX];
    int best = -1, best_rank = 0;
    ssize_t n = s->v->lib.query_gid_table(device, entries, GIDS_MAX, 0, sizeof entries[0]);
    for (ssize_t i = 0; i < n; i++) {
        int rank = gid_rank(&entries[i]);
        bool fits = entries[i].port_num == port->number &&
                    (s->wanted_gid < 0 || (uint32_t)s->wanted_gid == entries[i].gid_index);
        if (!fits || rank <= best_rank || entries[i].gid_index > 255)
            continue;
        best = (int)entries[i].gid_index;
        best_rank = rank;
        port->gid = entries[i].gid;
    }
    return best;
}

/* number -1: the whole device */
static void note_nic(struct device_search *s, const char *device, int number, const char *what)
{
    size_t n = strlen(s->why);
    char port[24] = "";
    if (number >= 0)
        snprintf(port, sizeof port, " port %d", number);
    snprintf(s->why + n, sizeof s->why - n, "%s%s%s %s", n > 0 ? ", " : "", device, port, what);
}

static void add_port(struct device_search *s, struct ibv_device *device, struct ibv_context *context, int number)
{
    char path[160];
    int near = -1; /* the memory node of the device, -1: unknown */
    unsigned here = 0;
    struct ibv_port_attr attr;
    struct ibv_device_attr limits;
    struct candidate *c = &s->found[s->n_found];
    struct verbs_port *p = &c->port;
    const char *name = s->v->lib.get_device_name(device);
    memset(&attr, 0, sizeof attr);
    memset(c, 0, sizeof *c);
    if (s->v->lib.query_port(context, (uint8_t)number, (struct _compat_ibv_port_attr *)&attr) != 0 ||
        s->v->lib.query_device(context, &limits) != 0 || attr.state != IBV_PORT_ACTIVE) {
        note_nic(s, name, number, "is not active");
        return;
    }
    snprintf(p->device, sizeof p->device, "%s", name);
    p->number = (uint8_t)number;
    p->ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    p->global = (attr.flags & IBV_QPF_GRH_REQUIRED) != 0;
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/device", name);
    p->software = access(path, F_OK) != 0; /* no bus behind it */
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/numa_node", name);
    FILE *file = fopen(path, "re");
    if (file != NULL && fscanf(file, "%d", &near) != 1)
        near = -1;
    if (file != NULL)
        fclose(file);
    p->mtu = (uint8_t)attr.active_mtu;
    p->lid = attr.lid;
    p->max_message = attr.max_msg_sz;
    p->max_read = p->software ? ISO_MIN(p->max_message, (uint32_t)VERBS_SOFTWARE_READ) : p->max_message;
    int reads = ISO_MIN(limits.max_qp_rd_atom, limits.max_qp_init_rd_atom);
    p->read_depth = (uint8_t)ISO_MIN(ISO_MAX(reads, 1), 16);
    c->device = device;
    c->distance = near >= 0 && getcpu(NULL, &here) == 0 && (unsigned)near != here ? 1 : 0;
    int gid = choose_gid(s, context, p); /* InfiniBand is addressed by the LID: the GID is for messages only */
    p->gid_index = gid < 0 ? 0 : (uint8_t)gid;
    if (gid < 0 && p->ethernet)
        note_nic(s, name, number, "has no GID");
    else
        s->n_found++;
}

static void add_device(struct device_search *s, struct ibv_device *device)
{
    struct ibv_device_attr attr;
    const char *name = s->v->lib.get_device_name(device);
    if (device->transport_type != IBV_TRANSPORT_IB) { /* iWARP, EFA and others */
        note_nic(s, name, -1, "is neither InfiniBand nor RoCE");
        log_info("verbs: %s is neither InfiniBand nor RoCE, and is not used", name);
        return;
    }
    struct ibv_context *context = s->v->lib.open_device(device);
    if (context == NULL || s->v->lib.query_device(context, &attr) != 0) {
        note_nic(s, name, -1, "cannot be opened");
    } else {
        if (s->wanted_port > attr.phys_port_cnt || s->wanted_port == 0)
            note_nic(s, name, s->wanted_port, "does not exist");
        for (int n = 1; n <= attr.phys_port_cnt && s->n_found < PORTS_MAX; n++)
            if (s->wanted_port < 0 || s->wanted_port == n)
                add_port(s, device, context, n);
    }
    if (context != NULL)
        s->v->lib.close_device(context);
}

/* ---- the choice ---- */

/* All ports must be of one kind of network, since the kinds cannot talk to each other. InfiniBand is preferred, so that
 * all PEs of hosts that are equipped alike agree, wherever their cores are. Of that kind the nearest ports are used. */
static const struct candidate *choose_nic(const struct device_search *s)
{
    const struct candidate *near[PORTS_MAX];
    int n = 0, best = 1;
    bool ethernet = true;
    for (int i = 0; i < s->n_found; i++)
        ethernet &= s->found[i].port.ethernet;
    for (int i = 0; i < s->n_found; i++)
        if (s->found[i].port.ethernet == ethernet)
            best = ISO_MIN(best, s->found[i].distance);
    for (int i = 0; i < s->n_found; i++)
        if (s->found[i].port.ethernet == ethernet && s->found[i].distance == best)
            near[n++] = &s->found[i];
    return n > 0 ? near[ISO->my_local % n] : NULL;
}

static int search_and_open(struct device_search *s, struct ibv_device **list, const char *name)
{
    for (int i = 0; list[i] != NULL; i++) {
        const char *there = s->v->lib.get_device_name(list[i]);
        size_t n = strlen(s->devices);
        snprintf(s->devices + n, sizeof s->devices - n, "%s%s", n > 0 ? ", " : "", there);
        if (name[0] == '\0' || strcmp(there, name) == 0)
            add_device(s, list[i]);
    }
    const struct candidate *c = choose_nic(s);
    if (c != NULL) {
        struct verbs *v = s->v;
        v->port = c->port;
        v->device = v->lib.open_device(c->device);
        v->pd = v->device != NULL ? v->lib.alloc_pd(v->device) : NULL;
        if (v->pd != NULL)
            return 0;
        log_error("shmem_init: the RDMA device %s cannot be opened: %m; /dev/infiniband/uverbs* must be writable",
                  c->port.device);
        return -EIO;
    }
    bool unknown = s->why[0] == '\0' && s->devices[0] != '\0';
    log_error("shmem_init: no port of an RDMA device of host %s can be used (%s%s): %s%s", ISO->host,
              name[0] != '\0' ? "SHMEM_NIC: " : "SHMEM_NIC is not set", name,
              unknown             ? "there is no such device; this host has "
              : s->why[0] != '\0' ? s->why
                                  : "there is none; see ibv_devinfo",
              unknown ? s->devices : "");
    return -ENODEV;
}

int iso_verbs_device_open(struct verbs *v)
{
    struct library_signals signals; /* the list loads providers */
    char name[ENTRY_BYTES];
    int n = 0, rc;
    struct device_search *s = (struct device_search *)calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->v = v;
    rc = parse_wish(s, name);
    if (rc != 0)
        log_error("shmem_init: SHMEM_NIC is \"%s\", allowed: device, device:port or device:port:gid, with commas "
                  "between those of several PEs",
                  ISO->env->nic);
    iso_library_save(&signals);
    struct ibv_device **list = rc == 0 ? v->lib.get_device_list(&n) : NULL;
    iso_library_restore(&signals);
    if (rc == 0 && list == NULL) {
        const struct peer *other = ISO->peers;
        while (other->local)
            other++;
        log_error("shmem_init: pe %d is on node %s and this PE on node %s, which needs RDMA, and host %s has no RDMA "
                  "devices; give it one, start all PEs on one host, or set SHMEM_NODE equal on PEs that share memory",
                  other->pe, other->node, ISO->peers[ISO->my_pe].node, ISO->host);
        rc = -ENODEV;
    }
    if (rc == 0)
        rc = search_and_open(s, list, name);
    if (list != NULL)
        v->lib.free_device_list(list);
    free(s);
    return rc;
}

/* Registered memory: of the transport itself, and of segments, for network_memory.c. Device memory that the RDMA device
 * does not reach is staged: the key is that of a stage of the pair. */

/* ---- the transport's own memory ---- */

int iso_verbs_memory_start(struct verbs *v)
{
    size_t receives = (size_t)VERBS_RECEIVES * VERBS_RECEIVE_BYTES;
    size_t slots = (size_t)VERBS_SLOTS * VERBS_SLOT_BYTES;
    v->memory_bytes = receives + slots + ISO_LINE;
    v->memory = iso_network_map(v->memory_bytes);
    if (v->memory == NULL)
        return -ENOMEM;
    v->memory_mr = v->lib.reg_mr(v->pd, v->memory, v->memory_bytes, IBV_ACCESS_LOCAL_WRITE);
    if (v->memory_mr == NULL) {
        log_error("shmem_init: registering %zu bytes with the RDMA device %s failed: %m; the limit of locked memory is "
                  "%llu KiB (raise it: ulimit -l unlimited, or LimitMEMLOCK of the service that starts the job)",
                  v->memory_bytes, v->port.device, (unsigned long long)iso_range_locked_limit() >> 10);
        return -ENOMEM;
    }
    v->slots = v->memory + receives;
    v->scratch = v->slots + slots;
    for (int i = 0; i < VERBS_SLOTS; i++)
        v->free_slots[v->n_free_slots++] = (int16_t)(VERBS_SLOTS - 1 - i);
    return 0;
}

void iso_verbs_memory_stop(struct verbs *v)
{
    iso_network_unregister(&v->net);
    for (int pe = 0; v->peers != NULL && pe < ISO->n_pes; pe++) {
        struct verbs_peer *peer = &v->peers[pe];
        if (peer->stage_mr != NULL)
            v->lib.dereg_mr(peer->stage_mr);
        if (peer->stage != NULL)
            munmap(peer->stage, VERBS_STAGE_BYTES);
    }
    if (v->memory_mr != NULL)
        v->lib.dereg_mr(v->memory_mr);
    if (v->memory != NULL)
        munmap(v->memory, v->memory_bytes);
}

/* ---- segments ---- */

int iso_verbs_expose(const struct segment *s, struct range r, void **mr)
{
    struct verbs *v = ISO->verbs;
    errno = 0; /* not every provider sets it */
    *mr = s->on_device ? iso_verbs_register_device(v, iso_agent_gpu(), r)
                       : v->lib.reg_mr(v->pd, (void *)(uintptr_t)r.start, r.end - r.start, VERBS_EXPOSED);
    v->counts.registrations++;
    v->counts.system_calls++;
    return *mr != NULL || s->on_device ? 0 : errno != 0 ? -errno : -ENOMEM;
}

void iso_verbs_conceal(struct network *n, void *mr)
{
    iso_verbs_unregister((struct verbs *)(void *)n, (struct ibv_mr *)mr);
}

struct ibv_mr *iso_verbs_register_once(struct verbs *v, const void *addr, size_t len, bool written)
{
    struct ibv_mr *mr = v->lib.reg_mr(v->pd, (void *)(uintptr_t)addr, len, written ? (int)IBV_ACCESS_LOCAL_WRITE : 0);
    v->counts.registrations++;
    v->counts.system_calls++;
    return mr;
}

/* The stage of the pair, made if need be. NULL: it cannot be registered. */
static struct ibv_mr *stage_of(struct verbs *v, struct verbs_peer *peer)
{
    if (peer->stage == NULL)
        peer->stage = iso_network_map(VERBS_STAGE_BYTES);
    if (peer->stage == NULL || peer->stage_mr != NULL)
        return peer->stage_mr;
    peer->stage_mr = v->lib.reg_mr(v->pd, peer->stage, VERBS_STAGE_BYTES, VERBS_EXPOSED);
    v->counts.registrations++;
    v->counts.system_calls++;
    return peer->stage_mr;
}

int iso_verbs_make_key(int pe, const struct segment *s, const void *addr, struct network_key *key)
{
    struct verbs *v = ISO->verbs;
    int error;
    const struct network_region *r = iso_network_region_at(&v->net, s, addr, &error);
    if (r == NULL)
        return error;
    const struct ibv_mr *mr = (const struct ibv_mr *)r->mr;
    bool staged = mr == NULL;
    if (staged && (mr = stage_of(v, &v->peers[pe])) == NULL)
        return -ENOMEM;
    *key = (struct network_key){.start = r->start,
                                .end = r->end,
                                .at = staged ? (uint64_t)(uintptr_t)v->peers[pe].stage : 0,
                                .key = mr->rkey,
                                .by_cpu = staged,
                                .flushes = s->on_device && v->reach.flushes};
    return 0;
}

/* Device memory and the RDMA device: the method by which the one reaches the other, chosen when the first range is
 * registered, and the flush that makes its writes visible. A completion says that bytes are on their way to a GPU over
 * the bus, not that a kernel sees them. Where the GPU does not keep writes in order, a read of the same memory by the
 * same RDMA device goes between the writes and the signal. Called by the other verbs files. */

static const char *const wishes[] = {
#define X(id, wish, text) wish,
    VERBS_METHODS(X)
#undef X
};
static const char *const texts[] = {
#define X(id, wish, text) text,
    VERBS_METHODS(X)
#undef X
        "not in use",
};

int iso_verbs_reach_start(struct verbs *v)
{
    int wish = 0;
    while (wish < VERBS_ANY_METHOD && strcmp(ISO->env->device_rdma, wishes[wish]) != 0)
        wish++;
    v->reach.wish = (enum verbs_method)wish;
    v->reach.method = VERBS_ANY_METHOD;
    if (wish < VERBS_ANY_METHOD || ISO->env->device_rdma[0] == '\0')
        return 0;
    log_error("shmem_init: SHMEM_DEVICE_RDMA is \"%s\"; allowed: dmabuf, peer, staged, or empty",
              ISO->env->device_rdma);
    return -EINVAL;
}

/* ---- the methods ---- */

static void note_method(struct verbs_reach *reach, enum verbs_method method, const char *call, const char *why)
{
    size_t n = strlen(reach->why);
    snprintf(reach->why + n, sizeof reach->why - n, "%s%s: %s%s%s", n > 0 ? "; " : "", wishes[method], call,
             call[0] != '\0' ? ": " : "", why);
}

/* The registration keeps the memory, so the descriptor is closed at once. */
static struct ibv_mr *register_dmabuf(struct verbs *v, struct gpu *gpu, const struct range *range)
{
    uint64_t offset = 0;
    int fd = -1;
    if (v->lib.reg_dmabuf_mr == NULL) {
        note_method(&v->reach, VERBS_DMABUF, "", "libibverbs has no ibv_reg_dmabuf_mr: it is older than 34");
        return NULL;
    }
    if (iso_gpu_export_dmabuf(gpu, (char *)(uintptr_t)range->start, range->end - range->start, &fd, &offset) != 0) {
        note_method(&v->reach, VERBS_DMABUF, "", iso_gpu_error(gpu));
        return NULL;
    }
    errno = 0;
    struct ibv_mr *mr = v->lib.reg_dmabuf_mr(v->pd, offset, range->end - range->start, range->start, fd, VERBS_EXPOSED);
    if (mr == NULL)
        note_method(&v->reach, VERBS_DMABUF, "ibv_reg_dmabuf_mr", strerror(errno));
    close(fd);
    return mr;
}

/* Tries the chosen or requested method, else all from the best one down. *method is the last one tried. */
static struct ibv_mr *register_by_best(struct verbs *v, struct gpu *gpu, const struct range *range,
                                       enum verbs_method *method)
{
    const struct verbs_reach *reach = &v->reach;
    enum verbs_method only = reach->method != VERBS_ANY_METHOD ? reach->method : reach->wish;
    struct ibv_mr *mr = NULL;
    *method = only != VERBS_ANY_METHOD ? only : VERBS_DMABUF;
    if (*method == VERBS_DMABUF) {
        mr = register_dmabuf(v, gpu, range);
        if (mr == NULL && only == VERBS_ANY_METHOD)
            *method = VERBS_PEER;
    }
    if (*method == VERBS_PEER) {
        errno = 0;
        mr = v->lib.reg_mr(v->pd, (void *)(uintptr_t)range->start, range->end - range->start, VERBS_EXPOSED);
        if (mr == NULL)
            note_method(&v->reach, VERBS_PEER, "ibv_reg_mr", strerror(errno));
        if (mr == NULL && only == VERBS_ANY_METHOD)
            *method = VERBS_STAGED;
    }
    return mr;
}

struct ibv_mr *iso_verbs_register_device(struct verbs *v, struct gpu *gpu, struct range range)
{
    struct verbs_reach *reach = &v->reach;
    enum verbs_method method;
    bool first = reach->method == VERBS_ANY_METHOD;
    char before[sizeof reach->why];
    memcpy(before, reach->why, sizeof before);
    reach->why[0] = '\0';
    struct ibv_mr *mr = register_by_best(v, gpu, &range, &method);
    if (mr == NULL && method != VERBS_STAGED && reach->wish != VERBS_ANY_METHOD)
        iso_network_lose(&v->net, -1, "SHMEM_DEVICE_RDMA is \"%s\", but %s of pe %d (host %s) cannot reach %llu KiB of "
                         "device memory at %#llx by that method: %s", wishes[reach->wish], v->port.device, ISO->my_pe,
                         ISO->host, (unsigned long long)(range.end - range.start) >> 10,
                         (unsigned long long)range.start, reach->why);
    if (first) {
        reach->method = method;
        reach->flushes |= !iso_gpu_describe(gpu)->orders_writes;
        log_debug("verbs: device memory %s%s%s", texts[method], reach->why[0] != '\0' ? ": no " : "", reach->why);
        return mr;
    }
    if (mr == NULL && method != VERBS_STAGED)
        log_info("verbs: %llu KiB of device memory at %#llx are staged by the host, all else %s: %s",
                 (unsigned long long)(range.end - range.start) >> 10, (unsigned long long)range.start,
                 texts[method], reach->why);
    memcpy(reach->why, before, sizeof before);
    return mr;
}

size_t iso_verbs_reach_text(const struct verbs *v, char *text, size_t bytes)
{
    const struct verbs_reach *reach = &v->reach;
    bool wished = reach->wish != VERBS_ANY_METHOD;
    return (size_t)snprintf(text, bytes, "device memory %s%s%s%s", texts[reach->method],
                            reach->why[0] != '\0' ? " (no " : "", reach->why,
                            reach->why[0] != '\0' ? ")"
                            : wished              ? " (SHMEM_DEVICE_RDMA)"
                                                  : "");
}

/* ---- visibility of writes ---- */

void iso_verbs_flush(struct verbs *v, struct verbs_queue *q)
{
    if (ISO_LIKELY(q->unflushed == 0))
        return;
    iso_verbs_make_room(v, q, 1, 0);
    const struct verbs_request request = {
        .remote = q->unflushed, .len = 1, .slot = -1, .opcode = (uint8_t)IBV_WR_RDMA_READ};
    if (q->unflushed == 0) /* another thread was faster */
        return;
    struct ibv_send_wr *wr = iso_verbs_add(v, q, &request);
    *wr->sg_list = (struct ibv_sge){(uint64_t)(uintptr_t)v->scratch, 1, v->memory_mr->lkey};
    wr->wr.rdma.remote_addr = q->unflushed;
    wr->wr.rdma.rkey = q->unflushed_key;
    q->unflushed = 0;
    q->reads_first = true;
}

void iso_verbs_flush_own(struct verbs_queue *q)
{
    if (ISO_LIKELY(!q->fills_device))
        return;
    q->fills_device = q->done < q->made; /* another thread's may still be under way: it will wait, too */
    iso_gpu_flush_writes(iso_agent_gpu());
}
