/* SPDX-License-Identifier: MIT */
/* Addresses at which this host can be reached, and which of another host's to try first. Used by channel.c. */
#ifndef ISO_INTERFACE_H
#define ISO_INTERFACE_H

#include "channel.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* The addresses of this host: all but loopback, or those of SHMEM_NETWORK, an interface or a numeric address; loopback
 * where there is no other. 0, or -errno after a sentence. */
int iso_interface_find(struct channel_address *mine, const char *wanted);

/* The i-th of them to try from here: those in a network of ours first, one that is ours as well (of a bridge that
 * every host has) last, unless it is our own host. False: there are no more. */
bool iso_interface_pick(const struct channel_address *theirs, const struct channel_address *mine, bool same_host, int i,
                        struct sockaddr_storage *address);
socklen_t iso_interface_bytes(const struct sockaddr_storage *address);
/* "10.0.0.1:4711" */
void iso_interface_name(const struct sockaddr_storage *address, char *text, size_t bytes);

#endif
