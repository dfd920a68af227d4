/* SPDX-License-Identifier: MIT */
/* The channel between nodes. PEs as threads on nodes of their own, over the test double: all ask all at once, strangers
 * are dropped and disturb no PE, and a connection that breaks is a death that ends the job with a sentence. The
 * handshake and frames of one connection: handshake_test.c. */
#include "../../shmem/node/peer.h"
#include "../check.h"

#include "../../shmem/node/channel_state.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { ROUNDS = 40 };

/* ---- jobs ---- */

struct question {
    int from, to, round;
};

static void reply(int pe, const void *request, void *answer)
{
    const struct question *q = (const struct question *)request;
    struct question *a = (struct question *)answer;
    *a = *q;
    a->round = q->from == pe && q->to == shmem_my_pe() ? q->round * 3 + 1 : -1;
}

static void ask_all(void)
{
    unsigned char request[CHANNEL_BODY_BYTES] = {0}, answer[CHANNEL_BODY_BYTES];
    struct question *q = (struct question *)(void *)request, *a = (struct question *)(void *)answer;
    for (int round = 0; round < ROUNDS; round++)
        for (int pe = 0; pe < check_self.npes; pe++) {
            if (ISO->peers[pe].local)
                continue;
            *q = (struct question){check_self.pe, pe, round};
            memset(answer, 0, sizeof answer);
            CHECK_EQ(iso_channel_ask(pe, request, answer), 0);
            CHECK_EQ(a->from, check_self.pe);
            CHECK_EQ(a->to, pe);
            CHECK_EQ(a->round, round * 3 + 1);
        }
}

static int connect_to(int pe)
{
    char text[128];
    struct sockaddr_in in = {.sin_family = AF_INET};
    iso_channel_text(pe, text, sizeof text);
    char *port = strchr(text, ':');
    CHECK_OR_EXIT(port != NULL);
    *port = 0;
    in.sin_port = htons((uint16_t)atoi(port + 1));
    inet_pton(AF_INET, text, &in.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_OR_EXIT(connect(fd, (struct sockaddr *)&in, sizeof in) == 0);
    return fd;
}

/* Until the other end has closed: it does so from its waits. */
static void await_end(int fd)
{
    char bytes[512];
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0)
        ;
    CHECK(n == 0 || errno == ECONNRESET);
}

/* One that says that it is the last PE, and one that speaks another protocol. */
static void intrude(void)
{
    static const unsigned char guess[AUTH_BYTES] = {0};
    const struct hello hello = iso_handshake_hello(HANDSHAKE_CHANNEL, (uint32_t)check_self.npes - 1, 0);
    struct frame_socket s;
    struct handshake h;
    int rc, fd = connect_to(0);
    CHECK_EQ(iso_handshake_dial(&h, &s, fd, guess, &hello), 0);
    while ((rc = iso_handshake_receive(&h, &s)) == HANDSHAKE_NOTHING)
        ;
    CHECK_EQ(rc, -EACCES); /* nor can PE 0 prove anything to one that knows no token */
    CHECK_EQ(send(fd, guess, sizeof guess, 0), (long long)sizeof guess);
    await_end(fd);
    close(fd);
    fd = connect_to(0);
    CHECK_EQ(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    await_end(fd);
    close(fd);
}

static int talk(void)
{
    CHECK_INIT();
    iso_channel_set_handler(reply);
    shmem_barrier_all();
    ask_all();
    shmem_barrier_all();
    if (check_self.pe == check_self.npes - 1)
        intrude();
    shmem_barrier_all();
    ask_all();
    CHECK_EQ(iso_channel_fd() >= 0, true);
    return CHECK_DONE();
}

/* ---- several who call the same one, and each other ---- */

enum { CALLERS = 3 };

struct caller {
    pthread_t thread;
    struct state *state;
    int me, number;
    pthread_barrier_t *start;
    int failures;
};

static void *call_all(void *arg)
{
    struct caller *caller = (struct caller *)arg;
    unsigned char request[CHANNEL_BODY_BYTES] = {0}, answer[CHANNEL_BODY_BYTES] = {0};
    struct question *q = (struct question *)(void *)request, *a = (struct question *)(void *)answer;
    iso_thread_adopt(caller->state);
    pthread_barrier_wait(caller->start);
    for (int pe = 0; pe < ISO->n_pes; pe++) {
        if (ISO->peers[pe].local)
            continue;
        *q = (struct question){caller->me, pe, caller->number};
        int rc = iso_channel_ask(pe, request, answer);
        caller->failures += rc != 0 || a->to != pe || a->round != caller->number * 3 + 1;
    }
    return NULL;
}

static int count_links(int pe)
{
    int n = 0;
    struct channel *c = ISO->channel;
    pthread_mutex_lock(&c->lock);
    for (const struct link *link = c->links; link != NULL; link = link->next)
        n += link->pe == pe;
    for (const struct link *link = c->pending; link != NULL; link = link->next)
        n += link->pe == pe;
    pthread_mutex_unlock(&c->lock);
    return n;
}

/* Whatever they do at once, there is at most one connection in each direction. */
static int meet(void)
{
    struct caller callers[CALLERS];
    pthread_barrier_t start;
    CHECK_INIT();
    iso_channel_set_handler(reply);
    pthread_barrier_init(&start, NULL, CALLERS);
    shmem_barrier_all();
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.state = ISO, .me = check_self.pe, .number = i, .start = &start};
        CHECK_EQ(pthread_create(&callers[i].thread, NULL, call_all, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        CHECK_EQ(callers[i].failures, 0);
    }
    pthread_barrier_destroy(&start);
    shmem_barrier_all();
    for (int pe = 0; pe < check_self.npes; pe++)
        CHECK(ISO->peers[pe].local || (count_links(pe) >= 1 && count_links(pe) <= 2));
    return CHECK_DONE();
}

/* ---- strangers who take all descriptors ---- */

enum { FILES = 160, HELD = 60 };

/* A process of its own: it says nothing, and goes when its parent does. */
static pid_t start_flood(int port_pipe)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    struct sockaddr_in in = {.sin_family = AF_INET};
    if (read(port_pipe, &in, sizeof in) != sizeof in)
        _exit(1);
    for (int i = 0; i < 2 * FILES; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&in, sizeof in) != 0)
            _exit(1);
    }
    pause();
    _exit(0);
}

