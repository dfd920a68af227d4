/* SPDX-License-Identifier: MIT */
/* Shared by the files of the interpreter: waves, decoded instructions and what executes them. */
#ifndef GFX9_OWN_H
#define GFX9_OWN_H

#include "gfx9.h"

#include <stddef.h>

enum { LANES = 64, SGPRS = 128, VCC = 106, M0 = 124, EXEC = 126, ACCUMULATORS = 256, MAX_OPERANDS = 6 };

/* The high words of flat addresses that are not global memory; no host address looks like them. */
#define SHARED_HIGH 0x20000u
#define PRIVATE_HIGH 0x10000u
#define SCRATCH_RESOURCE 0x5c2a7c40u /* first word of the buffer resource of scratch memory (gfx90a) */

enum operand_kind { OPERAND_NONE, OPERAND_SGPR, OPERAND_VGPR, OPERAND_VALUE, OPERAND_SCC, OPERAND_VCCZ, OPERAND_EXECZ };
enum select { SELECT_ALL, SELECT_BYTE, SELECT_BYTE_1, SELECT_BYTE_2, SELECT_BYTE_3, SELECT_WORD, SELECT_WORD_1 };

struct operand {
    enum operand_kind kind;
    enum select select; /* part of the register (SDWA) */
    bool negative, absolute, is_signed;
    bool is_literal; /* 32 bits behind the instruction */
    bool is_float;
    int reg;
    uint64_t value;
    double number; /* of a float constant: its bits depend on the instruction */
};

struct wave;
struct instruction;
typedef void execute_fn(struct wave *wave, const struct instruction *in);

/* What a mnemonic means. Bits: width of the destination and of each source, 0 for none. */
struct rule {
    const char *name;
    execute_fn *execute;
    uint8_t bits[4];
};

struct instruction {
    uint64_t pc;
    uint64_t raw[2]; /* the code that was decoded: code objects come and go at the same address */
    const struct rule *rule;
    struct operand o[MAX_OPERANDS];
    int n, len;
    int64_t offset, offset0, offset1;
    uint8_t select, select_high, negate, negate_high; /* bit per source (packed instructions) */
    enum select dest_select;
    bool keeps_rest;       /* of the destination (SDWA UNUSED_PRESERVE) */
    bool returns_old;      /* atomics */
    bool has_vector_index; /* buffers: offen */
    char text[100];
};

enum wave_state { WAVE_RUNS, WAVE_SLEEPS, WAVE_AT_BARRIER, WAVE_ENDED };

struct held_stores;
struct group {
    uint8_t *shared;
    struct held_stores *held; /* NULL: stores are done at once */
    struct wave *waves;
    uint32_t n_waves, n_ended, n_at_barrier;
};

struct wave {
    uint64_t pc;
    uint32_t s[SGPRS];
    bool scc;
    enum wave_state state;
    uint32_t *v;      /* [register][lane] */
    uint8_t *scratch; /* [lane][bytes] */
    uint32_t scratch_bytes, shared_bytes;
    struct group *group;
    uint64_t n_memory; /* vector memory instructions so far */
    uint32_t n_held;   /* words that it has stored, and not waited for */
    char *error; /* of the run; not empty: it failed */
};
enum { ERROR_BYTES = 256 };

static inline uint64_t exec_of(const struct wave *w) { return (uint64_t)w->s[EXEC + 1] << 32 | w->s[EXEC]; }
static inline uint64_t vcc_of(const struct wave *w) { return (uint64_t)w->s[VCC + 1] << 32 | w->s[VCC]; }
static inline uint32_t *lanes_of(const struct wave *w, int reg) { return w->v + (size_t)reg * LANES; }

/* gfx9_decode.c: `in` from the code at pc, or false and a sentence in `why`. */
bool gfx9_decode(const char *isa, uint64_t pc, struct instruction *in, char *why);

/* gfx9_alu.c, gfx9_memory.c: NULL: no such instruction here. */
const struct rule *gfx9_alu_rule(const char *name);
const struct rule *gfx9_memory_rule(const char *name);

/* gfx9_held.c: stores that are late; for groups with held != NULL. */
struct held_stores *gfx9_held_new(void);
void gfx9_hold(struct wave *w, const void *to, const void *from, uint32_t bytes);
void gfx9_held_look(const struct wave *w, const void *from, void *to, uint32_t bytes); /* what a load of w sees */
void gfx9_held_word(const struct wave *w, const void *word);  /* before an atomic of w */
void gfx9_held_wait(const struct wave *w, uint64_t left);     /* until so many of its instructions are under way */
void gfx9_held_all(struct held_stores *held);                 /* all of them arrive */

/* gfx9_alu.c: scalar operands. */
uint64_t gfx9_scalar(const struct wave *w, const struct operand *o, int bits);
void gfx9_fail(struct wave *w, const struct instruction *in, const char *why);

#endif
