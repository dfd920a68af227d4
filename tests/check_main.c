/* SPDX-License-Identifier: MIT */
/* What programs that are built with CHECK_TWICE link: main() for PEs that are processes, and once more, with
 * ISO_PES_AS_THREADS, for threads of one process. */
#define check_enter check_enter_here
#include "check.h"
#undef check_enter

extern const bool check_pes_are_threads;
void check_enter(void);
int check_program(void);

const bool check_pes_are_threads = CHECK_PES_ARE_THREADS;
void check_enter(void) { check_enter_here(); }
int main(void) { return check_run(check_program); }
