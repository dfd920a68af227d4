/* SPDX-License-Identifier: MIT */
/* How a PE waits, what it publishes of a wait that lasts, and the control area in which other PEs read that. */
#ifndef ISO_WAIT_H
#define ISO_WAIT_H

#include "../../bootstrap/clock.h"
#include "../state/pe_state.h"

#define ISO_WAIT_RECORDS 8
#define ISO_WAIT_OF_KERNEL ISO_WAIT_RECORDS /* one more record: the last report of a kernel's wait */

enum wait_kind { WAIT_WORD, WAIT_LOCK, WAIT_STREAM, WAIT_KERNEL };

/* One wait, published for all PEs to read when it lasts. In the control area; writer: the waiting thread, relaxed
 * stores; readers: reports of any PE, relaxed loads (a torn report is acceptable, it is for people). */
struct wait_record {
    _Alignas(ISO_LINE) uint64_t since_ns; /* 0: free. CLOCK_MONOTONIC, comparable on one node */
    uint64_t addr;
    uint64_t expected;
    uint64_t seen;
    uint64_t cmp;       /* SHMEM_CMP_ of seen with expected, 0: none that the user gave */
    uint64_t is_signed; /* expected and seen are int64_t */
    int64_t peer;       /* world PE waited for, -1: any */
    uint64_t kind;      /* enum wait_kind; LOCK: addr is the lock; STREAM: the stream, 0: all */
    uint64_t first, stride, size; /* collectives: their team, stride 0: irregular; size 0: no collective */
    uint64_t call[5];             /* the name, zero padded */
};

/* Of the node's lowest PE: which report is under way or was the last. Claimed by compare-and-swap, since any PE of the
 * node may be the first whose deadline passes. CLOCK_MONOTONIC; done_ns: when the last complete one began. */
struct report_claim {
    _Alignas(ISO_LINE) uint64_t begun_ns;
    uint64_t done_ns;
    uint64_t noted; /* 1: the note was printed or is being printed; compare-and-swap, relaxed: it orders nothing */
};

/* On the stack of the waiting thread: struct wait w = ISO_WAIT(call, peer, addr, expected);
 * while (!(condition) && iso_wait_pause(&w, seen) == 0) continue; iso_wait_end(&w); */
struct wait {
    const char *call;
    const void *addr;
    uint64_t expected;
    int cmp;        /* as in the record */
    bool is_signed; /* likewise */
    int peer;
    enum wait_kind kind;
    int record;              /* index published, -1: none */
    const struct slot *slot; /* of the collective that waits; NULL: none */
    unsigned polls;
    unsigned yields;
    uint64_t yielding_ns; /* its first yield; 0: not yet */
    uint64_t since_ns;   /* 0: has not looked at the clock yet */
    uint64_t shown_ns;   /* its record was published first; 0: not yet */
    uint64_t checked_ns; /* last look at the peers' sockets */
    uint64_t looked_ns;  /* last look for the holder of a lock */
    uint64_t busy_ns;    /* when a look found that something has come from another node, at first: since_ns */
    bool worked;         /* it has, since then */
    bool sleeping;
    bool reported;
    bool outlives; /* of a network: in a job that this PE outlives, it ends when `peer` is gone */
    int late;      /* the PE of its node that alone did not wait, most often at its looks; where calls are counted */
    unsigned lates; /* looks that speak for it; 0: none */
    int missing; /* 1 + the PE that had left, and that it needs, when it last looked; 0: none */
};
#define ISO_WAIT(call_, peer_, addr_, expected_)                                                 \
    {                                                                                            \
        .call = (call_), .addr = (addr_), .expected = (expected_), .peer = (peer_), .record = -1 \
    }

/* ---- the control area: at the front of every PE's heap segment, before its first object ---- */

