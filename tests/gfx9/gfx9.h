/* SPDX-License-Identifier: MIT */
/* Code of gfx90a and gfx942 run by the CPU, one instruction of one wave after the other: what the tests of AMD kernels
 * need of a GPU where there is none. Memory is the process's own: a global address is a host address. */
#ifndef GFX9_H
#define GFX9_H

#include <stdbool.h>
#include <stdint.h>

/* A dispatch, as in the AQL packet. */
struct gfx9_dispatch {
    const void *packet; /* hsa_kernel_dispatch_packet_t, 64 bytes; stays as it is until the end */
    const void *queue;  /* hsa_queue_t, for kernels that ask */
    const char *isa;    /* "gfx90a" or "gfx942" */
    uint64_t dispatch_id;
};

enum gfx9_progress {
    GFX9_BUSY,    /* call again */
    GFX9_WAITING, /* the same, but all its waves sleep or wait: let others run first */
    GFX9_ENDED,
    GFX9_FAILED /* gfx9_error tells why */
};

struct gfx9_run;

/* packet->kernel_object is the address of the kernel's descriptor in the loaded code object. NULL: no memory. */
struct gfx9_run *gfx9_start(const struct gfx9_dispatch *dispatch);
/* Runs every wave for a while. One thread at a time per run; runs of different threads are independent. */
enum gfx9_progress gfx9_go_on(struct gfx9_run *run);
const char *gfx9_error(const struct gfx9_run *run);
void gfx9_end(struct gfx9_run *run);

#endif
