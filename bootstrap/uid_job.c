/* SPDX-License-Identifier: MIT */
/* The messages of a job that starts by a unique id, and failing together. Used by boot_uid.c and door.c. */
#include "uid_job.h"

#include "log.h"
#include "net/wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

void iso_uid_job_digest(const struct uid_job *job, const void *payload, size_t len,
                        unsigned char digest[UID_CODE_BYTES])
{
    iso_auth_code(job->uid.secret, payload, len, digest);
}

int iso_uid_job_send(struct uid_link *link, const struct uid_frame *frame, const void *payload,
                     const unsigned char digest[UID_CODE_BYTES], int64_t deadline)
{
    unsigned char head[UID_FRAME_BYTES], code[UID_CODE_BYTES];
    iso_uid_encode_frame(frame, head);
    iso_uid_seal(&link->seal, head, digest, code);
    int rc = iso_wire_send(link->fd, head, sizeof head, deadline);
    if (rc == 0)
        rc = iso_wire_send(link->fd, payload, frame->len, deadline);
    return rc != 0 ? rc : iso_wire_send(link->fd, code, sizeof code, deadline);
}

/* Payload and code; the head has been read. */
static int receive_rest(struct uid_job *job, const unsigned char *head, void *payload, size_t len, int64_t deadline)
{
    struct uid_link *link = &job->links[0];
    unsigned char digest[UID_CODE_BYTES];
    int rc = iso_wire_recv(link->fd, payload, len, deadline);
    if (rc == 0)
        rc = iso_wire_recv(link->fd, link->code, sizeof link->code, deadline);
    if (rc != 0)
        return rc;
    iso_uid_job_digest(job, payload, len, digest);
    return iso_uid_is_sealed(&link->seal, head, digest, link->code) ? 0 : -EBADMSG;
}

int iso_uid_job_receive(struct uid_job *job, struct uid_frame expected, void *payload, int64_t deadline)
{
    unsigned char head[UID_FRAME_BYTES], text[UID_SENTENCE_BYTES];
    struct uid_frame frame;
    int rc = iso_wire_recv(job->links[0].fd, head, sizeof head, deadline);
    if (rc == 0)
        rc = iso_uid_decode_frame(head, &frame);
    if (rc != 0)
        return rc;
    if (frame.kind == UID_FRAME_FAIL) {
        char sentence[UID_SENTENCE_BYTES];
        if ((rc = receive_rest(job, head, text, frame.len, deadline)) != 0)
            return rc;
        iso_uid_clean_text(text, frame.len, sentence, sizeof sentence);
        return iso_uid_job_fail(job, NULL, "pe 0 says: %s", sentence);
    }
    if (frame.kind != expected.kind || frame.seq != expected.seq || frame.len != expected.len)
        return -EPROTO;
    return receive_rest(job, head, payload, frame.len, deadline);
}

/* ---- failing together ---- */

/* A courtesy that must not wait: one who cannot take 512 bytes now reads the end of the stream instead. */
static void send_sentence(const struct uid_job *job, struct uid_link *link, const char *sentence)
{
    unsigned char digest[UID_CODE_BYTES];
    struct uid_frame frame = {.kind = UID_FRAME_FAIL, .seq = job->seq, .len = (uint32_t)strlen(sentence)};
    iso_uid_job_digest(job, sentence, frame.len, digest);
    (void)iso_uid_job_send(link, &frame, sentence, digest, iso_wire_now());
}

void iso_uid_job_tell_all(struct uid_job *job, const char *sentence)
{
    for (int i = 0; i < job->n_links; i++)
        if (job->links[i].fd >= 0 && job->links[i].is_sealed)
            send_sentence(job, &job->links[i], sentence);
}

int iso_uid_job_fail(struct uid_job *job, struct uid_link *extra, const char *format, ...)
{
    char sentence[UID_SENTENCE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    log_error("bootstrap: %s", sentence);
    if (job->rank == 0)
        iso_uid_job_tell_all(job, sentence);
    if (extra != NULL)
        send_sentence(job, extra, sentence);
    job->broken = true;
    return -ECONNABORTED;
}

const char *iso_uid_job_describe(int rc) { return rc == -EPIPE ? "connection closed" : strerror(-rc); }

int iso_uid_job_fail_missing(struct uid_job *job, const bool *here)
{
    char missing[200] = "(no memory for the list)";
    if (here != NULL)
        iso_uid_list_missing(here, job->size, missing, sizeof missing);
    return iso_uid_job_fail(job, NULL,
                            "not all of the %d PEs have arrived within %g s (SHMEM_BOOT_TIMEOUT): pe %s missing",
                            job->size, job->timeout_s, missing);
}
