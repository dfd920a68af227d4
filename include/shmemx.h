/* SPDX-License-Identifier: MIT */
/* Extensions to OpenSHMEM, host part: start with a unique id, registered buffers, teams of any PEs, devices (device
 * memory, handles for kernels, launch, calls on streams), self-description. The in-kernel part is shmem_device.h. Calls
 * that return int return 0, or nonzero after a sentence on stderr, unless their comment says otherwise. */
#ifndef SHMEMX_H
#define SHMEMX_H

#include "shmem.h"
#include "shmemx_launch.h" /* launches of kernels */

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- start without a launcher ----
 * The program's own store (MPI, torchrun's store, a file) carries an id of 128 bytes. RANK and WORLD_SIZE of torchrun
 * alone start nothing: pass them in attr, with an id. */

/* Address, port and secret of the process that becomes PE 0. Opaque; may be copied as bytes. */
typedef struct {
    unsigned char bytes[128];
} shmemx_uniqueid_t;

/* How a job starts. Begin with SHMEMX_INIT_ATTR and set what you need:
 *     shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
 * The struct grows at its end. A program that was compiled with a shorter one gets the values of SHMEMX_INIT_ATTR for
 * the rest. A longer one, of a later version, is taken where its rest is zero. Fields that are set here win
 * over the environment. */
typedef struct {
    size_t struct_bytes;         /* sizeof(shmemx_init_attr_t) of the program */
    int rank;                    /* this process becomes that PE, 0 .. size - 1 */
    int size;                    /* PEs of the job */
    const shmemx_uniqueid_t *id; /* the same on all */
    int requested;               /* SHMEM_THREAD_ level */
    int provided;                /* out: the level in force */
    int device;                  /* number of this PE's device; -1: as SHMEM_DEVICE says */
    int device_blocks;           /* 1 .. 1024, as SHMEM_DEVICE_BLOCKS; 0: as it says. Equal on all PEs */
    size_t heap_bytes;           /* cap of the symmetric heap; 0: as SHMEM_SYMMETRIC_SIZE says. Equal on all PEs */
    size_t device_heap_bytes;    /* cap of the device heap; 0: as SHMEM_DEVICE_HEAP_SIZE says. Equal on all PEs */
    double timeout_seconds;      /* a wait that lasts longer is reported; 0: as SHMEM_TIMEOUT says; below 0: never */
    int errors;                  /* SHMEMX_ERRORS_RETURN: as by shmemx_set_error_mode, from this call on; 0: as it is */
} shmemx_init_attr_t;
#define SHMEMX_INIT_ATTR {sizeof(shmemx_init_attr_t), 0, 0, NULL, SHMEM_THREAD_SINGLE, 0, -1, 0, 0, 0, 0.0, 0}

/* Makes the id of a job. Called before init, once for a job, by any process of the host of rank 0. Starts no thread and
 * listens nowhere: the port is only reserved while this process lives or until its init. Rank 0 listens from its
 * shmemx_init_attr on; it may be this process, or a child of it, forked before or after this call. The other PEs may
 * start earlier and wait. Returns 0, or nonzero after a sentence on stderr. */
int shmemx_get_uniqueid(shmemx_uniqueid_t *id);
/* Starts the library as shmem_init_thread does. Takes precedence over any launcher. Collective over the `size`
 * processes. Where the library runs already, the call is counted and sets attr->provided only. Nonzero after a sentence
 * on stderr: an argument is outside its range, or the job could not start; the call may be repeated. */
int shmemx_init_attr(shmemx_init_attr_t *attr);

/* ---- errors ---- */

/* The mode in which a PE meets errors: wrong arguments, memory that cannot be had, the death of another PE, a job that
 * another PE ends. */
#define SHMEMX_ERRORS_ABORT 0 /* a sentence on stderr, then the job ends; the default, as OpenSHMEM has it */
/* A sentence on stderr, then a call of shmemx.h and shmemx_coll.h returns: nonzero, or NULL or -1 as its type says. It
 * never ends the process. When a PE dies, leaves, or ends the job, the job is broken for this PE. The PE that notices
 * tells all others, who tell it on, so each PE has the same reason: shmemx_status gives the PE (broken_by), and the text
 * of each error has the sentence, "CALL: the job was broken 0.2 s ago: pe 1 (pid 77 on a) died; call shmemx_leave". Two
 * PEs that die at once, or a network that comes apart, may be two reasons. Waits inside calls of shmemx.h come back with
 * an error, and waits of kernels give up, within a second or so. From then on each such call returns the same error at
 * once; a PE prints the reason once. Exceptions: shmemx_leave, shmemx_error_text, shmemx_stream_destroy,
 * shmemx_graph_destroy, and the calls that describe (shmemx_info_text, shmemx_status, shmemx_device_error,
 * shmemx_heap_is_valid). Calls of shmem.h run the error handler and end the process, as in the other mode. */
#define SHMEMX_ERRORS_RETURN 1
/* Sets the mode of this PE, from the next call on: at any time, also before the start, which it covers then. It stays
 * for later jobs of this process. Not collective; PEs may differ. No other thread is in a call. In a broken job puts,
 * gets and atomics of shmem.h to other nodes have no effect, until a call that waits ends the process. Returns 0, or
 * nonzero after a sentence: mode is neither of the two. */
int shmemx_set_error_mode(int mode);

