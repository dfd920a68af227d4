/* SPDX-License-Identifier: MIT */
/* Environment variables: the table of env.h, read into one struct.
 * Numbers are parsed by hand: strtod follows the program's locale ("1,5") and takes "inf" and "0x1p3"; sizes must be
 * rounded up exactly, which a double cannot promise. Called by init and by isomer-info, never on a hot path. */
#include "env.h"

#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { VALUE_SHOWN_BYTES = 64, MAX_DIGITS = 64, MAX_EXPONENT = 400 };

/* 0.d1 d2 d3 ... times 10^point: `point` is the number of digits before the decimal point, negative for 0.00x. */
struct decimal {
    unsigned char digits[MAX_DIGITS];
    int count;
    int point;
};

const struct env_row iso_env_rows[] = {
#define X(field, name, kind, def, help) {"SHMEM_" #name, #kind, def, help},
    ISO_ENV_TABLE(X)
#undef X
        {NULL, NULL, NULL, NULL},
};

/* OpenSHMEM 1.6 section 8 has four variables: these have an SMA_ name too, and their flags take any value as "on". */
static bool is_in_specification(const char *name)
{
    return strcmp(name, "SHMEM_VERSION") == 0 || strcmp(name, "SHMEM_INFO") == 0 || strcmp(name, "SHMEM_DEBUG") == 0 ||
           strcmp(name, "SHMEM_SYMMETRIC_SIZE") == 0;
}

/* The text as set, or NULL. *set_name is the name under which it was found. */
static const char *find_text(const char *name, char set_name[64])
{
    snprintf(set_name, 64, "%s", name);
    const char *text = getenv(name);
    if (text || !is_in_specification(name))
        return text;
    snprintf(set_name, 64, "SMA_%s", name + strlen("SHMEM_"));
    return getenv(set_name);
}

const char *iso_env_text(const struct env_row *row)
{
    char set_name[64];
    const char *text = find_text(row->name, set_name);
    return text ? text : row->fallback;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; } /* isdigit follows the locale */

/* Appends a digit; false when there are too many. Leading zeros move the point instead. */
static bool push_digit(struct decimal *d, char c, bool after_point)
{
    if (d->count == 0 && c == '0') {
        d->point -= after_point;
        return d->point > -MAX_EXPONENT;
    }
    if (d->count == MAX_DIGITS)
        return false;
    d->digits[d->count++] = (unsigned char)(c - '0');
    d->point += !after_point;
    return true;
}

/* "e+12": moves the point. Returns what follows, or NULL where the exponent is malformed or absurd. */
static const char *parse_exponent(const char *text, struct decimal *d)
{
    bool negative = *text == '-';
    if (*text == '-' || *text == '+')
        text++;
    if (!is_digit(*text))
        return NULL;
    int exponent = 0;
    for (; is_digit(*text); text++) {
        exponent = exponent * 10 + (*text - '0');
        if (exponent > MAX_EXPONENT)
            return NULL;
    }
    d->point += negative ? -exponent : exponent;
    return text;
}

/* digits [. digits] [e exponent], at least one digit before the exponent. Returns what follows, or NULL. */
static const char *parse_decimal(const char *text, struct decimal *d)
{
    *d = (struct decimal){.count = 0, .point = 0};
    bool after_point = false, any = false;
    for (; is_digit(*text) || (*text == '.' && !after_point); text++) {
        if (*text == '.') {
            after_point = true;
            continue;
        }
        any = true;
        if (!push_digit(d, *text, after_point))
            return NULL;
    }
    if (!any)
        return NULL;
    return *text == 'e' || *text == 'E' ? parse_exponent(text + 1, d) : text;
}

static unsigned digit_at(const struct decimal *d, int i) { return i >= 0 && i < d->count ? d->digits[i] : 0; }

/* Decimal fraction times two, in place; returns the digit that leaves it on the left. */
static unsigned double_fraction(unsigned char *fraction, int n)
{
    unsigned carry = 0;
    for (int i = n - 1; i >= 0; i--) {
        unsigned doubled = fraction[i] * 2u + carry;
        fraction[i] = (unsigned char)(doubled % 10);
        carry = doubled / 10;
    }
    return carry;
}

/* ceil(d * 2^shift): the fraction is doubled digit by digit, which is exact, so the ceiling is the true one. */
static int scale_up(const struct decimal *d, unsigned shift, uint64_t *result)
{
    uint64_t whole = 0;
    for (int i = 0; i < d->point && d->count > 0; i++) {
        if (whole > (UINT64_MAX - digit_at(d, i)) / 10)
            return -EINVAL;
        whole = whole * 10 + digit_at(d, i);
    }
    unsigned char fraction[MAX_DIGITS + 2 * MAX_EXPONENT];
    int first = d->point < d->count ? d->point : d->count; /* negative: zeros between the point and the digits */
    int n = d->count - first;
    bool inexact = false;
    for (int i = 0; i < n; i++)
        fraction[i] = (unsigned char)digit_at(d, first + i);
    for (unsigned s = 0; s < shift; s++) {
        unsigned carry = double_fraction(fraction, n);
        if (whole > (UINT64_MAX - carry) / 2)
            return -EINVAL;
        whole = whole * 2 + carry;
    }
    for (int i = 0; i < n; i++)
        inexact = inexact || fraction[i] != 0;
    if (inexact && whole == UINT64_MAX)
        return -EINVAL;
    *result = whole + inexact;
    return 0;
}

