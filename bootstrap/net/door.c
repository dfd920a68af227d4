/* SPDX-License-Identifier: MIT */
/* Rank 0 of a job by unique id while the PEs arrive: who connects is a stranger until it has said hello and proved that
 * it knows the secret. invariant: a stranger costs a warning, never the job. Called by boot_uid.c. */
#include "../uid_job.h"

#include "listener.h"
#include "../log.h"
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STRANGERS = 32, WARNINGS_MAX = 10 };
static const double stranger_patience_s = 5; /* for a hello of 60 bytes and a proof */

/* A connection that has not yet said who it is. */
struct stranger {
    int fd;
    size_t got; /* of hello, then proof */
    int64_t deadline;
    struct uid_handshake handshake;
    unsigned char proof[UID_CODE_BYTES];
    char name[WIRE_NAME_BYTES];
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
static int accept_strangers(struct uid_job *job, struct door *door)
{
    for (int n = 0; n < door->room; n++) {
        char name[WIRE_NAME_BYTES];
        int fd = iso_wire_accept(job->listener, name);
        bool no_room = fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS;
        if (no_room && door->n_strangers == 0)
            return iso_uid_job_fail(job, NULL, "pe 0 cannot accept a connection: %s", strerror(-fd));
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

/* The PE is authentic: 0, or the job fails on both ends where two of its processes contradict each other. */
static int admit(struct uid_job *job, struct door *door, struct uid_link *link, const char *name,
                 const struct uid_hello *hello)
{
    if (hello->size != (uint32_t)job->size)
        return iso_uid_job_fail(job, link, "pe %u (%s) was told that the job has %u PEs, pe 0 that it has %d",
                                hello->rank, name, hello->size, job->size);
    if (hello->rank >= (uint32_t)job->size)
        return iso_uid_job_fail(job, link, "a process (%s) says that it is pe %u, which is outside 0..%d", name,
                                hello->rank, job->size - 1);
    if (hello->rank == 0 || job->links[hello->rank].fd >= 0)
        return iso_uid_job_fail(job, link, "two processes say that they are pe %u, the second from %s", hello->rank,
                                name);
    job->links[hello->rank] = *link;
    door->joined++;
    return 0;
}

/* Hello and proof are here. */
static int judge(struct uid_job *job, struct door *door, int i)
{
    struct stranger stranger = door->strangers[i];
    struct uid_link link = {.fd = stranger.fd, .is_sealed = true};
    struct uid_hello hello;
    unsigned char proof[UID_CODE_BYTES];
    iso_uid_prove(&stranger.handshake, job->uid.secret, UID_PROOF_PE, proof);
    if (!iso_auth_is_equal(proof, stranger.proof)) {
        turn_away(door, i, "its secret is not that of this job");
        return 0;
    }
    remove_stranger(door, i);
    iso_uid_start_seal(&link.seal, &stranger.handshake, job->uid.secret, true);
    int rc = 0;
    if (iso_uid_judge_hello(stranger.handshake.hello, UID_HELLO_BYTES, &hello) != UID_WELCOME)
        rc = iso_uid_job_fail(job, &link,
                              "a PE (%s) runs library version %s with protocol %u, pe 0 version %s with protocol %u",
                              stranger.name, hello.version, hello.protocol, ISO_VERSION, (unsigned)ISO_PROTOCOL);
    else
        rc = admit(job, door, &link, stranger.name, &hello);
    if (rc != 0)
        close(link.fd);
    return rc;
}

/* The bytes of a challenge are few: they find room in the socket, or nobody reads there. */
static int challenge(const struct uid_job *job, struct stranger *stranger)
{
    const struct uid_frame frame = {.kind = UID_FRAME_CHALLENGE, .len = UID_CHALLENGE_BYTES};
    unsigned char bytes[UID_FRAME_BYTES + UID_CHALLENGE_BYTES];
    struct uid_handshake *handshake = &stranger->handshake;
    int rc = iso_auth_draw(handshake->nonce);
    iso_uid_encode_frame(&frame, bytes);
    memcpy(bytes + UID_FRAME_BYTES, handshake->nonce, sizeof handshake->nonce);
    iso_uid_prove(handshake, job->uid.secret, UID_PROOF_HUB, bytes + UID_FRAME_BYTES + sizeof handshake->nonce);
    return rc != 0 ? rc : iso_wire_send(stranger->fd, bytes, sizeof bytes, iso_wire_now());
}

/* 0 while the job can go on. */
static int hear_stranger(struct uid_job *job, struct door *door, int i)
{
    struct stranger *stranger = &door->strangers[i];
    struct uid_hello hello;
    bool said_hello = stranger->got >= UID_HELLO_BYTES;
    unsigned char *to = said_hello ? stranger->proof : stranger->handshake.hello;
    size_t begin = said_hello ? UID_HELLO_BYTES : 0;
    size_t end = UID_HELLO_BYTES + (said_hello ? sizeof stranger->proof : 0);
    ptrdiff_t n = iso_wire_recv_some(stranger->fd, to + (stranger->got - begin), end - stranger->got);
    if (n < 0) {
        turn_away(door, i,
                  said_hello ? "it did not prove that it is of this job (another secret?)"
                             : "it ended before its hello was complete");
        return 0;
    }
    stranger->got += (size_t)n;
    if (said_hello)
        return stranger->got == end ? judge(job, door, i) : 0;
    enum uid_verdict verdict = iso_uid_judge_hello(stranger->handshake.hello, stranger->got, &hello);
    if (verdict == UID_NOT_OURS)
        turn_away(door, i, "it is no PE of this library");
    else if (verdict != UID_INCOMPLETE && challenge(job, stranger) != 0)
        turn_away(door, i, "it takes no answer");
    else if (verdict != UID_INCOMPLETE)
        stranger->deadline = iso_wire_deadline(stranger_patience_s); /* for its proof */
    return 0;
}

/* Nobody who has joined has a reason to speak: it is the end of the stream, or nonsense. */
static int check_joined(struct uid_job *job, int rank)
{
    char byte;
    ptrdiff_t n = iso_wire_recv_some(job->links[rank].fd, &byte, 1);
    if (n == 0)
        return 0;
    return iso_uid_job_fail(job, NULL, "pe %d %s before all %d PEs had arrived", rank,
                            n > 0 ? "spoke out of turn" : "has ended", job->size);
}

static int64_t next_deadline(const struct door *door)
{
    int64_t next = door->deadline;
    for (int i = 0; i < door->n_strangers; i++)
        if (door->strangers[i].deadline < next)
            next = door->strangers[i].deadline;
    return next;
}

/* polls: [0] the listener, then the strangers, then the links of ranks 1 .. (fd -1 is ignored by poll). */
static int run_door_once(struct uid_job *job, struct door *door, struct pollfd *polls)
{
    int n = 0, strangers = door->n_strangers;
    polls[n++] = (struct pollfd){.fd = job->listener, .events = POLLIN};
    for (int i = 0; i < strangers; i++)
        polls[n++] = (struct pollfd){.fd = door->strangers[i].fd, .events = POLLIN};
    for (int r = 1; r < job->size; r++)
        polls[n++] = (struct pollfd){.fd = job->links[r].fd, .events = POLLIN};
    int ready = poll(polls, (nfds_t)n, iso_wire_poll_ms(next_deadline(door)));
    if (ready < 0 && errno != EINTR)
        return iso_uid_job_fail(job, NULL, "poll: %s", strerror(errno));
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

static int fail_absent(struct uid_job *job)
{
    bool *here = (bool *)calloc((size_t)job->size, sizeof *here);
    for (int r = 0; here && r < job->size; r++)
        here[r] = r == 0 || job->links[r].fd >= 0;
    int rc = iso_uid_job_fail_missing(job, here);
    free(here);
    return rc;
}

static int welcome_all(struct uid_job *job, int64_t deadline)
{
    const struct uid_frame frame = {.kind = UID_FRAME_WELCOME};
    unsigned char digest[UID_CODE_BYTES];
    iso_uid_job_digest(job, "", 0, digest);
    for (int r = 1; r < job->size; r++) {
        int rc = iso_uid_job_send(&job->links[r], &frame, "", digest, deadline);
        if (rc != 0)
            return iso_uid_job_fail(job, NULL, "pe %d cannot be reached: %s", r, iso_uid_job_describe(rc));
    }
    return 0;
}

static int receive_peers(struct uid_job *job, struct door *door)
{
    struct pollfd *polls = (struct pollfd *)calloc((size_t)(job->size + door->room), sizeof *polls);
    if (!polls)
        return iso_uid_job_fail(job, NULL, "no memory for %d connections", job->size);
    int rc = 0;
    while (rc == 0 && door->joined < job->size - 1) {
        rc = run_door_once(job, door, polls);
        for (int i = door->n_strangers; i-- > 0;)
            if (iso_wire_poll_ms(door->strangers[i].deadline) == 0)
                turn_away(door, i, "it was silent");
        if (rc == 0 && door->joined < job->size - 1 && iso_wire_poll_ms(door->deadline) == 0)
            rc = fail_absent(job);
    }
    free(polls);
    return rc == 0 ? welcome_all(job, door->deadline) : rc;
}

int iso_door_open(struct uid_job *job)
{
    job->listener = iso_listener_take(&job->uid);
    if (job->listener < 0)
        job->listener = iso_wire_listen(&job->uid);
    if (job->listener < 0)
        return iso_uid_job_fail(
            job, NULL, "pe 0 cannot listen on %s port %u of the unique id (it must be an address of its machine): %s",
            job->uid.address, (unsigned)job->uid.port, strerror(-job->listener));
    size_t room = (size_t)job->size + STRANGERS;
    struct door *door = (struct door *)calloc(1, sizeof *door + room * sizeof door->strangers[0]);
    if (!door)
        return iso_uid_job_fail(job, NULL, "no memory for %d connections", job->size);
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
