/* SPDX-License-Identifier: MIT */
/* Chooses the port of this PE: SHMEM_NIC, else one of the active ports nearest to its core, dealt out by local number.
 * Only InfiniBand and RoCE qualify, since queue pairs are made without a connection manager, which iWARP needs. The GID
 * of an Ethernet port is chosen in this order: RoCE v2 over IPv4, over IPv6, over a link-local address, then v1. Called
 * once, from verbs.c. */
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/library.h"
#include "../../../bootstrap/log.h"
#include "verbs.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
static void note(struct device_search *s, const char *device, int number, const char *what)
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
        note(s, name, number, "is not active");
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
        note(s, name, number, "has no GID");
    else
        s->n_found++;
}

static void add_device(struct device_search *s, struct ibv_device *device)
{
    struct ibv_device_attr attr;
    const char *name = s->v->lib.get_device_name(device);
    if (device->transport_type != IBV_TRANSPORT_IB) { /* iWARP, EFA and others */
        note(s, name, -1, "is neither InfiniBand nor RoCE");
        log_info("verbs: %s is neither InfiniBand nor RoCE, and is not used", name);
        return;
    }
    struct ibv_context *context = s->v->lib.open_device(device);
    if (context == NULL || s->v->lib.query_device(context, &attr) != 0) {
        note(s, name, -1, "cannot be opened");
    } else {
        if (s->wanted_port > attr.phys_port_cnt || s->wanted_port == 0)
            note(s, name, s->wanted_port, "does not exist");
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
static const struct candidate *choose(const struct device_search *s)
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
    const struct candidate *c = choose(s);
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
    log_error("shmem_init: no port of an RDMA device of host %s can be used (%s%s): %s%s", ISO->boot.host,
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
                  other->pe, other->node, ISO->peers[ISO->my_pe].node, ISO->boot.host);
        rc = -ENODEV;
    }
    if (rc == 0)
        rc = search_and_open(s, list, name);
    if (list != NULL)
        v->lib.free_device_list(list);
    free(s);
    return rc;
}