/* The last error of a call of this thread, without the number of the PE: "shmemx_malloc: kind is 7, allowed: ...".
 * Empty before the first one; a call that succeeds does not change it. Writes and returns as shmemx_info_text. May be
 * called at any time. */
size_t shmemx_error_text(char *text, size_t bytes);

/* Has `handler` called with one sentence and `arg` before an error ends this process, in either mode, by the thread
 * that has found the error; that may be a thread of the library. The handler must not call the library. When it
 * returns, the process ends. NULL: no handler. Not collective; may be called before shmem_init. Returns 0. */
typedef void (*shmemx_error_handler_t)(const char *sentence, void *arg);
int shmemx_set_error_handler(shmemx_error_handler_t handler, void *arg);

/* Breaks the job for this PE, as the death of another PE does, by the program's wish: a call has lasted too long, or
 * its result is not wanted any more. Waits inside calls of shmemx.h come back with an error, also those of other
 * threads, and waits of kernels give up. From then on calls behave as SHMEMX_ERRORS_RETURN says, with `why` in their
 * sentence. `why` is copied; more than 255 bytes are cut off. Other PEs are told by shmemx_leave, not before. Not
 * collective; any thread, while others are in calls. Nothing changes in a job that is broken already. Returns 0; or
 * nonzero after a sentence: the library is not running, the mode is not SHMEMX_ERRORS_RETURN, why is a null pointer. */
int shmemx_break(const char *why);

/* Leaves the job without any other PE's help: after a death, after an abort, or at will. Frees all that this PE has of
 * the library: waits of kernels give up, streams become idle, memory, mappings, descriptors and threads are given back.
 * Objects of shmemx_malloc, teams, handles and graphs of the library's calls are gone. The program destroys its streams
 * and graphs itself, before: shmemx_stream_destroy and shmemx_graph_destroy work in a broken job. Afterwards
 * shmemx_init_attr with a new id, and as many processes as are left, begins a new job in this process. For the other
 * PEs the job is broken, or ends, as when this one had died.
 *
 * Not collective. By the thread that has started the library, and while no other thread is in a call. In a job of PMIx
 * (oshrun, mpirun, srun) the launcher may end the job when a process dies, and then this call comes too late; a job of
 * a unique id has no launcher. Kernels of the program must not loop for ever by themselves.
 *
 * Returns 0, or nonzero after a sentence: the library is not running; or a stream was not idle 10 s after all waits
 * gave up, then nothing is freed and the call may be repeated. */
int shmemx_leave(void);

/* ---- registered buffers: memory that the program has already becomes symmetric ---- */

typedef struct {
    size_t mapped_bytes; /* whole pages, reached by loads and stores of local peers */
    size_t staged_bytes; /* the partial pages at the ends: puts and gets only, no atomics and no signals */
    int is_device;       /* 1: the buffer is device memory; all of it is mapped or nothing */
    char method[24];     /* how it is shared: "pages", "vmm", "ipc", "staged" */
} shmemx_buffer_info_t;

/* Makes [addr, addr + len_bytes) a symmetric address range in every call, until it is unregistered. Contents are kept;
 * whole pages are remapped in place. Host memory is private, readable and writable (malloc, or mmap with MAP_PRIVATE).
 * Shared mappings, pages that are read-only or executable, and memory that is pinned for the device, are refused: they
 * would be cut off from their file, process or device, or change their protection. Device memory is of
 * shmemx_device_init's device and from the vendor's own allocator; it is shared by the first way that works, which
 * info->method names. All PEs give the same kind of memory. info may be NULL.
 *
 * Collective over the world, with equal len_bytes and one buffer of each PE; addresses may differ. Other threads must
 * not touch the buffer during the call. It must not be freed before it is unregistered. Whole pages are shared with
 * children that are forked meanwhile, as the symmetric heap is. AMD: memory of its allocators is for data that kernels
 * read which begin later. Signals, polls, atomics, and data for kernels that run already, need memory of shmemx_malloc.
 *
 * Returns 0, or nonzero on all PEs, with a sentence on stderr of one PE at least; then nothing is registered. Wrong
 * arguments of any PE are such a case. */
int shmemx_buffer_register(void *addr, size_t len_bytes, shmemx_buffer_info_t *info);
/* Ends a registration. `addr` is the address that was registered. Begins as shmem_barrier_all: puts into the buffer
 * have arrived. Contents are kept. Collective over the world. Nonzero on all PEs after a sentence on stderr: addr is
 * not the start of a registered buffer on some PE, and nothing is unregistered; or the pages stay shared with children
 * that are forked. */
int shmemx_buffer_unregister(void *addr);
/* The same for the members of a team alone: the range is symmetric for them, and is not to be used with other PEs. Both
 * are collective over the team; other PEs take no part. One thread of a PE registers or unregisters at a time. Nonzero
 * on all members after a sentence, and on this PE alone when `team` is not a team of this PE. A buffer that a team has
 * registered is unregistered by a team of the same members. */
int shmemx_team_buffer_register(shmem_team_t team, void *addr, size_t len_bytes, shmemx_buffer_info_t *info);
int shmemx_team_buffer_unregister(shmem_team_t team, void *addr);

/* ---- teams of any PEs ---- */

