/* SPDX-License-Identifier: MIT */
/* The start of a job of up to 4,096 PEs, each on a node of its own, as one of them lives it; printed, and bounded: its
 * memory for each peer must be small, and memory and processor time must grow with the number of peers, not faster. The
 * bootstrap is a double that makes up all other PEs' rows; a thread plays all of them on the channel: it closes the
 * ring and answers requests. Then the rendezvous of the unique id, with a thread for each PE, over real connections.
 * Each size in a process of its own. Sizes that need more descriptors than `ulimit -Hn` allows are left out.
 * CHECK_THREADS: needs the library in which PEs are threads, whose double stands for a network. */
#include "../../bootstrap/boot.h"
#include "../../bootstrap/env.h"
#include "../../shmem/collectives.h"
#include "../../shmem/memory/memory.h"
#include "../check.h"

#include "../../shmem/node/channel_state.h"
#if __has_include(<infiniband/verbs.h>)
#include "../../shmem/transport/verbs/verbs.h"
#define HAS_VERBS
#endif

#include <errno.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { ROW_NODE = 32, ROW_HOST = 96, ROW_TOKEN = 160, NAME_BYTES = 64 }; /* of a row, which pe.c has for itself */
enum { EVENTS = 64, STACK_BYTES = 256 << 10, LATE_US = 3300000, FEW_FILES = 100 };

struct site_address {
    uint64_t bases[2];
    struct host_addresses address;
};

/* What one PE measured, for its parent. */
struct result {
    int n, failures;
    double start_s, ask_s; /* processor time of its thread */
    double start_wall, ask_wall;
    double peak, kept, linked; /* bytes: during the start, after it, with all connections */
};

/* Bounds of time are over the second size, which is 16 times smaller than the last: quadratic growth would be 256, and
 * on a busy machine processor time is a few times more. */
enum { SIZES = 4, BYTES_KEPT = 1024, BYTES_PEAK = 2048, BYTES_LINKED = 512 };
static const int sizes[SIZES] = {64, 256, 1024, 4096};
static const double slack_s = 0.05, slack_start_s = 0.003;

static double clock_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* As a shell may have it: the library must raise it by itself. */
static void limit_files(void)
{
    struct rlimit files;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = FEW_FILES;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static void await_files(void)
{
    struct rlimit files;
    for (int ms = 0; ms < 5000 && getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur <= FEW_FILES; ms++)
        usleep(1000);
}

static double bytes_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

/* ---- all other PEs ---- */

static void make_token(int pe, unsigned char token[CHANNEL_TOKEN_BYTES])
{
    memset(token, 0x11, CHANNEL_TOKEN_BYTES);
    memcpy(token, &pe, sizeof pe);
}

struct world {
    pthread_t thread;
    int me, n; /* the one PE that is not played */
    int listener, epoll;
    struct tcp_address here;
    struct tcp_address there; /* its channel, once known */
    unsigned char token[CHANNEL_TOKEN_BYTES];
    struct link *links;
    int gathers;
    int answered, deaths;
    int late; /* this one takes its time to say welcome; -1: none */
    double peak;
    int failures; /* of the thread */
    bool call;    /* atomic: the PE listens, the ring can be closed */
    bool stop;    /* atomic */
};

static void make_secret(const struct world *w, int pe, bool dialer, unsigned char secret[AUTH_BYTES])
{
    unsigned char token[CHANNEL_TOKEN_BYTES]; /* of the PE that is played */
    make_token(pe, token);
    iso_auth_code(dialer ? token : w->token, dialer ? w->token : token, CHANNEL_TOKEN_BYTES, secret);
}

static void watch(struct world *w, int fd, struct link *link)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    CHECK_EQ(epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event), 0);
}

static struct link *add_link(struct world *w, int fd, int played)
{
    struct link *link = (struct link *)calloc(1, sizeof *link);
    link->socket.fd = fd;
    link->pe = played;
    link->state = LINK_HANDSHAKE;
    link->next = w->links;
    w->links = link;
    watch(w, fd, link);
    return link;
}

static void accept_one(struct world *w)
{
    char name[TCP_NAME_BYTES];
    int fd = iso_tcp_accept(w->listener, name);
    if (fd < 0)
        return;
    struct link *link = add_link(w, fd, -1);
    iso_handshake_accept(&link->in.handshake, &link->socket, fd);
}

