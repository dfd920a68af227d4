/* SPDX-License-Identifier: MIT */
/* Start by a unique id over TCP: the program carries the id (torchrun's store, MPI, a file), or a script sets
 * SHMEM_UID, SHMEM_RANK and SHMEM_SIZE. A star: rank 0 is the hub inside its own collective calls, there is no thread.
 * Invariants: no call outlives its deadline; a stranger on the port costs a warning, never the job; a PE that is
 * missing or has died is named on every PE. The connections stay open until another id is used or the process exits. */
#include "uid.h"
#include "listener.h"
#include "log.h"
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STRANGERS = 32, WARNINGS_MAX = 10 };
static const double stranger_patience_s = 5; /* for a hello of 60 bytes */
static const double hub_lead_s = 2;          /* others wait longer than rank 0, which knows who is missing */

/* A connection that has not yet said who it is. */
struct stranger {
    int fd;
    size_t got;
    int64_t deadline;
    unsigned char bytes[UID_HELLO_BYTES];
    char name[WIRE_NAME_BYTES];
};

/* A PE of the job. */
struct link {
    int fd;     /* -1: not connected */
    size_t got; /* bytes of the current frame, head included */
    unsigned char head[UID_FRAME_BYTES];
};

struct job {
    struct uid uid;
    int rank;
    int size;
    double timeout_s;
    uint32_t seq;       /* collective calls so far, equal on all ranks */
    bool broken;        /* a call has failed; all later ones do */
    int listener;       /* rank 0, until all are in; else -1 */
    int n_links;        /* rank 0: size; else 1 */
    struct link *links; /* rank 0: by rank, [0] unused; else [0] is rank 0 */
};

/* Rank 0 while the PEs arrive. */
struct door {
    int room; /* for all PEs at once, whose hellos may be on their way, and STRANGERS */
    int n_strangers;
    int joined;
    int warnings;
    int64_t deadline;
    struct stranger strangers[]; /* [room] oldest first */
};

/* ---- failing together ---- */

static void send_sentence(int fd, uint32_t seq, const char *sentence)
{
    unsigned char bytes[UID_FRAME_BYTES + UID_SENTENCE_BYTES];
    struct uid_frame frame = {.kind = UID_FRAME_FAIL, .seq = seq, .len = (uint32_t)strlen(sentence)};
    iso_uid_encode_frame(&frame, bytes);
    memcpy(bytes + UID_FRAME_BYTES, sentence, frame.len);
    /* A courtesy that must not wait: one who cannot take 512 bytes now reads the end of the stream instead. */
    (void)iso_wire_send(fd, bytes, UID_FRAME_BYTES + frame.len, iso_wire_now());
}

static void tell_all(const struct job *job, const char *sentence)
{
    for (int i = 0; i < job->n_links; i++)
        if (job->links[i].fd >= 0)
            send_sentence(job->links[i].fd, job->seq, sentence);
}

