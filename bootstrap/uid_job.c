/* SPDX-License-Identifier: MIT */
/* How a job that starts by a unique id fails: with one sentence on all PEs. Used by uid_hub.c, uid_member.c and
 * boot_uid.c. */
#include "uid_job.h"

#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void iso_uid_job_tell(const struct uid_job *job, struct frame_socket *s, const char *sentence)
{
    struct frame frame = {.kind = UID_FAIL, .number = job->calls, .len = (uint32_t)strlen(sentence)};
    (void)iso_frame_send(s, &frame, sentence, NULL, iso_deadline_now());
}

void iso_uid_job_tell_all(struct uid_job *job, const char *sentence)
{
    for (int i = 0; i < job->n_sockets; i++)
        if (job->sockets[i].fd >= 0)
            iso_uid_job_tell(job, &job->sockets[i], sentence);
}

int iso_uid_job_fail(struct uid_job *job, struct frame_socket *extra, const char *format, ...)
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
        iso_uid_job_tell(job, extra, sentence);
    job->broken = true;
    return -ECONNABORTED;
}

int iso_uid_job_read_sentence(struct frame_socket *s, const struct frame *frame, char sentence[UID_SENTENCE_BYTES],
                              int64_t deadline)
{
    unsigned char text[UID_SENTENCE_BYTES];
    if (frame->len >= sizeof text)
        return -EPROTO;
    int rc = iso_frame_wait_rest(s, text, deadline);
    iso_log_clean(text, rc == 0 ? frame->len : 0, sentence, UID_SENTENCE_BYTES);
    return rc;
}

const char *iso_uid_job_describe(int rc) { return rc == -EPIPE ? "connection closed" : strerror(-rc); }
