/* SPDX-License-Identifier: MIT */
/* A double in front of libfabric, for ofi_native.sh: a shared object that is loaded instead of it, passes all on, and
 * makes a provider promise and do less. The variable ISO_OFI_SHIM has words with commas between:
 *   again    posts are refused (FI_EAGAIN) at random, two of three
 *   reorder  completions, of receives too, come in random order
 *   tiny     a queue has room for two operations, and for three receives
 *   norma    there is no RMA
 *   slow     completions, of receives too, come 20 ms late
 *   nofd     there is no descriptor to sleep on
 *   small    messages have 200 bytes at most
 *   local    local memory must be registered (FI_MR_LOCAL): a post without is an error
 *   nic      the provider drives a device: large puts go straight to their place
 *   hmem     it takes memory of GPUs, registered as such (FI_HMEM); the CPU device's is memory of the system
 *   keys     the provider chooses the keys (FI_MR_PROV_KEY), and wants addresses (FI_MR_VIRT_ADDR)
 * ofi_native.sh runs random traffic with them. */
#define _GNU_SOURCE
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
enum { HELD_MAX = 64, SMALL = 200 };
#define SLOW_S 0.02

static void *real;
static uint64_t state = 88172645463325252u;
static struct fi_cq_msg_entry held[HELD_MAX];
static size_t n_held;
static double held_since;
static struct fid_nic device;

static uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool wants(const char *word)
{
    const char *all = getenv("ISO_OFI_SHIM"), *at = all;
    size_t n = strlen(word);
    while (at != NULL && (at = strstr(at, word)) != NULL) {
        if ((at == all || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
            return true;
        at += n;
    }
    return false;
}

static void die(const char *what)
{
    fprintf(stderr, "ofi_shim: %s\n", what);
    abort();
}

static void find(const char *name, void *function)
{
    const char *path = getenv("ISO_OFI_REAL");
    if (real == NULL)
        real = dlopen(path != NULL ? path : "", RTLD_NOW | RTLD_LOCAL);
    void *symbol = real != NULL ? dlsym(real, name) : NULL;
    if (symbol == NULL)
        die("ISO_OFI_REAL is not the path of libfabric");
    memcpy(function, &symbol, sizeof symbol);
}

/* ---- the endpoint and the queue: their tables are copied and changed ---- */

static struct fi_ops_msg msg, *real_msg;
static struct fi_ops_rma rma, *real_rma;
static struct fi_ops_cq cq_ops, *real_cq;
static struct fi_ops_domain domain_ops, *real_domain;
static struct fi_ops_mr mr_ops, *real_mr;
static struct fi_ops_fabric fabric_ops, *real_fabric;

static bool refuses(void) { return wants("again") && draw(3) != 0; }

static void check_desc(void *const *desc)
{
    if (wants("local") && (desc == NULL || desc[0] == NULL))
        die("a post without a registration of its local memory");
}

/* The provider below knows nothing of our bits: a registration of its own may have no descriptor. */
static char registered;

static ssize_t sendmsg_(struct fid_ep *ep, const struct fi_msg *m, uint64_t flags)
{
    struct fi_msg plain = *m;
    check_desc(m->desc);
    if (wants("small") && m->msg_iov->iov_len > SMALL)
        die("a message is longer than the provider takes");
    plain.desc = NULL;
    return refuses() ? -FI_EAGAIN : real_msg->sendmsg(ep, &plain, flags);
}

static ssize_t recvmsg_(struct fid_ep *ep, const struct fi_msg *m, uint64_t flags)
{
    struct fi_msg plain = *m;
    check_desc(m->desc);
    plain.desc = NULL;
    return refuses() ? -FI_EAGAIN : real_msg->recvmsg(ep, &plain, flags);
}

/* With `keys` a key tells the start of its registration, of whole pages. */
static void plain_rma(struct fi_msg_rma *m, struct fi_rma_iov *iov)
{
    check_desc(m->desc);
    *iov = *m->rma_iov;
    m->desc = NULL;
    if (wants("keys")) { /* the real provider wants the distance from the start */
        uint64_t start = iov->key & ~(uint64_t)4095;
        if (iov->addr < start)
            die("an address that is not one of the target's");
        iov->addr -= start;
    }
    m->rma_iov = iov;
}

static ssize_t writemsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
    struct fi_msg_rma plain = *m;
    struct fi_rma_iov iov;
    plain_rma(&plain, &iov);
    if ((flags & FI_DELIVERY_COMPLETE) == 0)
        die("a write that does not ask for delivery completion");
    return refuses() ? -FI_EAGAIN : real_rma->writemsg(ep, &plain, flags);
}

static ssize_t readmsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
    struct fi_msg_rma plain = *m;
    struct fi_rma_iov iov;
    plain_rma(&plain, &iov);
    return refuses() ? -FI_EAGAIN : real_rma->readmsg(ep, &plain, flags);
}

