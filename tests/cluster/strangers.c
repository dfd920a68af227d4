/* SPDX-License-Identifier: MIT */
/* PEs over two nodes, and the strangers who disturb them; strangers.sh starts both. A PE:
 *   strangers serve FOLDER [keep]    works until FOLDER/stop is there, and says how often open(2) failed meanwhile;
 *                                    keep: PE 1 holds all descriptors that it may have. FOLDER/begun is there when
 *                                    all do
 *   strangers crash SIGNAL           PE 1 ends by that signal
 * A stranger, who has no secret of the job:
 *   strangers silent ADDRESS PORT N FILE          N connections that say nothing, until FILE is there
 *   strangers noise ADDRESS PORT N                N connections of a web client
 *   strangers long ADDRESS PORT BYTES PROVIDER    a message by libfabric that no receive buffer holds
 *   strangers record INTERFACE FILE STOP          writes all packets to FILE until STOP is there */
#define _GNU_SOURCE
#include <shmem.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 30 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail(const char *what)
{
    fprintf(stderr, "strangers: %s: %s\n", what, strerror(errno));
    return 1;
}

/* Looks every 10 ms; gives up after LIMIT_S. */
static bool is_there(const char *path, double since) { return access(path, F_OK) == 0 || seconds() - since > LIMIT_S; }

/* ---- PEs ---- */

static long word, done, last, any_last;

static int serve(const char *folder, bool keep)
{
    char begun[4096], stop[4096];
    long opens = 0, failures = 0, rounds = 0;
    double since = seconds();
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    snprintf(begun, sizeof begun, "%s/begun", folder);
    snprintf(stop, sizeof stop, "%s/stop", folder);
    for (int i = 0; i < 20; i++) { /* all connections are made */
        shmem_long_atomic_add(&word, 1, (me + 1) % n);
        shmem_barrier_all();
    }
    word = 0;
    shmem_barrier_all();
    if (keep && me == 1)
        while (open("/dev/null", O_RDONLY) >= 0)
            continue;
    shmem_barrier_all();
    if (me == 0)
        close(open(begun, O_CREAT | O_WRONLY, 0600));
    do {
        last = me == 0 && is_there(stop, since);
        shmem_long_atomic_add(&word, 1, (me + 1) % n);
        rounds++;
        for (int i = 0, fd; !keep && i < 8; i++, opens++) {
            fd = open("/dev/null", O_RDONLY);
            failures += fd < 0;
            if (fd >= 0)
                close(fd);
        }
        usleep(5000);
        shmem_long_max_reduce(SHMEM_TEAM_WORLD, &any_last, &last, 1);
    } while (any_last == 0);
    shmem_barrier_all();
    printf("pe %d: rounds %ld, word %ld, open failed %ld of %ld\n", me, rounds, word, failures, opens);
    bool right = word == rounds && failures == 0;
    shmem_finalize();
    return right ? 0 : 1;
}

static int crash(int signal)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    shmem_init();
    shmem_long_atomic_add(&word, 1, !shmem_my_pe());
    shmem_barrier_all();
    if (shmem_my_pe() == 1)
        raise(signal);
    shmem_long_wait_until(&done, SHMEM_CMP_EQ, 1); /* the death ends it */
    return 0;
}

/* ---- strangers ---- */

static struct sockaddr_in address_of(char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
    inet_pton(AF_INET, argv[0], &at.sin_addr);
    return at;
}

static int dial(const struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)at, sizeof *at) != 0)
        return -1;
    return fd;
}

static int stay_silent(char **argv)
{
    struct sockaddr_in at = address_of(argv);
    double since = seconds();
    int n = atoi(argv[2]), fd;
    struct rlimit most = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &most);
    for (int i = 0; i < n; i++)
        if ((fd = dial(&at)) < 0)
            return fail("a connection"); /* the process holds it */
    printf("silent\n");
    fflush(stdout);
    while (!is_there(argv[3], since))
        usleep(10000);
    return 0;
}

static int make_noise(char **argv)
{
    struct sockaddr_in at = address_of(argv);
    for (int i = 0; i < atoi(argv[2]); i++) {
        char byte;
        int fd = dial(&at);
        if (fd < 0 || send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) != 18)
            return fail("a connection");
        while (recv(fd, &byte, 1, 0) > 0) /* until it is dropped */
            continue;
        close(fd);
    }
    return 0;
}