/* As the PE before it in the ring. */
static void close_ring(struct world *w)
{
    int last, before = (w->me + w->n - 1) % w->n, fd = iso_tcp_connect(&w->there, iso_deadline_in(5), &last);
    const struct hello hello = iso_handshake_hello(HANDSHAKE_CHANNEL, (uint32_t)before, (uint32_t)w->me);
    unsigned char secret[AUTH_BYTES];
    CHECK_OR_EXIT(fd >= 0);
    struct link *link = add_link(w, fd, before);
    make_secret(w, before, true, secret);
    CHECK_EQ(iso_handshake_dial(&link->in.handshake, &link->socket, fd, secret, &hello), 0);
}

static int send_frame(struct link *link, struct frame frame)
{
    return iso_frame_send(&link->socket, &frame, link->in.body, NULL, iso_deadline_in(5));
}

static int shake_hands(struct world *w, struct link *link)
{
    unsigned char secret[AUTH_BYTES];
    int rc = iso_handshake_receive(&link->in.handshake, &link->socket);
    if (rc == HANDSHAKE_HELLO) {
        link->pe = (int)iso_handshake_said(&link->in.handshake).detail; /* the one that is called */
        make_secret(w, link->pe, false, secret);
        CHECK_EQ(iso_handshake_answer(&link->in.handshake, &link->socket, secret), 0);
    }
    if (rc == HANDSHAKE_DONE) {
        if (link->pe == w->late)
            usleep(LATE_US);
        link->state = link->socket.accepted ? LINK_UP : LINK_AWAITS_WELCOME;
        if (link->socket.accepted)
            CHECK_EQ(send_frame(link, (struct frame){.kind = CHANNEL_WELCOME}), 0);
    }
    return rc > 0 ? 1 : rc;
}

static int take_frame(struct world *w, struct link *link, const struct frame *frame)
{
    switch (frame->kind) {
    case CHANNEL_WELCOME:
        link->state = LINK_UP;
        return 0;
    case CHANNEL_REQUEST:
        w->answered++;
        return send_frame(link, (struct frame){CHANNEL_ANSWER, frame->number, CHANNEL_BODY_BYTES});
    case CHANNEL_GOODBYE:
        link->gone = true;
        return send_frame(link, (struct frame){.kind = CHANNEL_GOODBYE});
    default:
        return frame->kind == CHANNEL_LEFT ? 0 : -EPROTO;
    }
}

static int read_frame(struct world *w, struct link *link)
{
    struct frame frame;
    int rc = iso_frame_head(&link->socket, &frame);
    if (rc != 1)
        return rc;
    CHECK_OR_EXIT(frame.len <= CHANNEL_BODY_BYTES);
    rc = iso_frame_rest(&link->socket, link->in.body);
    if (rc == 1)
        CHECK_EQ(take_frame(w, link, &frame), 0);
    return rc;
}

static void read_link(struct world *w, struct link *link)
{
    int rc = 1;
    (void)__atomic_load_n(&w->call, __ATOMIC_ACQUIRE); /* pairs with gather_sites: what it knows is known here */
    while (rc > 0)
        rc = link->state == LINK_HANDSHAKE ? shake_hands(w, link) : read_frame(w, link);
    if (rc < 0 && link->state == LINK_UP && !link->gone)
        w->deaths++;
    if (rc < 0)
        epoll_ctl(w->epoll, EPOLL_CTL_DEL, link->socket.fd, NULL);
}

static void *play(void *arg)
{
    struct world *w = (struct world *)arg;
    struct epoll_event events[EVENTS];
    bool called = false;
    while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {            /* pairs with stop_world */
        if (!called && __atomic_load_n(&w->call, __ATOMIC_ACQUIRE)) { /* pairs with gather_sites */
            called = true;
            close_ring(w);
        }
        int n = epoll_wait(w->epoll, events, EVENTS, 2);
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr == NULL)
                accept_one(w);
            else
                read_link(w, (struct link *)events[i].data.ptr);
    }
    w->failures = check_self.failures;
    return NULL;
}

static void start_world(struct world *w)
{
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    CHECK(iso_tcp_parse("127.0.0.1", &w->here));
    w->listener = iso_tcp_listen(&w->here);
    CHECK_OR_EXIT(w->listener >= 0);
    watch(w, w->listener, NULL);
    CHECK_EQ(pthread_create(&w->thread, NULL, play, w), 0);
}

static void stop_world(struct world *w)
{
    __atomic_store_n(&w->stop, true, __ATOMIC_RELEASE); /* pairs with play */
    pthread_join(w->thread, NULL);
    while (w->links != NULL) {
        struct link *next = w->links->next;
        close(w->links->socket.fd);
        free(w->links);
        w->links = next;
    }
    close(w->listener);
    close(w->epoll);
}

