/* SPDX-License-Identifier: MIT */
/* The standard streams of the PEs.
 * Without --tag-output the PEs write to oshrun's own stdout and stderr and nothing is copied. With it each stream is a
 * pipe, and one thread writes whole lines with "[PE] " in front; it may block, the main thread never does.
 * stdin goes to PE 0 only, directly unless it is a terminal: PE 0 is a background process group, which must not read
 * a terminal, so a thread reads it instead. */
#define _GNU_SOURCE
#include "oshrun.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 16384, FOREGROUND_POLL_MS = 200 };
enum { STRAY_MS = 1000 }; /* how long after the PEs a process that one of them started may still print */

struct stream {
    int from, to; /* from < 0: at its end */
    int pe;
    int left_over; /* once all PEs are gone: bytes that they left in the pipe */
    size_t used;
    char text[LINE_BYTES]; /* what came since the last end of line */
};

struct relay {
    int null_fd;
    int input_fd;            /* write end of PE 0's stdin; -1: inherited */
    int pe0_input_fd;        /* its read end, until PE 0 has it */
    struct stream **streams; /* stdout and stderr of each PE; NULL: inherited */
    int nstreams;
    bool copying;
    pthread_t copier;
    int end_fd;       /* eventfd: all PEs are gone */
    atomic_int error; /* -errno of a write */
};

/* ---- tagged output ---- */

