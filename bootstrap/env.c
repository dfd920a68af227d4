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
#include <unistd.h>

enum { VALUE_SHOWN_BYTES = 64, MAX_DIGITS = 64, MAX_EXPONENT = 400 };

/* 0.d1 d2 d3 ... times 10^point: `point` is the number of digits before the decimal point, negative for 0.00x. */
struct decimal {
    unsigned char digits[MAX_DIGITS];
    int count;
    int point;
};

const struct env_row iso_env_rows[] = {
#define X(field, name, kind, def, allowed, help) {"SHMEM_" #name, #kind, def, help, false},
    ISO_ENV_USER_TABLE(X)
#undef X
#define X(field, name, kind, def, allowed, help) {"SHMEM_" #name, #kind, def, help, true},
        ISO_ENV_TEST_TABLE(X)
#undef X
            {NULL, NULL, NULL, NULL, false},
};

/* OpenSHMEM 1.6 section 8 has four variables: these have an SMA_ name too, and their flags take any value as "on". */
static bool is_in_specification(const char *name)
{
    return strcmp(name, "SHMEM_VERSION") == 0 || strcmp(name, "SHMEM_INFO") == 0 || strcmp(name, "SHMEM_DEBUG") == 0 ||
           strcmp(name, "SHMEM_SYMMETRIC_SIZE") == 0;
}

/* The text as set, or NULL: an empty one is what scripts leave that set a variable to nothing. *set_name is the name
 * under which it was found. */
static const char *find_text(const char *name, char set_name[64])
{
    snprintf(set_name, 64, "%s", name);
    const char *text = getenv(name);
    if ((text && *text) || !is_in_specification(name))
        return text && *text ? text : NULL;
    snprintf(set_name, 64, "SMA_%s", name + strlen("SHMEM_"));
    text = getenv(set_name);
    return text && *text ? text : NULL;
}

const char *iso_env_text(const struct env_row *row)
{
    char set_name[64];
    const char *text = find_text(row->name, set_name);
    return text ? text : row->fallback;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; } /* isdigit follows the locale */

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
        if (d->count == 0 && *text == '0') { /* leading zeros move the point */
            d->point -= after_point;
            if (d->point <= -MAX_EXPONENT)
                return NULL;
        } else {
            if (d->count == MAX_DIGITS)
                return NULL;
            d->digits[d->count++] = (unsigned char)(*text - '0');
            d->point += !after_point;
        }
    }
    if (!any)
        return NULL;
    return *text == 'e' || *text == 'E' ? parse_exponent(text + 1, d) : text;
}

static unsigned digit_at(const struct decimal *d, int i) { return i >= 0 && i < d->count ? d->digits[i] : 0; }

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
        unsigned carry = 0; /* in the end the digit that leaves the fraction on the left */
        for (int i = n - 1; i >= 0; i--) {
            unsigned doubled = fraction[i] * 2u + carry;
            fraction[i] = (unsigned char)(doubled % 10);
            carry = doubled / 10;
        }
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

int iso_env_parse_size(const char *text, size_t *bytes)
{
    struct decimal d;
    const char *rest = parse_decimal(text, &d);
    if (!rest)
        return -EINVAL;
    /* 10 for each step of the suffix. Letters behind the suffix are ignored (section 8). */
    static const char suffixes[] = "kmgt";
    const char *suffix = strchr(suffixes, *rest >= 'A' && *rest <= 'Z' ? *rest - 'A' + 'a' : *rest);
    unsigned shift = *rest != '\0' && suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    uint64_t value;
    if (!suffix || scale_up(&d, shift, &value) != 0 || value > SIZE_MAX)
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
    static const char *const words[][2] = {{"0", "1"}, {"no", "yes"}, {"off", "on"}, {"false", "true"}};
    if (any_is_on) {
        *value = strcmp(text, "0") != 0;
        return 0;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (int on = 0; on < 2; on++)
            if (strcasecmp(text, words[i][on]) == 0) {
                *value = on != 0;
                return 0;
            }
    return -EINVAL;
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
static int refuse_text(char *error, size_t error_bytes, const char *name, const char *value, const char *allowed)
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

/* ---- what the table allows ---- */

/* Compares the number at the start of `text`; either end of the range may be missing. */
static bool is_in_range(const char *text, const char *range)
{
    const char *dots = strstr(range, "..");
    long long value = strtoll(text, NULL, 10);
    return value >= strtoll(range, NULL, 10) && (!is_digit(dots[2]) || value <= strtoll(dots + 2, NULL, 10));
}

static bool is_in_ranges(const char *text, const char *range)
{
    for (;; text++) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 18 || !is_in_range(text, range))
            return false;
        text += digits;
        if (*text != ',')
            return *text == '\0';
    }
}

