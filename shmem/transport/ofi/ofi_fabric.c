/* SPDX-License-Identifier: MIT */
/* The provider, the address and the endpoint. What a provider promises is read from its fi_info: RMA with delivery
 * completion is wished for, and done without where there is none. Of several addresses of this host the endpoint takes
 * the one that the channel prefers, so that SHMEM_NETWORK holds for both. */
#include "../../../bootstrap/boot.h"
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/library.h"
#include "../../../bootstrap/log.h"
#include "../../../bootstrap/net/interface.h"
#include "../../../device/gpu.h"
#include "../device_agent.h"
#include "ofi.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#define API FI_VERSION(1, 15)
#define WISH "ofi"
enum { COMPLETIONS = 4096, KEYS_TRIED = 8 };

/* ---- sentences ---- */

const char *iso_ofi_name_text(const unsigned char *name, size_t len, uint32_t format, char *text, size_t bytes)
{
    char address[INET6_ADDRSTRLEN];
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    size_t n = 0;
    if (format == FI_SOCKADDR_IN && len >= sizeof in) {
        memcpy(&in, name, sizeof in);
        snprintf(text, bytes, "%s:%d", inet_ntop(AF_INET, &in.sin_addr, address, sizeof address), ntohs(in.sin_port));
        return text;
    }
    if (format == FI_SOCKADDR_IN6 && len >= sizeof in6) {
        memcpy(&in6, name, sizeof in6);
        snprintf(text, bytes, "[%s]:%d", inet_ntop(AF_INET6, &in6.sin6_addr, address, sizeof address),
                 ntohs(in6.sin6_port));
        return text;
    }
    text[0] = '\0';
    for (size_t i = 0; i < len && n + 3 < bytes; i++)
        n += (size_t)snprintf(text + n, bytes - n, "%02x", name[i]);
    return text;
}

/* What failed in the library; -EIO. */
static int refuse(const struct ofi *o, const char *call, int rc)
{
    const char *provider = o->info != NULL ? o->info->fabric_attr->prov_name : "libfabric";
    log_error("shmem_init: %s of %s on host %s failed: %s", call, provider, ISO->host,
              o->lib.error_text(rc < 0 ? -rc : rc));
    return -EIO;
}

/* ---- the choice ---- */

static const char *wished_provider(void)
{
    const char *wish = ISO->env->transport;
    size_t n = strlen(WISH);
    return strncmp(wish, WISH ":", n + 1) == 0 ? wish + n + 1 : "";
}

static struct fi_info *make_hints(const struct ofi *o, bool bulk)
{
    const char *provider = wished_provider();
    struct fi_info *hints = o->lib.dupinfo(NULL);
    if (hints == NULL)
        return NULL;
    hints->caps = FI_MSG | FI_LOCAL_COMM | FI_REMOTE_COMM | (bulk ? FI_RMA : 0);
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->op_flags = bulk ? FI_DELIVERY_COMPLETE : 0;
    if (provider[0] != '\0')
        hints->fabric_attr->prov_name = strdup(provider);
    return hints;
}

/* What the same provider offers for memory of a GPU, else `list`. Software would copy it. */
static struct fi_info *with_hmem(struct ofi *o, struct fi_info *list)
{
    struct fi_info *better = NULL, *hints = o->bulk && list->nic != NULL ? make_hints(o, true) : NULL;
    if (hints == NULL)
        return list;
    free(hints->fabric_attr->prov_name);
    hints->fabric_attr->prov_name = strdup(list->fabric_attr->prov_name);
    hints->caps |= FI_HMEM;
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
    o->hmem = o->lib.getinfo(API, NULL, NULL, 0, hints, &better) == 0;
    o->lib.freeinfo(hints);
    if (!o->hmem)
        return list;
    o->lib.freeinfo(list);
    return better;
}

static bool is_ip(const struct fi_info *info)
{
    return info->addr_format == FI_SOCKADDR || info->addr_format == FI_SOCKADDR_IN ||
           info->addr_format == FI_SOCKADDR_IN6;
}

