/* SPDX-License-Identifier: MIT */
/* fabric PROVIDER ADDRESS PORT [SERVER]: what a pair of processes gets from a provider of libfabric without any
 * runtime: one write or read with its completion, a message with its answer; and from a bare TCP connection: a stream
 * whose end is answered. Started without SERVER on one node, with the other's address on the second, which measures.
 * ADDRESS: this node's. PORT: of the TCP connection by which they meet. Lines of `net,fabric,METRIC,value,unit` and
 * `net,tcp,...`; wrong data ends with 1. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 9, EACH = 200, BYTES = 8 << 20, HALF = BYTES / 2, ANSWER = 4096, ADDRESS = 128 };

struct address {
    uint64_t base, key, len;
    char name[ADDRESS];
};

static struct {
    int socket;
    struct fi_info *info;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_mr *mr;
    void *desc;
    fi_addr_t peer;
    char *base;
    struct address mine, theirs;
} f;

static void stop(const char *what, int rc)
{
    fprintf(stderr, "fabric: %s: %s\n", what, fi_strerror(rc < 0 ? -rc : rc));
    exit(1);
}

static void must(int rc, const char *what)
{
    if (rc != 0)
        stop(what, rc);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* -- the TCP connection -------------------------------------------------------------------------------------------- */

static int tcp_of(const char *server, const char *tcp_port)
{
    struct addrinfo *info = NULL, hints;
    int one = 1, s = -1;
    memset(&hints, 0, sizeof hints);
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    if (getaddrinfo(server, tcp_port, &hints, &info) != 0)
        stop("no such host", FI_EINVAL);
    for (int tries = 0; tries < 100; tries++) {
        s = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (!server) {
            if (bind(s, info->ai_addr, info->ai_addrlen) != 0 || listen(s, 1) != 0)
                stop("the port is taken", FI_EADDRINUSE);
            s = accept(s, NULL, NULL);
        } else if (connect(s, info->ai_addr, info->ai_addrlen) != 0) {
            close(s);
            usleep(100000);
            continue;
        }
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        freeaddrinfo(info);
        return s;
    }
    stop("the server does not answer", FI_ETIMEDOUT);
    return -1;
}

static void give(const void *data, size_t len)
{
    const char *at = (const char *)data;
    while (len > 0) {
        ssize_t n = send(f.socket, at, len, MSG_NOSIGNAL);
        if (n <= 0)
            stop("the other side is gone", FI_ECONNRESET);
        at += n;
        len -= (size_t)n;
    }
}

static void take(void *data, size_t len)
{
    if (recv(f.socket, data, len, MSG_WAITALL) != (ssize_t)len)
        stop("the other side is gone", FI_ECONNRESET);
}

static void meet(void)
{
    char byte = 'm';
    give(&byte, 1);
    take(&byte, 1);
}

/* -- the endpoint -------------------------------------------------------------------------------------------------- */

static void open_endpoint(const char *provider, const char *mine)
{
    struct fi_info *hints = fi_allocinfo();
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    size_t len = ADDRESS;
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(provider);
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    must(fi_getinfo(FI_VERSION(1, 15), mine, NULL, FI_SOURCE, hints, &f.info), provider);
    must(fi_fabric(f.info->fabric_attr, &fabric, NULL), "fi_fabric");
    must(fi_domain(fabric, f.info, &domain, NULL), "fi_domain");
    must(fi_cq_open(domain, &cq, &f.cq, NULL), "fi_cq_open");
    must(fi_av_open(domain, &attr, &av, NULL), "fi_av_open");
    must(fi_endpoint(domain, f.info, &f.ep, NULL), "fi_endpoint");
    must(fi_ep_bind(f.ep, &f.cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_ep_bind(f.ep, &av->fid, 0), "fi_ep_bind");
    must(fi_enable(f.ep), "fi_enable");
    must(posix_memalign((void **)&f.base, 4096, BYTES), "memory");
    memset(f.base, 0, BYTES);
    uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    must(fi_mr_reg(domain, f.base, BYTES, access, 0, 1, 0, &f.mr, NULL), "fi_mr_reg");
    f.desc = fi_mr_desc(f.mr);
    f.mine.base = f.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)f.base : 0;
    f.mine.key = fi_mr_key(f.mr);
    must(fi_getname(&f.ep->fid, f.mine.name, &len), "fi_getname");
    f.mine.len = len;
    give(&f.mine, sizeof f.mine);
    take(&f.theirs, sizeof f.theirs);
    if (fi_av_insert(av, f.theirs.name, 1, &f.peer, 0, NULL) != 1)
        stop("fi_av_insert", FI_EADDRNOTAVAIL);
    fi_freeinfo(hints);
}

static void complete(int count)
{
    struct fi_cq_entry done;
    while (count > 0) {
        ssize_t n = fi_cq_read(f.cq, &done, 1);
        if (n == -FI_EAGAIN) {
            sched_yield();
            continue;
        }
        if (n < 0)
            stop("fi_cq_read", (int)n);
        count -= (int)n;
    }
}

