/* SPDX-License-Identifier: MIT */
/* verbs DEVICE GID-INDEX all|both PORT [SERVER]: what a pair of RDMA devices gives without any runtime: one reliable
 * connection, one request at a time with its completion, streams, a message with its answer, both sides writing each
 * other a flag. `both`: only the last two, for which the processes of both sides must run, each from the next full
 * second on, so that several pairs work at the same time. Started without SERVER on one node, with the other's name on
 * the second, which measures. PORT: of the TCP connection by which they meet. Lines of `net,verbs,METRIC,value,unit`;
 * wrong data ends with 1. */
#include <infiniband/verbs.h>

#include <netdb.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCHES = 9,
    BYTES = 16 << 20,
    HALF = BYTES / 2,
    DEPTH = 64,
    ANSWER = 4096,
    COUNTER = 8192,
    FLAG_OUT = BYTES - 128,
    FLAG_IN = BYTES - 64
};

struct address {
    uint32_t queue_pair, key;
    uint64_t base;
    union ibv_gid gid;
};

static struct {
    bool at_seconds;
    int socket;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char *base;
    struct address mine, theirs;
} v;

static void stop(const char *what)
{
    fprintf(stderr, "verbs: %s\n", what);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* -- connection -----------------------------------------------------------------------------------------------------
 */

static int tcp_of(const char *server, const char *tcp_port)
{
    struct addrinfo *info = NULL, hints;
    int one = 1, s = -1;
    memset(&hints, 0, sizeof hints);
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    if (getaddrinfo(server, tcp_port, &hints, &info) != 0)
        stop("no such host");
    for (int tries = 0; tries < 100; tries++) {
        s = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (!server)
            return bind(s, info->ai_addr, info->ai_addrlen) == 0 && listen(s, 1) == 0 ? accept(s, NULL, NULL) : -1;
        if (connect(s, info->ai_addr, info->ai_addrlen) == 0)
            return s;
        close(s);
        usleep(100000);
    }
    return -1;
}

static void exchange(const void *mine, void *theirs, size_t len)
{
    if (send(v.socket, mine, len, 0) != (ssize_t)len || recv(v.socket, theirs, len, MSG_WAITALL) != (ssize_t)len)
        stop("the other side is gone");
}

static void meet(void)
{
    char mine = 'm', theirs;
    exchange(&mine, &theirs, 1);
}

static struct ibv_context *device_called(const char *name)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            return ibv_open_device(list[i]);
    return NULL;
}

static void make(struct ibv_context *context)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    v.base = (char *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    v.mr = pd && v.base != (char *)MAP_FAILED ? ibv_reg_mr(pd, v.base, BYTES, access) : NULL;
    v.cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
    if (!v.mr || !v.cq)
        stop("no memory region or completion queue");
    struct ibv_qp_init_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.send_cq = attr.recv_cq = v.cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 2 * DEPTH;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.cap.max_inline_data = 64;
    v.qp = ibv_create_qp(pd, &attr);
    if (!v.qp)
        stop("no queue pair");
}

static void receive_one(void)
{
    struct ibv_sge piece = {(uintptr_t)v.base + ANSWER, 8, v.mr->lkey};
    struct ibv_recv_wr request = {.sg_list = &piece, .num_sge = 1}, *bad;
    if (ibv_post_recv(v.qp, &request, &bad) != 0)
        stop("ibv_post_recv");
}