/* Makes a team of the PEs pes[0 .. n-1] of the world, in this order: pes[i] becomes number i of the team. `n` is
 * 1 .. shmem_n_pes(). Each PE is listed once, the caller among them. The list may be in any order. `tag` is any number,
 * and tells teams apart that are made at the same time.
 *
 * Collective over the listed PEs only, with equal n, pes and tag; other PEs take no part and may do anything
 * meanwhile. No member returns before all have called. A PE may make any number of teams one after the other, also of
 * the same list and tag. With SHMEM_THREAD_MULTIPLE, threads of a PE may make teams at the same time, overlapping ones
 * too, with tags that differ. Of more than 8 threads at once, further ones wait until one returns. pes may be reused
 * when the call returns.
 *
 * The team is like one of shmem_team_split_strided: a parent of splits and contexts, and an argument of all collectives
 * on the host, in kernels and on streams. shmem_team_destroy ends it, collective over the members. Its memory is used
 * again after the last of them has destroyed it.
 *
 * Returns 0, with the team in *team. Nonzero after a sentence, with SHMEM_TEAM_INVALID in *team: wrong arguments, which
 * are found before any other member is asked; members that list each other under this tag have given different lists;
 * no memory or no slot left (1022 teams may be alive on a PE beside SHMEM_TEAM_WORLD and SHMEM_TEAM_SHARED, fewer where
 * active sets are in use). All members that have called get an error then. A member that never calls is reported after
 * SHMEM_TIMEOUT, and the others go on waiting. */
int shmemx_team_create(const int *pes, int n, uint64_t tag, shmem_team_t *team);

#define SHMEMX_COLOR_NONE (-1) /* becomes member of no team; as any other negative color */
/* Makes a team of the PEs of the parent that give the same color, as MPI_Comm_split does. They are numbered by `key`,
 * those with equal keys by their numbers in the parent. Colors and keys may differ between PEs. Collective over the
 * parent. *team becomes the team of the caller's color, SHMEM_TEAM_INVALID for a negative color. Returns 0, or nonzero
 * on all PEs of the parent when no team was made; nonzero, after a sentence, for a parent that is SHMEM_TEAM_INVALID. */
int shmemx_team_split_color(shmem_team_t parent_team, int color, int key, shmem_team_t *team);

/* Sets after how many seconds a wait of this team is reported on this PE. 0: never. Below 0: as SHMEM_TIMEOUT says,
 * which is how a team begins. The team's waits are those in its collectives on the host and on streams, also by copy
 * engines, in its sends and receives on streams, in point-to-point calls on streams on memory of shmemx_team_malloc of
 * the team, and all waits in kernels by its handles. Waits that belong to no team keep SHMEM_TIMEOUT: other
 * point-to-point calls of the host and on streams, locks, and requests to another node.
 * SHMEM_TEAM_WORLD is a team like others. Nothing else changes: a reported wait goes on, or with SHMEM_TIMEOUT_ABORT=1
 * ends the job. On the CPU device SHMEM_TIMEOUT also applies to a kernel of which all threads poll in vain.
 *
 * Not collective; members may differ. Any thread. Holds for waits that begin later, in kernels too. Returns 0, or
 * nonzero after a sentence: team is not a team of this PE, or seconds is not a number. */
int shmemx_team_set_timeout(shmem_team_t team, double seconds);

/* Has kernels of this PE go on by the team's handles when a PE dies (masks 1), or give up (0, as a team begins): what
 * each call does then stands in shmem_device.h, at shmemd_status; shmemd_pe_is_alive says who is gone. For services
 * whose kernels run for long. Calls of the host and on streams see a broken job as ever: they return errors, so the
 * kernel runs already when the PE dies, or is launched by the vendor's own call. Members may be on several nodes: the
 * network of this PE goes on towards the PEs that live, from the first such call on until shmemx_leave. A PE of another
 * node of which no team masks deaths may end its network when the job breaks, and is gone then. An error of the network
 * that is not one of a single peer ends all kernels.
 *
 * Not collective; members may differ. Any thread; holds for handles that there are and for later ones. Needs
 * SHMEMX_ERRORS_RETURN. Returns 0, or nonzero after a sentence: team is not a team of this PE, masks is neither 0 nor
 * 1; for masks 1 also: the error mode is SHMEMX_ERRORS_ABORT. */
int shmemx_team_mask_deaths(shmem_team_t team, int masks);

/* Breaks a team, and leaves the job and all other teams as they are: a call of the team has lasted too long, or its
 * result is not wanted. Calls of shmemx.h and shmemx_coll.h that are collective over the team come back with an error
 * on all members, also those of other threads and of members that come later: "CALL: this team was broken by pe 2:
 * WHY", as shmemx_error_text has it. Nothing is printed. A call that returns 0 had all that it waited for. Members on
 * other nodes are told by a message, and hear of it in calls that wait. Calls of shmem.h that wait in the team end the
 * process. Then shmem_team_destroy waits for no member. The team's slots are not used again, and objects of
 * shmemx_team_malloc stay, until the job ends. shmemx_status tells of it.
 *
 * Waits of kernels by the team's handles, of its collectives, barriers, syncs, sends and receives on streams, and of
 * point-to-point calls on streams on its memory, give up on all members, and later calls by these handles do nothing,
 * also in graphs; but a point-to-point call on its memory goes on that began in a capture, see below. If the
 * team has handles or such calls on streams here, the library cannot tell which streams had its calls:
 * shmemx_stream_synchronize of every stream and shmemx_graph_launch return nonzero with the sentence above, until
 * shmemx_status of the team has told of the end. Dest of a collective that has given up may be written until it has
 * given up on all members. Memory that the first call of a slot was making may stay until the job ends.
 *
 * A member of another node that cannot be connected within SHMEM_BOOT_TIMEOUT is not told, which a sentence says; it
 * waits until its own timeout.
 *
 * `why` is copied; more than 111 bytes are cut off. Not collective; any thread, while others are in calls. Nothing
 * changes in a team that is broken already. Returns 0; or nonzero, with nothing done and nothing printed, the sentence
 * in shmemx_error_text: team is not a team of this PE, or is SHMEM_TEAM_WORLD or SHMEM_TEAM_SHARED, or has one member;
 * why is a null pointer; the mode is not SHMEMX_ERRORS_RETURN; or sends or receives of the team on streams were in one
 * batch with those of another team, or began in a capture: the team had no send, receive or point-to-point call on its
 * memory before, and some stream of this PE was being captured at the first one. shmemx_break is for these. (Where
 * another thread enqueues such a batch during the call, the result is nonzero, too, and the team is broken, but for that
 * batch.) */
