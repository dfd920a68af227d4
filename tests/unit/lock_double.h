/* SPDX-License-Identifier: MIT */
/* A network that fails while a thread waits for its lock. The linker's --wrap leads the library's calls of
 * pthread_mutex_lock here. Included by ofi_queue_test.c, verbs_queue_test.c. */
#ifndef LOCK_DOUBLE_H
#define LOCK_DOUBLE_H

#include "../../shmem/transport/network/network.h"

/* The guard of the network that fails at the next lock; NULL: none. One thread of the test sets it and locks. */
static struct network *fails_at_lock;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    int rc = __real_pthread_mutex_lock(lock);
    if (fails_at_lock != NULL && lock == &fails_at_lock->lock)
        fails_at_lock->failed = true;
    return rc;
}

#endif
