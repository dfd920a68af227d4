/* SPDX-License-Identifier: MIT */
/* A job that starts by a unique id, as boot_uid.c (open, collective calls) and door.c (rank 0 while the PEs arrive) see
 * it: its connections, messages over them, and how it fails. A star, with rank 0 in the middle.
 *   PE                                   rank 0
 *   hello with a nonce             ->
 *                                  <-    challenge: another nonce, and a proof that rank 0 knows the secret
 *   a proof of the PE              ->
 *                                  <-    welcome, when all are in: the first message with a code
 * The secret itself never travels. invariant: codes count messages, so none can be altered, left out, repeated, or
 * taken from another connection or job. */
#ifndef ISO_UID_JOB_H
#define ISO_UID_JOB_H

#include "uid.h"

/* A PE of the job. */
struct uid_link {
    int fd;         /* -1: not connected */
    size_t got;     /* bytes of the current message: head, payload, code */
    bool is_sealed; /* the handshake is over */
    struct uid_seal seal;
    unsigned char head[UID_FRAME_BYTES], code[UID_CODE_BYTES];
};

struct uid_job {
    struct uid uid;
    int rank;
    int size;
    double timeout_s;
    uint32_t seq;           /* collective calls so far, equal on all ranks */
    bool broken;            /* a call has failed; all later ones do */
    int listener;           /* rank 0, until all are in; else -1 */
    int n_links;            /* rank 0: size; else 1 */
    struct uid_link *links; /* rank 0: by rank, [0] unused; else [0] is rank 0 */
};

/* Rank 0: lets all PEs in. 0, or -errno after one sentence. */
int iso_door_open(struct uid_job *job);

/* Says it here; rank 0 says it to all others too, and to `extra` (NULL: nobody), who is not in the job. Returns -errno
 * for the caller to return. */
__attribute__((format(printf, 3, 4))) int iso_uid_job_fail(struct uid_job *job, struct uid_link *extra,
                                                           const char *format, ...);
/* here[r]: rank r has arrived; NULL: there was no memory to find out. */
int iso_uid_job_fail_missing(struct uid_job *job, const bool *here);
void iso_uid_job_tell_all(struct uid_job *job, const char *sentence);
const char *iso_uid_job_describe(int rc);

/* What a payload is in the codes of messages: the same on all connections, made once. */
void iso_uid_job_digest(const struct uid_job *job, const void *payload, size_t len,
                        unsigned char digest[UID_CODE_BYTES]);
/* 0 or -errno. `digest` is of the payload. */
int iso_uid_job_send(struct uid_link *link, const struct uid_frame *frame, const void *payload,
                     const unsigned char digest[UID_CODE_BYTES], int64_t deadline);
/* From rank 0: a message of this kind, number and length, or a sentence of it, which is printed. 0; -ECONNABORTED after
 * a sentence; -EPROTO: something else; -EBADMSG: the code is wrong; -errno. */
int iso_uid_job_receive(struct uid_job *job, struct uid_frame expected, void *payload, int64_t deadline);

#endif
