/* SPDX-License-Identifier: MIT */
/* The jobs of this user on this host, seen from outside of them. */
#ifndef ISO_JOB_LOOK_H
#define ISO_JOB_LOOK_H

#include <stdio.h>

/* `job` as shmemx_job_text has it; `form`: of SHMEMX_. 0; -ESRCH after a sentence: no such job, or
 * several; -ENOMEM. */
int iso_job_look_write(FILE *out, const char *job, int form);

#endif
