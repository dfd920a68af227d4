/* SPDX-License-Identifier: MIT */
/* The words of NCCL's RAS on a port of 127.0.0.1, so that its monitors look at a job of this library: CLIENT PROTOCOL,
 * TIMEOUT, SET FORMAT, STATUS and VERBOSE STATUS, after which the connection ends. This process stands beside the job,
 * which takes no part. Clients are those of the same user: the kernel lists whose a connection is. A client that is
 * silent is dropped, and the oldest one where there are too many. */
#define _GNU_SOURCE /* accept4 */
#include "info_ras.h"

#include <shmem.h>
#include <shmemx.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SERVER_PROTOCOL 2
#define CLIENTS 8
#define SILENT_S 5.0
#define SILENT_MOST_S 60.0
#define LOOK_MS 1000 /* between two looks whether the job has ended */

struct ras_client {
    int fd, form;
    double silent_s, deadline;
    char line[256];
    size_t used;
};

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The other end of the connection is a socket of this user: /proc/net/tcp has it as local, and our end as remote. */
static bool is_user(int fd, int port)
{
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    char line[512];
    bool found = false;
    if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0)
        return false;
    FILE *table = fopen("/proc/net/tcp", "re");
    while (table && !found && fgets(line, sizeof line, table)) {
        unsigned address, local, remote, uid;
        found = sscanf(line, " %*u: %x:%x %*x:%x %*x %*x:%*x %*x:%*x %*x %u", &address, &local, &remote, &uid) == 4 &&
                address == peer.sin_addr.s_addr && local == ntohs(peer.sin_port) && remote == (unsigned)port &&
                uid == (unsigned)geteuid();
    }
    if (table)
        fclose(table);
    return found;
}

/* False: the client takes nothing, or has gone. */
static bool tell_job(const struct ras_client *c, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = send(c->fd, text, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* The job's description; NULL: it has ended, or there is no memory. The caller frees it. */
static char *describe_job(const char *job, int form)
{
    char *text = NULL;
    size_t bytes = 0, needed;
    while ((needed = shmemx_job_text(job, form, text, bytes)) != 0 &&
           needed >= bytes) { /* it may grow between two calls */
        char *larger = (char *)realloc(text, needed + 1024);
        if (!larger)
            break;
        text = larger;
        bytes = needed + 1024;
    }
    if (needed != 0 && needed < bytes)
        return text;
    free(text);
    return NULL;
}

/* False: the connection ends. */
static bool answer_query(struct ras_client *c, const char *line, const char *job)
{
    char text[320] = "OK\n", *end;
    if (strcasecmp(line, "status") == 0 || strcasecmp(line, "verbose status") == 0) {
        char *status = describe_job(job, c->form);
        if (status)
            (void)tell_job(c, status, strlen(status));
        free(status);
        return false;
    }
    if (strncasecmp(line, "client protocol ", 16) == 0) {
        snprintf(text, sizeof text, "SERVER PROTOCOL %d\n", SERVER_PROTOCOL);
    } else if (strncasecmp(line, "timeout ", 8) == 0) {
        double s = strtod(line + 8, &end);
        if (end == line + 8 || *end != '\0' || !(s >= 0))
            snprintf(text, sizeof text, "ERROR: timeout \"%s\" is not a number of seconds, 0 or more\n", line + 8);
        else
            c->silent_s = s > 0 && s < SILENT_MOST_S ? s : SILENT_MOST_S;
    } else if (strcasecmp(line, "set format json") == 0) {
        c->form = SHMEMX_RAS;
    } else if (strcasecmp(line, "set format text") == 0) {
        c->form = SHMEMX_TEXT;
    } else {
        snprintf(text, sizeof text,
                 "ERROR: \"%s\" is not known; allowed: CLIENT PROTOCOL n, TIMEOUT s, SET FORMAT text or json, STATUS, "
                 "VERBOSE STATUS\n",
                 line);
    }
    return tell_job(c, text, strlen(text));
}

/* False: the connection ends. */
static bool hear(struct ras_client *c, const char *job)
{
    ssize_t n = recv(c->fd, c->line + c->used, sizeof c->line - 1 - c->used, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        return false;
    c->used += (size_t)n;
    c->deadline = seconds_now() + c->silent_s;
    for (char *end; (end = (char *)memchr(c->line, '\n', c->used)) != NULL;) {
        *end = '\0';
        if (end > c->line && end[-1] == '\r')
            end[-1] = '\0';
        if (!answer_query(c, c->line, job))
            return false;
        c->used -= (size_t)(end + 1 - c->line);
        memmove(c->line, end + 1, c->used);
    }
    return c->used < sizeof c->line - 1; /* else the line is longer than any word */
}

static void drop(struct ras_client *clients, int *n, int i)
{
    close(clients[i].fd);
    memmove(&clients[i], &clients[i + 1], (size_t)(--*n - i) * sizeof *clients);
}

static void take_query(struct ras_client *clients, int *n, int listener, int port)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    const struct timeval patience = {1, 0};
    if (fd < 0)
        return;
    if (!is_user(fd, port)) {
        fputs("isomer-info: a connection of another user was dropped\n", stderr);
        close(fd);
        return;
    }
    if (*n == CLIENTS)
        drop(clients, n, 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    struct ras_client *c = &clients[(*n)++];
    memset(c, 0, sizeof *c);
    c->fd = fd;
    c->form = SHMEMX_TEXT;
    c->silent_s = SILENT_S;
    c->deadline = seconds_now() + SILENT_S;
}

static int listen_at(int port)
{
    struct sockaddr_in at;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_port = htons((unsigned short)port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, CLIENTS) == 0)
        return fd;
    fprintf(stderr, "isomer-info: --ras %d: no port of 127.0.0.1: %s\n", port, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

int info_ras_serve(const char *job, int port)
{
    struct ras_client clients[CLIENTS];
    int n = 0, listener = -1;
    for (double next = 0;;) {
        double now = seconds_now();
        if (now >= next && shmemx_job_text(job, SHMEMX_TEXT, NULL, 0) == 0) /* which has said so */
            break;
        next = now >= next ? now + LOOK_MS / 1e3 : next;
        if (listener < 0 && (listener = listen_at(port)) < 0)
            return 1;
        struct pollfd fds[CLIENTS + 1] = {{listener, POLLIN, 0}};
        for (int i = 0; i < n; i++)
            fds[i + 1] = (struct pollfd){clients[i].fd, POLLIN, 0};
        poll(fds, (nfds_t)n + 1, LOOK_MS);
        for (int i = n - 1; i >= 0; i--)
            if ((fds[i + 1].revents != 0 && !hear(&clients[i], job)) || clients[i].deadline < seconds_now())
                drop(clients, &n, i);
        if (fds[0].revents != 0)
            take_query(clients, &n, listener, port);
    }
    while (n > 0)
        drop(clients, &n, n - 1);
    if (listener >= 0)
        close(listener);
    return listener >= 0 ? 0 : 1;
}
