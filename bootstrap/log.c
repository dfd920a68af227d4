/* SPDX-License-Identifier: MIT */
/* Messages: one line, one write(2), so that the lines of many PEs on one stderr do not mix.
 * The level and the PE number exist once per PE; they are atomics because threads of the program log as well. */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LINE_BYTES = 2048, PE_UNKNOWN = -1 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};
/* The word before the text. An error and an answer need no word: they are one sentence and nothing else. */
static const char *const level_words[] = {"", "warning: ", "info: ", "debug: "};

static ISO_PER_PE atomic_int current_level = LOG_WARN;
static ISO_PER_PE atomic_int current_pe = PE_UNKNOWN;

static _Thread_local char *diverted_to;
static _Thread_local size_t diverted_bytes;

static _Thread_local char last_error[512];

size_t iso_log_last(char *text, size_t bytes)
{
    if (text != NULL && bytes > 0)
        snprintf(text, bytes, "%s", last_error);
    return strlen(last_error);
}

void iso_log_divert(char *text, size_t bytes)
{
    diverted_to = text;
    diverted_bytes = bytes;
}

void iso_log_set_level(enum log_level level)
{
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed); /* no order needed: a filter */
}

void iso_log_set_pe(int pe)
{
    atomic_store_explicit(&current_pe, pe < 0 ? PE_UNKNOWN : pe, memory_order_relaxed); /* no order needed: a name */
}

int iso_log_pe(void) { return atomic_load_explicit(&current_pe, memory_order_relaxed); }

bool iso_log_shows(enum log_level level)
{
    return level <= LOG_ERROR || (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

int iso_log_parse_level(const char *text, enum log_level *level)
{
    for (int i = LOG_ERROR; i <= LOG_DEBUG; i++)
        if (strcasecmp(text, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return 0;
        }
    return -EINVAL;
}

void iso_log_reserve(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", O_RDWR);
}

static void write_whole(const char *line, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, line, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* stderr has no reader: there is no better place to say so */
        line += n;
        len -= (size_t)n;
    }
}

void iso_log_elsewhere(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    iso_log(LOG_INFO, "%s", last_error);
}

void iso_log(enum log_level level, const char *format, ...)
{
    if (!iso_log_shows(level))
        return;
    int saved_errno = errno; /* for %m, and the caller's errno survives */
    char line[LINE_BYTES];
    int pe = atomic_load_explicit(&current_pe, memory_order_relaxed);
    const char *word = level > LOG_ERROR ? level_words[level] : "";
    size_t len = (size_t)(pe == PE_UNKNOWN ? snprintf(line, sizeof line, "[isomer pid %d] %s", (int)getpid(), word)
                                           : snprintf(line, sizeof line, "[pe %d] %s", pe, word));
    va_list args;
    va_start(args, format);
    errno = saved_errno;
    if (diverted_to != NULL && level == LOG_ERROR) {
        vsnprintf(diverted_to, diverted_bytes, format, args);
        va_end(args);
        return;
    }
    int n = vsnprintf(line + len, sizeof line - len, format, args);
    va_end(args);
    if (n < 0)
        n = 0;
    if (level == LOG_ERROR)
        snprintf(last_error, sizeof last_error, "%.*s", (int)sizeof last_error - 1, line + len);
    len += (size_t)n;
    if (len > sizeof line - 2) { /* room for the newline */
        len = sizeof line - 2;
        memcpy(line + len - 3, "...", 3);
    }
    line[len++] = '\n';
    write_whole(line, len);
    errno = saved_errno;
}

void iso_log_clean(const unsigned char *bytes, size_t len, char *text, size_t text_bytes)
{
    size_t n = 0;
    for (; n < len && n + 1 < text_bytes && bytes[n] != 0; n++)
        text[n] = bytes[n] < 32 || bytes[n] > 126 ? '?' : (char)bytes[n];
    text[n] = '\0';
}
