/* SPDX-License-Identifier: MIT */
/* What is done with the counters: the page and the JSON file at the end, and the file for Prometheus meanwhile. */
#ifndef ISO_PAGE_H
#define ISO_PAGE_H

#include "../state/base.h"

/* SHMEM_PROFILE: collective over the world, behind its last barrier. PE 0 prints the page to stderr and writes the file.
 * No-op where calls are not counted on all PEs. */
void iso_page_print(const char *call);

/* metrics.c, SHMEM_METRICS: a thread of this PE rewrites its file until stop, which writes it a last time. No-ops where
 * the variable is empty. */
void iso_metrics_start(void);
void iso_metrics_stop(void);

#endif
