/* SPDX-License-Identifier: MIT */
/* SHMEM_TRACE: the counted calls and waits of each thread of this PE, as events in a file (bootstrap/trace_file.h). The
 * file is a ring in mapped memory: its size is fixed, the newest events stay, and they outlive the process. What is
 * counted is traced: profile.h calls these functions, and no call has a hook of its own. Used by profile.c; its begin
 * and end, which are collective, stand in trace_clock.c and are called by init.c. */
#ifndef ISO_TRACE_H
#define ISO_TRACE_H

#include "../../bootstrap/trace_file.h"
#include "profile.h"

bool iso_trace_is_asked(const struct env *env); /* SHMEM_TRACE; alike on all PEs */
/* Makes the folder. 0, or -errno after a sentence. */
int iso_trace_start(struct profile *p);
/* Collective, as the last step of the start: from here on calls are traced; and at the end, while barriers still work.
 * Both compare the clocks of the nodes. No effect where nothing is traced. */
void iso_trace_begin(const char *call);
void iso_trace_finish(const char *call);
/* The file of a thread; NULL: calls are not traced yet, or it cannot be made, which is said once. */
struct trace_thread *iso_trace_open(struct profile *p);
void iso_trace_close(struct trace_thread *t); /* NULL-tolerant */
/* What is known only at the end goes into the file. */
void iso_trace_complete(const struct profile *p, const struct profile_block *b);
/* An event of the calling thread; the number of its name is filled in here. */
void iso_trace_add(struct trace_thread *t, const char *name, const struct trace_event *e);
void iso_trace_add_run(struct trace_thread *t, const struct profile_run *run); /* likewise */
unsigned iso_trace_number(const struct trace_thread *t);                       /* of its file */
/* first: the call in `streams`; NULL: none. */
void iso_trace_note_streams(struct trace_thread *t, const struct trace_streams *streams,
                            const struct profile_run *first);

#endif
