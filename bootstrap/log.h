/* SPDX-License-Identifier: MIT */
/* Messages to stderr, one write(2) a line, prefixed "[pe N] " once the PE number is known.
 * The bottom layer: it includes no other file of this library, and all folders call it.
 * Lower case, exact cause, %m for system calls; nothing on a hot path. */
#ifndef ISO_LOG_H
#define ISO_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* State that exists once per PE: once in a normal process, once per thread where PEs are threads of one process. */
#ifdef ISO_PES_AS_THREADS
#define ISO_PER_PE _Thread_local
#else
#define ISO_PER_PE
#endif

enum log_level { LOG_ANSWER = -1, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Descriptors 0 to 2 exist afterwards, so that no file or connection of the library becomes the program's stdout. */
void iso_log_reserve(void);
/* Messages above `level` are dropped; errors and answers never are. Default: warn. */
void iso_log_set_level(enum log_level level);
/* Whether a message of this level would be printed: for those that are costly to compose. */
bool iso_log_shows(enum log_level level);
/* "error", "warn", "info" or "debug"; 0 or -EINVAL. */
int iso_log_parse_level(const char *text, enum log_level *level);
/* pe < 0: not known yet, the prefix is "[isomer pid P] ". */
void iso_log_set_pe(int pe);
int iso_log_pe(void); /* for threads that work for a PE: where state exists once per thread, they set it */
/* Until it is called with NULL, this thread's errors go to `text` instead, the last one, without prefix: for asking
 * what would be refused. */
void iso_log_divert(char *text, size_t bytes);
/* The text of this thread's last error, without prefix; empty: there was none. Writes at most `bytes` characters, the
 * final null included, and returns the length of the whole text. */
size_t iso_log_last(char *text, size_t bytes);
/* As iso_log at the level info, and iso_log_last tells it: another PE prints the cause. */
void iso_log_elsewhere(const char *format, ...) __attribute__((format(printf, 1, 2)));
void iso_log(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes text from outside fit to print: cuts it at the first NUL or at `len`, and control characters become '?'. */
void iso_log_clean(const unsigned char *bytes, size_t len, char *text, size_t text_bytes);

/* %m is an extension that -Wpedantic would warn of. */
/* Text that the user has asked for; it is printed at every level. */
#define log_answer(...) __extension__ iso_log(LOG_ANSWER, __VA_ARGS__)
#define log_error(...) __extension__ iso_log(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) __extension__ iso_log(LOG_WARN, __VA_ARGS__)
#define log_info(...) __extension__ iso_log(LOG_INFO, __VA_ARGS__)
#define log_debug(...) __extension__ iso_log(LOG_DEBUG, __VA_ARGS__)

#endif