/* How well the channel likes the source address: 0 is best; ADDRESSES: not at all. */
enum { ADDRESSES = HOST_IP4_MAX + HOST_IP6_MAX };
static int rank_of(const struct fi_info *info, const struct host_addresses *mine)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    if (info->addr_format == FI_SOCKADDR_IN && info->src_addrlen >= sizeof in && info->src_addr != NULL) {
        memcpy(&in, info->src_addr, sizeof in);
        for (int i = 0; i < mine->n_ip4; i++)
            if (memcmp(&in.sin_addr, mine->ip4[i], sizeof in.sin_addr) == 0)
                return i;
        return ADDRESSES;
    }
    if (info->addr_format == FI_SOCKADDR_IN6 && info->src_addrlen >= sizeof in6 && info->src_addr != NULL) {
        memcpy(&in6, info->src_addr, sizeof in6);
        for (int i = 0; i < mine->n_ip6; i++)
            if (memcmp(&in6.sin6_addr, mine->ip6[i], sizeof in6.sin6_addr) == 0)
                return HOST_IP4_MAX + i;
        return ADDRESSES;
    }
    return is_ip(info) ? ADDRESSES - 1 : 0; /* of IP without an address: after those that have one */
}

/* libfabric finds no address on an interface whose cable does not carry yet, and such an endpoint cannot listen. */
static int add_address(struct fi_info *info, const struct host_addresses *mine)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    bool ipv6 = mine->n_ip4 == 0;
    if (info->src_addr != NULL || !is_ip(info))
        return 0;
    memcpy(&in.sin_addr, mine->ip4[0], sizeof in.sin_addr);
    memcpy(&in6.sin6_addr, mine->ip6[0], sizeof in6.sin6_addr);
    info->addr_format = ipv6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    info->src_addrlen = ipv6 ? sizeof in6 : sizeof in;
    info->src_addr = malloc(info->src_addrlen); /* of the info, which frees it */
    if (info->src_addr == NULL)
        return -ENOMEM;
    memcpy(info->src_addr, ipv6 ? (void *)&in6 : (void *)&in, info->src_addrlen);
    return 0;
}

static bool is_quick_tcp(const struct fi_info *info)
{
#if FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION > 15 /* the headers know it from 1.16 on */
    return info->ep_attr->protocol == FI_PROTO_XNET;
#else
    (void)info;
    return false;
#endif
}

/* The best address of the provider that libfabric names first; or of one that sends datagrams over TCP by itself, where
 * the first one puts them on the connections of another provider: that takes two system calls more for each message. */
static const struct fi_info *choose_fabric(const struct fi_info *list, const struct host_addresses *mine)
{
    const struct fi_info *best = NULL;
    bool layered = list->nic == NULL && list->ep_attr->protocol == FI_PROTO_RXM;
    int least = 2 * ADDRESSES;
    for (const struct fi_info *i = list; i != NULL; i = i->next) {
        bool first = strcmp(i->fabric_attr->prov_name, list->fabric_attr->prov_name) == 0;
        bool quick = layered && is_quick_tcp(i);
        int rank = quick || first ? rank_of(i, mine) : ADDRESSES;
        int cost = layered && !quick ? ADDRESSES + rank : rank;
        if (rank < ADDRESSES && cost < least) {
            best = i;
            least = cost;
        }
    }
    return best;
}

