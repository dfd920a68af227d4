/* SPDX-License-Identifier: MIT */
/* A stack that can be left and resumed, by a few instructions on x86-64 and aarch64 and by ucontext elsewhere, and the
 * calls that tell the sanitizers about it. The switch keeps the registers that the ABI keeps across a call, but not the
 * control words of floating point: the fibers of one OS thread share them. Includes nothing of ours. Used by fiber.c
 * only. */
#ifndef ISO_FIBER_CONTEXT_H
#define ISO_FIBER_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(ISO_FIBER_UCONTEXT)
#define FIBER_OWN_SWITCH 1
#else
#define FIBER_OWN_SWITCH 0
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#ifdef FIBER_ASAN
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#else
#define FIBER_ASAN 0
#endif
#ifdef FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#else
#define FIBER_TSAN 0
#endif

/* ThreadSanitizer does not see the scheduler's own state: to it fibers are threads, but two of them never run at once.
 * FIBER_RELEASE and FIBER_ACQUIRE of an address tell it the order that synchronisation gives: an acquire comes after
 * every release so far. In other builds the OS thread's own order is all there is. */
#if FIBER_TSAN && defined(__clang__)
#define FIBER_UNSEEN __attribute__((no_sanitize("thread"), disable_sanitizer_instrumentation))
#elif FIBER_TSAN
#define FIBER_UNSEEN __attribute__((no_sanitize("thread")))
#else
#define FIBER_UNSEEN
#endif
#if FIBER_TSAN
#define FIBER_RELEASE(address) __tsan_release(address)
#define FIBER_ACQUIRE(address) __tsan_acquire(address)
#else
#define FIBER_RELEASE(address) ((void)(address))
#define FIBER_ACQUIRE(address) ((void)(address))
#endif

struct context {
#if FIBER_OWN_SWITCH
    void *sp; /* there lie: the address to go on at, the frame pointer */
#else
    ucontext_t saved;
#endif
    const void *bottom; /* the stack, for ASan */
    size_t bytes;
    void *fake_stack; /* ASan's, while it is left */
    void *tsan;       /* ThreadSanitizer's fiber */
};

/* ---- the switch itself ---- */

#if defined(__x86_64__) && FIBER_OWN_SWITCH
/* Begins a stack: no frame above this one, for debuggers and unwinders. */
__asm__(".text\n"
        ".type iso_fiber_begin, @function\n"
        "iso_fiber_begin:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined rip\n"
        "    endbr64\n"
        "    xorl %ebp, %ebp\n"
        "    pushq $0\n"
        "    jmpq *%rbx\n"
        "    .cfi_endproc\n"
        ".size iso_fiber_begin, .-iso_fiber_begin\n");

/* rbx of the first switch is the entry. A jump, not a return: returns are predicted by the calls of the same stack. */
FIBER_UNSEEN static __attribute__((noinline)) void context_jump(struct context *from, struct context *to)
{
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t" /* the red zone */
                     "pushq %%rbp\n\t"
                     "leaq 1f(%%rip), %%rax\n\t"
                     "pushq %%rbx\n\t"
                     "pushq %%rax\n\t"
                     "movq %%rsp, (%%rdi)\n\t"
                     "movq (%%rsi), %%rsp\n\t"
                     "popq %%rax\n\t"
                     "popq %%rbx\n\t"
                     "jmpq *%%rax\n"
                     "1:\n\t"
                     "endbr64\n\t"
                     "popq %%rbp\n\t"
                     "leaq 128(%%rsp), %%rsp"
                     : "+D"(from), "+S"(to)
                     :
                     : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
                       "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                       "xmm13", "xmm14", "xmm15", "memory", "cc");
}

FIBER_UNSEEN static void context_prepare(struct context *c, char *top, void (*entry)(void))
{
    extern __attribute__((visibility("hidden"))) char begin[] __asm__("iso_fiber_begin");
    void **sp = (void **)(void *)top - 2; /* top is aligned to 16; begin pushes 8 as a call would */
    sp[0] = (void *)begin;
    sp[1] = (void *)(uintptr_t)entry;
    c->sp = sp;
}
#elif defined(__aarch64__) && FIBER_OWN_SWITCH
__asm__(".text\n"
        ".type iso_fiber_begin, %function\n"
        "iso_fiber_begin:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined x30\n"
        "    hint #38\n" /* bti jc, where that exists */
        "    mov x29, xzr\n"
        "    mov x30, xzr\n"
        "    br x16\n"
        "    .cfi_endproc\n"
        ".size iso_fiber_begin, .-iso_fiber_begin\n");

