/* SPDX-License-Identifier: MIT */
/* libFuzzer on the environment: the first byte chooses a variable, the rest is its value. Reading ends with 0 or
 * -EINVAL and a sentence without control characters; a size that parses is the ceiling of what strtold says. */
#include "../../bootstrap/env.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static void require(bool true_now)
{
    if (!true_now)
        abort();
}

static void check_size(const char *text)
{
    size_t bytes = 0;
    if (iso_env_parse_size(text, &bytes) != 0)
        return;
    char *end;
    long double value = strtold(text, &end);
    static const char suffixes[] = "kmgt";
    const char *at = *end ? strchr(suffixes, *end | 0x20) : NULL;
    require(end != text && (*end == '\0' || at != NULL));
    for (int i = 0; at && i <= (int)(at - suffixes); i++)
        value *= 1024;
    long double difference = (long double)bytes - value;
    /* strtold rounds to 64 bits, and subnormal values to nothing */
    require(difference >= -1e-15L * value && difference <= 1 + 1e-15L * value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    static size_t rows;
    char error[256] = "", *value;
    struct env env;
    while (iso_env_rows[rows].name)
        rows++;
    if (len_bytes == 0 || !(value = (char *)malloc(len_bytes)))
        return 0;
    memcpy(value, data + 1, len_bytes - 1);
    value[len_bytes - 1] = '\0';
    const struct env_row *row = &iso_env_rows[data[0] % rows];
    setenv(row->name, value, 1);
    int rc = iso_env_read(&env, error, sizeof error);
    require(rc == 0 || rc == -EINVAL);
    require((rc == 0) == (*error == '\0'));
    require(rc == 0 || strstr(error, row->name) != NULL);
    for (const char *c = error; *c; c++)
        require((unsigned char)*c >= 32 && *c != 127);
    require(strcmp(iso_env_text(row), *value ? value : row->fallback) == 0);
    require(rc != 0 || (env.timeout >= 0 && env.timeout <= 9e9 && env.boot_timeout >= 0 && env.boot_timeout <= 9e9));
    unsetenv(row->name);
    check_size(value);
    free(value);
    return 0;
}
