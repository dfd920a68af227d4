/* SPDX-License-Identifier: MIT */
/* Files of memory (memfd), which processes share: made in one place, so that what a container or a limit forbids is said
 * in one way. Includes nothing of ours. Writes no global variable, since data_segment.c calls before the variables of a
 * static program move. Called by shmem/ and the CPU device. */
#ifndef ISO_MEMORY_FILE_H
#define ISO_MEMORY_FILE_H

#include <stddef.h>

/* A sparse file of `bytes`, closed by exec; `flags` of memfd_create are added. Returns its descriptor, or -errno with a
 * sentence in `why` that names the cause and the remedy. Looks at the limit of files first (ulimit -f): the kernel
 * would end the process by SIGXFSZ. */
int iso_memory_file_make(const char *name, unsigned flags, size_t bytes, char *why, size_t why_bytes);

#endif