static int search_fabrics(struct ofi *o)
{
    struct host_addresses mine;
    struct fi_info *list = NULL;
    const char *why = "", *provider = wished_provider();
    int rc = iso_boot_addresses(ISO->boot, ISO->env->network, &mine, &why);
    if (rc != 0) {
        log_error("shmem_init: SHMEM_NETWORK is \"%s\": %s", ISO->env->network, why);
        return rc;
    }
    /* ofi_rxm keeps thousands of buffers of 16 KiB, which it makes at once: here a message with its header fits in one
     * of 8,448 bytes, and credits bound how many are under way. Its completion queues are for so many peers, 256 unless
     * told, which is more than some RDMA devices have room for. libfabric reads these variables at its first call; the
     * user's own values stay. */
    char peers[16];
    snprintf(peers, sizeof peers, "%d", ISO->n_pes);
    setenv("FI_UNIVERSE_SIZE", peers, 0);
    setenv("FI_OFI_RXM_BUFFER_SIZE", "8448", 0);
    setenv("FI_OFI_RXM_MSG_RX_SIZE", "64", 0);
    setenv("FI_OFI_RXM_MSG_TX_SIZE", "64", 0);
    for (int bulk = 1; bulk >= 0 && list == NULL; bulk--) {
        struct fi_info *hints = make_hints(o, bulk != 0);
        if (hints == NULL)
            return -ENOMEM;
        rc = o->lib.getinfo(API, NULL, NULL, 0, hints, &list);
        o->lib.freeinfo(hints);
        o->bulk = rc == 0 && bulk != 0;
        if (rc != 0)
            list = NULL;
    }
    if (list == NULL) {
        log_error("shmem_init: libfabric has no provider%s%s with reliable datagrams (FI_EP_RDM) on host %s: %s; see "
                  "fi_info -l, and name one by SHMEM_TRANSPORT=ofi:PROVIDER, for example \"ofi:tcp;ofi_rxm\"",
                  provider[0] != '\0' ? " " : "", provider, ISO->host, o->lib.error_text(-rc));
        return -ENODEV;
    }
    list = with_hmem(o, list);
    const struct fi_info *best = choose_fabric(list, &mine);
    if (best != NULL)
        o->info = o->lib.dupinfo(best);
    else
        log_error("shmem_init: libfabric's provider %s does not listen on the address by which host %s is reached "
                  "(SHMEM_NETWORK is \"%s\"); see fi_info, and set SHMEM_NETWORK to one of its addresses",
                  list->fabric_attr->prov_name, ISO->host, ISO->env->network);
    o->lib.freeinfo(list);
    return best == NULL ? -ENODEV : o->info == NULL ? -ENOMEM : add_address(o->info, &mine);
}

/* ---- what it promises ---- */

static int read_limits(struct ofi *o)
{
    const struct fi_info *i = o->info;
    int mode = i->domain_attr->mr_mode;
    size_t most = i->ep_attr->max_msg_size;
    o->local_keys = (mode & FI_MR_LOCAL) != 0;
    o->virt_addr = (mode & FI_MR_VIRT_ADDR) != 0;
    o->prov_key = (mode & FI_MR_PROV_KEY) != 0;
    o->bind_endpoint = (mode & FI_MR_ENDPOINT) != 0;
    o->net.pins = (mode & FI_MR_ALLOCATED) != 0;
    o->depth = (unsigned)ISO_MIN(ISO_MAX(i->tx_attr->size, (size_t)1), (size_t)OFI_POSTED_MAX);
    o->bulk_max = ISO_MIN(most, (size_t)1 << 30);
    if (most < 2 * sizeof(struct ofi_message)) {
        log_error("shmem_init: libfabric's provider %s takes messages of at most %zu bytes; %zu are needed",
                  i->fabric_attr->prov_name, most, 2 * sizeof(struct ofi_message));
        return -EMSGSIZE;
    }
    o->data_max = ISO_MIN(most - sizeof(struct ofi_message), (size_t)OFI_DATA_BYTES) & ~(size_t)7;
    if (!o->prov_key && i->domain_attr->mr_key_size < 4)
        o->bulk = false; /* too few keys to be hard to guess */
    o->staged = o->bulk && i->nic == NULL;
    const char *why = !o->bulk || o->staged                              ? "no device drives this network"
                      : strcmp(ISO->env->device_rdma, "staged") == 0     ? "SHMEM_DEVICE_RDMA"
                      : strcmp(ISO_GPU, "cpu") != 0 && !o->hmem          ? "the provider has no FI_HMEM"
                                                                         : "";
    snprintf(o->device_why, sizeof o->device_why, "%s", why);
    o->net.device_direct = why[0] == '\0';
    return 0;
}

/* ---- the endpoint ---- */

