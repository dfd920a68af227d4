/* SPDX-License-Identifier: MIT */
/* The tables of environment variables. A new variable is one line here: X(field, NAME, kind, default, allowed, help).
 * The value comes from SHMEM_NAME, else (the specification's four variables only) from SMA_NAME. An empty value counts
 * as unset. Kinds: size (bytes, a number with a suffix k, m, g or t; OpenSHMEM 1.6 section 8), flag ("1" "yes" "on"
 * "true" or "0" "no" "off" "false"; for SHMEM_INFO, SHMEM_VERSION and SHMEM_DEBUG the specification says "any value",
 * so only "0" means off), number (int64), seconds (double >= 0), text (const char *, never NULL).
 * The default is spelled as the user would spell it. Allowed narrows the kind: "" all; "vmm|ipc" these words; "1..1024"
 * or "-1.." such a number; "0..9,..." such numbers with commas between. A rule that depends on more than the value is
 * checked where the value is used, see shmem/start/variables.c.
 * ISO_ENV_TEST_TABLE has the variables that only tests of the library set. isomer-info hides them, and
 * "isomer-info --variables all" prints them. Variables named SHMEM_TEST_* are read by single test programs: no row.
 */
#ifndef ISO_ENV_H
#define ISO_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ISO_ENV_USER_TABLE(X)                                                                                         \
    X(version, VERSION, flag, "0", "", "print the library version at start")                                          \
    X(info, INFO, flag, "0", "", "print the version and all environment variables to stdout at start")                \
    X(debug, DEBUG, flag, "0", "", "check objects, freed buffers and that collectives match across PEs")              \
    X(symmetric_size, SYMMETRIC_SIZE, size, "0", "", "cap of the symmetric heap of one PE; 0: the machine's memory")  \
    X(local_size, LOCAL_SIZE, size, "0", "",                                                                          \
      "cap of shmemx_local_malloc of one PE, and as much of shmemx_team_malloc; 0: a quarter of the heap")            \
    X(log, LOG, text, "", "", "error, warn, info or debug; empty: warn, with SHMEM_DEBUG debug")                      \
    X(node, NODE, text, "", "", "PEs with equal values share pointers; empty: by host name")                          \
    X(network, NETWORK, text, "", "",                                                                                 \
      "interface or address by which nodes connect to each other; empty: all of this host")                           \
    X(node_timeout, NODE_TIMEOUT, seconds, "10", "", "a node that has not answered for this time counts as dead")     \
    X(transport, TRANSPORT, text, "", "",                                                                             \
      "network to other nodes: verbs, ofi or ofi:PROVIDER (libfabric), e.g. ofi:tcp;ofi_rxm; empty: chosen")          \
    X(nic, NIC, text, "", "",                                                                                         \
      "RDMA port to other nodes: device[:port[:gid]], comma-separated for several PEs; empty: a near one")           \
    X(nic_timeout, NIC_TIMEOUT, seconds, "0", "",                                                                     \
      "RDMA requests are repeated after this time, a few times (software: for 40 times as long); 0: 0.25")            \
    X(timeout, TIMEOUT, seconds, "600", "", "report a wait that lasts longer; 0: never")                              \
    X(timeout_note, TIMEOUT_NOTE, seconds, "30", "",                                                                  \
      "describe once, well before that report, who waits for whom after this time; 0: never")                         \
    X(timeout_abort, TIMEOUT_ABORT, flag, "0", "", "end the job after such a report")                                 \
    X(boot, BOOT, text, "", "pmix|uid|single",                                                                        \
      "force a bootstrap: pmix, uid or single; empty: the first that applies")                                        \
    X(uid, UID, text, "", "", "unique id (address:port:secret) of a job started by a script")                         \
    X(rank, RANK, number, "-1", "", "PE number, with SHMEM_UID")                                                      \
    X(size, SIZE, number, "-1", "", "number of PEs, with SHMEM_UID")                                                  \
    X(uid_address, UID_ADDRESS, text, "", "", "address or interface on which a new unique id listens")                \
    X(boot_timeout, BOOT_TIMEOUT, seconds, "60", "",                                                                  \
      "give up the start of the job after this time (PMIx: where it is set, else warn)")                              \
    X(profile, PROFILE, text, "", "",                                                                                 \
      "count calls, bytes and waits: at the end PE 0 prints a page and writes this JSON file; 1: isomer-profile.json") \
    X(metrics, METRICS, text, "", "",                                                                                 \
      "file for Prometheus with the same counts of this PE, rewritten now and then; FILE becomes FILE.PE.prom")       \
    X(metrics_seconds, METRICS_SECONDS, seconds, "10", "", "between two writes of that file; at least 0.1")           \
    X(agent, AGENT, text, "", "",                                                                                     \
      "command by which isomer-info --job asks other hosts, before a host and a command line; empty: ssh; none")      \
    X(trace, TRACE, text, "", "",                                                                                     \
      "folder for a time line of this PE's calls, waits and streams, which isomer-info --trace FOLDER draws")         \
    X(trace_events, TRACE_EVENTS, size, "64k", "",                                                                    \
      "of its events, the newest that are kept for each thread, 48 bytes each: 1k..16m, a power of two is made of it")  \
    X(ranges, RANGES, text, "", "",                                                                                   \
      "ranges with the names of calls, for profilers: empty: where a tool listens by NVTX or rocTX; 0: never; "        \
      "1 or a file: a library of rocTX is loaded")                                                                    \
    X(flight, FLIGHT, text, "", "",                                                                                   \
      "folder for the last collectives of each PE, written at an error and at a report of SHMEM_TIMEOUT")             \
    X(data_segment, DATA_SEGMENT, flag, "1", "", "make the program's global variables symmetric")                     \
    X(huge_pages, HUGE_PAGES, flag, "1", "", "ask for transparent huge pages in the heap")                            \
    X(spin, SPIN, number, "-1", "-1..2147483647",                                                                     \
      "polls before a wait yields the core, fewer where others wait on it; -1: by the number of cores")               \
    X(coll, COLL, text, "", "", "forced algorithms: host.KIND=NAME or stream.KIND=NAME[:BLOCKS[xTHREADS]], ...")       \
    X(coll_explain, COLL_EXPLAIN, flag, "0", "", "print which collective algorithm runs and why, once per choice")    \
    X(device, DEVICE, text, "", "", "number of this PE's device; empty: local rank modulo number of devices")         \
    X(device_heap_size, DEVICE_HEAP_SIZE, size, "0", "", "cap of the device heap of one PE; 0: chosen by the device") \
    X(device_sharing, DEVICE_SHARING, text, "", "vmm|ipc",                                                            \
      "force how device memory is shared: vmm or ipc; empty: vmm if possible")                                        \
    X(device_rdma, DEVICE_RDMA, text, "", "dmabuf|peer|staged",                                                       \
      "force how RDMA devices reach device memory: dmabuf, peer or staged; empty: the first of them that works")      \
    X(device_blocks, DEVICE_BLOCKS, number, "64", "1..1024",                                                          \
      "blocks of a kernel that may use a handle's collectives at once; those on streams take up to twice as many")    \
    X(coll_table, COLL_TABLE, text, "", "",                                                                           \
      "file with the tuned table of collectives on streams; empty: the one isomer-info --tune wrote")                 \
    X(ll128, LL128, number, "-1", "-1..1",                                                                            \
      "LL128 in collectives on streams: 1: where stores of 128 bytes are found to arrive whole, 0: never, -1: as 1, " \
      "but not on AMD")                                                                                               \
    X(seed, SEED, number, "0", "0..", "CPU device: random order of threads, and puts are delayed; 0: round robin")    \
    X(wave, WAVE, number, "32", "32|64", "CPU device: threads of a wave, 32 or 64")

