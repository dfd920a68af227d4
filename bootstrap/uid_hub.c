/* SPDX-License-Identifier: MIT */
/* Rank 0 of a job that starts by a unique id. While the PEs arrive, each connection is a stranger until the handshake
 * has proved that it belongs to the job; then rank 0 gathers the blocks of all members in each collective call.
 * invariants: a stranger costs a warning, never the job; a PE that is missing or has died is named on every PE; no call
 * outlives its deadline. Called by boot_uid.c. */
#include "uid_job.h"

#include "log.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STRANGERS = 32 };
static const double stranger_s = 5; /* for a hello, and again for a proof */
static const double sentence_s = 1; /* for the last words of a PE */
static const double linger_s = 3;   /* for the next PE of a job that cannot be */

/* A member sends one frame in each call, so it has sent as many as there were calls when its block is here; before the
 * first call, when it has joined. */
static bool is_here(const struct uid_job *job, int rank)
{
    return job->sockets[rank].fd >= 0 && (uint32_t)job->sockets[rank].received == job->calls;
}

static int fail_missing(struct uid_job *job)
{
    char missing[200] = "(no memory for the list)";
    bool *here = (bool *)calloc((size_t)job->size, sizeof *here);
    for (int r = 0; here && r < job->size; r++)
        here[r] = r == 0 || is_here(job, r);
    if (here)
        iso_uid_list_missing(here, job->size, missing, sizeof missing);
    free(here);
    return iso_uid_job_fail(job, NULL,
                            "not all of the %d PEs have arrived within %g s (SHMEM_BOOT_TIMEOUT): pe %s missing",
                            job->size, job->timeout_s, missing);
}

/* ---- the PEs arrive ---- */

/* A connection that has not proved who it is. */
struct stranger {
    struct frame_socket socket;
    struct handshake handshake;
    int64_t deadline;
    char name[TCP_NAME_BYTES];
};

struct arrivals {
    int listener;
    int limit; /* strangers at once: all PEs, whose hellos may be on their way, and STRANGERS more */
    int n_strangers;
    int joined;
    struct stranger strangers[]; /* [limit] oldest first */
};

static void remove_stranger(struct arrivals *a, int i)
{
    a->n_strangers--;
    memmove(&a->strangers[i], &a->strangers[i + 1], (size_t)(a->n_strangers - i) * sizeof a->strangers[0]);
}

static void drop_member(struct arrivals *a, int i, const char *why)
{
    iso_handshake_warn_dropped(a->strangers[i].name, why);
    close(a->strangers[i].socket.fd);
    remove_stranger(a, i);
}

/* Accepts all that wait. Where there is no room the oldest has to go: a PE sends its hello at once. */
static int accept_strangers(struct uid_job *job, struct arrivals *a)
{
    for (int n = 0; n < a->limit; n++) {
        char name[TCP_NAME_BYTES];
        int fd = iso_tcp_accept(a->listener, name);
        bool no_room = fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS;
        if (no_room && a->n_strangers == 0)
            return iso_uid_job_fail(job, NULL, "pe 0 cannot accept a connection: %s", strerror(-fd));
        if (no_room || a->n_strangers == a->limit)
            drop_member(a, 0, "it sent no hello and others are waiting");
        if (fd < 0)
            return 0; /* none, or one that has gone again */
        struct stranger *stranger = &a->strangers[a->n_strangers++];
        iso_handshake_accept(&stranger->handshake, &stranger->socket, fd);
        stranger->deadline = iso_deadline_in(stranger_s);
        memcpy(stranger->name, name, sizeof name);
    }
    return 0;
}