static bool is_allowed(const char *text, const char *allowed)
{
    if (strstr(allowed, ",..."))
        return is_in_ranges(text, allowed);
    if (strstr(allowed, ".."))
        return is_in_range(text, allowed);
    size_t len = strlen(text);
    for (const char *word = allowed; *word; word += *word == '|') {
        size_t word_len = strcspn(word, "|");
        if (word_len == len && strncmp(word, text, len) == 0)
            return true;
        word += word_len;
    }
    return *allowed == '\0';
}

/* Says what the table allows: "a, b or c", "-1 or more", "1..1024", "numbers in 0..9 with commas between". */
static int refuse_value(char *error, size_t error_bytes, const char *name, const char *value, const char *allowed)
{
    char text[160] = "";
    const char *dots = strstr(allowed, ".."), *last = strrchr(allowed, '|');
    if (strstr(allowed, ",...")) {
        snprintf(text, sizeof text, "numbers in %.*s with commas between", (int)strcspn(allowed, ","), allowed);
    } else if (dots && !is_digit(dots[2])) {
        snprintf(text, sizeof text, "%.*s or more", (int)(dots - allowed), allowed);
    } else {
        size_t used = 0;
        for (const char *word = allowed; *word && used < sizeof text; word += *word == '|') {
            int len = (int)strcspn(word, "|");
            const char *mark = word + len == last ? " or " : word[len] ? ", " : "";
            used += (size_t)snprintf(text + used, sizeof text - used, "%.*s%s", len, word, mark);
            word += len;
        }
    }
    return refuse_text(error, error_bytes, name, value, text);
}

int iso_env_read(struct env *env, char *error, size_t error_bytes)
{
    char name_set[64];
    const char *text;
    /* A fallback of the table that does not parse is caught by the unit test. */
#define X(field, name, kind, def, allowed, help)                                                \
    text = find_text("SHMEM_" #name, name_set);                                                 \
    if (parse_##kind(text ? text : def, is_in_specification("SHMEM_" #name), &env->field) != 0) \
        return refuse_text(error, error_bytes, name_set, text ? text : def, ALLOWED_##kind);    \
    if (text && !is_allowed(text, allowed))                                                     \
        return refuse_value(error, error_bytes, name_set, text, allowed);
    ISO_ENV_TABLE(X)
#undef X
    enum log_level level; /* its words may be written in upper case */
    if (*env->log == '\0' || iso_log_parse_level(env->log, &level) == 0)
        return 0;
    return refuse_text(error, error_bytes, "SHMEM_LOG", env->log, "error, warn, info or debug");
}

/* ---- names that are not in the table ---- */

enum { NAME_BYTES = 64 };

/* How many letters must be added, left out or changed to make one of the other. */
static int distance(const char *a, const char *b)
{
    int row[NAME_BYTES + 1], lens = (int)strlen(b);
    for (int j = 0; j <= lens; j++)
        row[j] = j;
    for (; *a; a++) {
        int corner = row[0]++;
        for (int j = 1; j <= lens; j++) {
            int change = corner + (*a != b[j - 1]);
            int shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            corner = row[j];
            row[j] = change < shift ? change : shift;
        }
    }
    return row[lens];
}

/* Names of other libraries for the same thing. */
static const char *const elsewhere[][2] = {
    {"SHMEM_SYMMETRIC_HEAP_SIZE", "SHMEM_SYMMETRIC_SIZE"},
    {"SHMEM_HEAP_SIZE", "SHMEM_SYMMETRIC_SIZE"},
};

/* The name of another library for the same thing decides, else the least distance. */
static void find_nearest(struct env_stranger *stranger)
{
    int least = NAME_BYTES;
    stranger->is_near = true;
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (strcmp(stranger->name, elsewhere[i][0]) == 0) {
            stranger->nearest = elsewhere[i][1];
            return;
        }
    for (const struct env_row *row = iso_env_rows; row->name; row++) {
        int d = distance(stranger->name, row->name);
        if (d < least) {
            least = d;
            stranger->nearest = row->name;
        }
    }
    stranger->is_near = 4 * least <= (int)(strlen(stranger->name) - strlen("SHMEM_"));
}

bool iso_env_next_stranger(size_t *at, struct env_stranger *stranger)
{
    for (; environ && environ[*at]; ++*at) {
        const char *entry = environ[*at];
        size_t len = strcspn(entry, "=");
        if (strncmp(entry, "SHMEM_", strlen("SHMEM_")) != 0 || len >= sizeof stranger->name)
            continue;
        snprintf(stranger->name, sizeof stranger->name, "%.*s", (int)len, entry);
        bool known = strncmp(stranger->name, "SHMEM_TEST_", strlen("SHMEM_TEST_")) == 0;
        for (const struct env_row *row = iso_env_rows; row->name && !known; row++)
            known = strcmp(stranger->name, row->name) == 0;
        if (known)
            continue;
        find_nearest(stranger);
        ++*at;
        return true;
    }
    return false;
}
