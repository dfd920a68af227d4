/* SPDX-License-Identifier: MIT */
/* All ranks but 0 of a job that starts by a unique id: each has one connection, to rank 0. invariant: no call outlives
 * its deadline. Called by boot_uid.c. */
#include "uid_job.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static const double hub_lead_s = 2; /* members wait longer than rank 0, which knows which PEs are missing */

static int64_t member_deadline(const struct uid_job *job)
{
    return iso_deadline_in(job->timeout_s > 0 ? job->timeout_s + hub_lead_s : 0);
}

/* Says why a frame of rank 0 has not come, unless a sentence has been printed. */
static int fail_hub(struct uid_job *job, int rc)
{
    if (rc == 0 || job->broken)
        return rc;
    if (rc == -ETIMEDOUT)
        return iso_uid_job_fail(job, NULL, "pe 0 has not answered within %g s (SHMEM_BOOT_TIMEOUT)", job->timeout_s);
    if (rc == -EBADMSG)
        return iso_uid_job_fail(job, NULL, "a message of pe 0 is not from it, or was altered on its way");
    if (rc == -EPROTO)
        return iso_uid_job_fail(job, NULL, "pe 0 sent something else than expected: the PEs make different calls");
    return iso_uid_job_fail(job, NULL, "pe 0 has ended (%s)", iso_uid_job_describe(rc));
}

/* A frame like `expected`, or a sentence, which is printed. 0; -EPROTO: another frame; -errno. */
static int receive(struct uid_job *job, const struct frame *expected, void *payload, int64_t deadline)
{
    struct frame_socket *s = &job->sockets[0];
    struct frame frame;
    char sentence[UID_SENTENCE_BYTES];
    int rc = iso_frame_wait_head(s, &frame, deadline);
    if (rc != 0)
        return rc;
    if (frame.kind == UID_FAIL) {
        rc = iso_uid_job_read_sentence(s, &frame, sentence, deadline);
        return rc != 0 ? rc : iso_uid_job_fail(job, NULL, "pe 0 says: %s", sentence);
    }
    if (frame.kind != expected->kind || frame.number != expected->number || frame.len != expected->len)
        return -EPROTO;
    return iso_frame_wait_rest(s, payload, deadline);
}

/* 0, or -errno as iso_handshake_why explains it. */
static int shake_hands(struct handshake *h, struct frame_socket *s, int64_t deadline)
{
    int rc;
    while ((rc = iso_handshake_receive(h, s)) == HANDSHAKE_NOTHING)
        if ((rc = iso_tcp_wait(s->fd, POLLIN, deadline)) != 0)
            return rc;
    return rc < 0 ? rc : 0;
}

static int fail_open(struct uid_job *job, const struct handshake *h, int rc, const char *name)
{
    if (rc == -EPROTO || rc == -EACCES)
        return iso_uid_job_fail(job, NULL, "the process at %s is not pe 0 of this job: %s", name,
                                iso_handshake_why(h, rc));
    if (rc == -EPIPE || rc == -ECONNRESET)
        return iso_uid_job_fail(job, NULL,
                                "%s closed the connection without an answer: the process there is not pe 0 of this job "
                                "(another secret?), or has ended",
                                name);
    return fail_hub(job, rc);
}

int iso_uid_member_open(struct uid_job *job)
{
    struct frame_socket *s = &job->sockets[0];
    struct handshake h;
    const struct hello hello = iso_handshake_hello(HANDSHAKE_UID, (uint32_t)job->rank, (uint32_t)job->size);
    char name[TCP_NAME_BYTES];
    int last, fd = iso_tcp_connect(&job->uid.address, iso_deadline_in(job->timeout_s), &last);
    iso_tcp_name(&job->uid.address, name);
    if (fd == -ETIMEDOUT)
        return iso_uid_job_fail(job, NULL, "pe 0 was not found at %s within %g s (SHMEM_BOOT_TIMEOUT): %s", name,
                                job->timeout_s, strerror(-last));
    if (fd < 0)
        return iso_uid_job_fail(job, NULL, "pe 0 at %s cannot be reached: %s", name, strerror(-fd));
    int64_t deadline = member_deadline(job);
    int rc = iso_handshake_dial(&h, s, fd, job->uid.secret, &hello);
    if (rc == 0)
        rc = shake_hands(&h, s, deadline);
    return rc != 0 ? fail_open(job, &h, rc, name) : 0;
}

int iso_uid_member_allgather(struct uid_job *job, const void *mine, size_t len, unsigned char *all)
{
    int64_t deadline = member_deadline(job);
    struct frame frame = {.kind = UID_DATA, .number = job->calls, .len = (uint32_t)len};
    int rc = iso_frame_send(&job->sockets[0], &frame, mine, NULL, deadline);
    frame.len = (uint32_t)(len * (size_t)job->size);
    /* Also where sending failed: rank 0 may have left a sentence that says why. */
    if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET)
        rc = receive(job, &frame, all, deadline);
    return fail_hub(job, rc);
}