/* The PE belongs to the job: 0, or the job fails on both ends where they contradict each other. */
static int admit(struct uid_job *job, struct arrivals *a, struct stranger *stranger)
{
    struct hello hello = iso_handshake_said(&stranger->handshake);
    struct frame_socket *s = &stranger->socket;
    if (!iso_handshake_is_current(&hello))
        return iso_uid_job_fail(job, s,
                                "a PE (%s) runs library version %s with protocol %u, pe 0 version %s with protocol %u",
                                stranger->name, hello.version, hello.protocol, ISO_VERSION, (unsigned)ISO_PROTOCOL);
    if (hello.detail != (uint32_t)job->size)
        return iso_uid_job_fail(job, s, "pe %u (%s) was told that the job has %u PEs, pe 0 that it has %d", hello.pe,
                                stranger->name, hello.detail, job->size);
    if (hello.pe >= (uint32_t)job->size)
        return iso_uid_job_fail(job, s, "a process (%s) says that it is pe %u, which is outside 0..%d",
                                stranger->name, hello.pe, job->size - 1);
    if (hello.pe == 0 || job->sockets[hello.pe].fd >= 0)
        return iso_uid_job_fail(job, s, "two processes say that they are pe %u, the second from %s", hello.pe,
                                stranger->name);
    job->sockets[hello.pe] = *s;
    a->joined++;
    return 0;
}

/* 0 while the job can go on. */
static int read_stranger(struct uid_job *job, struct arrivals *a, int i)
{
    struct stranger *stranger = &a->strangers[i];
    int rc = iso_handshake_receive(&stranger->handshake, &stranger->socket);
    if (rc == HANDSHAKE_HELLO) {
        stranger->deadline = iso_deadline_in(stranger_s); /* for its proof */
        rc = iso_handshake_said(&stranger->handshake).service == HANDSHAKE_UID
                 ? iso_handshake_answer(&stranger->handshake, &stranger->socket, job->uid.secret)
                 : -EBADMSG;
    }
    if (rc < 0)
        drop_member(a, i, iso_handshake_why(&stranger->handshake, rc));
    if (rc != HANDSHAKE_DONE)
        return 0;
    struct stranger proved = *stranger;
    remove_stranger(a, i);
    rc = admit(job, a, &proved);
    if (rc != 0)
        close(proved.socket.fd);
    return rc;
}

/* Of a frame that the PE has sent: 0, or -errno for the caller to explain, or -ECONNABORTED after a sentence. */
static int check_head(struct uid_job *job, int rank, const struct frame *frame, size_t len)
{
    char sentence[UID_SENTENCE_BYTES];
    if (frame->kind == UID_DATA && frame->number == job->calls && frame->len == len)
        return 0;
    if (frame->kind == UID_DATA)
        return iso_uid_job_fail(job, NULL,
                                "pe %d sent %u bytes in call %u where pe 0 sent %zu in call %u: the PEs make different "
                                "calls",
                                rank, frame->len, frame->number, len, job->calls);
    if (frame->kind != UID_FAIL)
        return -EPROTO;
    int rc = iso_uid_job_read_sentence(&job->sockets[rank], frame, sentence, iso_deadline_in(sentence_s));
    if (rc == -EBADMSG || rc == -EPROTO)
        return rc;
    return iso_uid_job_fail(job, NULL, "pe %d has ended the job: %.*s", rank, UID_SENTENCE_BYTES - 64,
                            rc == 0 ? sentence : "it gave no reason");
}

/* polls: [0] the listener, then the strangers, then the sockets of ranks 1 .. (fd -1 is ignored by poll). */
static int receive_once(struct uid_job *job, struct arrivals *a, struct pollfd *polls)
{
    int n = 0, strangers = a->n_strangers;
    int64_t next = job->arrival_deadline;
    polls[n++] = (struct pollfd){.fd = a->listener, .events = POLLIN};
    for (int i = 0; i < strangers; i++) {
        polls[n++] = (struct pollfd){.fd = a->strangers[i].socket.fd, .events = POLLIN};
        next = a->strangers[i].deadline < next ? a->strangers[i].deadline : next;
    }
    for (int r = 1; r < job->size; r++) /* its first block may be there, and stays for the first call */
        polls[n++] = (struct pollfd){.fd = job->sockets[r].fd, .events = POLLRDHUP};
    int ready = iso_poll(polls, (unsigned)n, iso_deadline_poll_ms(next));
    if (ready < 0 && errno != EINTR)
        return iso_uid_job_fail(job, NULL, "poll: %s", strerror(errno));
    if (ready <= 0)
        return 0;
    int rc = 0;
    for (int r = 1; r < job->size && rc == 0; r++) {
        struct frame frame;
        if (!polls[strangers + r].revents)
            continue;
        if (iso_frame_head(&job->sockets[r], &frame) == 1 && frame.kind == UID_FAIL)
            rc = check_head(job, r, &frame, 0); /* it has said why */
        if (!job->broken)
            rc = iso_uid_job_fail(job, NULL, "pe %d has ended before all %d PEs had arrived", r, job->size);
    }
    for (int i = strangers; i-- > 0 && rc == 0;) /* from the last, since each may be removed */
        if (polls[1 + i].revents)
            rc = read_stranger(job, a, i);
    if (rc == 0 && polls[0].revents)
        rc = accept_strangers(job, a);
    return rc;
}