static ssize_t cq_read(struct fid_cq *cq, void *buffer, size_t count)
{
    struct fi_cq_msg_entry *out = (struct fi_cq_msg_entry *)buffer;
    size_t n = 0;
    ssize_t got = real_cq->read(cq, held + n_held, HELD_MAX - n_held);
    if (got < 0 && got != -FI_EAGAIN)
        return got;
    if (n_held == 0 && got > 0)
        held_since = now_s();
    n_held += got > 0 ? (size_t)got : 0;
    if (wants("slow") && now_s() - held_since < SLOW_S)
        return -FI_EAGAIN;
    for (; n < count && n_held > 0; n++) {
        size_t i = wants("reorder") ? (size_t)draw(n_held) : n_held - 1;
        out[n] = held[i];
        held[i] = held[--n_held];
    }
    return n > 0 ? (ssize_t)n : -FI_EAGAIN;
}

static int mr_reg(struct fid *fid, const void *at, size_t len, uint64_t access, uint64_t offset, uint64_t key,
                  uint64_t flags, struct fid_mr **mr, void *context)
{
    if (wants("keys")) {
        if (key != 0)
            die("a key is wished for, but the provider chooses it");
        if (((uintptr_t)at & 4095) != 0 || (access & FI_REMOTE_WRITE) == 0)
            key = (uint64_t)1 << 62 | draw((uint64_t)1 << 61); /* of local memory */
        else
            key = (uint64_t)(uintptr_t)at | 1;
    }
    int rc = real_mr->reg(fid, at, len, access, offset, key, flags, mr, context);
    if (rc == 0 && (*mr)->mem_desc == NULL)
        (*mr)->mem_desc = &registered;
    return rc;
}

/* Of device memory alone. */
static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr)
{
    if (!wants("hmem") || attr->iface != FI_HMEM_SYSTEM || attr->iov_count != 1)
        die("memory of a kind that the provider does not take");
    return mr_reg(fid, attr->mr_iov->iov_base, attr->mr_iov->iov_len, attr->access, attr->offset, attr->requested_key,
                  flags, mr, attr->context);
}

