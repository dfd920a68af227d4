/* SPDX-License-Identifier: MIT */
/* Blocks and splits that the host knows, in arrays of the caller. Includes: shmemx_coll.h. Used by coll/. */
#ifndef ISO_LISTS_H
#define ISO_LISTS_H

#include "../../include/shmemx_coll.h"

/* NULL: they are right, for n members, or in a block of nelems elements. Else what is wrong, in `sentence`. */
const char *iso_list_check_blocks(const shmemx_host_blocks_t *b, int n, char sentence[256]);
const char *iso_list_check_splits(const shmemx_splits_t *s, size_t nelems, char sentence[256]);
/* Bytes that a member's buffer has, from its begin to the end of its last block. */
size_t iso_list_extent(const size_t *bytes, const size_t *offset, int n);
/* Equal for equal splits, not 0. */
uint64_t iso_list_sum(const shmemx_splits_t *s);
uint64_t iso_list_norm_sum(const shmemx_rms_norm_t *norm); /* of what is equal on all members and the host knows */

#endif