/* ---- the bootstrap, in which they have all given something ---- */

static void gather_rows(struct world *w, const unsigned char *mine, size_t len, unsigned char *all)
{
    CHECK_EQ(strcmp((const char *)mine + ROW_HOST, ISO->host), 0);
    memcpy(w->token, mine + ROW_TOKEN, sizeof w->token);
    for (int pe = 0; pe < w->n; pe++) {
        unsigned char *row = all + (size_t)pe * len;
        memcpy(row, mine, len);
        if (pe == w->me)
            continue;
        memset(row + ROW_NODE, 0, 2 * NAME_BYTES);
        snprintf((char *)row + ROW_NODE, NAME_BYTES, "node%d", pe);
        snprintf((char *)row + ROW_HOST, NAME_BYTES, "node%d", pe);
        make_token(pe, row + ROW_TOKEN);
    }
}

static void gather_sites(struct world *w, const unsigned char *mine, size_t len, unsigned char *all)
{
    struct site_address site;
    CHECK_EQ(len, sizeof site);
    memcpy(&site, mine, sizeof site);
    w->there = w->here;
    w->there.port = site.address.port;
    for (int pe = 0; pe < w->n; pe++) {
        if (pe != w->me) {
            memset(&site.address, 0, sizeof site.address);
            site.address.port = w->here.port;
            site.address.n_ip4 = 1;
            memcpy(site.address.ip4[0], w->here.bytes, 4);
        } else {
            memcpy(&site, mine, sizeof site);
        }
        memcpy(all + (size_t)pe * len, &site, len);
    }
    w->peak = bytes_in_use();
    __atomic_store_n(&w->call, true, __ATOMIC_RELEASE); /* pairs with play */
}

static int gather(struct boot *boot, const void *mine, size_t len, void *all)
{
    struct world *w = (struct world *)boot->priv;
    if (w->gathers++ == 0)
        gather_rows(w, (const unsigned char *)mine, len, (unsigned char *)all);
    else
        gather_sites(w, (const unsigned char *)mine, len, (unsigned char *)all);
    return 0;
}

static int pass(struct boot *boot)
{
    (void)boot;
    return 0;
}

static void abort_none(struct boot *boot, int status, const char *sentence)
{
    (void)boot;
    (void)status;
    (void)sentence;
}

static void close_none(struct boot *boot) { (void)boot; }

static const struct boot_ops double_of_boot = {
    .name = "double", .allgather = gather, .barrier = pass, .abort = abort_none, .close = close_none};

/* ---- one PE ---- */

static void enter(struct world *w)
{
    struct state *self = ISO;
    char error[256];
    CHECK_EQ(iso_env_read(self->env, error, sizeof error), 0);
    static _Thread_local struct boot boot;
    self->boot = &boot;
    self->host = boot.host;
    self->boot->ops = &double_of_boot;
    self->boot->priv = w;
    self->boot->rank = self->my_pe = w->me;
    self->boot->size = self->n_pes = w->n;
    snprintf(boot.host, sizeof boot.host, "here");
}

static int bring_up(void)
{
    struct row *rows = NULL;
    int rc = iso_pe_start(&rows);
    if (rc == 0)
        rc = iso_pe_choose_transports(rows);
    if (rc == 0)
        rc = iso_pe_start_segments(rows);
    if (rc == 0)
        rc = iso_pe_join(rows);
    if (rc == 0)
        rc = iso_pe_join_nodes(rows);
    free(rows);
    if (rc == 0)
        rc = iso_memory_start();
    if (rc == 0)
        rc = iso_coll_start();
    if (rc == 0)
        rc = iso_team_start();
    return rc != 0 ? rc : iso_ctx_start();
}

static void ask_all(const struct world *w)
{
    unsigned char request[CHANNEL_BODY_BYTES] = {0}, answer[CHANNEL_BODY_BYTES];
    for (int pe = 0; pe < w->n; pe++) {
        if (pe == w->me)
            continue;
        memcpy(request, &pe, sizeof pe);
        memset(answer, 0, sizeof answer);
        CHECK_EQ(iso_channel_ask(pe, request, answer), 0);
        CHECK_BYTES(answer, request, sizeof answer);
    }
}

static void take_down(void)
{
    ISO->life = LIFE_ENDING;
    iso_pe_part();
    iso_ctx_stop();
    iso_coll_stop();
    iso_team_stop();
    iso_memory_stop();
    iso_segment_stop();
    iso_pe_stop();
}