/* A completion queue with a descriptor; 0 or libfabric's error. */
static int open_queue_with_fd(struct ofi *o, struct fid_cq **cq)
{
    struct fi_cq_attr attr = {.size = COMPLETIONS, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    int rc = fi_cq_open(o->domain, &attr, cq, NULL);
    if (rc == 0)
        rc = fi_control(&(*cq)->fid, FI_GETWAIT, &o->fd);
    if (rc == 0)
        return 0;
    if (*cq != NULL)
        fi_close(&(*cq)->fid);
    *cq = NULL;
    o->fd = -1;
    return rc;
}

/* Before libfabric 1.18.1 fi_trywait of FI_PROTO_XNET leaves the descriptor of a queue ready for ever, once a completion
 * has come. There a second queue, which no endpoint uses, tells when the sockets are ready: they are the domain's. */
static int open_completions(struct ofi *o)
{
    struct fi_cq_attr attr = {.size = COMPLETIONS, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
    bool apart = is_quick_tcp(o->info) && FI_VERSION_LT(o->lib.version(), FI_VERSION(1, 19));
    if (open_queue_with_fd(o, apart ? &o->bell : &o->cq) == 0 && !apart)
        return 0;
    int rc = fi_cq_open(o->domain, &attr, &o->cq, NULL); /* without a descriptor the thread looks at intervals */
    return rc != 0 ? refuse(o, "fi_cq_open", rc) : 0;
}

static int open_endpoint(struct ofi *o)
{
    struct fi_av_attr av;
    memset(&av, 0, sizeof av);
    av.type = o->info->domain_attr->av_type;
    av.count = (size_t)ISO->n_pes;
    int rc = fi_av_open(o->domain, &av, &o->av, NULL);
    if (rc != 0)
        return refuse(o, "fi_av_open", rc);
    o->info->tx_attr->op_flags = 0; /* each RMA asks for delivery completion itself */
    rc = fi_endpoint(o->domain, o->info, &o->ep, NULL);
    if (rc != 0)
        return refuse(o, "fi_endpoint", rc);
    rc = fi_ep_bind(o->ep, &o->av->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0)
        rc = fi_enable(o->ep);
    if (rc != 0)
        return refuse(o, "fi_enable", rc);
    o->name_len = sizeof o->name;
    rc = fi_getname(&o->ep->fid, o->name, &o->name_len);
    return rc != 0 || o->name_len > sizeof o->name ? refuse(o, "fi_getname", rc != 0 ? rc : -EMSGSIZE) : 0;
}

int iso_ofi_fabric_open(struct ofi *o)
{
    struct library_signals signals; /* fi_getinfo loads providers */
    iso_library_save(&signals);
    int rc = search_fabrics(o);
    iso_library_restore(&signals);
    if (rc == 0)
        rc = read_limits(o);
    if (rc != 0)
        return rc;
    rc = o->lib.fabric(o->info->fabric_attr, &o->fabric, NULL);
    if (rc != 0)
        return refuse(o, "fi_fabric", rc);
    rc = fi_domain(o->fabric, o->info, &o->domain, NULL);
    if (rc != 0)
        return refuse(o, "fi_domain", rc);
    rc = open_completions(o);
    return rc != 0 ? rc : open_endpoint(o);
}

void iso_ofi_unregister(struct ofi *o)
{
    iso_network_unregister(&o->net);
    for (int pe = 0; o->peers != NULL && pe < ISO->n_pes; pe++) {
        if (o->peers[pe].stage_mr != NULL)
            fi_close(&o->peers[pe].stage_mr->fid);
        o->peers[pe].stage_mr = NULL;
    }
    for (struct ofi_slab *slab = o->slabs; slab != NULL; slab = slab->next) {
        for (int i = 0; i < OFI_SLAB_OPS; i++) { /* of operations that were lost */
            if (slab->ops[i].once != NULL)
                fi_close(&slab->ops[i].once->fid);
            slab->ops[i].once = NULL;
        }
        if (slab->mr != NULL)
            fi_close(&slab->mr->fid);
        slab->mr = NULL;
    }
}

void iso_ofi_endpoint_close(struct ofi *o)
{
    if (o->bind_endpoint) /* it cannot be closed before them */
        iso_ofi_unregister(o);
    int rc = o->ep != NULL ? fi_close(&o->ep->fid) : 0;
    if (rc != 0)
        log_warn("ofi: fi_close of the endpoint of %s failed: %s", o->info->fabric_attr->prov_name,
                 o->lib.error_text(-rc));
    o->ep = NULL;
}

void iso_ofi_fabric_close(struct ofi *o)
{
    if (o->av != NULL)
        fi_close(&o->av->fid);
    if (o->cq != NULL)
        fi_close(&o->cq->fid);
    if (o->bell != NULL)
        fi_close(&o->bell->fid);
    if (o->domain != NULL)
        fi_close(&o->domain->fid);
    if (o->fabric != NULL)
        fi_close(&o->fabric->fid);
    if (o->info != NULL)
        o->lib.freeinfo(o->info);
}

/* ---- registrations ---- */

/* Where this PE chooses the keys, they are random, so that a stranger does not guess one. */
static int make_fabric_key(const struct ofi *o, uint64_t *key)
{
    size_t bytes = o->info->domain_attr->mr_key_size;
    if (getrandom(key, sizeof *key, 0) != sizeof *key) {
        log_error("the system gives no random bytes, so memory of pe %d is not given to the network: %m", ISO->my_pe);
        return -EIO;
    }
    *key &= bytes >= sizeof *key ? ~((uint64_t)1 << 63) : ((uint64_t)1 << 8 * bytes) - 1;
    return 0;
}

int iso_ofi_register(struct ofi *o, const void *addr, size_t len, enum ofi_memory memory, struct fid_mr **mr)
{
    const struct iovec bytes = {(void *)(uintptr_t)addr, len};
    struct fi_mr_attr attr;
    int rc = -FI_ENOKEY;
    *mr = NULL;
    if (memory == OFI_LOCAL && !o->local_keys)
        return 0;
    memset(&attr, 0, sizeof attr);
    attr.mr_iov = &bytes;
    attr.iov_count = 1;
    attr.access = FI_SEND | FI_RECV;
    if (o->bulk)
        attr.access |= FI_READ | FI_WRITE | (memory != OFI_LOCAL ? FI_REMOTE_READ | FI_REMOTE_WRITE : 0);
    if (memory == OFI_DEVICE && strcmp(ISO_GPU, "cuda") == 0) {
        attr.iface = FI_HMEM_CUDA;
        attr.device.cuda = iso_gpu_describe(iso_agent_gpu())->device;
    } else if (memory == OFI_DEVICE && strcmp(ISO_GPU, "hip") == 0) {
        attr.iface = FI_HMEM_ROCR;
    }
    for (int i = 0; i < KEYS_TRIED && rc == -FI_ENOKEY; i++) {
        if (!o->prov_key && make_fabric_key(o, &attr.requested_key) != 0)
            return -EIO;
        rc = memory == OFI_DEVICE && o->hmem
                 ? fi_mr_regattr(o->domain, &attr, 0, mr)
                 : fi_mr_reg(o->domain, addr, len, attr.access, 0, attr.requested_key, 0, mr, NULL);
    }
    o->counts.registrations++;
    if (rc == 0 && o->bind_endpoint) {
        rc = fi_mr_bind(*mr, &o->ep->fid, 0);
        if (rc == 0)
            rc = fi_mr_enable(*mr);
        if (rc != 0)
            fi_close(&(*mr)->fid);
    }
    if (rc != 0)
        *mr = NULL;
    return rc;
}

/* Registered memory, for RMA only: messages need no key of the peer. Ranges of segments are for network_memory.c. */

/* ---- registrations ---- */

/* When registering device memory fails, none is reached by RMA any more. */
int iso_ofi_expose(const struct segment *s, struct range r, void **mr)
{
    struct ofi *o = ISO->ofi;
    struct fid_mr *fid = NULL;
    size_t len = (size_t)(r.end - r.start);
    int rc = iso_ofi_register(o, (const void *)(uintptr_t)r.start, len, s->on_device ? OFI_DEVICE : OFI_REMOTE, &fid);
    *mr = fid;
    if (rc == 0 || !s->on_device)
        return rc;
    o->net.device_direct = false;
    snprintf(o->device_why, sizeof o->device_why, "registering %zu KiB failed: %.100s", len >> 10,
             o->lib.error_text(-rc));
    log_info("ofi: device memory goes by messages: %s", o->device_why);
    return rc;
}

void iso_ofi_conceal(struct network *n, void *mr)
{
    (void)n;
    fi_close(&((struct fid_mr *)mr)->fid);
}

struct fid_mr *iso_ofi_local(struct ofi *o, const void *addr, size_t *len, struct fid_mr **once)
{
    int error = 0;
    *once = NULL;
    const struct segment *s = o->local_keys || o->net.regions.n > 0 ? iso_segment_of(addr, 1) : NULL;
    if (!o->local_keys && (s == NULL || !s->on_device))
        return NULL;
    const struct network_region *r =
        s != NULL ? iso_network_region_at(&o->net, s, addr, &error) : NULL; /* a device's is there */
    if (r != NULL) {
        *len = (size_t)ISO_MIN((uint64_t)*len, r->end - (uint64_t)(uintptr_t)addr);
        return (struct fid_mr *)r->mr;
    }
    if (error == 0)
        error = iso_ofi_register(o, addr, *len, OFI_LOCAL, once);
    if (error != 0)
        iso_network_lose(&o->net, -1, "registering %zu bytes at %p of pe %d (host %s) with libfabric's provider %s "
                         "failed: %s; the limit of locked memory is %llu KiB", *len, addr, ISO->my_pe, ISO->host,
                         o->info->fabric_attr->prov_name, o->lib.error_text(-error),
                         (unsigned long long)iso_range_locked_limit() >> 10);
    return *once;
}

/* ---- keys of peers ---- */

int iso_ofi_make_key(int pe, const struct segment *s, const void *addr, struct network_key *key)
{
    struct ofi *o = ISO->ofi;
    int error = 0;
    (void)pe;
    bool by_rma = !s->on_device || o->net.device_direct;
    const struct network_region *r = by_rma ? iso_network_region_at(&o->net, s, addr, &error) : NULL;
    if (r != NULL) {
        bool flushes = s->on_device && !iso_gpu_describe(iso_agent_gpu())->orders_writes;
        *key = (struct network_key){.start = r->start,
                                    .end = r->end,
                                    .at = o->virt_addr ? 0 : r->start,
                                    .key = fi_mr_key((struct fid_mr *)r->mr),
                                    .flushes = flushes};
        return 0;
    }
    struct range around = iso_range_around(s, addr); /* of any range: messages find out */
    *key = (struct network_key){.start = around.start, .end = around.end, .by_cpu = 1};
    return s->on_device ? 0 : error;
}

/* ---- stages ---- */

struct network_key iso_ofi_stage_of(struct ofi *o, int pe)
{
    struct ofi_peer *peer = &o->peers[pe];
    struct network_key_info info = {.type = OFI_STAGE};
    if (ISO_LIKELY(peer->there.end != 0) || iso_network_has_lost(&o->net, pe))
        return peer->there;
    int rc = iso_network_ask(&o->net, pe, &info, sizeof info);
    if (iso_network_has_lost(&o->net, pe))
        return peer->there;
    if (rc != 0 || info.error != 0)
        iso_network_lose(&o->net, -1, "pe %d (host %s) has no stage of %d bytes for puts of pe %d (host %s): %s", pe,
                         ISO->peers[pe].host, OFI_STAGE_BYTES, ISO->my_pe, ISO->host,
                         o->lib.error_text(rc != 0 ? -rc : -info.error));
    if (peer->there.end == 0 && !o->net.lost) { /* else another thread was faster */
        peer->there = info.key;
        peer->free_parts = (1u << OFI_PARTS) - 1;
    }
    return peer->there;
}

int iso_ofi_answer_stage(struct ofi *o, int pe, struct network_key *key)
{
    struct ofi_peer *peer = &o->peers[pe];
    if (peer->stage == NULL) {
        char *at = iso_network_map(OFI_STAGE_BYTES);
        int rc = at != NULL ? iso_ofi_register(o, at, OFI_STAGE_BYTES, OFI_REMOTE, &peer->stage_mr) : -ENOMEM;
        if (rc != 0 && at != NULL)
            munmap(at, OFI_STAGE_BYTES);
        if (rc != 0)
            return rc;
        peer->stage = at;
    }
    uint64_t start = (uint64_t)(uintptr_t)peer->stage;
    *key = (struct network_key){.start = start,
                                .end = start + OFI_STAGE_BYTES,
                                .at = o->virt_addr ? 0 : start,
                                .key = fi_mr_key(peer->stage_mr)};
    return 0;
}

void iso_ofi_memory_stop(struct ofi *o)
{
    for (int pe = 0; o->peers != NULL && pe < ISO->n_pes; pe++)
        if (o->peers[pe].stage != NULL)
            munmap(o->peers[pe].stage, OFI_STAGE_BYTES);

}
