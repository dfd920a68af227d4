/* SPDX-License-Identifier: MIT */
/* The library's text about itself, and about its environment variables. */
#ifndef ISO_INFO_H
#define ISO_INFO_H

#include "../state/base.h"

struct env;

void iso_info_print_at_start(void); /* SHMEM_VERSION, SHMEM_INFO; PE 0 */
void iso_variables_warn(void);      /* of names that are not known; PE 0 */
/* The doctor's lines about environment variables; reads them into env, all zero when one is wrong. */
void iso_variables_examine(struct env *env, void (*find)(void *doctor, int severity, const char *sentence),
                           void *doctor);

#endif
