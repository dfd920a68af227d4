/* SPDX-License-Identifier: MIT */
/* The jobs of this user, seen from outside of them: on this host, and by an agent on the others. */
#ifndef ISO_JOB_LOOK_H
#define ISO_JOB_LOOK_H

#include <stdio.h>

/* `job` as shmemx_job_text has it; `form`: of SHMEMX_. 0; -ESRCH after a sentence: no such job, or
 * several; -ENOMEM; -EINVAL after a sentence: a variable is wrong. */
int iso_job_look_write(FILE *out, const char *job, int form);

#endif
