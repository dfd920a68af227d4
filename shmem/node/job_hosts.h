/* SPDX-License-Identifier: MIT */
/* What other hosts know of a job: an isomer-info there looks at its PEs, and what it finds becomes part of the graph. */
#ifndef ISO_JOB_HOSTS_H
#define ISO_JOB_HOSTS_H

#include "flight.h"
#include "graph.h"

#define JOB_HOST_BYTES 64

struct job_question {
    uint32_t job;
    const char *agent;                   /* words of a command; a host and a command line are its last two words */
    const char (*hosts)[JOB_HOST_BYTES]; /* [n_hosts] */
    int n_hosts;
    struct graph *graph;     /* what becomes of the answers; or, if it is not NULL, flights: the recorded calls */
    struct flights *flights;
};

/* Asks all hosts at once and takes what they say. PEs seen; of flights: hosts that have answered. A host that says
 * nothing has a line in `notes`. */
int iso_job_hosts_ask(const struct job_question *question, FILE *notes);
/* The other end: the PEs of this host, as lines that iso_job_hosts_ask reads. */
void iso_job_hosts_tell(const struct graph *graph, uint32_t job, FILE *out);

#endif
