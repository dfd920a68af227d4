/* SPDX-License-Identifier: MIT */
/* Extensions to OpenSHMEM, host part: start with a unique id, registered buffers, self-description. */
#ifndef SHMEMX_H
#define SHMEMX_H

#include "shmem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- start without a launcher: the user's own store (MPI, torchrun's store, a file) carries an id of 128 bytes ----
 */

/* Address, port and secret of the process that becomes PE 0. Opaque, may be copied as bytes. */
typedef struct {
    unsigned char bytes[128];
} shmemx_uniqueid_t;

typedef struct {
    int rank;                    /* this process becomes that PE, 0 .. size - 1 */
    int size;                    /* PEs of the job */
    const shmemx_uniqueid_t *id; /* the same on all */
    int requested;               /* SHMEM_THREAD_ level */
    int provided;                /* out: the level in force */
} shmemx_init_attr_t;

/* Called once, by the process that becomes rank 0, before init; it listens from here on. 0, or nonzero with a sentence
 * on stderr. */
int shmemx_get_uniqueid(shmemx_uniqueid_t *id);
/* As shmem_init_thread; takes precedence over any launcher. Collective over the `size` processes. 0, or nonzero with a
 * sentence on stderr. */
int shmemx_init_attr(shmemx_init_attr_t *attr);

/* ---- registered buffers: memory that the user has already becomes symmetric ---- */

typedef struct {
    size_t mapped_bytes; /* whole pages, reached by loads and stores of local peers */
    size_t staged_bytes; /* the partial pages at the ends, reached by puts and gets with help of the owner */
} shmemx_buffer_info_t;

/* Collective over the world, equal len_bytes, one buffer of each PE; addresses may differ. From its return to the
 * unregister, [addr, addr + len_bytes) is a symmetric address range in every call. Contents are kept. Whole pages are
 * remapped in place. The memory is ordinary private memory (malloc, mmap), is not freed before it is unregistered, and
 * is not touched by other threads during the call. info may be NULL. 0, or nonzero with a sentence on stderr. */
int shmemx_buffer_register(void *addr, size_t len_bytes, shmemx_buffer_info_t *info);
/* Collective over the world; addr as registered. Completes nothing: quiet and synchronise first. Contents are kept. */
int shmemx_buffer_unregister(void *addr);

/* ---- self-description ---- */

/* 1 if the bookkeeping of this PE's symmetric heap is consistent, else 0. */
int shmemx_heap_is_valid(void);
/* Version, build flavour, launcher, nodes, PEs, segments, path to each PE and why, variables, selection table. Like
 * snprintf: writes at most `bytes` characters with the final null, returns the length of the whole text. */
size_t shmemx_info_text(char *text, size_t bytes);
/* What would not work here and what to do about it; like shmemx_info_text. Works before shmem_init too. */
size_t shmemx_doctor_text(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