int shmemx_team_break(shmem_team_t team, const char *why);

/* ---- devices: a GPU, or the CPU as a device (the build's flavour decides) ----
 * No device is touched before the first call of this part. Each PE uses one device: SHMEM_DEVICE, or its number on the
 * node modulo the number of devices. Several PEs may share one. Another device that the program has made current does
 * not change that. The call that starts the device leaves it current in the calling thread. Every other call gives back
 * the device that was current in that thread before. On NVIDIA that does not hold for a device that the process has not
 * used yet, because making it current takes about 500 MB of its memory: the PE's device stays current then. With HIP 7
 * the PEs of a node must have the same HIP_VISIBLE_DEVICES, or each PE must have one device alone. HIP 7 maps memory of
 * a peer's device only if that device's number at its own PE is also a device number at the caller. */

/* Starts the device. Collective over the world. The first shmemx_malloc, or shmemx_device_handle on SHMEM_TEAM_WORLD,
 * does it where it was not done. Nonzero after one sentence on stderr: there is no device here, or not on all PEs; host
 * calls still work. */
int shmemx_device_init(void);
/* Describes the device, for instance "cuda 0: NVIDIA H200, memory shared by vmm", or says why there is none. Writes and
 * returns as shmemx_info_text. */
size_t shmemx_device_text(char *text, size_t bytes);

/* Kinds of memory. */
#define SHMEMX_HOST 0   /* the symmetric heap of shmem_malloc */
#define SHMEMX_DEVICE 1 /* the device heap: polls see stores of peers, and atomics of all PEs compose */
/* As SHMEMX_DEVICE, for bulk data only: do not poll, signal or do atomics there. In this version it is the same memory
 * on every device. A device whose coherent memory is slower (AMD) may use another kind for it later. */
#define SHMEMX_DEVICE_BULK 2

/* As shmem_malloc, calloc, align and free, for a kind of memory. Collective over the world, with equal arguments on all
 * PEs. NULL when size is 0, or after a sentence when no room is left. shmem_free and shmemx_free take objects of any
 * kind, shmem_realloc only those of the host. Calls that take device addresses:
 *   put, get, p, g, strided, non-blocking     yes, as target and as local argument. Local device memory that is not
 *                                             symmetric: only when the target is device memory
 *   put_signal, signal_set, signal_add, signal_fetch, atomics, wait and test     yes (a kernel of one thread does it);
 *                                             fetched values go to host memory
 *   collectives, locks                         no: they end the job with a sentence; use shmem_device.h or _on_stream
 *   shmem_ptr                                  NULL: the CPU cannot load it */
void *shmemx_malloc(size_t size, int kind);
void *shmemx_calloc(size_t count, size_t size, int kind);
void *shmemx_align(size_t alignment, size_t size, int kind);
void shmemx_free(void *ptr);

/* Gives physical memory back, of the device, where one runs, and of the host: of both heaps, of local and team objects,
 * and of stages. All addresses, handles, streams and captured graphs stay.
 *   keep 1   contents of device objects lie in host memory meanwhile; objects of the host stay as they are
 *   keep 0   contents of objects are lost, except those that shmemx_keep has marked
 * First waits for the work in all streams of this PE. Pages that are given back are no longer locked (mlock). Until
 * shmemx_resume
 *   - calls that need the device return errors, and no kernel, graph or copy of the program may touch device memory of
 *     the library
 *   - calls with a lent symmetric object of the host, as remote end or in a collective, end as those with other wrong
 *     addresses. On one node loads and stores of whole lent pages fault on their owner, and so does a call with a lent
 *     object as its local end; on several nodes loads see zeros. Peers must not access them by pointers or places that
 *     they have
 *   - other calls of the host work, collectives and new objects among them; stages that they use take memory again
 *   - objects may be freed
 * Global variables, registered buffers and host memory that a network has registered stay; shmemx_memory_stats tells
 * what is left. Collective over the world, with equal keep; no thread of a PE is in another call meanwhile. 0; nonzero
 * after a sentence on all PEs, and nothing has changed: memory is lent back already, or there is no host memory for the
 * contents; or a device runs, and PEs are on several nodes, memory is shared by ipc, or a stream is being captured. */