#define ISO_FLIGHTS 256
#define ISO_FLIGHT_NAME_BITS 7
#define ISO_FLIGHT_NAMES (1 << ISO_FLIGHT_NAME_BITS)
#define ISO_FLIGHT_NAME_BYTES 40
enum { FLIGHT_DONE = 1, FLIGHT_WAITED = 2 };
struct flight_entry { /* flight.h */
    uint64_t number;  /* of the call in its team's slot; 0: free, or being written */
    uint64_t bytes;
    uint64_t begin_ns, end_ns;  /* CLOCK_MONOTONIC; end: where it is done */
    uint32_t name, first;       /* in `names`; the team's first PE of the world */
    uint32_t root, slot_state;  /* state: slot's index << 2 | FLIGHT_DONE: returned | FLIGHT_WAITED: exact times */
};
struct flight_name {
    const char *call; /* as this PE has it; NULL: free; relaxed */
    uint64_t text[ISO_FLIGHT_NAME_BYTES / 8];
};

struct control {
    struct wait_record waits[ISO_WAIT_RECORDS + 1];
    struct report_claim claim;
    uint64_t steps;      /* of the world's collectives, in the last one that lasted; relaxed, as all words here */
    uint64_t heap_bytes; /* up to the end of the highest object that ever was in the symmetric heap */
    struct flight_entry flights[ISO_FLIGHTS];
    struct flight_name names[ISO_FLIGHT_NAMES]; /* the last one is that of calls for which there is no room */
    uint64_t exited; /* not 0: the program ended with status 0 before shmem_finalize; relaxed, it is for people */
    char slots[];    /* slot.c lays it out, page aligned */
};

ISO_INLINE void iso_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}
/* From now on waits poll so often before they yield. */
void iso_wait_spin(struct state *self, unsigned polls);
int iso_wait_slow(struct wait *wait, uint64_t seen);
void iso_wait_finish(struct wait *wait);

/* One poll has failed: `seen` is what it saw (for the report). Spins, then yields, then sleeps; makes progress;
 * notices dead peers; reports at the deadline. 0: poll again. -EIO, in a call that returns errors: the job is broken,
 * and the wait is over without what it waited for (iso_job_rc says so at the end of the call). */
ISO_INLINE int iso_wait_pause(struct wait *wait, uint64_t seen)
{
    if (ISO_UNLIKELY(++wait->polls >= __atomic_load_n(&ISO->spin_alone, __ATOMIC_RELAXED)))
        return iso_wait_slow(wait, seen);
    iso_cpu_relax();
    return 0;
}
ISO_INLINE void iso_wait_end(struct wait *wait)
{
    if (ISO_UNLIKELY(wait->since_ns != 0))
        iso_wait_finish(wait);
}
/* Reads the messages of peers and notices the dead: iso_job_break when a peer died. The sentence names the call of
 * `wait`, which may be NULL. */
void iso_wait_poll_peers(const struct wait *wait);
/* Publishes a wait that is not polled: the library is inside a call of the device's. Ended by iso_wait_end. */
void iso_wait_show(struct wait *wait);
/* The last wait of a kernel of this PE that passed SHMEM_TIMEOUT; call NULL: it has ended. */
void iso_wait_show_kernel(const char *call, int pe, uint64_t addr, uint64_t waited_ns);

/* ---- report.c ---- */

/* After which a wait of this slot's calls is reported; NULL: of no team's. 0: never. */
uint64_t iso_report_timeout_ns(const struct slot *slot);
/* The limit that a reported wait has passed, as sentences name it. */
const char *iso_report_limit_name(uint64_t waited_ns);
/* The deadline of `wait` has passed: prints one report for the node, unless a complete one covers this wait (then
 * wait->reported is set too) or another PE is printing one (then it is to be called again). */
void iso_report_wait(struct wait *wait, uint64_t now);
/* The wait has lasted long, and not as long as its deadline: the first PE of the node prints the same lines, once. */
void iso_report_note(const struct wait *wait, uint64_t now);
/* The one PE of the node that does not wait, for what `wait` is for; -1: there is none, or there are several. */
int iso_report_only_absent(const struct wait *wait);
/* This PE of the node has ended its program with status 0 and without shmem_finalize. */
bool iso_report_has_exited(int pe);

#endif
