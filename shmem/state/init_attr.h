/* SPDX-License-Identifier: MIT */
/* The argument of shmemx_init_attr: a struct that grows with the versions of the library. */
#ifndef ISO_INIT_ATTR_H
#define ISO_INIT_ATTR_H

#include "../../bootstrap/env.h"
#include "../../include/shmemx.h"

/* The program's attribute as this version knows it, in *attr. 0, or -EINVAL after a sentence: a size that is none, or a
 * value outside its range. `given` may be NULL, which is refused too. */
int iso_init_attr_read(const shmemx_init_attr_t *given, shmemx_init_attr_t *attr);
/* What the attribute says wins over the environment. */
void iso_init_attr_apply(const shmemx_init_attr_t *attr, struct env *env);

#endif