/* 10 per k, m, g, t; 0 for the end; -1 for anything else. What follows the suffix is ignored (section 8). */
static int suffix_shift(char c)
{
    static const char suffixes[] = "kmgt";
    if (c == '\0')
        return 0;
    const char *at = strchr(suffixes, c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return at ? 10 * (int)(at - suffixes + 1) : -1;
}

int iso_env_parse_size(const char *text, size_t *bytes)
{
    struct decimal d;
    const char *rest = parse_decimal(text, &d);
    int shift = rest ? suffix_shift(*rest) : -1;
    uint64_t value;
    if (shift < 0 || scale_up(&d, (unsigned)shift, &value) != 0 || value > SIZE_MAX)
        return -EINVAL;
    *bytes = (size_t)value;
    return 0;
}

static int parse_size(const char *text, bool any_is_on, size_t *value)
{
    (void)any_is_on;
    return iso_env_parse_size(text, value);
}

static int parse_flag(const char *text, bool any_is_on, bool *value)
{
    bool off = strcmp(text, "0") == 0;
    if (!any_is_on)
        off = off || *text == '\0' || strcasecmp(text, "no") == 0 || strcasecmp(text, "off") == 0 ||
              strcasecmp(text, "false") == 0;
    *value = !off;
    return 0;
}

static int parse_number(const char *text, bool any_is_on, int64_t *value)
{
    (void)any_is_on;
    if (!is_digit(text[*text == '-' || *text == '+']))
        return -EINVAL; /* strtoll would skip white space */
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (errno || *end)
        return -EINVAL;
    *value = parsed;
    return 0;
}

static int parse_seconds(const char *text, bool any_is_on, double *value)
{
    (void)any_is_on;
    struct decimal d;
    const char *rest = parse_decimal(text, &d);
    if (!rest || *rest || (d.count > 0 && d.point > 10)) /* 10^10 s still fit into 64-bit nanoseconds */
        return -EINVAL;
    double parsed = 0;
    for (int i = 0; i < d.count; i++)
        parsed = parsed * 10 + d.digits[i];
    for (int i = d.count; i < d.point; i++)
        parsed *= 10;
    for (int i = d.point; i < d.count; i++)
        parsed /= 10;
    *value = parsed;
    return parsed <= 9e9 ? 0 : -EINVAL;
}

static int parse_text(const char *text, bool any_is_on, const char **value)
{
    (void)any_is_on;
    *value = text;
    return 0;
}

#define ALLOWED_size "bytes as a number with an optional suffix k, m, g or t (\"1.5g\"), at most 64 bits"
#define ALLOWED_flag "0 or 1"
#define ALLOWED_number "an integer"
#define ALLOWED_seconds "seconds, 0..9e9"
#define ALLOWED_text "any text"

/* One sentence; the value's control characters, which could rewrite a terminal, become '?'. */
static int refuse(char *error, size_t error_bytes, const char *name, const char *value, const char *allowed)
{
    char shown[VALUE_SHOWN_BYTES];
    snprintf(shown, sizeof shown, "%s", value);
    for (char *c = shown; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127)
            *c = '?';
    const char *more = strlen(value) >= sizeof shown ? "..." : "";
    snprintf(error, error_bytes, "environment variable %s is \"%s%s\", allowed is %s", name, shown, more, allowed);
    return -EINVAL;
}

static int check_numbers(const struct env *env, char *error, size_t error_bytes)
{
    const struct {
        const char *name;
        int64_t value, least, most;
        const char *allowed;
    } ranges[] = {
        {"SHMEM_SPIN", env->spin, -1, INT32_MAX, "-1 or a number of polls up to 2147483647"},
        {"SHMEM_DEVICE_STEP", env->device_step, 0, INT64_MAX, "0 or a number of a step"},
        {"SHMEM_WIDE_LINES", env->wide_lines, -1, 1, "-1, 0 or 1"},
        {"SHMEM_SEED", env->seed, 0, INT64_MAX, "0 or a positive number"},
    };
    char value[32];
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        snprintf(value, sizeof value, "%lld", (long long)ranges[i].value);
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
            return refuse(error, error_bytes, ranges[i].name, value, ranges[i].allowed);
    }
    return 0;
}

static int check_ranges(const struct env *env, char *error, size_t error_bytes)
{
    enum log_level level;
    if (iso_log_parse_level(env->log, &level) != 0)
        return refuse(error, error_bytes, "SHMEM_LOG", env->log, "error, warn, info, debug or trace");
    return check_numbers(env, error, error_bytes);
}

int iso_env_read(struct env *env, char *error, size_t error_bytes)
{
    char name_set[64];
    const char *text;
    /* A fallback of the table that does not parse is caught by the unit test. */
#define X(field, name, kind, def, help)                                                         \
    text = find_text("SHMEM_" #name, name_set);                                                 \
    if (parse_##kind(text ? text : def, is_in_specification("SHMEM_" #name), &env->field) != 0) \
        return refuse(error, error_bytes, name_set, text ? text : def, ALLOWED_##kind);
    ISO_ENV_TABLE(X)
#undef X
    return check_ranges(env, error, error_bytes);
}
