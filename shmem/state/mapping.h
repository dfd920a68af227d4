/* SPDX-License-Identifier: MIT */
/* The mappings of this process, as /proc/self/maps lists them. Memory that is mapped anew in place (registered buffers,
 * the program's variables) is looked at before: another mapping would be cut off from its file or its process, and get
 * another protection. Each look reads the list anew. Called by buffer.c and data_segment.c. */
#ifndef ISO_MAPPING_H
#define ISO_MAPPING_H

#include <stddef.h>
#include <stdint.h>

struct mapping {
    uintptr_t from, to;
    char protection[5]; /* "rw-p": p private, s shared */
    char path[256];     /* of the file, or what the kernel calls it; may be empty */
};

/* The mapping that holds the address, or the first one behind it. 0; -ENXIO: there is none; or another -errno where the
 * list cannot be read. */
int iso_mapping_find(uintptr_t at, struct mapping *mapping);
/* 0 when [addr, addr + len) is private memory that may be read and written, and not executed. Else -errno, and what is
 * wrong in `why`. */
int iso_mapping_examine(const void *addr, size_t len, char *why, size_t why_bytes);

#endif