static int receive_all(struct uid_job *job, struct arrivals *a)
{
    struct pollfd *polls = (struct pollfd *)calloc((size_t)(job->size + a->limit), sizeof *polls);
    if (!polls)
        return iso_uid_job_fail(job, NULL, "no memory for %d connections", job->size);
    int rc = 0;
    while (rc == 0 && a->joined < job->size - 1) {
        rc = receive_once(job, a, polls);
        for (int i = a->n_strangers; i-- > 0;)
            if (iso_deadline_poll_ms(a->strangers[i].deadline) == 0)
                drop_member(a, i, iso_handshake_why(&a->strangers[i].handshake, -ETIMEDOUT));
        if (rc == 0 && a->joined < job->size - 1 && iso_deadline_poll_ms(job->arrival_deadline) == 0)
            rc = fail_missing(job);
    }
    free(polls);
    return rc;
}

/* The same frame to all members. */
static int send_to_members(struct uid_job *job, const struct frame *frame, const void *payload, int64_t deadline)
{
    unsigned char digest[AUTH_BYTES];
    iso_frame_digest(job->uid.secret, payload, frame->len, digest);
    for (int r = 1; r < job->size; r++) {
        int rc = iso_frame_send(&job->sockets[r], frame, payload, digest, deadline);
        if (rc != 0)
            return iso_uid_job_fail(job, NULL, "pe %d cannot be reached: %s", r, iso_uid_job_describe(rc));
    }
    return 0;
}

int iso_uid_hub_open(struct uid_job *job)
{
    char name[TCP_NAME_BYTES];
    int listener = iso_tcp_listen(&job->uid.address);
    if (listener < 0) {
        iso_tcp_name(&job->uid.address, name);
        return iso_uid_job_fail(
            job, NULL, "pe 0 cannot listen on %s of the unique id, which must be an address of its host: %s", name,
            strerror(-listener));
    }
    job->arrival_deadline = iso_deadline_in(job->timeout_s);
    size_t limit = (size_t)job->size + STRANGERS;
    struct arrivals *a = (struct arrivals *)calloc(1, sizeof *a + limit * sizeof a->strangers[0]);
    if (!a) {
        close(listener);
        return iso_uid_job_fail(job, NULL, "no memory for %d connections", job->size);
    }
    a->listener = listener;
    a->limit = (int)limit;
    iso_handshake_forget_dropped();
    int rc = receive_all(job, a);
    for (int i = 0; i < a->n_strangers; i++)
        close(a->strangers[i].socket.fd);
    free(a);
    close(listener);
    return rc;
}

/* The handshake of a PE, whose bytes are here at once. True: it belongs to the job, and can be told. */
static bool is_member(struct frame_socket *s, int fd, const unsigned char secret[AUTH_BYTES])
{
    struct handshake h;
    int64_t deadline = iso_deadline_in(sentence_s);
    int rc = 0;
    iso_handshake_accept(&h, s, fd);
    while (rc >= 0 && rc != HANDSHAKE_DONE) {
        rc = iso_tcp_wait(fd, POLLIN, deadline);
        if (rc == 0)
            rc = iso_handshake_receive(&h, s);
        if (rc == HANDSHAKE_HELLO)
            rc = iso_handshake_answer(&h, s, secret);
    }
    return rc == HANDSHAKE_DONE;
}