int shmemx_suspend(int keep);
/* Takes it again, with the contents that were kept. shmem_finalize does so itself. Collective over the world. 0;
 * nonzero after a sentence on all PEs, and it is still lent back: the device has not that much memory left, so the call
 * may be repeated, or it was not lent. */
int shmemx_resume(void);
/* The contents of this object outlast shmemx_suspend(0): for signals, counters, weights. ptr is the start of an object
 * of this PE, of any kind: of the heaps, of a team, local. Memory of the host stays then, that of the device lies in
 * host memory meanwhile. Not collective; of a symmetric object all PEs keep theirs, or none. 0; nonzero after a
 * sentence: no such object, or one that is lent back. */
int shmemx_keep(void *ptr);

/* ---- memory of one PE: no other PE's program takes part ---- */

/* Allocates `size` bytes of a kind of memory for this PE alone, at a multiple of 256 bytes. Contents are undefined.
 * Peers that share pointers have it mapped when the call returns: their service threads map device memory that was
 * added for it, and their programs need not call anything. Others reach it by RDMA or the ring, as symmetric memory.
 * The address is given to other PEs as shmemx_offset_of says. On its owner it is also a local argument of every call.
 * Collectives on streams find it at each member's own place (shmemx_coll.h). Host collectives refuse it; collectives in
 * kernels, and locks, do not take it. SHMEM_LOCAL_SIZE is the cap. A device kind needs shmemx_device_init before. Any
 * thread, at any time but during stream capture when device memory has to be added. NULL when size is 0, or after a
 * sentence: no room, no device, a kind that is not one of the three. */
void *shmemx_local_malloc(size_t size, int kind);
/* Frees it. NULL is ignored; another pointer that is not the start of a local object is refused with a sentence. No
 * PE, kernel or stream may use the memory any more, and puts into it have arrived. */
void shmemx_local_free(void *ptr);

/* The two functions that torch.cuda.memory.CUDAPluggableAllocator takes, over local memory of the kind SHMEMX_DEVICE:
 * CUDAPluggableAllocator("libisomer.so", "shmemx_torch_malloc", "shmemx_torch_free"). `size` is in bytes. `device`
 * must be the number of the device that this PE uses. `stream` is the one that the memory is for. Not collective; any
 * thread; after shmemx_device_init, and malloc not during stream capture when memory has to be added. malloc returns
 * NULL when size is 0, or after a sentence: no room, another device. free first waits until the work in `stream` is
 * done, as the vendor's free does. Work in other streams must be done before: torch sees to that by record_stream.
 * When `stream` is being captured, the memory stays allocated until shmem_finalize, since the graph uses it. After
 * shmem_finalize, free does nothing. */
void *shmemx_torch_malloc(ssize_t size, int device, shmemx_stream_t stream);
void shmemx_torch_free(void *ptr, ssize_t size, int device, shmemx_stream_t stream);

/* ---- memory of a team ---- */

/* Allocates `size` bytes of a kind of memory on all members of the team, at one place: its address means the same
 * object on every member, in every call, as memory of shmemx_malloc does on all PEs. It is at a multiple of 64 bytes;
 * contents are undefined. Other PEs take no part and keep their own objects alike. A device kind needs
 * shmemx_device_init before. Collective over the team, with equal size and kind. All members may use it on return.
 * NULL on all members when size is 0, or after a sentence: the arguments differ, a member has no room, no device, or
 * the kind is not one of the three. SHMEM_LOCAL_SIZE is the cap. NULL after a sentence, on this PE alone, when `team`
 * is not a team of this PE. */
void *shmemx_team_malloc(shmem_team_t team, size_t size, int kind);
/* Frees it. Begins as shmem_barrier_all of the members: puts into it have arrived. `team` is the team of the
 * allocation, which must not be destroyed before. Collective over the team, with the same object on all members. 0;
 * nonzero after a sentence, and nothing is freed: the members' pointers differ, or ptr is not the start of such an
 * object. NULL is ignored, but by all members. */
int shmemx_team_free(shmem_team_t team, void *ptr);

/* Names the place of `addr` so that other PEs understand it: *offset becomes a number that any PE may give to
 * shmemx_at_offset. `addr` is in memory of shmem_malloc, shmemx_malloc, shmemx_local_malloc, shmemx_team_malloc, or a
 * global variable. Not collective. 0, or nonzero after a sentence: other memory, registered buffers among it. */
int shmemx_offset_of(const void *addr, uint64_t *offset);
/* The address by which calls of this PE mean that place on PE `pe` of the world: dest, source, signal or word of put,
 * get, signals and atomics, of the host, on streams and in kernels, with `pe` as their target. It is an address of
 * this PE's own range, whether or not this PE has an object there. So it must not be loaded or stored here;
 * shmem_ptr(address, pe) is what can be. It can be kept, and offsets within the object are added to it. It is the
 * same for all pe. Not collective. NULL after a sentence: pe outside the world, a number that is not of
 * shmemx_offset_of, or a device place before this PE's shmemx_device_init. */
void *shmemx_at_offset(int pe, uint64_t offset);
/* The address by which kernels and copies of this PE's device load and store the object at addr on PE `pe` of the
 * world, as shmemd_ptr gives it in a kernel: for kernels of other programs. addr is in device memory, symmetric, or of
 * shmemx_at_offset for that pe. On the own PE it is addr. Valid as long as the object. Not collective. NULL: pointers
 * of the device do not reach it (another node, other memory, no device); after a sentence where pe is outside the
 * world. */