/* x16 of the first switch is the entry: it is loaded from where else the frame pointer lies. */
FIBER_UNSEEN static __attribute__((noinline)) void context_jump(struct context *from, struct context *to)
{
    register struct context *x0 __asm__("x0") = from;
    register struct context *x1 __asm__("x1") = to;
    __asm__ volatile("adr x9, 1f\n\t"
                     "stp x9, x29, [sp, #-16]!\n\t"
                     "mov x10, sp\n\t"
                     "str x10, [x0]\n\t"
                     "ldr x10, [x1]\n\t"
                     "mov sp, x10\n\t"
                     "ldp x17, x16, [sp], #16\n\t"
                     "br x17\n"
                     "1:\n\t"
                     "hint #36\n\t" /* bti j, where that exists */
                     "mov x29, x16"
                     : "+r"(x0), "+r"(x1)
                     :
                     : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
                       "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1",
                       "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",
                       "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
                       "v31", "memory", "cc");
}

FIBER_UNSEEN static void context_prepare(struct context *c, char *top, void (*entry)(void))
{
    extern __attribute__((visibility("hidden"))) char begin[] __asm__("iso_fiber_begin");
    void **sp = (void **)(void *)top - 2;
    sp[0] = (void *)begin;
    sp[1] = (void *)(uintptr_t)entry;
    c->sp = sp;
}
#else
FIBER_UNSEEN static void context_jump(struct context *from, struct context *to)
{
    (void)swapcontext(&from->saved, &to->saved);
}

FIBER_UNSEEN static void context_prepare(struct context *c, char *top, void (*entry)(void))
{
    (void)getcontext(&c->saved);
    c->saved.uc_stack.ss_sp = (void *)(uintptr_t)c->bottom;
    c->saved.uc_stack.ss_size = (size_t)(top - (const char *)c->bottom);
    c->saved.uc_link = NULL;
    makecontext(&c->saved, entry, 0);
}
#endif

/* ---- with what the sanitizers want to know ---- */

/* [stack, stack + bytes) begins at `entry` when it is first switched to, `colour` bytes below its end. */
FIBER_UNSEEN static inline void context_make(struct context *c, char *stack, size_t bytes, size_t colour,
                                             void (*entry)(void))
{
    c->bottom = stack;
    c->bytes = bytes;
    c->fake_stack = NULL;
    c->tsan = NULL;
#if FIBER_TSAN
    c->tsan = __tsan_create_fiber(0);
#endif
    context_prepare(c, stack + bytes - colour, entry);
}

/* The OS thread's own stack. */
FIBER_UNSEEN static inline void context_adopt(struct context *c)
{
    c->bottom = NULL;
    c->bytes = 0;
    c->fake_stack = NULL;
    c->tsan = NULL;
#if FIBER_ASAN
    pthread_attr_t attributes;
    void *bottom = NULL;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        (void)pthread_attr_getstack(&attributes, &bottom, &c->bytes);
        (void)pthread_attr_destroy(&attributes);
    }
    c->bottom = bottom;
#endif
#if FIBER_TSAN
    c->tsan = __tsan_get_current_fiber();
#endif
}

FIBER_UNSEEN static inline void context_unmake(struct context *c)
{
#if FIBER_TSAN
    __tsan_destroy_fiber(c->tsan);
#endif
    c->tsan = NULL;
}

/* Leaves `from`, which runs, and goes on with `to`; returns when another context switches to `from`. */
FIBER_UNSEEN static inline void context_switch(struct context *from, struct context *to)
{
#if FIBER_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->bytes);
#endif
#if FIBER_TSAN
    __tsan_switch_to_fiber(to->tsan, __tsan_switch_to_fiber_no_sync);
#endif
    context_jump(from, to);
#if FIBER_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

/* The first thing on a new stack. */
FIBER_UNSEEN static inline void context_began(void)
{
#if FIBER_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
}

/* Leaves a stack for ever. */
FIBER_UNSEEN static inline void context_leave(struct context *from, struct context *to)
{
#if FIBER_ASAN
    __sanitizer_start_switch_fiber(NULL, to->bottom, to->bytes);
#endif
#if FIBER_TSAN
    __tsan_switch_to_fiber(to->tsan, __tsan_switch_to_fiber_no_sync);
#endif
    context_jump(from, to);
}

#endif
