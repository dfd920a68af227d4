/* SPDX-License-Identifier: MIT */
/* One file of memory that all PEs of a node map: who they are, whether they live, who ends the job, and their control
 * areas. So no PE needs a socket or a mapping for each other PE. The lowest PE of the node makes it; the others get its
 * descriptor over a unix socket (rendezvous.c). Used by rendezvous.c, node_socket.c, pe.c and segment.c. */
#ifndef ISO_NODE_FILE_H
#define ISO_NODE_FILE_H

#include "../memory/segment.h"

struct wait;

/* Where a PE's memory can be opened: /proc/PID/fd/NUMBER, and it is that file and no other. */
struct node_memory {
    int32_t fd; /* in the owner; -1: none */
    uint64_t device, inode;
};

/* For those who look at the job from outside (job_look.c): written by the lowest PE, `magic` last, release. */
#define ISO_NODE_MAGIC 0x69736f6d65726e00u /* + ISO_PROTOCOL */
struct node_head {
    uint64_t magic;
    uint32_t job; /* its name, for people: from the token of PE 0, which it does not tell */
    int32_t n_pes, n_local;
    uint64_t begun_s; /* seconds since 1970 */
    uint64_t control_at, control_stride; /* of the first local PE; stride 0: not in this file */
    uint64_t hosts_at; /* of struct node_host [n_nodes]; behind them, for each PE of the job, `lost` */
    int32_t n_nodes;
    char host[64], node[64];
};

/* Where another node is, so that who looks from outside can ask there. */
struct node_host {
    char name[64];
    int32_t first_pe; /* the node's lowest */
};

/* invariant: written by its PE before READY; then only left, left_at, gone. */
struct node_member {
    _Alignas(ISO_LINE) pthread_mutex_t alive; /* robust; held by its PE while it is in the job */
    uint32_t joined;                          /* 1: what follows is written; release, for job_look.c */
    int32_t pe;
    int32_t pid;                              /* in its own pid namespace */
    uint64_t pid_space;                       /* inode of that namespace */
    uint64_t heap_base, data_base;
    struct node_memory memory[SEGMENT_INDEX_DEVICE]; /* heap, data */
    uint32_t left;                                   /* behind its last barrier; release, pairs with iso_node_watch */
    uint32_t left_at;                                /* its last step of the world, before left */
    uint32_t gone;                                   /* needs the file no more: its end is no death; release */
};

struct node_file {
    struct node_head head;
    uint32_t exit_begun; /* a PE ends, breaks or leaves the job: 1 while it writes `cause`, then 2 */
    struct end_cause cause;
    uint32_t closed; /* a PE cannot open another one's memory; atomic until GO */
    uint32_t n_left; /* members that have left; grows behind their `left`, release */
    uint32_t n_lost; /* grows behind a store to `lost`, release: uint32_t [n_pes], 1: a PE of this node knows it gone */
    _Alignas(ISO_LINE) uint64_t watched_ns; /* when a PE looked last whether all live: one look serves all */
    unsigned char cores[128];               /* that any PE may use; atomic OR until GO */
    struct node_member members[];           /* [n_local], by local number; then control areas, a page each, and hosts */
};

/* The lowest PE of the node; `job` as in the head. 0, or -errno after a sentence. */
int iso_node_make(uint32_t job);
/* The others: the file behind fd, which is taken. */
int iso_node_take(int fd);
/* Writes this PE's row and maps its control area. From here on its death is seen by all. */
int iso_node_join(void);
/* Before READY, after a look at another PE's row: whether its memory can be opened is noted for all. */
void iso_node_try(int local);
/* After GO: what this PE has to know of all others. */
void iso_node_learn(void);
/* A descriptor of this memory of the local PE, or -errno. */
int iso_node_open(int local, int segment_index);
/* iso_job_hear when another PE ends the job; iso_job_break when it has died: in whose wait (may be NULL). A look at all
 * PEs is made by one PE of the node in 10 ms, or by this one now. iso_node_watch has no effect without the file, and
 * where the job has ended. In a broken job it calls iso_job_lose_pe for each PE that is not in it any more. */
void iso_node_watch(const struct wait *wait);
void iso_node_watch_now(const struct wait *wait);
void iso_node_tell_exit(const struct end_cause *cause); /* the first cause stays */
void iso_node_tell_left(uint32_t left_at);
void iso_node_tell_lost(int pe); /* the PE, of any node, is gone in the broken job */
/* Is this local PE in the job and alive? */
bool iso_node_is_alive(int local);
void iso_node_leave(void);

#endif