static struct result live(int n)
{
    struct world w = {.me = n / 2, .n = n, .late = n == sizes[0] ? 3 : -1};
    struct result r = {.n = n};
    limit_files();
    start_world(&w);
    enter(&w);
    double before = bytes_in_use(), cpu = clock_s(CLOCK_THREAD_CPUTIME_ID), wall = clock_s(CLOCK_MONOTONIC);
    CHECK_EQ(bring_up(), 0);
    r.start_s = clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu;
    r.start_wall = clock_s(CLOCK_MONOTONIC) - wall;
    r.kept = bytes_in_use() - before;
    r.peak = w.peak - before;
    CHECK_EQ(ISO->n_nodes, n);
    cpu = clock_s(CLOCK_THREAD_CPUTIME_ID), wall = clock_s(CLOCK_MONOTONIC);
    ask_all(&w);
    r.ask_s = clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu;
    r.ask_wall = clock_s(CLOCK_MONOTONIC) - wall;
    r.linked = bytes_in_use() - before - r.kept;
    take_down();
    stop_world(&w);
    CHECK_EQ(w.answered, n - 1);
    CHECK_EQ(w.deaths, 0); /* nobody that believes in this PE has been left by it */
    r.failures = check_self.failures + w.failures;
    return r;
}

/* ---- the unique id ---- */

/* Held until all threads exist, or not all can be had. */
struct gate {
    pthread_mutex_t lock;
    bool open;
};

struct member {
    pthread_t thread;
    struct gate *gate;
    const unsigned char *id;
    int rank, n, rc;
    unsigned char *all; /* of many PEs, the same for all but rank 0: nobody looks at it */
    double cpu, wall;   /* of its thread */
};

static void *join(void *arg)
{
    enum { BLOCK = 8 };
    struct member *m = (struct member *)arg;
    struct boot boot = {.ops = NULL};
    struct boot_attr attr = {m->id, m->rank, m->n};
    struct env env = {.boot = "", .boot_timeout = 60};
    uint64_t mine = (uint64_t)m->rank * 3 + 1;
    pthread_mutex_lock(&m->gate->lock);
    bool open = m->gate->open;
    pthread_mutex_unlock(&m->gate->lock);
    if (!open)
        return NULL;
    if (m->rank > 0) /* all are in one process, of which rank 0 has to raise the limit */
        await_files();
    if (m->n > 1024) /* a few cores have them all: no thread must wait seconds for its turn with a hello unsaid */
        usleep((useconds_t)(m->rank % 64) * 10000);
    double cpu = clock_s(CLOCK_THREAD_CPUTIME_ID), wall = clock_s(CLOCK_MONOTONIC);
    m->rc = iso_boot_open(&boot, &attr, &env);
    if (m->rc == 0)
        m->rc = iso_boot_allgather(&boot, &mine, BLOCK, m->all);
    if (m->rc == 0)
        m->rc = iso_boot_barrier(&boot);
    m->cpu = clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu;
    m->wall = clock_s(CLOCK_MONOTONIC) - wall;
    iso_boot_close(&boot);
    return NULL;
}

/* How many it has made. */
static int start_members(struct member *members, int n)
{
    pthread_attr_t attr;
    int made = 0;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_mutex_lock(&members->gate->lock);
    while (made < n && pthread_create(&members[made].thread, &attr, join, &members[made]) == 0)
        made++;
    members->gate->open = made == n;
    pthread_mutex_unlock(&members->gate->lock);
    pthread_attr_destroy(&attr);
    return made;
}

static struct result rendezvous(int n)
{
    struct result r = {.n = n};
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, false};
    struct member *members = (struct member *)calloc((size_t)n, sizeof *members);
    size_t own = n <= 1024 ? (size_t)n : 0;
    uint64_t *all = (uint64_t *)calloc((size_t)n, 8), *others = (uint64_t *)calloc((size_t)n, 8 * ISO_MAX(own, 1));
    unsigned char id[ISO_UID_BYTES];
    limit_files();
    CHECK_EQ(iso_boot_uid_create(id), 0);
    for (int i = 0; i < n; i++)
        members[i] = (struct member){.gate = &gate,
                                     .id = id,
                                     .rank = i,
                                     .n = n,
                                     .all = (unsigned char *)(i == 0 ? all : others + own * (size_t)i)};
    int made = start_members(members, n);
    for (int i = 0; i < made; i++)
        pthread_join(members[i].thread, NULL);
    for (int i = 0; i < n && made == n; i++) {
        CHECK_EQ(members[i].rc, 0);
        CHECK_EQ(all[i], (uint64_t)i * 3 + 1);
    }
    r.n = made == n ? n : 0;
    r.start_s = members[0].cpu;
    r.start_wall = members[0].wall;
    free(members);
    free(all);
    free(others);
    r.failures = check_self.failures;
    return r;
}

