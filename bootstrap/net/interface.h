/* SPDX-License-Identifier: MIT */
/* Addresses at which this host can be reached, and which of another host's to try first. Used by uid_create.c for
 * SHMEM_UID_ADDRESS and by the channel between nodes for SHMEM_NETWORK. */
#ifndef ISO_INTERFACE_H
#define ISO_INTERFACE_H

#include "tcp.h"

enum { HOST_IP4_MAX = 4, HOST_IP6_MAX = 2 };

/* Addresses of a host with one port; what PEs tell each other. */
struct host_addresses {
    uint16_t port; /* 0: this PE listens nowhere */
    uint8_t n_ip4, n_ip6;
    uint8_t ip4[HOST_IP4_MAX][4]; /* network order; the best first */
    uint8_t ip6[HOST_IP6_MAX][16];
};

/* The addresses of this host. `wanted` is the name of an interface or a numeric address of this host; empty: all but
 * loopback; where no interface has a carrier, those that are up, since it may come; else loopback. 0; -EINVAL, -EIO and
 * *why = what is wrong with `wanted`. */
int iso_interface_find(struct host_addresses *mine, const char *wanted, const char **why);

/* Puts an address of this host first, unless it is loopback or none. Those of the other family are left out. */
void iso_interface_prefer(struct host_addresses *mine, const struct tcp_address *first);
/* There is no other: another host does not reach this one. */
bool iso_interface_is_loopback(const struct host_addresses *theirs);

/* The i-th address of `theirs` to try from here: those in a network of ours first; one that is ours as well (of a
 * bridge that every host has) last, unless it is our own host. False: there are no more. */
bool iso_interface_pick(const struct host_addresses *theirs, const struct host_addresses *mine, bool same_host, int i,
                        struct tcp_address *address);

#endif
