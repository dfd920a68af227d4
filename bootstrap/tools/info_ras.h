/* SPDX-License-Identifier: MIT */
/* `isomer-info --job JOB --ras PORT`. */
#ifndef INFO_RAS_H
#define INFO_RAS_H

/* Answers monitors until the job has ended. The status of the program. */
int info_ras_serve(const char *job, int port);

#endif