/* Says it here; rank 0 says it to all others too, and to `extra` (-1: nobody), who is not in the job. */
__attribute__((format(printf, 3, 4))) static int fail(struct job *job, int extra, const char *format, ...)
{
    char sentence[UID_SENTENCE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    log_error("bootstrap: %s", sentence);
    if (job->rank == 0)
        tell_all(job, sentence);
    if (extra >= 0)
        send_sentence(extra, job->seq, sentence);
    job->broken = true;
    return -ECONNABORTED;
}

static const char *describe(int rc) { return rc == -EPIPE ? "connection closed" : strerror(-rc); }

/* ---- rank 0: the door ---- */

static void remove_stranger(struct door *door, int i)
{
    door->n_strangers--;
    memmove(&door->strangers[i], &door->strangers[i + 1], (size_t)(door->n_strangers - i) * sizeof door->strangers[0]);
}

static void turn_away(struct door *door, int i, const char *why)
{
    const struct stranger *stranger = &door->strangers[i];
    if (door->warnings < WARNINGS_MAX)
        log_warn("bootstrap: a connection from %s was dropped: %s", stranger->name, why);
    else if (door->warnings == WARNINGS_MAX)
        log_warn("bootstrap: more connections were dropped, no longer printed");
    door->warnings++;
    close(stranger->fd);
    remove_stranger(door, i);
}

/* Takes in all that wait. Where the room is full the oldest has to go: a PE says its hello at once. */
static int accept_strangers(struct job *job, struct door *door)
{
    for (int n = 0; n < door->room; n++) {
        char name[WIRE_NAME_BYTES];
        int fd = iso_wire_accept(job->listener, name);
        bool no_room = fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS;
        if (no_room && door->n_strangers == 0)
            return fail(job, -1, "pe 0 cannot accept a connection: %s", strerror(-fd));
        if (no_room || door->n_strangers == door->room)
            turn_away(door, 0, "it sent no hello and others are waiting");
        if (fd < 0)
            return 0; /* none, or one that has gone again */
        struct stranger *stranger = &door->strangers[door->n_strangers++];
        *stranger = (struct stranger){.fd = fd, .deadline = iso_wire_deadline(stranger_patience_s)};
        memcpy(stranger->name, name, sizeof name);
    }
    return 0;
}

/* The hello is authentic: 0, or the job fails on both ends where two of its processes contradict each other. */
static int admit(struct job *job, struct door *door, int i, const struct uid_hello *hello)
{
    struct stranger stranger = door->strangers[i];
    remove_stranger(door, i);
    int rc = 0;
    if (hello->size != (uint32_t)job->size)
        rc = fail(job, stranger.fd, "pe %u (%s) was told that the job has %u PEs, pe 0 that it has %d", hello->rank,
                  stranger.name, hello->size, job->size);
    else if (hello->rank >= (uint32_t)job->size)
        rc = fail(job, stranger.fd, "a process (%s) says that it is pe %u, which is outside 0..%d", stranger.name,
                  hello->rank, job->size - 1);
    else if (hello->rank == 0 || job->links[hello->rank].fd >= 0)
        rc = fail(job, stranger.fd, "two processes say that they are pe %u, the second from %s", hello->rank,
                  stranger.name);
    if (rc != 0) {
        close(stranger.fd);
        return rc;
    }
    job->links[hello->rank].fd = stranger.fd;
    door->joined++;
    return 0;
}

/* 0 while the job can go on. */
static int hear_stranger(struct job *job, struct door *door, int i)
{
    struct stranger *stranger = &door->strangers[i];
    ptrdiff_t n = iso_wire_recv_some(stranger->fd, stranger->bytes + stranger->got, UID_HELLO_BYTES - stranger->got);
    if (n < 0) {
        turn_away(door, i, "it ended before its hello was complete");
        return 0;
    }
    stranger->got += (size_t)n;
    struct uid_hello hello;
    int rc;
    switch (iso_uid_judge_hello(stranger->bytes, stranger->got, job->uid.secret, &hello)) {
    case UID_INCOMPLETE:
        return 0;
    case UID_NOT_OURS:
        turn_away(door, i, "it is no PE of this library");
        return 0;
    case UID_WRONG_SECRET:
        turn_away(door, i, "its secret is not that of this job");
        return 0;
    case UID_WRONG_VERSION:
        rc = fail(job, stranger->fd,
                  "a PE (%s) runs library version %s with protocol %u, pe 0 version %s with protocol %u",
                  stranger->name, hello.version, hello.protocol, ISO_VERSION, (unsigned)ISO_PROTOCOL);
        close(stranger->fd);
        remove_stranger(door, i);
        return rc;
    case UID_WELCOME:
        break;
    }
    return admit(job, door, i, &hello);
}

/* Nobody who has joined has a reason to speak: it is the end of the stream, or nonsense. */
static int check_joined(struct job *job, int rank)
{
    char byte;
    ptrdiff_t n = iso_wire_recv_some(job->links[rank].fd, &byte, 1);
    if (n == 0)
        return 0;
    return fail(job, -1, "pe %d %s before all %d PEs had arrived", rank, n > 0 ? "spoke out of turn" : "has ended",
                job->size);
}

static int64_t next_deadline(const struct door *door)
{
    bool sooner = door->n_strangers > 0 && door->strangers[0].deadline < door->deadline;
    return sooner ? door->strangers[0].deadline : door->deadline;
}

/* polls: [0] the listener, then the strangers, then the links of ranks 1 .. (fd -1 is ignored by poll). */
static int run_door_once(struct job *job, struct door *door, struct pollfd *polls)
{
    int n = 0, strangers = door->n_strangers;
    polls[n++] = (struct pollfd){.fd = job->listener, .events = POLLIN};
    for (int i = 0; i < strangers; i++)
        polls[n++] = (struct pollfd){.fd = door->strangers[i].fd, .events = POLLIN};
    for (int r = 1; r < job->size; r++)
        polls[n++] = (struct pollfd){.fd = job->links[r].fd, .events = POLLIN};
    int ready = poll(polls, (nfds_t)n, iso_wire_poll_ms(next_deadline(door)));
    if (ready < 0 && errno != EINTR)
        return fail(job, -1, "poll: %s", strerror(errno));
    if (ready <= 0)
        return 0;
    int rc = 0;
    for (int r = 1; r < job->size && rc == 0; r++)
        if (polls[strangers + r].revents)
            rc = check_joined(job, r);
    for (int i = strangers; i-- > 0 && rc == 0;) /* from the last, since each may be removed */
        if (polls[1 + i].revents)
            rc = hear_stranger(job, door, i);
    if (rc == 0 && polls[0].revents)
        rc = accept_strangers(job, door);
    return rc;
}

static int fail_missing(struct job *job, const bool *here)
{
    char missing[200];
    iso_uid_list_missing(here, job->size, missing, sizeof missing);
    return fail(job, -1, "not all of the %d PEs have arrived within %g s (SHMEM_BOOT_TIMEOUT): pe %s missing",
                job->size, job->timeout_s, missing);
}

static int fail_absent(struct job *job)
{
    bool *here = (bool *)calloc((size_t)job->size, sizeof *here);
    if (!here)
        return fail(job, -1, "not all of the %d PEs have arrived in time", job->size);
    for (int r = 0; r < job->size; r++)
        here[r] = r == 0 || job->links[r].fd >= 0;
    int rc = fail_missing(job, here);
    free(here);
    return rc;
}

static int welcome_all(struct job *job, int64_t deadline)
{
    unsigned char bytes[UID_FRAME_BYTES];
    iso_uid_encode_frame(&(struct uid_frame){.kind = UID_FRAME_WELCOME}, bytes);
    for (int r = 1; r < job->size; r++) {
        int rc = iso_wire_send(job->links[r].fd, bytes, sizeof bytes, deadline);
        if (rc != 0)
            return fail(job, -1, "pe %d cannot be reached: %s", r, describe(rc));
    }
    return 0;
}

static int receive_peers(struct job *job, struct door *door)
{
    struct pollfd *polls = (struct pollfd *)calloc((size_t)(job->size + door->room), sizeof *polls);
    if (!polls)
        return fail(job, -1, "no memory for %d connections", job->size);
    int rc = 0;
    while (rc == 0 && door->joined < job->size - 1) {
        rc = run_door_once(job, door, polls);
        while (door->n_strangers > 0 && iso_wire_poll_ms(door->strangers[0].deadline) == 0)
            turn_away(door, 0, "it was silent");
        if (rc == 0 && door->joined < job->size - 1 && iso_wire_poll_ms(door->deadline) == 0)
            rc = fail_absent(job);
    }
    free(polls);
    return rc == 0 ? welcome_all(job, door->deadline) : rc;
}

static int open_door(struct job *job)
{
    iso_wire_raise_files();
    job->listener = iso_listener_take(&job->uid);
    if (job->listener < 0)
        job->listener = iso_wire_listen(&job->uid);
    if (job->listener < 0)
        return fail(job, -1,
                    "pe 0 cannot listen on %s port %u of the unique id (it must be an address of its machine): %s",
                    job->uid.address, (unsigned)job->uid.port, strerror(-job->listener));
    size_t room = (size_t)job->size + STRANGERS;
    struct door *door = (struct door *)calloc(1, sizeof *door + room * sizeof door->strangers[0]);
    if (!door)
        return fail(job, -1, "no memory for %d connections", job->size);
    door->room = (int)room;
    door->deadline = iso_wire_deadline(job->timeout_s);
    int rc = receive_peers(job, door);
    while (door->n_strangers > 0) {
        close(door->strangers[0].fd);
        remove_stranger(door, 0);
    }
    free(door);
    close(job->listener);
    job->listener = -1;
    return rc;
}

/* ---- the other ranks ---- */

/* Reads a frame of this kind, number and length; a sentence of rank 0 instead of it is printed. */
static int receive_frame(struct job *job, struct uid_frame expected, void *payload, int64_t deadline)
{
    unsigned char bytes[UID_FRAME_BYTES], text[UID_SENTENCE_BYTES];
    struct uid_frame frame;
    int fd = job->links[0].fd;
    int rc = iso_wire_recv(fd, bytes, sizeof bytes, deadline);
    if (rc == 0)
        rc = iso_uid_decode_frame(bytes, &frame);
    if (rc != 0)
        return rc;
    if (frame.kind == UID_FRAME_FAIL) {
        char sentence[UID_SENTENCE_BYTES] = "the job failed";
        if (iso_wire_recv(fd, text, frame.len, deadline) == 0)
            iso_uid_clean_text(text, frame.len, sentence, sizeof sentence);
        fail(job, -1, "pe 0 says: %s", sentence);
        return -ECONNABORTED;
    }
    if (frame.kind != expected.kind || frame.seq != expected.seq || frame.len != expected.len)
        return -EPROTO;
    return iso_wire_recv(fd, payload, frame.len, deadline);
}

/* Says why a frame of rank 0 did not come, unless that has been done. */
static int fail_hub(struct job *job, int rc)
{
    if (rc == 0 || job->broken)
        return rc;
    if (rc == -ETIMEDOUT)
        return fail(job, -1, "pe 0 has not answered within %g s (SHMEM_BOOT_TIMEOUT)", job->timeout_s);
    if (rc == -EPROTO)
        return fail(job, -1, "pe 0 sent something else than expected: the PEs make different calls");
    return fail(job, -1, "pe 0 has ended (%s)", describe(rc));
}

static double patience(const struct job *job) { return job->timeout_s > 0 ? job->timeout_s + hub_lead_s : 0; }

static int fail_connect(struct job *job, int rc, int last)
{
    const char *address = job->uid.address;
    unsigned port = job->uid.port;
    if (rc == -ETIMEDOUT)
        return fail(job, -1, "pe 0 was not found at %s port %u within %g s (SHMEM_BOOT_TIMEOUT): %s", address, port,
                    job->timeout_s, strerror(-last));
    return fail(job, -1, "pe 0 at %s port %u cannot be reached: %s", address, port, strerror(-rc));
}

static int join(struct job *job)
{
    int last;
    int fd = iso_wire_connect(&job->uid, iso_wire_deadline(job->timeout_s), &last);
    if (fd < 0)
        return fail_connect(job, fd, last);
    job->links[0].fd = fd;
    struct uid_hello hello = {.protocol = ISO_PROTOCOL, .rank = (uint32_t)job->rank, .size = (uint32_t)job->size};
    snprintf(hello.version, sizeof hello.version, "%s", ISO_VERSION);
    memcpy(hello.secret, job->uid.secret, sizeof hello.secret);
    unsigned char bytes[UID_HELLO_BYTES];
    iso_uid_encode_hello(&hello, bytes);
    int64_t deadline = iso_wire_deadline(patience(job));
    int rc = iso_wire_send(fd, bytes, sizeof bytes, deadline);
    if (rc == 0)
        rc = receive_frame(job, (struct uid_frame){.kind = UID_FRAME_WELCOME}, NULL, deadline);
    if (rc == -EPIPE || rc == -ECONNRESET)
        return fail(job, -1,
                    "%s port %u closed the connection without an answer: the process there is not pe 0 of this "
                    "job (another secret?), or has ended",
                    job->uid.address, (unsigned)job->uid.port);
    return fail_hub(job, rc);
}

/* ---- open and close ---- */

static void free_job(struct job *job)
{
    if (!job)
        return;
    for (int i = 0; i < job->n_links; i++)
        if (job->links[i].fd >= 0)
            close(job->links[i].fd);
    if (job->listener >= 0)
        close(job->listener);
    free(job->links);
    free(job);
}

static struct job *new_job(const struct uid *uid, int rank, int size, double timeout_s)
{
    struct job *job = (struct job *)calloc(1, sizeof *job);
    struct link *links = (struct link *)calloc(rank == 0 ? (size_t)size : 1, sizeof *links);
    if (!job || !links) {
        log_error("bootstrap: no memory for %d connections", size);
        free(job);
        free(links);
        return NULL;
    }
    *job = (struct job){.uid = *uid, .rank = rank, .size = size, .timeout_s = timeout_s, .listener = -1};
    job->links = links;
    job->n_links = rank == 0 ? size : 1;
    for (int i = 0; i < job->n_links; i++)
        links[i].fd = -1;
    return job;
}

static void describe_boot(struct boot *boot, const struct job *job)
{
    boot->rank = job->rank;
    boot->size = job->size;
    if (gethostname(boot->host, sizeof boot->host) != 0)
        snprintf(boot->host, sizeof boot->host, "localhost");
    boot->host[sizeof boot->host - 1] = '\0'; /* gethostname may leave it out where it truncates */
    snprintf(boot->launcher, sizeof boot->launcher, "unique id");
}

/* The same job as before is kept, since its listener is gone; another one replaces it. */
static int open_job(struct boot *boot, const struct uid *uid, int rank, int size, double timeout_s)
{
    struct job *job = (struct job *)boot->priv;
    if (job && !job->broken && iso_uid_is_same(&job->uid, uid) && job->rank == rank && job->size == size) {
        job->timeout_s = timeout_s;
        return 0;
    }
    free_job(job);
    boot->priv = NULL;
    iso_log_set_pe(rank);
    job = new_job(uid, rank, size, timeout_s);
    int rc = !job ? -ENOMEM : size == 1 ? 0 : rank == 0 ? open_door(job) : join(job);
    if (rc != 0) {
        free_job(job);
        return rc;
    }
    describe_boot(boot, job);
    boot->priv = job;
    return 0;
}

static int check_ranks(int64_t rank, int64_t size, const char *where)
{
    if (size >= 1 && size <= INT32_MAX && rank >= 0 && rank < size)
        return 0;
    log_error("%s: rank is %lld and size is %lld, allowed is a size of at least 1 and a rank in 0..size-1", where,
              (long long)rank, (long long)size);
    return -EINVAL;
}

static int open_attributes(struct boot *boot, const struct boot_attr *attr, const struct env *env)
{
    struct uid uid;
    const char *why;
    int rc = check_ranks(attr->rank, attr->size, "shmemx_init_attr");
    if (rc != 0)
        return rc;
    if ((rc = iso_uid_parse(attr->id, &uid, &why)) != 0) {
        log_error("shmemx_init_attr: the unique id is not one of shmemx_get_uniqueid: %s", why);
        return rc;
    }
    return open_job(boot, &uid, attr->rank, attr->size, env->boot_timeout);
}

static int open_environment(struct boot *boot, const struct boot_attr *attr, const struct env *env)
{
    (void)attr;
    struct uid uid;
    const char *why = "it is not a text of less than 128 bytes";
    unsigned char id[ISO_UID_BYTES] = {0};
    int rc = check_ranks(env->rank, env->size, "SHMEM_UID is set, but with SHMEM_RANK and SHMEM_SIZE");
    if (rc != 0)
        return rc;
    size_t len = strlen(env->uid);
    if (len < sizeof id)
        memcpy(id, env->uid, len);
    if (len >= sizeof id || iso_uid_parse(id, &uid, &why) != 0) {
        log_error("SHMEM_UID is not address:port:secret: %s", why);
        return -EINVAL;
    }
    return open_job(boot, &uid, (int)env->rank, (int)env->size, env->boot_timeout);
}

static bool attributes_apply(const struct boot_attr *attr, const struct env *env, const char **why)
{
    (void)env;
    *why = attr->id ? "the program gave a unique id" : "the program gave no unique id";
    return attr->id != NULL;
}

static bool environment_applies(const struct boot_attr *attr, const struct env *env, const char **why)
{
    *why = attr->id ? "the program gave a unique id" : *env->uid ? "SHMEM_UID is set" : "SHMEM_UID is not set";
    return !attr->id && *env->uid;
}

static void close_uid(struct boot *boot)
{
    free_job((struct job *)boot->priv);
    boot->priv = NULL;
}

/* ---- collectives ---- */

/* A PE said a sentence instead of its block: it gives up the job. */
static int relay_sentence(struct job *job, int rank, uint32_t len)
{
    unsigned char text[UID_SENTENCE_BYTES];
    char sentence[UID_SENTENCE_BYTES - 64] = "it gave no reason";
    if (iso_wire_recv(job->links[rank].fd, text, len, iso_wire_deadline(1)) == 0)
        iso_uid_clean_text(text, len, sentence, sizeof sentence);
    return fail(job, -1, "pe %d has ended the job: %s", rank, sentence);
}

static int check_head(struct job *job, int rank, size_t len)
{
    struct uid_frame frame;
    if (iso_uid_decode_frame(job->links[rank].head, &frame) != 0)
        return fail(job, -1, "pe %d sent something that is no message", rank);
    if (frame.kind == UID_FRAME_FAIL)
        return relay_sentence(job, rank, frame.len);
    if (frame.kind != UID_FRAME_DATA || frame.seq != job->seq || frame.len != len)
        return fail(job, -1,
                    "pe %d sent %u bytes in call %u where pe 0 sent %zu in call %u: the PEs make different calls", rank,
                    frame.len, frame.seq, len, job->seq);
    return 0;
}

static bool has_block(const struct link *link, size_t len) { return link->got == UID_FRAME_BYTES + len; }

/* Reads what is there of the frame of `rank`: head, then payload to its place in `all`. */
static int hear_block(struct job *job, int rank, size_t len, unsigned char *all)
{
    struct link *link = &job->links[rank];
    bool head = link->got < UID_FRAME_BYTES;
    unsigned char *to = head ? link->head + link->got : all + (size_t)rank * len + (link->got - UID_FRAME_BYTES);
    size_t want = head ? UID_FRAME_BYTES - link->got : UID_FRAME_BYTES + len - link->got;
    ptrdiff_t n = iso_wire_recv_some(link->fd, to, want);
    if (n < 0)
        return fail(job, -1, "pe %d has ended (%s)", rank, describe((int)n));
    link->got += (size_t)n;
    return head && link->got == UID_FRAME_BYTES ? check_head(job, rank, len) : 0;
}

static int fail_late(struct job *job, size_t len)
{
    bool *here = (bool *)calloc((size_t)job->size, sizeof *here);
    if (!here)
        return fail(job, -1, "not all of the %d PEs have arrived in time", job->size);
    for (int r = 0; r < job->size; r++)
        here[r] = r == 0 || has_block(&job->links[r], len);
    int rc = fail_missing(job, here);
    free(here);
    return rc;
}

/* One round of poll. Of those who have given their block only the end of the stream is of interest. */
static int gather_once(struct job *job, size_t len, unsigned char *all, struct pollfd *polls, int64_t deadline)
{
    int missing = 0;
    for (int r = 1; r < job->size; r++) {
        bool done = has_block(&job->links[r], len);
        polls[r] = (struct pollfd){.fd = job->links[r].fd, .events = (short)(done ? POLLRDHUP : POLLIN)};
        missing += !done;
    }
    if (missing == 0)
        return 0;
    int ready = poll(polls + 1, (nfds_t)job->size - 1, iso_wire_poll_ms(deadline));
    if (ready < 0 && errno != EINTR)
        return fail(job, -1, "poll: %s", strerror(errno));
    if (ready == 0 && iso_wire_poll_ms(deadline) == 0)
        return fail_late(job, len);
    for (int r = 1; r < job->size && ready > 0; r++) {
        if (!polls[r].revents)
            continue;
        int rc = has_block(&job->links[r], len) ? fail(job, -1, "pe %d has ended", r) : hear_block(job, r, len, all);
        if (rc != 0)
            return rc;
    }
    return 1;
}

static int gather(struct job *job, size_t len, unsigned char *all, int64_t deadline)
{
    struct pollfd *polls = (struct pollfd *)calloc((size_t)job->size, sizeof *polls);
    if (!polls)
        return fail(job, -1, "no memory for %d connections", job->size);
    for (int r = 1; r < job->size; r++)
        job->links[r].got = 0;
    int rc;
    do
        rc = gather_once(job, len, all, polls, deadline);
    while (rc > 0);
    free(polls);
    return rc;
}

static int send_block(int fd, uint32_t seq, const void *block, size_t len, int64_t deadline)
{
    unsigned char head[UID_FRAME_BYTES];
    iso_uid_encode_frame(&(struct uid_frame){.kind = UID_FRAME_DATA, .seq = seq, .len = (uint32_t)len}, head);
    int rc = iso_wire_send(fd, head, sizeof head, deadline);
    return rc != 0 ? rc : iso_wire_send(fd, block, len, deadline);
}

static int allgather_hub(struct job *job, size_t len, unsigned char *all)
{
    int64_t deadline = iso_wire_deadline(job->timeout_s);
    int rc = gather(job, len, all, deadline);
    for (int r = 1; r < job->size && rc == 0; r++) {
        rc = send_block(job->links[r].fd, job->seq, all, len * (size_t)job->size, deadline);
        if (rc != 0)
            return fail(job, -1, "pe %d cannot be reached: %s", r, describe(rc));
    }
    return rc;
}

static int allgather_other(struct job *job, const void *mine, size_t len, unsigned char *all)
{
    int64_t deadline = iso_wire_deadline(patience(job));
    struct uid_frame answer = {.kind = UID_FRAME_DATA, .seq = job->seq, .len = (uint32_t)(len * (size_t)job->size)};
    int rc = send_block(job->links[0].fd, job->seq, mine, len, deadline);
    /* Also where sending failed: rank 0 may have left a sentence that says why. */
    if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET)
        rc = receive_frame(job, answer, all, deadline);
    return fail_hub(job, rc);
}

