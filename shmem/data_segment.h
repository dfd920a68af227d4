/* SPDX-License-Identifier: MIT */
/* The program's own global variables as a symmetric segment: remapped in place onto a memfd while the process still
 * has one thread (a constructor of the library, before main), so local peers load and store them directly.
 * One per process; used by segment.c and info.c only. */
#ifndef ISO_DATA_SEGMENT_H
#define ISO_DATA_SEGMENT_H

#include <stddef.h>

struct data_segment {
    char *base; /* page aligned; NULL: refused */
    size_t len;
    int fd;
    const char *refusal;         /* why global variables are not symmetric; NULL: they are */
    unsigned char build_id[20];  /* of the program, zero padded; zero when it has none */
};

const struct data_segment *iso_data_segment(void);

#endif
