/* SPDX-License-Identifier: MIT */
/* From code to instructions: LLVM's disassembler knows the encodings, its text is taken apart here. Any libLLVM from 17
 * to 21 may serve (19 was tried); its few functions are looked up, so that no headers are needed. */
#include "gfx9_own.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the disassembler ---- */

typedef void start_fn(void);
typedef void *create_fn(const char *triple, const char *cpu, void *info, int tags, void *get, void *lookup);
typedef size_t disassemble_fn(void *disassembler, uint8_t *code, uint64_t bytes, uint64_t pc, char *text, size_t room);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static disassemble_fn *disassemble;
static void *disassembler;

static void *open_llvm(void)
{
    static const char *const names[] = {"libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM-19.so",  "libLLVM.so.20.1",
                                        "libLLVM.so.21.1", "libLLVM-18.so.1", "libLLVM-17.so.1"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && library == NULL; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

/* *function is a pointer to a function: ISO C has no conversion for it. */
static void look_up(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof(found));
}

static bool open_disassembler(const char *isa, char *why)
{
    static const char *const starts[] = {"LLVMInitializeAMDGPUTargetInfo", "LLVMInitializeAMDGPUTargetMC",
                                         "LLVMInitializeAMDGPUDisassembler"};
    void *library = open_llvm();
    if (library == NULL) {
        snprintf(why, ERROR_BYTES, "no libLLVM 17 to 21 for decoding gfx9 code");
        return false;
    }
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        start_fn *start;
        look_up(library, starts[i], &start);
        if (start != NULL)
            start();
    }
    create_fn *create;
    look_up(library, "LLVMCreateDisasmCPU", &create);
    look_up(library, "LLVMDisasmInstruction", &disassemble);
    if (create != NULL && disassemble != NULL)
        disassembler = create("amdgcn-amd-amdhsa", isa, NULL, 0, NULL, NULL);
    if (disassembler == NULL)
        snprintf(why, ERROR_BYTES, "libLLVM has no disassembler of %s", isa);
    return disassembler != NULL;
}

/* ---- operands ---- */

static const struct {
    const char *name;
    enum operand_kind kind;
    int reg;
    uint64_t value;
} special[] = {
    {"vcc_lo", OPERAND_SGPR, VCC, 0},
    {"vcc_hi", OPERAND_SGPR, VCC + 1, 0},
    {"vccz", OPERAND_VCCZ, 0, 0},
    {"vcc", OPERAND_SGPR, VCC, 0},
    {"exec_lo", OPERAND_SGPR, EXEC, 0},
    {"exec_hi", OPERAND_SGPR, EXEC + 1, 0},
    {"execz", OPERAND_EXECZ, 0, 0},
    {"exec", OPERAND_SGPR, EXEC, 0},
    {"flat_scratch_lo", OPERAND_SGPR, 102, 0},
    {"flat_scratch_hi", OPERAND_SGPR, 103, 0},
    {"flat_scratch", OPERAND_SGPR, 102, 0},
    {"xnack_mask", OPERAND_SGPR, 104, 0},
    {"m0", OPERAND_SGPR, M0, 0},
    {"src_scc", OPERAND_SCC, 0, 0},
    {"scc", OPERAND_SCC, 0, 0},
    {"src_shared_base", OPERAND_VALUE, 0, (uint64_t)SHARED_HIGH << 32},
    {"src_private_base", OPERAND_VALUE, 0, (uint64_t)PRIVATE_HIGH << 32},
    {"off", OPERAND_NONE, 0, 0},
};

static bool parse_register(const char *text, struct operand *o)
{
    int base = text[0] == 's' ? 0 : text[0] == 'v' ? 0 : text[0] == 'a' ? ACCUMULATORS : -1;
    const char *number = text + 1 + (text[1] == '[');
    if (base < 0 || !isdigit((unsigned char)*number))
        return false;
    o->kind = text[0] == 's' ? OPERAND_SGPR : OPERAND_VGPR;
    o->reg = base + atoi(number);
    return true;
}

