/* SPDX-License-Identifier: MIT */
/* How the library starts a thread of its own. Signals of the program, and their handlers, are for its own threads; so
 * all are blocked but those by which the thread itself fails (SIGSEGV and so on): their handlers say where. Debuggers
 * and `top -H` show each thread by its name, isomer-NAME. */
#ifndef ISO_THREAD_H
#define ISO_THREAD_H

#include <pthread.h>

/* 0 or -errno. The name, at most 15 characters, is there when the call returns, whether the thread has run or not. */
int iso_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

#endif
