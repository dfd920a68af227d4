/* SPDX-License-Identifier: MIT */
/* The program's own global variables as a symmetric segment: remapped in place onto a memfd while the process still
 * has one thread (a constructor of the library, before main), so local peers load and store them directly.
 * One per process; used by segment.c and info.c only. */
#ifndef ISO_DATA_SEGMENT_H
#define ISO_DATA_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

struct data_segment {
    char *base; /* page aligned; NULL: refused */
    size_t len;
    int fd;
    bool inherited;             /* a forked child's private copy, with the parent's descriptor */
    const char *refusal;        /* why global variables are not symmetric; NULL: they are */
    unsigned char build_id[20]; /* of the program, zero padded; zero when it has none */
};

const struct data_segment *iso_data_segment(void);
/* In a forked child, which has a private copy of its parent's variables: shares them anew, for a job of its own. Before
 * anything in shmem_init starts a thread. */
void iso_data_segment_refresh(void);

#endif
