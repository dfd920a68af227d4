/* SPDX-License-Identifier: MIT */
/* Code objects: shared ELF objects, copied into one allocation of the device, relocated, and looked up by name. */
#include "hsa_own.h"

#include <elf.h>
#include <hsa/hsa_ven_amd_loader.h>
#include <stdlib.h>
#include <string.h>

enum { R_ABS64 = 3, R_RELATIVE64 = 13 };       /* of the AMDGPU relocations */
enum { MACH_MASK = 0xff, MACH_GFX90A = 0x3f }; /* e_flags */
enum { XNACK_MASK = 0x300, XNACK_ON = 0x300, ECC_MASK = 0xc00, ECC_OFF = 0x800 };
enum { DESCRIPTOR_GROUP = 0, DESCRIPTOR_PRIVATE = 4, DESCRIPTOR_ARGUMENTS = 8, DESCRIPTOR_BYTES = 64 };

struct reader {
    const char *image;
    size_t size;
};

struct object;
struct symbol {
    const struct object *object;
    const Elf64_Sym *elf;
    const char *name;
};

/* A loaded code object. */
struct object {
    struct object *next;
    struct agent *agent;
    char *base;
    size_t size, n_symbols;
    struct symbol *symbols;
};

/* A variable that the program defines. */
struct definition {
    struct definition *next;
    const struct agent *agent;
    uint64_t address;
    char name[];
};

struct executable {
    struct object *objects;
    struct definition *definitions;
    hsa_executable_state_t state;
};

static struct executable *executable_of(hsa_executable_t handle)
{
    return (struct executable *)(uintptr_t)handle.handle;
}

/* ---- what is in a file, and not outside of it ---- */

static bool lies_within(uint64_t offset, uint64_t len, uint64_t size) { return offset <= size && len <= size - offset; }

static const Elf64_Phdr *segments_of(const struct reader *file)
{
    return (const Elf64_Phdr *)(file->image + ((const Elf64_Ehdr *)file->image)->e_phoff);
}

static const Elf64_Shdr *sections_of(const struct reader *file)
{
    return (const Elf64_Shdr *)(file->image + ((const Elf64_Ehdr *)file->image)->e_shoff);
}

static bool is_elf(const struct reader *file)
{
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)file->image;
    return file->size >= sizeof(*elf) && memcmp(elf->e_ident, ELFMAG, SELFMAG) == 0 &&
           elf->e_ident[EI_CLASS] == ELFCLASS64 && elf->e_type == ET_DYN &&
           lies_within(elf->e_phoff, elf->e_phnum * sizeof(Elf64_Phdr), file->size) &&
           lies_within(elf->e_shoff, elf->e_shnum * sizeof(Elf64_Shdr), file->size);
}

/* For a device with sramecc+ and xnack-. */
static bool fits_device(const struct reader *file)
{
    uint32_t flags = ((const Elf64_Ehdr *)file->image)->e_flags;
    return (flags & MACH_MASK) == MACH_GFX90A && (flags & XNACK_MASK) != XNACK_ON && (flags & ECC_MASK) != ECC_OFF;
}

static size_t loaded_size(const struct reader *file)
{
    uint64_t end = 0;
    for (int i = 0; i < ((const Elf64_Ehdr *)file->image)->e_phnum; i++) {
        const Elf64_Phdr *s = &segments_of(file)[i];
        if (s->p_type != PT_LOAD)
            continue;
        if (s->p_filesz > s->p_memsz || !lies_within(s->p_offset, s->p_filesz, file->size) ||
            s->p_vaddr + s->p_memsz < end)
            return 0;
        end = s->p_vaddr + s->p_memsz;
    }
    return end <= (uint64_t)1 << 32 ? end : 0;
}

/* ---- load ---- */

static void copy_segments(const struct object *o, const struct reader *file)
{
    memset(o->base, 0, o->size);
    for (int i = 0; i < ((const Elf64_Ehdr *)file->image)->e_phnum; i++) {
        const Elf64_Phdr *s = &segments_of(file)[i];
        if (s->p_type == PT_LOAD)
            memcpy(o->base + s->p_vaddr, file->image + s->p_offset, s->p_filesz);
    }
}