void iso_uid_hub_refuse(const struct uid *uid, int size, const char *sentence)
{
    const struct uid_job job = {.uid = *uid, .size = size};
    struct tcp_address address = uid->address;
    int listener = iso_tcp_listen(&address), told = 0;
    int64_t next = iso_deadline_in(linger_s);
    while (listener >= 0 && told < size - 1 && iso_deadline_now() < next &&
           iso_tcp_wait(listener, POLLIN, next) == 0) {
        char name[TCP_NAME_BYTES];
        struct frame_socket s;
        int fd = iso_tcp_accept(listener, name);
        if (fd < 0)
            continue;
        if (is_member(&s, fd, uid->secret)) {
            iso_uid_job_tell(&job, &s, sentence);
            told++;
            next = iso_deadline_in(linger_s);
        }
        close(fd);
    }
    if (listener >= 0)
        close(listener);
}

/* ---- collective calls ---- */

/* Reads what has arrived of the frame of `rank`, the payload to its place in `all`. */
static int read_block(struct uid_job *job, int rank, size_t len, unsigned char *all)
{
    struct frame_socket *s = &job->sockets[rank];
    struct frame frame;
    bool had_head = s->got >= FRAME_HEAD_BYTES;
    int rc = iso_frame_head(s, &frame);
    if (rc == 1)
        rc = had_head ? 0 : check_head(job, rank, &frame, len);
    else if (rc == 0)
        return 0;
    if (rc == 0)
        rc = iso_frame_rest(s, all + (size_t)rank * len);
    if (rc >= 0 || job->broken)
        return rc < 0 ? rc : 0;
    if (rc == -EPROTO)
        return iso_uid_job_fail(job, NULL, "pe %d sent bytes that are not a message", rank);
    if (rc == -EBADMSG)
        return iso_uid_job_fail(job, NULL, "a message of pe %d is not from it, or was altered on its way", rank);
    return iso_uid_job_fail(job, NULL, "pe %d has ended (%s)", rank, iso_uid_job_describe(rc));
}

/* One round of poll: 1 while blocks are missing. Of a PE that has given its block only the end of the stream is of
 * interest. */
static int gather_once(struct uid_job *job, size_t len, unsigned char *all, struct pollfd *polls, int64_t deadline)
{
    int missing = 0;
    for (int r = 1; r < job->size; r++) {
        bool done = is_here(job, r);
        polls[r] = (struct pollfd){.fd = job->sockets[r].fd, .events = (short)(done ? POLLRDHUP : POLLIN)};
        missing += !done;
    }
    if (missing == 0)
        return 0;
    int ready = iso_poll(polls + 1, (unsigned)job->size - 1, iso_deadline_poll_ms(deadline));
    if (ready < 0 && errno != EINTR)
        return iso_uid_job_fail(job, NULL, "poll: %s", strerror(errno));
    if (ready == 0 && iso_deadline_poll_ms(deadline) == 0)
        return fail_missing(job);
    for (int r = 1; r < job->size && ready > 0; r++) {
        if (!polls[r].revents)
            continue;
        int rc = is_here(job, r) ? iso_uid_job_fail(job, NULL, "pe %d has ended", r) : read_block(job, r, len, all);
        if (rc != 0)
            return rc;
    }
    return 1;
}

int iso_uid_hub_allgather(struct uid_job *job, size_t len, unsigned char *all)
{
    int64_t deadline = job->calls == 1 ? job->arrival_deadline : iso_deadline_in(job->timeout_s);
    struct frame frame = {.kind = UID_DATA, .number = job->calls, .len = (uint32_t)(len * (size_t)job->size)};
    struct pollfd *polls = (struct pollfd *)calloc((size_t)job->size, sizeof *polls);
    if (!polls)
        return iso_uid_job_fail(job, NULL, "no memory for %d connections", job->size);
    int rc;
    do
        rc = gather_once(job, len, all, polls, deadline);
    while (rc > 0);
    free(polls);
    return rc != 0 ? rc : send_to_members(job, &frame, all, deadline);
}