static bool parse_number(const char *text, struct operand *o)
{
    char *end;
    o->kind = OPERAND_VALUE;
    if (strchr(text, '.') != NULL) {
        o->number = strtod(text, &end);
        o->is_float = true;
        return *end == '\0';
    }
    o->value = (uint64_t)strtoll(text, &end, 0);
    o->is_literal = strstr(text, "0x") != NULL;
    return end != text && *end == '\0';
}

/* One operand, its signs taken off before; `text` is changed. */
static bool parse_operand(char *text, struct operand *o)
{
    size_t len = strlen(text);
    bool minus = text[0] == '-' && !isdigit((unsigned char)text[1]);
    if (minus) {
        o->negative = true;
        text++, len--;
    }
    if (text[0] == '|' && len > 1) {
        o->absolute = true;
        text[len - 1] = '\0';
        text++;
    } else if (strncmp(text, "sext(", 5) == 0) {
        o->is_signed = true;
        text[len - 1] = '\0';
        text += 5;
    }
    for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
        if (strcmp(text, special[i].name) == 0) {
            o->kind = special[i].kind;
            o->reg = special[i].reg;
            o->value = special[i].value;
            return true;
        }
    return parse_register(text, o) || parse_number(text, o);
}

/* ---- what stands behind the operands ---- */

static enum select parse_select(const char *text)
{
    static const char *const names[] = {"DWORD", "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1"};
    enum select found = SELECT_ALL;
    for (int i = 0; i < 7; i++)
        if (strcmp(text, names[i]) == 0)
            found = (enum select)i;
    return found;
}

static uint8_t parse_bits(const char *text)
{
    uint8_t bits = 0;
    int n = 0;
    for (; *text != '\0'; text++)
        if (*text == '0' || *text == '1')
            bits |= (uint8_t)((*text - '0') << n++);
    return bits;
}

/* Whether it was one. */
static bool parse_modifier(char *text, struct instruction *in)
{
    char *colon = strchr(text, ':'), *value = colon == NULL ? text : colon + 1;
    size_t len = (size_t)(colon == NULL ? value + strlen(text) - text : colon - text);
#define IS(name) (len == sizeof(name) - 1 && strncmp(text, name, len) == 0)
    if (colon == NULL && (IS("glc") || IS("sc0")))
        in->returns_old = true;
    else if (colon == NULL && IS("offen"))
        in->has_vector_index = true;
    else if (colon == NULL && (IS("slc") || IS("sc1") || IS("nt") || IS("gds") || IS("scc")))
        ;
    else if (IS("offset"))
        in->offset = strtoll(value, NULL, 0);
    else if (IS("offset0"))
        in->offset0 = strtoll(value, NULL, 0);
    else if (IS("offset1"))
        in->offset1 = strtoll(value, NULL, 0);
    else if (IS("op_sel"))
        in->select = parse_bits(value);
    else if (IS("op_sel_hi"))
        in->select_high = parse_bits(value);
    else if (IS("neg_lo"))
        in->negate = parse_bits(value);
    else if (IS("neg_hi"))
        in->negate_high = parse_bits(value);
    else if (IS("dst_sel"))
        in->dest_select = parse_select(value);
    else if (IS("dst_unused"))
        in->keeps_rest = strcmp(value, "UNUSED_PRESERVE") == 0;
    else
        return false;
#undef IS
    return true;
}

/* src0_sel, src1_sel: the destination comes before the sources, and of some additions the carry that they store. */
static bool parse_source_select(const char *text, struct instruction *in)
{
    bool is_one = strncmp(text, "src0_sel:", 9) == 0 || strncmp(text, "src1_sel:", 9) == 0;
    int source = is_one ? 1 + (strstr(in->rule->name, "_co_") != NULL) + text[3] - '0' : 0;
    if (is_one && source < in->n)
        in->o[source].select = parse_select(text + 9);
    return is_one;
}

/* ---- instructions ---- */