void *shmemx_device_ptr(const void *addr, int pe);

/* The kinds of place that an address can be in. */
#define SHMEMX_PLACE_NONE 0   /* not memory of this library */
#define SHMEMX_PLACE_HEAP 1   /* of shmem_malloc or shmemx_malloc, or of the library itself */
#define SHMEMX_PLACE_DATA 2   /* a global variable */
#define SHMEMX_PLACE_BUFFER 3 /* a registered buffer */
#define SHMEMX_PLACE_LOCAL 4  /* of shmemx_local_malloc, here or on another PE */
#define SHMEMX_PLACE_TEAM 5   /* of shmemx_team_malloc, of any team */
typedef struct {
    int place;           /* SHMEMX_PLACE_ */
    int kind;            /* SHMEMX_HOST or SHMEMX_DEVICE */
    int is_symmetric;    /* 1: the same object on all PEs, or on the members of a team */
    void *object;        /* the start of this PE's object there; NULL: none, or not of an allocating call */
    size_t object_bytes; /* as it was asked for */
} shmemx_address_info_t;
/* Describes the memory at addr. Not collective. 0; nonzero, with *info all zero, when it is not memory of this library.
 * A null info is refused with a sentence. */
int shmemx_address_info(const void *addr, shmemx_address_info_t *info);

/* Memory of the library on this PE, of one kind, in bytes by what it is for. What a member has written at another one
 * counts there. Of host memory that is mapped and was never touched, nothing counts. */
typedef struct {
    /* Of the team. */
    size_t slot_bytes;  /* its sequence of collectives; of the device those of its handles and calls on streams */
    size_t stage_bytes; /* data on the way; of the device that of copy engines, which is in local_bytes, too */
    size_t pair_bytes;  /* of sends and receives on streams */
    /* Of the whole job. */
    size_t heap_bytes;  /* objects of shmem_malloc, shmemx_malloc and their like */
    size_t local_bytes; /* objects of shmemx_local_malloc */
    size_t team_bytes;  /* objects of shmemx_team_malloc, of all teams */
    size_t ring_bytes;  /* rings by which kernels reach the host; in neither heap */
    size_t held_bytes;  /* physical memory behind the three above, of the device behind all slots, too; on the CPU device
                           what is in use of that; what is left while memory is lent back */
} shmemx_memory_stats_t;
/* Fills *stats for a team and a kind of memory, SHMEMX_HOST or SHMEMX_DEVICE; of a device that has not started, all is
 * zero. Not collective; any thread. 0; nonzero after a sentence: team is not a team of this PE, kind is neither of the
 * two, stats is a null pointer, or the system does not tell. */
int shmemx_memory_stats(shmem_team_t team, int kind, shmemx_memory_stats_t *stats);

/* ---- handles: arguments of every call in a kernel, see shmem_device.h ---- */

struct shmemd_handle; /* shmemd_t is complete in shmem_device.h, which includes this file */
/* Makes a handle for kernels and writes it to *handle. `slot` is 0 .. 255, equal on all members. One (team, slot) is
 * one ordered sequence of collectives, the same on all members. Kernels that may run at the same time and use
 * collectives take different slots. The same (team, slot) again gives the same handle. Collective over the team: the
 * members find each other by team and slot. So threads may make handles of several slots in another order on each
 * member, and beside collectives of the host; on SHMEM_TEAM_WORLD only once the device runs. Must not be called during
 * stream capture. A handle lives until its team is destroyed or until shmem_finalize, and may be part of graphs.
 * Returns 0; or nonzero after a sentence: team is not a team of this PE, slot is outside its range, no device runs (on
 * SHMEM_TEAM_WORLD: it cannot start), a stream is being captured, no memory for the slot. */
int shmemx_device_handle(shmem_team_t team, int slot, struct shmemd_handle *handle);

/* An error of a kernel of this PE. */
typedef struct {
    char call[64];          /* "shmemd_signal_wait_until" */
    int pe;                 /* world number of the PE that was waited for; -1: any */
    int team_slot;          /* of the handle; -1: a call on a stream other than a collective, which has none */
    unsigned block, thread; /* of the thread that waited; 0, 0 where the stream itself did, without a kernel */
    const void *addr;       /* the word that it polled */
    uint64_t expected, seen;
    double waited_seconds;
    int gave_up;   /* 0: passed SHMEM_TIMEOUT and goes on; 1: gave up; 2: misuse of the slot */
    int broken_by; /* the PE that broke the job: it died, left, ended the job or is not reached; -1: none or not known */
    shmem_team_t team; /* of the handle; SHMEM_TEAM_INVALID: destroyed, or none, as of a put to memory of no team */
} shmemx_device_error_t;
/* Takes the oldest error off this PE's list and writes it to *error. Returns 1, or 0 when the list is empty. Never
 * blocks. -1 or less: an error of this call. */
int shmemx_device_error(shmemx_device_error_t *error);
/* Tells whether a call of (team, slot) on this PE gave up or was misused: in kernels, on streams, a barrier or sync on
 * streams of the team, or a point-to-point call on a stream, which has no slot, on memory of this team or of none.
 * `slot` is 0 .. 255. `error` gets the first such error since the last reset; all zero and pe -1 where there is none,
 * but for broken_by, which tells in each case who has died. NULL: it is not wanted. Takes nothing off the list of
 * shmemx_device_error. Where one gave up, or the job is broken, shmemx_error_text has a sentence with the reason then.
 * A call that waits still has not given up: ask after its end. Not collective. Returns 0: none gave up; 1: one did, or
 * the team is broken; -1 or less: an error of this call. */