static bool write_all(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t put = write(fd, text, len);
        if (put < 0 && errno == EAGAIN) { /* another process that shares the descriptor has made it non-blocking */
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (put < 0 && errno != EINTR)
            return false;
        text += put > 0 ? put : 0;
        len -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* Writes all whole lines, and the rest too when it cannot grow (`all`). */
static bool flush_lines(struct stream *stream, bool all)
{
    char out[LINE_BYTES + 32];
    size_t start = 0, tag = (size_t)snprintf(out, sizeof out, "[%d] ", stream->pe);
    bool written = true;
    while (written && start < stream->used) {
        const char *line = stream->text + start;
        const char *end = (const char *)memchr(line, '\n', stream->used - start);
        if (!end && !all)
            break;
        size_t len = end ? (size_t)(end - line) : stream->used - start;
        memcpy(out + tag, line, len);
        out[tag + len] = '\n';
        written = write_all(stream->to, out, tag + len + 1);
        start += len + (end ? 1 : 0);
    }
    memmove(stream->text, stream->text + start, stream->used - start);
    stream->used -= start;
    return written;
}

static void end_stream(struct stream *stream)
{
    close(stream->from);
    stream->from = -1;
}

static void copy_stream(struct relay *relay, struct stream *stream)
{
    ssize_t got = read(stream->from, stream->text + stream->used, sizeof stream->text - stream->used);
    if (got < 0 && errno == EINTR)
        return;
    stream->used += got > 0 ? (size_t)got : 0;
    if (stream->left_over > 0)
        stream->left_over -= got > 0 ? (int)got : stream->left_over;
    bool written = flush_lines(stream, got <= 0) && (stream->used < sizeof stream->text || flush_lines(stream, true));
    if (!written && errno != EPIPE)
        atomic_store(&relay->error, -errno);
    if (got <= 0 || !written) /* without a reader the PE gets SIGPIPE, as without oshrun */
        end_stream(stream);
}

/* The copier's own. */
struct copier {
    struct pollfd *polls; /* the streams, then end_fd */
    bool ending;
    int64_t stray_until; /* milliseconds */
};

static void await_output(struct relay *relay, struct copier *copy)
{
    for (int i = 0; i < relay->nstreams; i++)
        copy->polls[i] = (struct pollfd){.fd = relay->streams[i]->from, .events = POLLIN};
    struct pollfd *end = &copy->polls[relay->nstreams];
    *end = (struct pollfd){.fd = copy->ending ? -1 : relay->end_fd, .events = POLLIN};
    int64_t wait_ms = copy->ending ? copy->stray_until - oshrun_now_ms() : -1;
    poll(copy->polls, (nfds_t)relay->nstreams + 1, copy->ending && wait_ms < 0 ? 0 : (int)wait_ms);
    if (!end->revents)
        return;
    copy->ending = true;
    copy->stray_until = oshrun_now_ms() + STRAY_MS;
    for (int i = 0; i < relay->nstreams; i++) {
        struct stream *stream = relay->streams[i];
        if (stream->from < 0 || ioctl(stream->from, FIONREAD, &stream->left_over))
            stream->left_over = 0;
    }
}

static void *copy_output(void *data)
{
    struct relay *relay = (struct relay *)data;
    struct copier copy = {.ending = false};
    copy.polls = (struct pollfd *)calloc((size_t)relay->nstreams + 1, sizeof *copy.polls);
    for (int open = relay->nstreams; copy.polls && open > 0;) {
        await_output(relay, &copy);
        open = 0;
        for (int i = 0; i < relay->nstreams; i++) {
            if (copy.polls[i].fd >= 0 && copy.polls[i].revents)
                copy_stream(relay, relay->streams[i]);
            open += relay->streams[i]->from >= 0;
        }
        /* A process that still holds a pipe is not a PE. */
        bool strays = copy.ending && oshrun_now_ms() >= copy.stray_until;
        for (int i = 0; strays && i < relay->nstreams; i++) {
            struct stream *stream = relay->streams[i];
            if (stream->from < 0 || stream->left_over > 0)
                continue;
            flush_lines(stream, true);
            end_stream(stream);
        }
    }
    free(copy.polls);
    return NULL;
}

/* ---- terminal input ---- */

static void *copy_input(void *data)
{
    int to = ((struct relay *)data)->input_fd;
    char text[4096];
    for (;;) {
        poll(&(struct pollfd){.fd = 0, .events = POLLIN}, 1, -1);
        if (tcgetpgrp(0) != getpgrp()) { /* the terminal's input is for another process group now */
            poll(NULL, 0, FOREGROUND_POLL_MS);
            continue;
        }
        ssize_t got = read(0, text, sizeof text);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || !write_all(to, text, (size_t)got))
            break;
    }
    close(to);
    return NULL;
}

/* ---- set up ---- */

int relay_open(struct job *job)
{
    struct relay *relay = (struct relay *)calloc(1, sizeof *relay);
    if (!relay)
        return oshrun_fail("no memory for the streams");
    relay->input_fd = relay->pe0_input_fd = -1;
    job->relay = relay;
    relay->end_fd = eventfd(0, EFD_CLOEXEC);
    if (relay->end_fd < 0)
        return oshrun_fail("cannot make an eventfd");
    relay->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (relay->null_fd < 0)
        return oshrun_fail("cannot open /dev/null");
    bool tags = job->options.tag_output && job->options.part != PART_HEAD;
    if (tags)
        relay->streams = (struct stream **)calloc((size_t)job->options.npes * 2, sizeof *relay->streams);
    if (tags && !relay->streams)
        return oshrun_fail("no memory for the streams");
    int fd[2];
    if (!isatty(0) || job->options.part != PART_ALONE)
        return 0;
    if (pipe2(fd, O_CLOEXEC))
        return oshrun_fail("cannot make a pipe");
    relay->pe0_input_fd = fd[0];
    relay->input_fd = fd[1];
    return 0;
}

/* The write end for the PE, or -1. */
static int open_stream(struct relay *relay, int pe, int to)
{
    int fd[2];
    struct stream *stream = (struct stream *)malloc(sizeof *stream);
    if (!stream || pipe2(fd, O_CLOEXEC)) {
        oshrun_fail("cannot make a pipe");
        free(stream);
        return -1;
    }
    stream->from = fd[0];
    stream->to = to;
    stream->pe = pe;
    stream->used = 0;
    stream->left_over = 0;
    relay->streams[relay->nstreams++] = stream;
    return fd[1];
}

int relay_streams(struct job *job, int pe, struct pe_streams *streams)
{
    struct relay *relay = job->relay;
    bool reads = pe == 0 && job->options.part == PART_ALONE;
    *streams = (struct pe_streams){.in = reads ? relay->pe0_input_fd : relay->null_fd, .out = -1, .err = -1};
    if (job->options.part == PART_HEAD)
        streams->in = job->pes[pe].control;
    if (!relay->streams)
        return 0;
    streams->out = open_stream(relay, job->options.first_pe + pe, STDOUT_FILENO);
    if (streams->out < 0)
        return STATUS_FAILED;
    streams->err = open_stream(relay, job->options.first_pe + pe, job->stderr_fd);
    return streams->err < 0 ? STATUS_FAILED : 0;
}

int relay_start(struct job *job)
{
    struct relay *relay = job->relay;
    pthread_t reader;
    close(relay->pe0_input_fd);
    relay->pe0_input_fd = -1;
    if (relay->nstreams) {
        errno = pthread_create(&relay->copier, NULL, copy_output, relay);
        if (errno)
            return oshrun_fail("cannot start a thread");
        relay->copying = true;
    }
    if (relay->input_fd >= 0) {
        errno = pthread_create(&reader, NULL, copy_input, relay);
        if (errno)
            return oshrun_fail("cannot start a thread");
        pthread_detach(reader); /* it may sit in read() until the process ends */
    }
    return 0;
}

void relay_end(struct job *job)
{
    uint64_t one = 1;
    if (job->relay && job->relay->copying)
        (void)!write(job->relay->end_fd, &one, sizeof one);
}

bool relay_is_done(struct job *job, int wait_ms)
{
    struct timespec until;
    if (!job->relay || !job->relay->copying)
        return true;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)wait_ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    job->relay->copying = pthread_timedjoin_np(job->relay->copier, NULL, &until) != 0;
    return !job->relay->copying;
}

int relay_error(const struct job *job) { return job->relay ? atomic_load(&job->relay->error) : 0; }