static void tell_flood(int pe)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    char text[128];
    iso_channel_text(pe, text, sizeof text);
    char *port = strchr(text, ':');
    CHECK_OR_EXIT(port != NULL);
    *port = 0;
    in.sin_port = htons((uint16_t)atoi(port + 1));
    inet_pton(AF_INET, text, &in.sin_addr);
    CHECK_EQ(write(atoi(getenv("TEST_FLOOD")), &in, sizeof in), (long long)sizeof in);
}

/* No descriptor is left but for what was held back. Strangers come and go; then all PEs call each other. */
static int resist(void)
{
    int held[HELD];
    CHECK_INIT();
    iso_channel_set_handler(reply);
    for (int i = 0; i < HELD && check_self.pe == 0; i++)
        held[i] = open("/dev/null", O_RDONLY);
    shmem_barrier_all();
    if (check_self.pe == 0)
        tell_flood(1);
    for (int i = 0; i < 20; i++) { /* until all of it is there */
        usleep(20000);
        iso_channel_progress();
    }
    shmem_barrier_all();
    for (int i = 0; i < HELD && check_self.pe == 0; i++)
        CHECK_EQ(close(held[i]), 0);
    shmem_barrier_all();
    ask_all();
    shmem_barrier_all();
    return CHECK_DONE();
}

/* Ends every TCP connection of the process, as the death of a PE would. */
static void cut(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;
        int fd = atoi(entry->d_name);
        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_family == AF_INET)
            shutdown(fd, SHUT_RDWR);
    }
    closedir(dir);
}

static int lose_one(void)
{
    CHECK_INIT();
    iso_channel_set_handler(reply);
    ask_all();
    shmem_barrier_all();
    if (check_self.pe == 0)
        cut();
    uint64_t *word = (uint64_t *)shmem_calloc(1, sizeof *word);
    shmem_uint64_wait_until(word, SHMEM_CMP_EQ, 1); /* for ever, but for the death */
    return CHECK_FAILED;
}

/* ---- main ---- */

struct job {
    const char *nodes;
    int (*body)(void);
    int status;
    const char *sentence; /* on stderr; NULL: any */
};

static void limit_files(int pipe_end)
{
    const struct rlimit files = {FILES, FILES};
    char text[24];
    snprintf(text, sizeof text, "%d", pipe_end);
    setenv("TEST_FLOOD", text, 1);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* In a process of its own, whose messages are looked at. */
static void run(const struct job *job)
{
    char text[8192];
    size_t n = 0;
    ssize_t got;
    int out[2], status = -1;
    int port[2];
    CHECK_EQ(pipe(port), 0);
    pid_t flood = job->body == resist ? start_flood(port[0]) : -1; /* before the pipe, whose end it would keep */
    CHECK_EQ(pipe(out), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        char pes[24];
        dup2(out[1], 2);
        close(out[0]);
        close(out[1]);
        snprintf(pes, sizeof pes, "%zu", strlen(job->nodes));
        setenv("CHECK_PES", pes, 1);
        setenv("SHMEM_TEST_NODES", job->nodes, 1);
        setenv("SHMEM_NODE_TIMEOUT", "5", 1);
        if (flood > 0)
            limit_files(port[1]);
        exit(check_run_threads(job->body));
    }
    close(out[1]);
    while (n < sizeof text - 1 && (got = read(out[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(out[0]);
    close(port[0]);
    close(port[1]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (flood > 0) {
        kill(flood, SIGKILL);
        waitpid(flood, NULL, 0);
    }
    CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, job->status);
    CHECK(job->sentence == NULL || strstr(text, job->sentence) != NULL);
    if (check_self.failures > 0)
        fputs(text, stderr);
}

int main(void)
{
    static const struct job jobs[] = {
        {"ab", talk, CHECK_PASSED, "was dropped"},
        {"aabb", talk, CHECK_PASSED, "was dropped"},
        {"abcab", talk, CHECK_PASSED, "was dropped"},
        {"aabb", meet, CHECK_PASSED, NULL},
        {"abababab", meet, CHECK_PASSED, NULL},
        {"aabb", resist, CHECK_PASSED, NULL},
        {"aabb", lose_one, 1, "died: its connection"},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        run(&jobs[i]);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
/* CHECK_THREADS: needs the library in which PEs are threads. */