static int endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    struct fi_info plain = *info;
    plain.caps &= ~FI_HMEM;
    plain.nic = NULL;
    int rc = real_domain->endpoint(domain, &plain, ep, context);
    if (rc != 0 || info->ep_attr->type != FI_EP_RDM) /* the provider's own connections */
        return rc;
    real_msg = (*ep)->msg;
    msg = *real_msg;
    msg.sendmsg = sendmsg_;
    msg.recvmsg = recvmsg_;
    (*ep)->msg = &msg;
    real_rma = (*ep)->rma;
    rma = *real_rma;
    rma.writemsg = writemsg;
    rma.readmsg = readmsg;
    (*ep)->rma = &rma;
    return 0;
}

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
    if (wants("nofd") && attr->wait_obj != FI_WAIT_NONE)
        return -FI_ENOSYS;
    int rc = real_domain->cq_open(domain, attr, cq, context);
    if (rc != 0 || !(wants("reorder") || wants("slow")))
        return rc;
    real_cq = (*cq)->ops;
    cq_ops = *real_cq;
    cq_ops.read = cq_read;
    (*cq)->ops = &cq_ops;
    return 0;
}

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
    struct fi_info plain = *info;
    struct fi_domain_attr attr = *info->domain_attr;
    attr.mr_mode = 0;
    plain.domain_attr = &attr;
    plain.caps &= ~FI_HMEM;
    plain.nic = NULL;
    int rc = real_fabric->domain(fabric, &plain, domain, context);
    if (rc != 0)
        return rc;
    real_domain = (*domain)->ops;
    domain_ops = *real_domain;
    domain_ops.endpoint = endpoint;
    domain_ops.cq_open = cq_open;
    (*domain)->ops = &domain_ops;
    real_mr = (*domain)->mr;
    mr_ops = *real_mr;
    mr_ops.reg = mr_reg;
    mr_ops.regattr = mr_regattr;
    (*domain)->mr = &mr_ops;
    return 0;
}

/* ---- what is exported ---- */

EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                      const struct fi_info *hints, struct fi_info **info)
{
    __typeof__(&fi_getinfo) call;
    find("fi_getinfo", &call);
    bool hmem = (hints->caps & FI_HMEM) != 0;
    if ((wants("norma") && (hints->caps & FI_RMA) != 0) || (hmem && !wants("hmem")))
        return -FI_ENODATA;
    struct fi_info *asked = fi_dupinfo(hints);
    if (asked == NULL)
        return -FI_ENOMEM;
    asked->caps &= ~FI_HMEM;
    asked->nic = NULL;
    int rc = call(version, node, service, flags, asked, info);
    fi_freeinfo(asked);
    for (struct fi_info *i = rc == 0 ? *info : NULL; i != NULL; i = i->next) {
        i->caps |= hmem ? FI_HMEM : 0;
        if (wants("nic"))
            i->nic = &device;
        i->domain_attr->mr_mode |= (wants("local") ? FI_MR_LOCAL : 0) |
                                   (wants("keys") ? FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED : 0);
        if (wants("tiny")) {
            i->tx_attr->size = 2;
            i->rx_attr->size = 3;
        }
        if (wants("small"))
            i->ep_attr->max_msg_size = SMALL;
    }
    return rc;
}

EXPORT void fi_freeinfo(struct fi_info *info)
{
    __typeof__(&fi_freeinfo) call;
    find("fi_freeinfo", &call);
    for (struct fi_info *i = info; i != NULL; i = i->next)
        if (i->nic == &device)
            i->nic = NULL;
    call(info);
}

EXPORT struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    __typeof__(&fi_dupinfo) call;
    find("fi_dupinfo", &call);
    struct fi_info plain;
    if (info == NULL)
        return call(NULL);
    plain = *info; /* a copy of the device would be made, and freed, by the real one */
    plain.nic = NULL;
    struct fi_info *copy = call(&plain);
    if (copy != NULL && wants("nic"))
        copy->nic = &device;
    return copy;
}

EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    __typeof__(&fi_fabric) call;
    find("fi_fabric", &call);
    int rc = call(attr, fabric, context);
    if (rc != 0)
        return rc;
    real_fabric = (*fabric)->ops;
    fabric_ops = *real_fabric;
    fabric_ops.domain = open_domain;
    (*fabric)->ops = &fabric_ops;
    return 0;
}

EXPORT const char *fi_strerror(int number)
{
    __typeof__(&fi_strerror) call;
    find("fi_strerror", &call);
    return call(number);
}

EXPORT uint32_t fi_version(void)
{
    __typeof__(&fi_version) call;
    find("fi_version", &call);
    return call();
}
