/* SPDX-License-Identifier: MIT */
/* A kernel or copy of the CPU device that accesses memory where there is none: a sentence says which thread did, and then
 * the program ends as it would without (a handler of its own, or SIGSEGV). Includes nothing of ours. Used by gpu_cpu.c and
 * cpu_stream.c. */
#ifndef ISO_CPU_FAULT_H
#define ISO_CPU_FAULT_H

enum { FAULT_STACK_BYTES = 1 << 16 };

/* By each device of the process. */
void iso_cpu_faults_watch(void);
void iso_cpu_faults_leave(void);
/* By a thread that runs kernels: handlers run on `stack`, [FAULT_STACK_BYTES], which lives as long as the thread,
 * unless the thread has such a stack. That of a kernel's thread may be full. */
void iso_cpu_faults_stack(char *stack);
/* What the calling thread does in a stream that is no kernel, "a copy"; NULL: nothing any more. */
void iso_cpu_faults_in(const char *what);

#endif
