/* SPDX-License-Identifier: MIT */
/* The unix sockets between the PEs of one node: messages with descriptors, and what they say of life and death.
 * SOCK_SEQPACKET: one send is one message. Used by pe.c (start, stop) and buffer.c (exchange of descriptors). */
#ifndef ISO_MESH_H
#define ISO_MESH_H

#include "internal.h"

#define MESH_FDS_MAX 2
#define MESH_BODY_BYTES 256

enum mesh_type { MESH_HELLO = 1, MESH_BYE, MESH_EXIT, MESH_OFFER };

struct mesh_message {
    uint32_t type;
    int32_t status; /* MESH_EXIT */
    char body[MESH_BODY_BYTES];
};

/* 0 or -errno; never raises SIGPIPE. */
int iso_mesh_send(int sock, const struct mesh_message *m, const int *fds, int n_fds);
/* -EAGAIN: nothing there; -ECONNRESET: closed by the other end. */
int iso_mesh_receive(int sock, struct mesh_message *m, int *fds, int *n_fds);
int iso_mesh_receive_for(int sock, struct mesh_message *m, int *fds, int *n_fds, double seconds);
void iso_mesh_close_fds(const int *fds, int n_fds);
int iso_mesh_peer_pid(int sock);
bool iso_mesh_peer_is_user(int sock); /* the process at the other end belongs to our own user */

#endif