/* Posts what may be told to come again, and goes on with what came before meanwhile. */
#define POST(call)                                                     \
    do {                                                               \
        ssize_t rc_;                                                   \
        while ((rc_ = (call)) == -FI_EAGAIN)                           \
            (void)fi_cq_read(f.cq, NULL, 0);                           \
        if (rc_ != 0)                                                  \
            stop(#call, (int)rc_);                                     \
    } while (0)

/* -- what is measured ---------------------------------------------------------------------------------------------- */

static void put(size_t len, int iterations)
{
    for (int i = 0; i < iterations; i++) {
        struct iovec piece = {f.base, len};
        struct fi_rma_iov there = {f.theirs.base + HALF, len, f.theirs.key};
        struct fi_msg_rma write = {&piece, &f.desc, 1, f.peer, &there, 1, NULL, 0};
        POST(fi_writemsg(f.ep, &write, FI_DELIVERY_COMPLETE | FI_COMPLETION));
        complete(1);
    }
}

static void get(size_t len, int iterations)
{
    for (int i = 0; i < iterations; i++) {
        POST(fi_read(f.ep, f.base, len, f.desc, f.peer, f.theirs.base + HALF, f.theirs.key, NULL));
        complete(1);
    }
}

/* The answer's receive is posted before; two completions on each side, sent and received. */
static void ask(size_t len, int iterations)
{
    for (int i = 0; i < iterations; i++) {
        POST(fi_recv(f.ep, f.base + ANSWER, len, f.desc, f.peer, NULL));
        POST(fi_send(f.ep, f.base, len, f.desc, f.peer, NULL));
        complete(2);
    }
}

static void answer(size_t len, int count)
{
    for (int i = 0; i < count; i++) {
        POST(fi_recv(f.ep, f.base + ANSWER, len, f.desc, f.peer, NULL));
        complete(1);
        POST(fi_send(f.ep, f.base, len, f.desc, f.peer, NULL));
        complete(1);
    }
}

static void tcp_stream(size_t len, int iterations)
{
    char byte;
    for (int i = 0; i < iterations; i++)
        give(f.base, len);
    take(&byte, 1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef void body(size_t len, int iterations);

static void measure(const char *system, const char *metric, body *run, size_t len, int iterations)
{
    double took[BATCHES];
    for (int b = -1; b < BATCHES; b++) {
        double begin = now_us();
        run(len, iterations);
        if (b >= 0)
            took[b] = (now_us() - begin) / iterations;
    }
    qsort(took, BATCHES, sizeof took[0], by_value);
    double us = took[BATCHES / 2];
    printf("net,%s,%s,%.6g,%s\n", system, metric, len > 8 ? (double)len / us : us, len > 8 ? "MB/s" : "us");
}

static const struct {
    const char *metric;
    size_t len;
    int iterations;
} streams[] = {{"put 64 KiB", 64 << 10, 16}, {"put 1 MiB", 1 << 20, 2}, {"put 4 MiB", 4 << 20, 1}};
enum { STREAMS = sizeof streams / sizeof streams[0] };

static void client(void)
{
    measure("fabric", "put_signal ping-pong", ask, 8, EACH);
    memset(f.base, 'p', HALF);
    measure("fabric", "put+quiet 8 B", put, 8, EACH);
    for (int i = 0; i < STREAMS; i++)
        measure("fabric", streams[i].metric, put, streams[i].len, streams[i].iterations);
    meet();
    memset(f.base, 0, HALF);
    measure("fabric", "get 8 B", get, 8, EACH);
    for (int i = 0; i < 8; i++)
        if (f.base[i] != 'p')
            stop("wrong data read", FI_EIO);
    meet();
    for (int i = 0; i < STREAMS; i++)
        measure("tcp", streams[i].metric, tcp_stream, streams[i].len, streams[i].iterations);
    meet();
}

/* A provider without threads of its own moves nothing while nobody looks: so until the client's byte is there. */
static void serve(void)
{
    char byte;
    ssize_t n;
    while ((n = recv(f.socket, &byte, 1, MSG_DONTWAIT)) != 1) {
        if (n == 0 || errno != EAGAIN)
            stop("the other side is gone", FI_ECONNRESET);
        (void)fi_cq_read(f.cq, NULL, 0);
        sched_yield();
    }
    give(&byte, 1);
}

static void server(void)
{
    answer(8, EACH * (BATCHES + 1));
    serve();
    for (int i = 0; i < HALF; i++)
        if (f.base[HALF + i] != 'p')
            stop("wrong data written", FI_EIO);
    serve();
    for (int i = 0; i < STREAMS; i++)
        for (int k = 0; k < BATCHES + 1; k++) {
            for (int n = 0; n < streams[i].iterations; n++)
                take(f.base, streams[i].len);
            give("t", 1);
        }
    meet();
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: fabric PROVIDER ADDRESS PORT [SERVER]\n");
        return 2;
    }
    f.socket = tcp_of(argc > 4 ? argv[4] : NULL, argv[3]);
    open_endpoint(argv[1], argv[2]);
    if (argc > 4)
        client();
    else
        server();
    return 0;
}