/* An endpoint of its own, as any process that speaks libfabric's protocol makes it. */
static int send_long(char **argv)
{
    size_t len = (size_t)atol(argv[2]);
    char *bytes = (char *)calloc(1, len);
    struct sockaddr_in from, at = address_of(argv);
    struct fi_info *(*dup)(const struct fi_info *), *hints, *info;
    int (*get)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
    int (*open_fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    setenv("FI_OFI_RXM_BUFFER_SIZE", "8448", 1); /* as PEs have it: ofi_rxm refuses others */
    void *library = dlopen("libfabric.so.1", RTLD_NOW), *names[3];
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t to;
    if (library == NULL)
        return fail("libfabric.so.1");
    names[0] = dlsym(library, "fi_dupinfo"), names[1] = dlsym(library, "fi_getinfo"),
    names[2] = dlsym(library, "fi_fabric");
    memcpy(&dup, &names[0], sizeof dup), memcpy(&get, &names[1], sizeof get),
        memcpy(&open_fabric, &names[2], sizeof dup);
    hints = dup(NULL);
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(argv[3]);
    hints->addr_format = FI_SOCKADDR_IN;
    struct fi_av_attr table = {.type = FI_AV_TABLE};
    struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_MSG, .size = 256, .wait_obj = FI_WAIT_NONE};
    int rc = get(FI_VERSION(1, 15), NULL, NULL, 0, hints, &info);
    for (; rc == 0 && info->next != NULL; info = info->next) {
        memcpy(&from, info->src_addr, sizeof from);
        if (from.sin_addr.s_addr != htonl(INADDR_LOOPBACK))
            break;
    }
    if (bytes == NULL || rc != 0 || open_fabric(info->fabric_attr, &fabric, NULL) != 0 ||
        fi_domain(fabric, info, &domain, NULL) != 0 || fi_av_open(domain, &table, &av, NULL) != 0 ||
        fi_cq_open(domain, &queue, &cq, NULL) != 0 || fi_endpoint(domain, info, &ep, NULL) != 0 ||
        fi_ep_bind(ep, &av->fid, 0) != 0 || fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) != 0 || fi_enable(ep) != 0 ||
        fi_av_insert(av, &at, 1, &to, 0, NULL) != 1)
        return fail("an endpoint of libfabric");
    double since = seconds();
    struct fi_cq_msg_entry entry;
    struct fi_context2 context;
    struct fi_cq_err_entry error = {0};
    bool sent = false;
    ssize_t got = 0;
    while (got != 1 && seconds() - since < 3) {
        sent = sent || fi_send(ep, bytes, len, NULL, to, &context) == 0;
        got = fi_cq_read(cq, &entry, 1);
        if (got == -FI_EAVAIL)
            got = fi_cq_readerr(cq, &error, 0);
    }
    printf("a message of %zu bytes: %ssent, %s, error %d\n", len, sent ? "" : "not ",
           got == 1 ? "complete" : "under way", error.err);
    fflush(stdout);
    usleep(100000);
    _exit(sent ? 0 : 1);
}

static int record(char **argv)
{
    static char bytes[65536];
    double since = seconds();
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)), room = 8 << 20;
    struct sockaddr_ll from = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
                               .sll_ifindex = (int)if_nametoindex(argv[0])};
    FILE *to = fopen(argv[1], "we");
    if (fd < 0 || to == NULL || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0 ||
        bind(fd, (const struct sockaddr *)&from, sizeof from) != 0)
        return fail("recording packets");
    printf("recording\n");
    fflush(stdout);
    for (bool ends = false; !ends;) {
        ends = is_there(argv[2], since);
        struct pollfd some = {fd, POLLIN, 0};
        while (poll(&some, 1, 10) > 0) {
            ssize_t n = recv(fd, bytes, sizeof bytes, 0);
            if (n > 0 && fwrite(bytes, 1, (size_t)n, to) != (size_t)n)
                return fail(argv[1]);
        }
    }
    return fclose(to) == 0 ? 0 : fail(argv[1]);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    if (strcmp(what, "serve") == 0)
        return serve(argv[2], argc > 3);
    if (strcmp(what, "crash") == 0)
        return crash(atoi(argv[2]));
    if (strcmp(what, "silent") == 0 && argc == 6)
        return stay_silent(argv + 2);
    if (strcmp(what, "noise") == 0 && argc == 5)
        return make_noise(argv + 2);
    if (strcmp(what, "long") == 0 && argc == 6)
        return send_long(argv + 2);
    if (strcmp(what, "record") == 0 && argc == 5)
        return record(argv + 2);
    fprintf(stderr, "strangers: unknown arguments\n");
    return 2;
}
