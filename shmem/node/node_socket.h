/* SPDX-License-Identifier: MIT */
/* The unix sockets between the lowest PE of a node and each other one: messages with descriptors, for the start and
 * for exchanges (iso_pe_exchange). SOCK_SEQPACKET: one send is one message. Used by pe.c and rendezvous.c. */
#ifndef ISO_NODE_SOCKET_H
#define ISO_NODE_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#define NODE_SOCKET_FDS_MAX 1
#define NODE_SOCKET_BODY_BYTES 256

/* The start of a PE, in this order: HELLO to the lowest PE of its node, WELCOME back, READY, GO. Then offers.
 * CHUNK: to the thread of device_grow.c, by a connection of its own, and back as the answer. */
enum node_socket_type {
    NODE_SOCKET_HELLO = 1,
    NODE_SOCKET_WELCOME,
    NODE_SOCKET_READY,
    NODE_SOCKET_GO,
    NODE_SOCKET_OFFER,
    NODE_SOCKET_CHUNK
};

struct node_socket_message {
    uint32_t type;
    int32_t local; /* NODE_SOCKET_OFFER, CHUNK: the PE that offers; of the answer to CHUNK: 0 or -errno */
    char body[NODE_SOCKET_BODY_BYTES];
};

/* The row that every PE sends to all others. The first three fields never move, since builds of different protocols
 * read them. */
struct row {
    uint32_t magic, protocol;
    char version[24];
    char node[64], host[64];
    unsigned char token[16];
    char sock_name[8]; /* abstract unix address, made by the kernel */
    uint64_t build_hash;
    uint64_t data_bytes;
    uint64_t heap_wish;     /* SHMEM_SYMMETRIC_SIZE, 0: the default */
    uint64_t local_wish;    /* SHMEM_LOCAL_SIZE, 0: the default */
    uint64_t machine_bytes; /* memory of the machine */
    uint64_t begun_us;      /* when it entered shmem_init, CLOCK_REALTIME */
    int32_t sock_name_len;
    int32_t debug;      /* SHMEM_DEBUG must be equal: its checks are collective */
    uint32_t profile, trace; /* SHMEM_PROFILE, SHMEM_TRACE likewise: all make the page, and compare clocks */
    uint64_t has_rdma;       /* iso_network_has_rdma */
    uint64_t transport_hash; /* of SHMEM_TRANSPORT: networks do not talk to each other */
    uint64_t coll_hash; /* of SHMEM_COLL: all members must run the same algorithm */
};

/* The handshake of this node over ISO->listener: afterwards all have mapped the file of the node and know what it says.
 * `rows` by PE. 0, or -errno after one sentence (rendezvous.c). */
int iso_rendezvous_hold(const struct row *rows);

/* 0 or -errno; never raises SIGPIPE. -ETOOMANYREFS: descriptors that were sent wait to be received; receive, then try
 * again. */
int iso_node_socket_send(int sock, const struct node_socket_message *m, const int *fds, int n_fds);
/* n_fds: descriptors received, at most NODE_SOCKET_FDS_MAX. -EAGAIN: nothing there; -ECONNRESET: the other end closed;
 * -EMFILE: *m has come, its descriptors found no room here. */
int iso_node_socket_receive(int sock, struct node_socket_message *m, int *fds, int *n_fds);
void iso_node_socket_close_fds(const int *fds, int n_fds);
int iso_node_socket_peer_pid(int sock);
bool iso_node_socket_peer_is_user(int sock); /* the process at the other end belongs to our own user */

#endif