static int allgather(struct boot *boot, const void *mine, size_t len, void *all)
{
    struct job *job = (struct job *)boot->priv;
    unsigned char *out = (unsigned char *)all;
    if (job->broken)
        return -ECONNABORTED;
    if (len > UID_DATA_BYTES_MAX / (size_t)job->size) {
        log_error("bootstrap: %zu bytes from each of %d PEs are too many, allowed are %u in all", len, job->size,
                  UID_DATA_BYTES_MAX);
        return -EMSGSIZE;
    }
    if (len > 0 && (job->rank == 0 || job->size == 1))
        memmove(out, mine, len);
    if (job->size == 1)
        return 0;
    job->seq++;
    return job->rank == 0 ? allgather_hub(job, len, out) : allgather_other(job, mine, len, out);
}

static int barrier(struct boot *boot)
{
    unsigned char nothing[1] = {0};
    return allgather(boot, nothing, 0, nothing);
}

/* The others read it in their next collective call; what ends them sooner is the closing of our other sockets. */
static void abort_uid(struct boot *boot, int status, const char *sentence)
{
    struct job *job = (struct job *)boot->priv;
    char text[UID_SENTENCE_BYTES - 64];
    snprintf(text, sizeof text, "status %d%s%s", status, sentence ? ": " : "", sentence ? sentence : "");
    tell_all(job, text);
    job->broken = true;
}

const struct boot_ops iso_boot_uid_attributes = {
    .name = "uid",
    .applies = attributes_apply,
    .open = open_attributes,
    .allgather = allgather,
    .barrier = barrier,
    .abort = abort_uid,
    .close = close_uid,
};

const struct boot_ops iso_boot_uid_environment = {
    .name = "uid",
    .applies = environment_applies,
    .open = open_environment,
    .allgather = allgather,
    .barrier = barrier,
    .abort = abort_uid,
    .close = close_uid,
};