static bool list_symbols(struct object *o, const Elf64_Shdr *table, const Elf64_Shdr *names)
{
    o->n_symbols = table->sh_size / sizeof(Elf64_Sym);
    o->symbols = calloc(o->n_symbols + 1, sizeof(*o->symbols));
    if (o->symbols == NULL || !lies_within(table->sh_addr, table->sh_size, o->size) ||
        !lies_within(names->sh_addr, names->sh_size, o->size))
        return false;
    for (size_t i = 0; i < o->n_symbols; i++) {
        const Elf64_Sym *elf = (const Elf64_Sym *)(o->base + table->sh_addr) + i;
        if (elf->st_name >= names->sh_size || elf->st_value > o->size)
            return false;
        o->symbols[i] = (struct symbol){o, elf, o->base + names->sh_addr + elf->st_name};
    }
    return true;
}

/* 0: nobody has defined it. */
static uint64_t address_of(const struct executable *e, const struct symbol *s)
{
    if (s->elf->st_shndx != SHN_UNDEF)
        return (uintptr_t)s->object->base + s->elf->st_value;
    for (const struct definition *d = e->definitions; d != NULL; d = d->next)
        if ((d->agent == NULL || d->agent == s->object->agent) && strcmp(d->name, s->name) == 0)
            return d->address;
    return 0;
}

