/* SPDX-License-Identifier: MIT */
/* Where the state of a PE lies: once in the process, or once in each thread that is a PE. */
#include "pe_state.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"

static struct env unread; /* the variables before the first start: all zero */

#define STATE_INITIAL                          \
    {.listener = -1,                           \
     .tables_lock = PTHREAD_MUTEX_INITIALIZER, \
     .maps_lock = PTHREAD_MUTEX_INITIALIZER,   \
     .slots_lock = PTHREAD_MUTEX_INITIALIZER,  \
     .node_fd = -1,                            \
     .env = &unread,                           \
     .host = ""}

#ifdef ISO_PES_AS_THREADS
/* A thread that was never told otherwise is a PE before its init. */
static _Thread_local struct state own_state = STATE_INITIAL;
static _Thread_local struct state *adopted_state;
struct state *iso_state_of_thread(void) { return adopted_state != NULL ? adopted_state : &own_state; }
#elif defined ISO_STATE_BY_CALL
static struct state own_state = STATE_INITIAL;
struct state *iso_state_of_thread(void) { return &own_state; }
#else
struct state iso_state = STATE_INITIAL;
#endif

void iso_thread_adopt(struct state *state)
{
#ifdef ISO_PES_AS_THREADS
    enum log_level level = state->debug ? LOG_DEBUG : LOG_WARN;
    adopted_state = state;
    iso_log_set_pe(state->my_pe);
    iso_log_parse_level(state->env->log, &level);
    iso_log_set_level(level);
#else
    (void)state;
#endif
}