/* Without the suffix that tells the encoding. */
static void parse_name(const char *text, char *name, size_t room)
{
    static const char *const suffixes[] = {"_e32", "_e64", "_sdwa"};
    size_t len = strcspn(text, " \t");
    snprintf(name, room, "%.*s", (int)len, text);
    len = strlen(name);
    for (int i = 0; i < 3; i++) {
        size_t tail = strlen(suffixes[i]);
        if (len > tail && strcmp(name + len - tail, suffixes[i]) == 0)
            name[len - tail] = '\0';
    }
}

/* The next piece behind `*at`: up to a comma or a blank, but lists in brackets are whole. NULL: none left. */
static char *next_piece(char **at)
{
    char *start = *at + strspn(*at, " \t,"), *end = start;
    int depth = 0;
    for (; *end != '\0' && (depth > 0 || strchr(" \t,", *end) == NULL); end++)
        depth += *end == '[' ? 1 : *end == ']' ? -1 : 0;
    *at = *end == '\0' ? end : end + 1;
    *end = '\0';
    return end == start ? NULL : start;
}

static bool parse(char *text, struct instruction *in, char *why)
{
    char name[48], *at = text + strcspn(text, " \t"), *piece;
    parse_name(text, name, sizeof(name));
    in->rule = gfx9_alu_rule(name);
    if (in->rule == NULL)
        in->rule = gfx9_memory_rule(name);
    in->select_high = 7;
    if (in->rule == NULL) {
        snprintf(why, ERROR_BYTES, "instruction '%s' is not known", in->text);
        return false;
    }
    bool waits = strcmp(name, "s_waitcnt") == 0 || strncmp(name, "s_setreg", 8) == 0; /* what for does not matter */
    while (!waits && (piece = next_piece(&at)) != NULL) {
        if (parse_source_select(piece, in) || parse_modifier(piece, in))
            continue;
        if (in->n == MAX_OPERANDS || !parse_operand(piece, &in->o[in->n++])) {
            snprintf(why, ERROR_BYTES, "operand '%s' of '%s' is not known", piece, in->text);
            return false;
        }
    }
    return true;
}

/* Constants as the instruction sees them: a float by the width of its source, a literal of doubles as their high half.
 */
static void resolve_constants(struct instruction *in, bool is_f64)
{
    for (int i = 0; i < in->n; i++) {
        struct operand *o = &in->o[i];
        int bits = i > 0 && i < 4 ? in->rule->bits[i] : 32;
        if (o->kind != OPERAND_VALUE)
            continue;
        if (o->is_float && bits == 64) {
            memcpy(&o->value, &o->number, 8);
        } else if (o->is_float) {
            float f = (float)o->number;
            uint32_t word;
            memcpy(&word, &f, 4);
            o->value = word;
        } else if (o->is_literal && is_f64 && bits == 64) {
            o->value <<= 32;
        }
    }
}

bool gfx9_decode(const char *isa, uint64_t pc, struct instruction *in, char *why)
{
    uint8_t code[16];
    char text[160];
    memset(in, 0, sizeof(*in));
    memcpy(code, (const void *)(uintptr_t)pc, sizeof(code));
    pthread_mutex_lock(&lock);
    bool is_open = disassembler != NULL || open_disassembler(isa, why);
    size_t len = is_open ? disassemble(disassembler, code, sizeof(code), pc, text, sizeof(text)) : 0;
    pthread_mutex_unlock(&lock);
    if (!is_open)
        return false;
    if (len == 0) {
        snprintf(why, ERROR_BYTES, "no instruction of %s at 0x%llx", isa, (unsigned long long)pc);
        return false;
    }
    char *start = text + strspn(text, " \t");
    snprintf(in->text, sizeof(in->text), "%s", start);
    in->pc = pc;
    in->len = (int)len;
    memcpy(in->raw, code, sizeof(in->raw));
    if (!parse(start, in, why))
        return false;
    resolve_constants(in, strstr(in->rule->name, "f64") != NULL);
    return true;
}