static hsa_status_t relocate(const struct executable *e, const struct object *o, const Elf64_Rela *r)
{
    uint64_t symbol = ELF64_R_SYM(r->r_info), value = (uint64_t)r->r_addend;
    if (!lies_within(r->r_offset, sizeof(value), o->size) || symbol >= o->n_symbols)
        return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
    uint64_t base = (uintptr_t)o->base;
    switch (ELF64_R_TYPE(r->r_info)) {
    case R_RELATIVE64:
        break;
    case R_ABS64:
        base = address_of(e, &o->symbols[symbol]);
        if (base == 0 && ELF64_ST_BIND(o->symbols[symbol].elf->st_info) != STB_WEAK)
            return HSA_STATUS_ERROR_VARIABLE_UNDEFINED;
        break;
    default:
        return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
    }
    value += base;
    memcpy(o->base + r->r_offset, &value, sizeof(value));
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t relocate_all(const struct executable *e, const struct object *o, const struct reader *file,
                                 const Elf64_Shdr *table)
{
    if (!lies_within(table->sh_offset, table->sh_size, file->size))
        return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
    const Elf64_Rela *r = (const Elf64_Rela *)(file->image + table->sh_offset);
    hsa_status_t status = HSA_STATUS_SUCCESS;
    for (size_t n = table->sh_size / sizeof(*r); n > 0 && status == HSA_STATUS_SUCCESS; n--)
        status = relocate(e, o, r++);
    return status;
}

static hsa_status_t fill(const struct executable *e, struct object *o, const struct reader *file)
{
    const Elf64_Shdr *s = sections_of(file);
    int n = ((const Elf64_Ehdr *)file->image)->e_shnum;
    copy_segments(o, file);
    for (int i = 0; i < n; i++)
        if (s[i].sh_type == SHT_DYNSYM && (s[i].sh_link >= (uint32_t)n || !list_symbols(o, &s[i], &s[s[i].sh_link])))
            return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
    hsa_status_t status = HSA_STATUS_SUCCESS;
    for (int i = 0; i < n && status == HSA_STATUS_SUCCESS; i++)
        if (s[i].sh_type == SHT_RELA && (s[i].sh_flags & SHF_ALLOC) != 0)
            status = relocate_all(e, o, file, &s[i]);
    return status;
}

static void unload(struct object *o)
{
    if (o->base != NULL)
        own_free(o->base);
    free(o->symbols);
    free(o);
}

static hsa_status_t load(struct executable *e, struct agent *agent, const struct reader *file)
{
    if (!is_elf(file))
        return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
    if (!fits_device(file))
        return HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS;
    size_t size = loaded_size(file);
    struct object *o = size != 0 ? calloc(1, sizeof(*o)) : NULL;
    if (o == NULL)
        return size == 0 ? HSA_STATUS_ERROR_INVALID_CODE_OBJECT : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    o->agent = agent;
    o->size = size;
    o->base = own_allocate(&agent->pools[0], size);
    hsa_status_t status = o->base != NULL ? fill(e, o, file) : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    if (status != HSA_STATUS_SUCCESS) {
        unload(o);
        return status;
    }
    o->next = e->objects;
    e->objects = o;
    return HSA_STATUS_SUCCESS;
}

/* ---- readers and executables ---- */

hsa_status_t hsa_code_object_reader_create_from_memory(const void *image, size_t size, hsa_code_object_reader_t *reader)
{
    if (image == NULL || size == 0 || reader == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    struct reader *r = malloc(sizeof(*r));
    if (r == NULL)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    *r = (struct reader){image, size};
    reader->handle = (uintptr_t)r;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_code_object_reader_destroy(hsa_code_object_reader_t reader)
{
    free((struct reader *)(uintptr_t)reader.handle);
    return reader.handle != 0 ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_CODE_OBJECT_READER;
}

hsa_status_t hsa_executable_create_alt(hsa_profile_t profile, hsa_default_float_rounding_mode_t rounding,
                                       const char *options, hsa_executable_t *executable)
{
    (void)profile;
    (void)rounding;
    (void)options;
    struct executable *e = executable != NULL ? calloc(1, sizeof(*e)) : NULL;
    if (e == NULL)
        return executable == NULL ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    e->state = HSA_EXECUTABLE_STATE_UNFROZEN;
    executable->handle = (uintptr_t)e;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_destroy(hsa_executable_t executable)
{
    struct executable *e = executable_of(executable);
    if (e == NULL)
        return HSA_STATUS_ERROR_INVALID_EXECUTABLE;
    for (struct object *o; (o = e->objects) != NULL;) {
        e->objects = o->next;
        unload(o);
    }
    for (struct definition *d; (d = e->definitions) != NULL;) {
        e->definitions = d->next;
        free(d);
    }
    free(e);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_load_agent_code_object(hsa_executable_t executable, hsa_agent_t handle,
                                                   hsa_code_object_reader_t reader, const char *options,
                                                   hsa_loaded_code_object_t *loaded)
{
    (void)options;
    struct executable *e = executable_of(executable);
    struct agent *agent = own_agent(handle);
    if (e == NULL || reader.handle == 0)
        return e == NULL ? HSA_STATUS_ERROR_INVALID_EXECUTABLE : HSA_STATUS_ERROR_INVALID_CODE_OBJECT_READER;
    if (agent == NULL || agent->kind != HSA_DEVICE_TYPE_GPU)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    if (e->state == HSA_EXECUTABLE_STATE_FROZEN)
        return HSA_STATUS_ERROR_FROZEN_EXECUTABLE;
    hsa_status_t status = load(e, agent, (const struct reader *)(uintptr_t)reader.handle);
    if (status == HSA_STATUS_SUCCESS && loaded != NULL)
        loaded->handle = (uintptr_t)e->objects;
    return status;
}

hsa_status_t hsa_executable_freeze(hsa_executable_t executable, const char *options)
{
    (void)options;
    struct executable *e = executable_of(executable);
    if (e == NULL)
        return HSA_STATUS_ERROR_INVALID_EXECUTABLE;
    if (e->state == HSA_EXECUTABLE_STATE_FROZEN)
        return HSA_STATUS_ERROR_FROZEN_EXECUTABLE;
    e->state = HSA_EXECUTABLE_STATE_FROZEN;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_agent_global_variable_define(hsa_executable_t executable, hsa_agent_t agent,
                                                         const char *name, void *address)
{
    struct executable *e = executable_of(executable);
    if (e == NULL || name == NULL || own_agent(agent) == NULL)
        return e == NULL ? HSA_STATUS_ERROR_INVALID_EXECUTABLE : HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (e->state == HSA_EXECUTABLE_STATE_FROZEN)
        return HSA_STATUS_ERROR_FROZEN_EXECUTABLE;
    struct definition *d = malloc(sizeof(*d) + strlen(name) + 1);
    if (d == NULL)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    *d = (struct definition){e->definitions, own_agent(agent), (uintptr_t)address};
    strcpy(d->name, name);
    e->definitions = d;
    return HSA_STATUS_SUCCESS;
}

/* ---- symbols ---- */

static bool is_kernel(const struct symbol *s)
{
    size_t len = strlen(s->name);
    return len > 3 && strcmp(s->name + len - 3, ".kd") == 0 && s->elf->st_size == DESCRIPTOR_BYTES;
}

hsa_status_t hsa_executable_get_symbol_by_name(hsa_executable_t executable, const char *name, const hsa_agent_t *agent,
                                               hsa_executable_symbol_t *symbol)
{
    const struct executable *e = executable_of(executable);
    if (e == NULL || name == NULL || symbol == NULL)
        return e == NULL ? HSA_STATUS_ERROR_INVALID_EXECUTABLE : HSA_STATUS_ERROR_INVALID_ARGUMENT;
    for (const struct object *o = e->objects; o != NULL; o = o->next) {
        if (agent != NULL && own_agent(*agent) != o->agent)
            continue;
        for (size_t i = 0; i < o->n_symbols; i++) {
            if (o->symbols[i].elf->st_shndx != SHN_UNDEF && strcmp(o->symbols[i].name, name) == 0) {
                symbol->handle = (uintptr_t)&o->symbols[i];
                return HSA_STATUS_SUCCESS;
            }
        }
    }
    return HSA_STATUS_ERROR_INVALID_SYMBOL_NAME;
}

/* HIP's own kernel that fills memory, on each device that has been asked for it. */
static _Atomic uint64_t fills[MOST_AGENTS];

static void note_fill(uint64_t kernel)
{
    for (int i = 0; i < MOST_AGENTS; i++) {
        uint64_t none = 0;
        if (atomic_load(&fills[i]) == kernel || atomic_compare_exchange_strong(&fills[i], &none, kernel))
            return;
    }
}

bool own_is_fill(uint64_t kernel)
{
    for (int i = 0; i < MOST_AGENTS && atomic_load(&fills[i]) != 0; i++)
        if (atomic_load(&fills[i]) == kernel)
            return true;
    return false;
}

static hsa_status_t kernel_info(const struct symbol *s, int attribute, void *value)
{
    const char *descriptor = s->object->base + s->elf->st_value;
    if (!is_kernel(s))
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    switch (attribute) {
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT:
        if (strcmp(s->name, "__amd_rocclr_fillBufferAligned.kd") == 0)
            note_fill((uintptr_t)descriptor);
        ANSWER(uint64_t, (uintptr_t)descriptor);
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE:
        ANSWER(uint32_t, *(const uint32_t *)(descriptor + DESCRIPTOR_ARGUMENTS));
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT:
        ANSWER(uint32_t, 16); /* no descriptor says it */
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE:
        ANSWER(uint32_t, *(const uint32_t *)(descriptor + DESCRIPTOR_GROUP));
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE:
        ANSWER(uint32_t, *(const uint32_t *)(descriptor + DESCRIPTOR_PRIVATE));
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_DYNAMIC_CALLSTACK:
        ANSWER(bool, false);
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_executable_symbol_get_info(hsa_executable_symbol_t symbol, hsa_executable_symbol_info_t attribute,
                                            void *value)
{
    const struct symbol *s = (const struct symbol *)(uintptr_t)symbol.handle;
    if (s == NULL || value == NULL)
        return s == NULL ? HSA_STATUS_ERROR_INVALID_EXECUTABLE_SYMBOL : HSA_STATUS_ERROR_INVALID_ARGUMENT;
    switch ((int)attribute) {
    case HSA_EXECUTABLE_SYMBOL_INFO_TYPE:
        ANSWER(hsa_symbol_kind_t, is_kernel(s) ? HSA_SYMBOL_KIND_KERNEL : HSA_SYMBOL_KIND_VARIABLE);
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH:
        ANSWER(uint32_t, (uint32_t)strlen(s->name));
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME:
        memcpy(value, s->name, strlen(s->name));
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_MODULE_NAME_LENGTH:
        ANSWER(uint32_t, 0);
    case HSA_EXECUTABLE_SYMBOL_INFO_AGENT:
        ANSWER(hsa_agent_t, own_handle(s->object->agent));
    case HSA_EXECUTABLE_SYMBOL_INFO_LINKAGE:
        ANSWER(hsa_symbol_linkage_t, HSA_SYMBOL_LINKAGE_PROGRAM);
    case HSA_EXECUTABLE_SYMBOL_INFO_IS_DEFINITION:
        ANSWER(bool, true);
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS:
        ANSWER(uint64_t, (uintptr_t)s->object->base + s->elf->st_value);
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE:
        ANSWER(uint32_t, (uint32_t)s->elf->st_size);
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ALLOCATION:
        ANSWER(hsa_variable_allocation_t, HSA_VARIABLE_ALLOCATION_AGENT);
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SEGMENT:
        ANSWER(hsa_variable_segment_t, HSA_VARIABLE_SEGMENT_GLOBAL);
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_IS_CONST:
        ANSWER(bool, false);
    }
    return kernel_info(s, (int)attribute, value);
}

/* ---- the loader extension: addresses are the host's, and the rest is for debuggers ---- */

static hsa_status_t query_host_address(const void *device, const void **host)
{
    if (device == NULL || host == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    *host = device;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t query_segments(hsa_ven_amd_loader_segment_descriptor_t *descriptors, size_t *n)
{
    (void)descriptors;
    (void)n;
    return HSA_STATUS_ERROR;
}

static hsa_status_t query_executable(const void *device, hsa_executable_t *executable)
{
    (void)device;
    (void)executable;
    return HSA_STATUS_ERROR;
}

static hsa_status_t iterate_objects(hsa_executable_t executable,
                                    hsa_status_t (*call)(hsa_executable_t executable, hsa_loaded_code_object_t object,
                                                         void *data),
                                    void *data)
{
    hsa_status_t status = HSA_STATUS_SUCCESS;
    if (executable.handle == 0 || call == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    for (const struct object *o = executable_of(executable)->objects; o != NULL && status == HSA_STATUS_SUCCESS;
         o = o->next)
        status = call(executable, (hsa_loaded_code_object_t){(uintptr_t)o}, data);
    return status;
}

static hsa_status_t object_info(hsa_loaded_code_object_t object, hsa_ven_amd_loader_loaded_code_object_info_t attribute,
                                void *value)
{
    const struct object *o = (const struct object *)(uintptr_t)object.handle;
    if (o == NULL || value == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    switch ((int)attribute) {
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_AGENT:
        ANSWER(hsa_agent_t, own_handle(o->agent));
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_BASE:
        ANSWER(uint64_t, (uintptr_t)o->base);
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_SIZE:
        ANSWER(uint64_t, o->size);
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_DELTA:
        ANSWER(int64_t, (int64_t)(uintptr_t)o->base);
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_system_get_major_extension_table(uint16_t extension, uint16_t major, size_t len, void *table)
{
    const hsa_ven_amd_loader_1_01_pfn_t all = {query_host_address, query_segments, query_executable, iterate_objects,
                                               object_info};
    if (extension != HSA_EXTENSION_AMD_LOADER || major != 1 || table == NULL || len == 0)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    memset(table, 0, len); /* a longer one ends in calls that are not there */
    memcpy(table, &all, len < sizeof(all) ? len : sizeof(all));
    return HSA_STATUS_SUCCESS;
}