#define ISO_ENV_TEST_TABLE(X)                                                                                         \
    X(device_epoch, DEVICE_EPOCH, number, "0", "0..", "first epoch of a new handle, to reach the wrap-around")        \
    X(force_proxy, FORCE_PROXY, flag, "0", "", "kernels reach all other PEs through the proxy")                       \
    X(virtual_nodes, VIRTUAL_NODES, text, "", "0..999999999,...",                                                     \
      "the node of each PE, e.g. 0,0,1 (repeated); kernels reach other nodes through the proxy only")

#define ISO_ENV_TABLE(X) ISO_ENV_USER_TABLE(X) ISO_ENV_TEST_TABLE(X)

#define ISO_ENV_FIELD_size size_t
#define ISO_ENV_FIELD_flag bool
#define ISO_ENV_FIELD_number int64_t
#define ISO_ENV_FIELD_seconds double
#define ISO_ENV_FIELD_text const char *

struct env {
#define X(field, name, kind, def, allowed, help) ISO_ENV_FIELD_##kind field;
    ISO_ENV_TABLE(X)
#undef X
};

struct env_row {
    const char *name;     /* with prefix: "SHMEM_DEBUG" */
    const char *kind;     /* "size", "flag", ... */
    const char *fallback; /* the default, as the user would spell it */
    const char *help;
    bool for_tests;       /* only tests of the library set it */
};
extern const struct env_row iso_env_rows[]; /* ends with name == NULL */

/* 0, or -EINVAL with one sentence in `error` that names variable, value and what is allowed. */
int iso_env_read(struct env *env, char *error, size_t error_bytes);
/* The next SHMEM_ variable of the environment that is in no row, from index *at of environ: its name and that of the
 * row which is spelled most like it. False: there is none. */
struct env_stranger {
    char name[64];
    const char *nearest;
    bool is_near; /* a slip of the keyboard may have made one of the other, or another library calls it so */
};
bool iso_env_next_stranger(size_t *at, struct env_stranger *stranger);
/* The text the row's variable has now (its old SMA_ name included), or the default. */
const char *iso_env_text(const struct env_row *row);
/* Exposed for tests and fuzzing: parses "1.5g" and the like, rounding up. 0 or -EINVAL. */
int iso_env_parse_size(const char *text, size_t *bytes);

#endif