/* ---- main ---- */

static struct result run(struct result (*body)(int n), int n)
{
    struct result r = {.failures = 1};
    int out[2], status = -1;
    CHECK_EQ(pipe(out), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        check_self.failures = 0;
        r = body(n);
        _exit(write(out[1], &r, sizeof r) == sizeof r ? 0 : 1);
    }
    close(out[1]);
    CHECK_EQ(read(out[0], &r, sizeof r), (long long)sizeof r);
    close(out[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(r.failures, 0);
    return r;
}

/* `small` is of the second size; at most `factor` times linear. */
static void check_growth(const char *what, double factor, const struct result *r, double small, double large)
{
    CHECK_NAMED(r->n <= sizes[1] || large <= factor * r->n / sizes[1] * small + slack_s, what);
}

/* What a PE more costs each of the others. */
static void check_memory(const struct result *small, const struct result *large)
{
    double more = large->n - small->n;
    double peak = (large->peak - small->peak) / more, kept = (large->kept - small->kept) / more;
    double linked = (large->linked - small->linked) / more / 2; /* the other end is here as well */
    printf("  bytes for each PE more: %.0f while it starts, %.0f kept, and %.0f with a connection of the channel\n",
           peak, kept, linked);
    if (SANITIZED) /* they have their own allocator */
        return;
    CHECK(kept <= BYTES_KEPT);
    CHECK(peak <= BYTES_PEAK);
    CHECK(linked <= BYTES_LINKED);
}

/* Of these a PE has one for each other PE, and one for each direction in which it has used or been used. */
static void check_verbs(void)
{
#ifdef HAS_VERBS
    printf("RDMA, without the device's own: %zu bytes for each PE more, %zu for each queue pair\n",
           sizeof(struct verbs_peer), sizeof(struct verbs_queue));
    CHECK(sizeof(struct verbs_peer) <= 128);
    CHECK(sizeof(struct verbs_queue) <= 16384);
#endif
}

static void check_one_pe(rlim_t files)
{
    struct result last = {.n = 0}, base = last;
    for (int i = 0; i < SIZES && 2 * (rlim_t)sizes[i] + 64 <= files; i++) {
        struct result r = run(live, sizes[i]);
        printf("%4d PEs: start %.1f ms (%.1f ms of processor), a connection and its request %.0f us (%.0f us)\n", r.n,
               r.start_wall * 1e3, r.start_s * 1e3, r.ask_wall * 1e6 / (r.n - 1), r.ask_s * 1e6 / (r.n - 1));
        if (last.n > 0) {
            check_memory(&last, &r);
            CHECK(r.n <= sizes[1] || r.start_s <= 2.5 * r.n / sizes[1] * base.start_s + slack_start_s);
            check_growth("processor time of all connections", 4, &r, base.ask_s, r.ask_s);
        }
        last = r;
        base = i == 1 ? r : base;
    }
}

static void check_rendezvous(rlim_t files)
{
    struct result last = {.n = 0}, base = last;
    for (int i = 0; i < SIZES - 2 * SANITIZED && 2 * (rlim_t)sizes[i] + 64 <= files; i++) {
        struct result r = run(rendezvous, sizes[i]);
        if (r.n == 0) {
            printf("%4d PEs: left out, so many threads cannot be had\n", sizes[i]);
            return;
        }
        printf("%4d PEs: unique id, one allgather of 8 bytes, one barrier: %.0f ms (%.0f ms of PE 0's processor)\n",
               r.n, r.start_wall * 1e3, r.start_s * 1e3);
        if (last.n > 0)
            check_growth("processor time of rank 0", (double)r.n / sizes[1], &r, base.start_s, r.start_s);
        last = r;
        base = i == 1 ? r : base;
    }
}

int main(void)
{
    struct rlimit files;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    setenv("SHMEM_TEST_NODES", "-", 1); /* the double carries what goes to other nodes */
    setenv("SHMEM_SYMMETRIC_SIZE", "1m", 1);
    setenv("SHMEM_BOOT_TIMEOUT", "60", 1);
    setenv("SHMEM_NETWORK", "lo", 1); /* where the false PEs are, too */
    setenv("SHMEM_DATA_SEGMENT", "0", 1);
    check_one_pe(files.rlim_max);
    check_verbs();
    check_rendezvous(files.rlim_max);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
