/* SPDX-License-Identifier: MIT */
/* The other PEs: their names and places, how this PE finds them, notices their end, and announces its own. */
#ifndef ISO_PEER_H
#define ISO_PEER_H

#include "../state/pe_state.h"

struct transport_ops;
struct wait;

/* The content of a collective exchange between the PEs of a node (iso_pe_exchange). */
struct pe_offer {
    uint64_t base;
    uint64_t len;
    unsigned char key[64]; /* device memory: what the owner's device layer gave */
    int32_t extra;         /* the caller's own use */
    int fd;                /* -1: none */
};

struct peer {
    int pe;
    int node_number;                       /* 0..n_nodes-1, in the order of their lowest PEs */
    bool local;                            /* same node: reached by pointer */
    bool threaded;                         /* lives in this very process (test build) */
    bool left;                             /* is in shmem_finalize, behind its last barrier; atomic */
    uint32_t left_at;                      /* its last step of the world then, modulo 2^32; atomic */
    bool gone;                             /* it died, or is in the broken job no more; atomic */
    int place;                             /* of local peers: their number on the node */
    int sock;                              /* -1: none; of a star around the lowest PE of the node */
    int pid;                               /* of local peers; 0: of another namespace */
    char *control;                         /* its control area, mapped here; NULL: not reached by pointer */
    const struct transport_ops *transport; /* for what pointers do not reach; never NULL after init */
    bool by_pointer;                       /* of the transport: this PE maps its segments */
    char host[64];
    char node[64];
};

/* The PE has said that it left, with its last epoch of the world. Several threads of this PE may call at once. */
ISO_INLINE void iso_peer_leaves(int pe, uint32_t left_at)
{
    struct peer *peer = &ISO->peers[pe];
    /* Relaxed: several threads of this PE may take the same news, and store the same number. The release below orders
     * it before `left`. A reader that has acquired `left` sees that number, whichever thread stored it. */
    __atomic_store_n(&peer->left_at, left_at, __ATOMIC_RELAXED);
    __atomic_store_n(&peer->left, true, __ATOMIC_RELEASE); /* pairs with iso_peer_has_left */
}

ISO_INLINE bool iso_peer_has_left(int pe)
{
    return __atomic_load_n(&ISO->peers[pe].left, __ATOMIC_ACQUIRE); /* pairs with iso_peer_leaves */
}

ISO_INLINE bool iso_peer_is_gone(int pe)
{
    return __atomic_load_n(&ISO->peers[pe].gone, __ATOMIC_ACQUIRE); /* pairs with drop_pe in pe.c */
}

/* The job is broken, and this PE does not outlive that or the other one is gone: nothing of it is waited for. */
ISO_INLINE bool iso_peer_is_lost(int pe)
{
    return iso_job_is_broken() && (!iso_job_outlives() || iso_peer_is_gone(pe));
}

/* The control area of the PE; NULL: not to be read from here. Memory of a PE that is a thread of this process goes when
 * it leaves. */
ISO_INLINE char *iso_peer_control(int pe)
{
    const struct peer *peer = &ISO->peers[pe];
    return peer->threaded && iso_peer_has_left(pe) ? NULL : peer->control;
}

struct row;                         /* what each PE tells the others; node_socket.h */
int iso_pe_start(struct row **rows); /* allgather, node map; fills ISO->peers. *rows by PE: the caller frees them */
int iso_pe_choose_transports(const struct row *rows); /* and opens them */
/* Of local objects, and as much of teams': only addresses. `wish` is SHMEM_LOCAL_SIZE. */
size_t iso_pe_part_bytes(size_t heap, size_t wish);
int iso_pe_start_segments(const struct row *rows); /* of the size that all have agreed on */
int iso_pe_join(const struct row *rows); /* handshake of the node; fills the peers of the two first segments */
int iso_pe_join_nodes(const struct row *rows); /* then with the other nodes: channel, networks */
void iso_pe_part(void); /* after the last barrier: nothing is under way to or from another node any more */
void iso_pe_stop(void); /* good-bye to all */
ISO_INLINE int iso_pe_my_node(void) { return ISO->peers[ISO->my_pe].node_number; }
/* Collective over local peers: gives {base, len, fd} to all, gets theirs; by local index. */
int iso_pe_exchange(const struct pe_offer *mine, struct pe_offer *theirs, const char *call);

#endif
