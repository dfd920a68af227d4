/* SPDX-License-Identifier: MIT */
/* A job that starts by a unique id: a star of connections with rank 0, the hub, in the middle. boot_uid.c opens and
 * closes it, uid_hub.c is rank 0's side, uid_member.c the side of all other ranks; they share what is here: the
 * connections, the frames over them, and how the job fails on all PEs with one sentence. No thread: frames are read
 * inside the collective calls of the bootstrap.
 * A member connects and shakes hands with the secret of the id (net/handshake.h). Each allgather is then a DATA frame to
 * the hub and one back. The member sends the first one at once, without knowing who else is in. */
#ifndef ISO_UID_JOB_H
#define ISO_UID_JOB_H

#include "net/handshake.h"
#include "uid.h"

#define UID_SENTENCE_BYTES 512
#define UID_DATA_BYTES_MAX 0x40000000u

/* frame.number is the number of the collective call. */
enum uid_kind {
    UID_DATA = 1, /* to the hub: one block; from the hub: the blocks of all ranks */
    UID_FAIL      /* the job cannot go on; payload: a sentence */
};

struct uid_job {
    struct uid uid;
    int rank;
    int size;
    double timeout_s;
    uint32_t calls;               /* collective calls so far, equal on all ranks */
    int64_t arrival_deadline;     /* hub: of all PEs and their first blocks together */
    bool broken;                  /* a call has failed; all later ones do */
    int n_sockets;                /* hub: size; else 1 */
    struct frame_socket *sockets; /* hub: by rank, [0] unused; else [0] leads to the hub. All have shaken hands */
};

/* ---- uid_create.c ---- */

/* Ends this process's reservation of the id's port. Does nothing where another process, or a script, made the id. */
void iso_uid_release(const struct uid *uid);

/* ---- uid_job.c ---- */

/* Prints the sentence; the hub sends it to all members too, and to `extra` (NULL: none), which is not in the job. The
 * job is broken from then on. Returns -errno for the caller to return. */
__attribute__((format(printf, 3, 4))) int iso_uid_job_fail(struct uid_job *job, struct frame_socket *extra,
                                                           const char *format, ...);
/* A courtesy that does not wait: a PE that cannot take 512 bytes now reads the end of the stream instead. */
void iso_uid_job_tell(const struct uid_job *job, struct frame_socket *s, const char *sentence);
void iso_uid_job_tell_all(struct uid_job *job, const char *sentence);
/* The payload of a UID_FAIL frame whose head has been read, fit to print. 0 or -errno. */
int iso_uid_job_read_sentence(struct frame_socket *s, const struct frame *frame, char sentence[UID_SENTENCE_BYTES],
                              int64_t deadline);
const char *iso_uid_job_describe(int rc);

/* ---- uid_hub.c: rank 0. 0, or -errno after one sentence ---- */

int iso_uid_hub_open(struct uid_job *job); /* lets all PEs in */
/* The job cannot be: tells each PE that arrives why, which else would wait for SHMEM_BOOT_TIMEOUT. Until all know, or
 * none has come for some seconds. */
void iso_uid_hub_refuse(const struct uid *uid, int size, const char *sentence);
/* all[0 .. len) is rank 0's own block. */
int iso_uid_hub_allgather(struct uid_job *job, size_t len, unsigned char *all);

/* ---- uid_member.c: all other ranks. 0, or -errno after one sentence ---- */

int iso_uid_member_open(struct uid_job *job); /* connects to the hub */
int iso_uid_member_allgather(struct uid_job *job, const void *mine, size_t len, unsigned char *all);

#endif
