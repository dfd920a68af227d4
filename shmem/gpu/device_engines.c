/* SPDX-License-Identifier: MIT */
/* Whether copies by copy engines arrive at the peers of this node: tried once, when the device starts, where a runtime
 * is known to lose such copies and to report success. Each PE tries into pages of its own at the front of the peers'
 * heaps, where no slot is yet; they are zero again when all have agreed. Invariant: device->engines_why is empty on all
 * PEs of the job or on none, so a choice may depend on it. Called by device_start.c. */
#include "../../bootstrap/log.h"
#include "../team/agree.h"
#include "device.h"

#include <stdio.h>

#define TRY_BYTES ((size_t)64 << 10) /* runtimes make smaller copies, up to 16 KiB, by kernels */
#define TRY_ALIGN ((size_t)4096)

/* The first peer whose copies are lost says why. */
static void try_peers(struct device *d, char *ours, size_t len)
{
    const struct segment *heap = &ISO->segments[SEGMENT_INDEX_DEVICE];
    for (int l = 0; l < ISO->n_local && d->engines_why[0] == '\0'; l++) {
        int pe = ISO->local_pes[l];
        char *theirs = pe != ISO->my_pe && d->reaches[l] ? heap->peers[pe].gpu_ptr : NULL;
        if (theirs == NULL || iso_gpu_try_engines(d->gpu, theirs + (size_t)ISO->my_local * len, ours, len) == 0)
            continue;
        snprintf(d->engines_why, sizeof d->engines_why, "between pe %d and pe %d: %.180s", ISO->my_pe, pe,
                 iso_gpu_error(d->gpu));
        log_warn("copy engines are not used for copies on streams, %s", d->engines_why);
    }
}

int iso_engines_start(struct device *d)
{
    static const char call[] = "shmemx_device_init";
    size_t len = ISO_MIN(TRY_BYTES, d->control_bytes / (size_t)ISO->n_local & ~(TRY_ALIGN - 1));
    void *ours = NULL;
    int rc = 0;
    if (d->info->tries_engines && ISO->n_local > 1 && len > 0) {
        rc = iso_gpu_alloc(d->gpu, len, &ours);
        if (rc == 0)
            try_peers(d, (char *)ours, len);
        iso_gpu_free(d->gpu, ours);
    }
    if (iso_agree_min(ISO->world, d->engines_why[0] == '\0', call) == 0 && d->engines_why[0] == '\0')
        snprintf(d->engines_why, sizeof d->engines_why, "another PE of this job has lost copies by them");
    return rc;
}