static void join(struct ibv_context *context, int gid_index)
{
    struct ibv_port_attr port;
    if (ibv_query_port(context, 1, &port) != 0 || ibv_query_gid(context, 1, gid_index, &v.mine.gid) != 0)
        stop("no port or GID");
    v.mine.queue_pair = v.qp->qp_num;
    v.mine.key = v.mr->rkey;
    v.mine.base = (uintptr_t)v.base;
    exchange(&v.mine, &v.theirs, sizeof v.mine);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    int failed = ibv_modify_qp(v.qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    struct ibv_qp_attr r = {.qp_state = IBV_QPS_RTR, .path_mtu = port.active_mtu, .dest_qp_num = v.theirs.queue_pair};
    r.max_dest_rd_atomic = 16, r.min_rnr_timer = 12;
    r.ah_attr.is_global = 1, r.ah_attr.port_num = 1, r.ah_attr.dlid = port.lid;
    r.ah_attr.grh.dgid = v.theirs.gid, r.ah_attr.grh.sgid_index = (uint8_t)gid_index, r.ah_attr.grh.hop_limit = 64;
    failed |= ibv_modify_qp(v.qp, &r,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    struct ibv_qp_attr s = {
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 16};
    failed |= ibv_modify_qp(v.qp, &s,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC);
    if (failed)
        stop("the queue pair does not get ready");
}

/* -- operations -----------------------------------------------------------------------------------------------------
 */

static void post(enum ibv_wr_opcode opcode, size_t local, size_t remote, size_t len)
{
    struct ibv_sge piece = {(uintptr_t)v.base + local, (uint32_t)len, v.mr->lkey};
    struct ibv_send_wr request = {.sg_list = &piece, .num_sge = 1, .opcode = opcode}, *bad;
    request.send_flags = IBV_SEND_SIGNALED | (len == 8 && opcode != IBV_WR_RDMA_READ ? IBV_SEND_INLINE : 0u);
    request.wr.rdma.remote_addr = v.theirs.base + remote;
    request.wr.rdma.rkey = v.theirs.key;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        request.send_flags = IBV_SEND_SIGNALED;
        request.wr.atomic.remote_addr = v.theirs.base + remote;
        request.wr.atomic.rkey = v.theirs.key;
        request.wr.atomic.compare_add = 1;
    }
    if (ibv_post_send(v.qp, &request, &bad) != 0)
        stop("ibv_post_send");
}

static void complete(int count)
{
    struct ibv_wc done;
    while (count > 0) {
        int n = ibv_poll_cq(v.cq, 1, &done);
        if (n < 0 || (n > 0 && done.status != IBV_WC_SUCCESS))
            stop(n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(done.status));
        if (n == 0)
            sched_yield();
        count -= n;
    }
}

static void one_by_one(enum ibv_wr_opcode opcode, size_t len, int iterations)
{
    for (int i = 0; i < iterations; i++) {
        post(opcode, 0, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? COUNTER : HALF, len);
        complete(1);
    }
}

/* As many at a time as DEPTH allows. */
static void stream(enum ibv_wr_opcode opcode, size_t len, int iterations)
{
    int most = iterations < DEPTH ? iterations : DEPTH;
    for (int i = 0; i < iterations; i++) {
        if (i >= most)
            complete(1);
        post(opcode, 0, HALF, len);
    }
    complete(most);
}

/* The server answers each message; two completions on each side: sent, received. */
static void ask(enum ibv_wr_opcode opcode, size_t len, int iterations)
{
    for (int i = 0; i < iterations; i++) {
        receive_one();
        post(opcode, 0, 0, len);
        complete(2);
    }
}

static void answer(int count)
{
    receive_one();
    for (int i = 0; i < count; i++) {
        complete(1 + (i > 0)); /* the message; and the answer before it */
        if (i + 1 < count)
            receive_one();
        post(IBV_WR_SEND, ANSWER, 0, 8);
    }
    complete(1);
}

/* What a barrier of two must do: both sides at once. */
static void flag_each_other(enum ibv_wr_opcode opcode, size_t len, int iterations)
{
    uint64_t *out = (uint64_t *)(void *)(v.base + FLAG_OUT), *in = (uint64_t *)(void *)(v.base + FLAG_IN);
    for (int i = 0; i < iterations; i++) {
        ++*out;
        post(opcode, FLAG_OUT, FLAG_IN, len);
        while (__atomic_load_n(in, __ATOMIC_ACQUIRE) < *out)
            sched_yield();
        complete(1);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void await_second(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    usleep((useconds_t)(1000000 - t.tv_nsec / 1000));
}

typedef void body(enum ibv_wr_opcode opcode, size_t len, int iterations);

static void measure(const char *metric, body *run, enum ibv_wr_opcode opcode, size_t len, int iterations)
{
    double took[BATCHES];
    if (v.at_seconds)
        await_second();
    for (int b = -1; b < BATCHES; b++) {
        double begin = now_us();
        run(opcode, len, iterations);
        if (b >= 0)
            took[b] = (now_us() - begin) / iterations;
    }
    qsort(took, BATCHES, sizeof took[0], by_value);
    double us = took[BATCHES / 2];
    printf("net,verbs,%s,%.6g,%s\n", metric, len > 8 ? (double)len / us : us, len > 8 ? "MB/s" : "us");
}

enum { ASKED = 200 * (BATCHES + 1), ADDED = 200 * (BATCHES + 1), FLAGGED = 200 * (BATCHES + 1) };

static void client_of_both(void)
{
    measure("message and answer", ask, IBV_WR_SEND, 8, ASKED / (BATCHES + 1));
    measure("flags both ways", flag_each_other, IBV_WR_RDMA_WRITE, 8, FLAGGED / (BATCHES + 1));
}

static void server_of_both(void)
{
    answer(ASKED);
    flag_each_other(IBV_WR_RDMA_WRITE, 8, FLAGGED);
}

static void client(void)
{
    for (size_t i = 0; i < HALF; i++)
        v.base[i] = (char)(i * 7 + (i >> 9));
    meet();
    client_of_both();
    measure("put+quiet 8 B", one_by_one, IBV_WR_RDMA_WRITE, 8, 200);
    measure("get 8 B", one_by_one, IBV_WR_RDMA_READ, 8, 200);
    measure("fetch_add", one_by_one, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, ADDED / (BATCHES + 1));
    for (size_t i = 0; i < HALF; i++)
        v.base[i] = (char)(i * 7 + (i >> 9));
    measure("put 8 B stream", stream, IBV_WR_RDMA_WRITE, 8, 1000);
    measure("put 64 KiB", stream, IBV_WR_RDMA_WRITE, 64 << 10, 16);
    measure("put 1 MiB", stream, IBV_WR_RDMA_WRITE, 1 << 20, 2);
    measure("put 4 MiB", stream, IBV_WR_RDMA_WRITE, 4 << 20, 1);
    meet();
    memset(v.base, 0, HALF);
    measure("get 1 MiB", stream, IBV_WR_RDMA_READ, 1 << 20, 2);
    for (size_t i = 0; i < 1 << 20; i++)
        if (v.base[i] != (char)(i * 7 + (i >> 9)))
            stop("wrong data read");
    meet();
}

static void server(void)
{
    uint64_t added;
    meet();
    server_of_both();
    meet();
    for (size_t i = 0; i < 4 << 20; i++)
        if (v.base[HALF + i] != (char)(i * 7 + (i >> 9)))
            stop("wrong data written");
    memcpy(&added, v.base + COUNTER, 8);
    if (added != ADDED)
        stop("wrong sum");
    meet();
}

int main(int argc, char **argv)
{
    struct ibv_context *context = argc > 4 ? device_called(argv[1]) : NULL;
    if (!context)
        stop("usage: verbs DEVICE GID-INDEX all|both PORT [SERVER]; or no such device");
    v.at_seconds = strcmp(argv[3], "both") == 0;
    v.socket = tcp_of(argv[5], argv[4]);
    if (v.socket < 0)
        stop("no connection");
    make(context);
    join(context, atoi(argv[2]));
    if (v.at_seconds)
        (argv[5] ? client_of_both : server_of_both)();
    else
        (argv[5] ? client : server)();
    return 0;
}
