/* SPDX-License-Identifier: MIT */
/* The sockets of unique ids that this process has made and that no PE has taken yet. Safe to call from any thread. */
#ifndef ISO_LISTENER_H
#define ISO_LISTENER_H

#include "../uid.h"

/* The listening socket of this id, now the caller's; -1 where another process made the id (or a script). */
int iso_listener_take(const struct uid *uid);

#endif