int shmemx_status(shmem_team_t team, int slot, shmemx_device_error_t *error);
/* Makes all waits of this PE's kernels give up: they return, and from then on their handles do nothing. Not collective.
 * The library does the same when a peer has died, before it ends the job.
 *
 * The error of a wait that gave up, or of a slot that was misused, belongs to the (team, slot) of its handle. Kernels
 * see it by shmemd_status. The host cannot tell which streams have used that handle. Therefore, from the end of the
 * kernel or collective until the reset of the (team, slot), on this PE shmemx_stream_synchronize of every stream waits
 * as always and then returns nonzero, and shmemx_graph_launch launches nothing and returns nonzero. Other members learn
 * of the error when their own waits give up. The vendor's calls (cudaStreamSynchronize, events) do not know of it: call
 * shmemx_stream_synchronize after them before you use results. */
void shmemx_device_abort(void);
/* Makes the handle of (team, slot) work again. With it work barrier and sync on streams of this team, collectives on
 * streams of this (team, slot), sends and receives of this team, and point-to-point calls on streams, which have no
 * slot, on memory of this team or of none. Collective over the handle's team, after all members have called
 * shmemx_device_abort or a kernel of theirs gave up, and while no kernel that uses the handle runs. Returns 0; or
 * nonzero after a sentence: no device runs, team is not a team of this PE, slot is outside 0 .. 255, or nothing has used
 * (team, slot). */
int shmemx_device_reset(shmem_team_t team, int slot);

/* ---- streams and launch: the same on every device ----
 * On a GPU a stream is the vendor's own (hipStream_t, cudaStream_t), and a kernel may also be launched the vendor's
 * way. A device may have fewer queues than there are streams. Streams that share a queue run in turn, so a kernel that
 * waits holds up the streams of its queue. HIP gives a process 4 queues unless GPU_MAX_HW_QUEUES says more, CUDA 8
 * unless CUDA_DEVICE_MAX_CONNECTIONS says more. When the device is first used, the library sets
 * CUDA_DEVICE_MAX_CONNECTIONS to 32 and CUDA_MODULE_LOADING to EAGER, each unless it is set already. CUDA and HIP read
 * these variables at their first call: a program that makes that call earlier sets them itself.
 * cudaFree, cudaFreeHost and cudaHostUnregister wait for all kernels, and hold a lock meanwhile that the proxy needs
 * where it copies device memory. So do hipFree, hipHostFree, hipStreamDestroy and hipDeviceSynchronize of HIP 5. Before
 * such a call a program synchronizes the streams whose kernels use the proxy. Before shmemx_stream_destroy it
 * need not. After SHMEM_TIMEOUT a sentence on stderr tells that the proxy stands still. */

typedef void *shmemx_graph_t;
/* Makes a stream. Returns 0, or nonzero after a sentence on stderr, as all calls below do.
 *
 * shmem_finalize, and shmem_team_destroy of a team that kernels or streams have used, first wait until all streams of
 * this PE's device are idle, because they free memory that enqueued work uses. At that point no stream may be captured,
 * and none may wait for something that comes later in the program. */
int shmemx_stream_create(shmemx_stream_t *stream);
/* Destroys a stream. Enqueued work is still done; on AMD the call waits for it. Must not be called during capture of
 * the stream. */
int shmemx_stream_destroy(shmemx_stream_t stream);
/* The host waits until all work in the stream is done. Returns nonzero also when a wait on this PE has given up, in
 * this stream or another one, and no reset came since (shmemx_device_abort). Then no result of this PE's streams may be
 * relied on. */
int shmemx_stream_synchronize(shmemx_stream_t stream);
/* Work that is enqueued in `later` after this call begins when the work that is in `earlier` now is done. A captured
 * `earlier` takes `later` along in its capture. HIP before 5.6 never ends the capture of a second stream: refused
 * there. */
int shmemx_stream_wait_stream(shmemx_stream_t later, shmemx_stream_t earlier);
/* Work that is enqueued between begin and end becomes a graph and does not run. shmemx_stream_synchronize refuses a
 * stream that is being captured. Each stream that the capture took along must have joined again when the capture ends;
 * otherwise shmemx_graph_end says so. The capture is lost then. On AMD it goes on and can be ended again. Not
 * collective. begin refuses NULL, the default stream; end writes *graph, and refuses a stream that is not captured;
 * launch returns nonzero also when a wait of this PE has given up (shmemx_device_abort).
 *
 * Branches of a graph may wait for each other's signals. HIP 7 puts branches into one stream where that seems as fast,
 * and such a graph then never ends. When the device is first used, the library sets DEBUG_HIP_GRAPH_MIN_OVERLAP to 0,
 * which forbids it, unless the variable is set already. HIP reads the variable at its first call: a program that makes
 * that call earlier must set it itself. At most 4 branches run at once there (DEBUG_HIP_FORCE_GRAPH_QUEUES). */
int shmemx_graph_begin(shmemx_stream_t stream);
int shmemx_graph_end(shmemx_stream_t stream, shmemx_graph_t *graph);
int shmemx_graph_launch(shmemx_graph_t graph, shmemx_stream_t stream);
int shmemx_graph_destroy(shmemx_graph_t graph);

/* ---- point-to-point on a stream ----
 * Each call runs after the work that is in the stream now and before later work, and returns at once. It may be
 * captured into a graph. The first use on a PE may not: make a handle or call once before.
 *
 * dest and sig_addr are symmetric: device memory or registered buffers, or memory of the host, which goes by the proxy.
 * A wait takes device memory only, on every device. source is device memory of this PE, symmetric or not, or pinned
 * host memory. `team` is a team of shmem_team_ calls. barrier and sync are collective over it and use a slot of their
 * own, so they may run beside collectives. The first of them on a team makes that slot, as the first call of a slot
 * does (shmemx_coll.h). SHMEMX_BARRIER and SHMEMX_SYNC of shmemx_coll.h belong to the sequence of a
 * slot.
 *
 * A put is complete at the target when a later quiet on the stream is done. put_signal orders its signal behind its
 * data.
 *
 * A call on a member's memory of shmemx_team_malloc belongs to that team: put by dest, get by source, the others by
 * sig_addr. It has the team's timeout (shmemx_team_set_timeout), ends with the team (shmemx_team_break), and is refused
 * then. When the team has been destroyed, a call on this PE's own memory of it is refused, too. Other calls are the
 * job's, and so are those that begin in a capture, as shmemx_team_break has it. */

int shmemx_putmem_on_stream(void *dest, const void *source, size_t bytes, int pe, shmemx_stream_t stream);
int shmemx_getmem_on_stream(void *dest, const void *source, size_t bytes, int pe, shmemx_stream_t stream);
int shmemx_putmem_signal_on_stream(void *dest, const void *source, size_t bytes, uint64_t *sig_addr, uint64_t signal,
                                   int sig_op, int pe, shmemx_stream_t stream);
int shmemx_signal_op_on_stream(uint64_t *sig_addr, uint64_t signal, int sig_op, int pe, shmemx_stream_t stream);
int shmemx_signal_wait_until_on_stream(uint64_t *sig_addr, int cmp, uint64_t cmp_value, shmemx_stream_t stream);
int shmemx_quiet_on_stream(shmemx_stream_t stream);
int shmemx_barrier_on_stream(shmem_team_t team, shmemx_stream_t stream);
int shmemx_sync_on_stream(shmem_team_t team, shmemx_stream_t stream);

/* ---- self-description ---- */

/* ISOMER_VERSION of the library that runs: 10000 * major + 100 * minor + patch. May be called at any time. */
int shmemx_version(void);
/* Bytes of a public struct ("shmemx_coll_t") in the library that runs; 0: it knows no such struct. A binding of another
 * language compares its own declaration. May be called at any time. */
size_t shmemx_struct_bytes(const char *name);
/* Slots of a team in the library that runs: their numbers are 0 .. shmemx_slots() - 1. May be called at any time. */
int shmemx_slots(void);
/* 1 if the bookkeeping of this PE's symmetric heap is consistent, else 0. */
int shmemx_heap_is_valid(void);
/* Describes this library and job: version, build flavour, launcher, nodes, PEs, segments, path to each PE and why,
 * variables, selection table. Writes at most `bytes` characters, the final null included, and returns the length of the
 * whole text, like snprintf. */
size_t shmemx_info_text(char *text, size_t bytes);
/* Lists features that would not work here, and remedies. Between shmem_init and shmem_finalize it also says which phase
 * of this PE's start took unusually long, and the likely cause: the PE that came late, or the launcher, memory, network.
 * Writes and returns as shmemx_info_text. May be called before shmem_init too. */
size_t shmemx_doctor_text(char *text, size_t bytes);

/* Describes a job of this user on this host, from any process: which PE waits in which call, for whom and for how long,
 * the cycle or the PE that is the cause, and each PE's process, memory and progress. The job takes no part, so its PEs
 * may be stopped or run in user code. For PEs on other hosts it runs `isomer-info --job` there, by ssh without a
 * password or by the command that SHMEM_AGENT names, and takes 15 s at most; a host that does not answer has a sentence
 * on stderr.
 *   job   the 8 digits of a job, the process number of a PE, or that of a launcher; NULL: a list of all jobs
 *   form  SHMEMX_TEXT; SHMEMX_JSON: one object; SHMEMX_RAS: the object of NCCL's RAS, in which a job is a communicator
 *         and stopped or dead PEs are missing ranks (only of one job); SHMEMX_PART: this host's lines, for such a call;
 *         SHMEMX_FLIGHT: the last 256 collectives of each PE, a line of JSON each, behind sentences: of each
 *         team with a call in progress, the first call that differs between its PEs, or who has not come to the last one
 *         (only of one job). A job with a '/' is then a folder of SHMEM_FLIGHT, whose files may be of PEs of several
 *         hosts;
 *         SHMEMX_FLIGHT_PART: the lines of this host alone
 * Writes and returns as shmemx_info_text; 0 after a sentence: there is no such job, or `form` is another number. May be
 * called before shmem_init too. */
#define SHMEMX_TEXT 0
#define SHMEMX_JSON 1
#define SHMEMX_RAS 2
#define SHMEMX_PART 3
#define SHMEMX_FLIGHT 4
#define SHMEMX_FLIGHT_PART 5
size_t shmemx_job_text(const char *job, int form, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#include "shmemx_coll.h" /* collectives on streams */

#endif
