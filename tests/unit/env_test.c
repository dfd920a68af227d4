/* SPDX-License-Identifier: MIT */
/* Environment variables: every fallback parses, sizes are exact, wrong values are refused with a sentence that names
 * variable and value, the SMA_ names of the specification work and lose against the SHMEM_ names. Also log levels. */
#include "../check.h"

#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"

#include <errno.h>
#include <locale.h>

static void clear_all(void)
{
    for (const struct env_row *row = iso_env_rows; row->name; row++)
        unsetenv(row->name);
    unsetenv("SMA_VERSION");
    unsetenv("SMA_INFO");
    unsetenv("SMA_DEBUG");
    unsetenv("SMA_SYMMETRIC_SIZE");
}

static void check_size(const char *text, size_t expected)
{
    size_t bytes = 12345;
    CHECK_EQ_NAMED(iso_env_parse_size(text, &bytes), 0, text);
    CHECK_NAMED(bytes == expected, text);
}

static void check_no_size(const char *text)
{
    size_t bytes = 12345;
    CHECK_EQ_NAMED(iso_env_parse_size(text, &bytes), -EINVAL, text);
    CHECK_NAMED(bytes == 12345, text);
}

static void test_sizes(void)
{
    check_size("0", 0);
    check_size("1", 1);
    check_size("20m", 20971520);
    check_size("3.1M", 3250586); /* the example of the specification: rounded up */
    check_size("20kk", 20480);   /* what follows the multiplier is ignored */
    check_size("20km", 20480);
    check_size(".5m", 524288);
    check_size("0.5m", 524288);
    check_size("5.", 5);
    check_size("1.5g", 1610612736);
    check_size("2T", (size_t)2 << 40);
    check_size("0.1", 1);
    check_size("0.1k", 103);
    check_size("1e3", 1000);
    check_size("1E+3k", 1024000);
    check_size("1024e-3k", 1049);   /* 1048.576 */
    check_size("0.0009765625k", 1); /* exactly one byte: no rounding up to 2 */
    check_size("0.00000000000000000000000000000000000001t", 1);
    check_size("0000000000000000000000000000000000000000000000000000000000000000000000000000012", 12);
    check_size("18446744073709551615", SIZE_MAX);
    check_size("16777215.99999904632568359375t", SIZE_MAX - 0xfffffu + 0u); /* 2^64 - 2^20 */
    check_size("0e99", 0);
}

static void test_wrong_sizes(void)
{
    static const char *const wrong[] = {
        "",     " 1",    "1 ",     "1 m",  "-1",     "+1",        "x",
        "m",    ".",     ".m",     "1x",   "0x10",   "inf",       "nan",
        "1e",   "1e+",   "1ek",    "1,5m", "1.5.5m", "16777216t", "18446744073709551616",
        "1e20", "1e999", "1e-999", "--1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_no_size(wrong[i]);
    char digits[200];
    memset(digits, '9', sizeof digits);
    digits[sizeof digits - 1] = '\0';
    check_no_size(digits);
}

/* ceil(x * 2^k) by long double, for numbers that it holds exactly: eighths and sixteenths below 2^40. */
static void test_sizes_at_random(void)
{
    struct check_random random = check_random_stream(1);
    for (int i = 0; i < 20000; i++) {
        uint64_t sixteenths = check_random_next(&random) >> (24 + check_random_below(&random, 40));
        int shift = 10 * (int)check_random_below(&random, 3);
        char text[64];
        snprintf(text, sizeof text, "%llu.%04u%s", (unsigned long long)(sixteenths / 16),
                 (unsigned)(sixteenths % 16 * 625),
                 shift == 0    ? ""
                 : shift == 10 ? "k"
                               : "M");
        uint64_t scaled = sixteenths << shift;
        size_t bytes = 0;
        CHECK_EQ_NAMED(iso_env_parse_size(text, &bytes), 0, text);
        CHECK_NAMED(bytes == scaled / 16 + (scaled % 16 != 0), text);
    }
}

static void test_fallbacks(void)
{
    struct env env;
    char error[256] = "";
    CHECK_EQ_NAMED(iso_env_read(&env, error, sizeof error), 0, error);
    CHECK(env.symmetric_size == 0 && env.timeout == 600.0 && env.boot_timeout == 60.0);
    CHECK(!env.debug && !env.info && !env.version && !env.timeout_abort && env.data_segment && env.huge_pages);
    CHECK(env.rank == -1 && env.size == -1 && env.spin == -1);
    CHECK(strcmp(env.log, "") == 0 && strcmp(env.uid, "") == 0);
    for (const struct env_row *row = iso_env_rows; row->name; row++) {
        CHECK_NAMED(strcmp(iso_env_text(row), row->fallback) == 0, row->name);
        CHECK_NAMED(strncmp(row->name, "SHMEM_", 6) == 0 && *row->help && *row->kind, row->name);
    }
}

/* Those that hide the way of data or where counting starts are for tests; what users tune is not. */
static void test_rows_for_tests(void)
{
    static const char *const for_tests[] = {"SHMEM_DEVICE_EPOCH", "SHMEM_FORCE_PROXY", "SHMEM_VIRTUAL_NODES"};
    size_t n = 0;
    for (const struct env_row *row = iso_env_rows; row->name; row++) {
        bool listed = false;
        for (size_t i = 0; i < sizeof for_tests / sizeof for_tests[0]; i++)
            listed = listed || strcmp(row->name, for_tests[i]) == 0;
        CHECK_NAMED(row->for_tests == listed, row->name);
        n += listed;
    }
    CHECK(n == sizeof for_tests / sizeof for_tests[0]);
}

static bool read_with(const char *name, const char *value, struct env *env)
{
    char error[256] = "";
    setenv(name, value, 1);
    int rc = iso_env_read(env, error, sizeof error);
    CHECK(rc == 0 || rc == -EINVAL);
    CHECK((rc == 0) == (*error == '\0'));
    if (rc != 0)
        CHECK_NAMED(strstr(error, name) != NULL && strstr(error, "allowed") != NULL, error);
    unsetenv(name);
    return rc == 0;
}

static void test_flags(void)
{
    struct env env;
    static const char *const off[] = {"0", "no", "off", "NO", "Off", "false"};
    static const char *const on[] = {"1", "yes", "on", "true", "ON", "True"};
    static const char *const neither[] = {"y", "2", "maybe", "00", " 1", "1 "};
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        CHECK_NAMED(read_with("SHMEM_HUGE_PAGES", off[i], &env) && !env.huge_pages, off[i]);
    for (size_t i = 0; i < sizeof on / sizeof on[0]; i++)
        CHECK_NAMED(read_with("SHMEM_TIMEOUT_ABORT", on[i], &env) && env.timeout_abort, on[i]);
    for (size_t i = 0; i < sizeof neither / sizeof neither[0]; i++)
        CHECK_NAMED(!read_with("SHMEM_HUGE_PAGES", neither[i], &env), neither[i]);
    /* the specification says "any value" for these, "0" still means off */
    CHECK(read_with("SHMEM_INFO", "x", &env) && env.info);
    CHECK(read_with("SHMEM_DEBUG", "no", &env) && env.debug);
    CHECK(read_with("SHMEM_VERSION", "x", &env) && env.version);
    CHECK(read_with("SHMEM_INFO", "0", &env) && !env.info);
}

static void test_numbers(void)
{
    struct env env;
    CHECK(read_with("SHMEM_RANK", "7", &env) && env.rank == 7);
    CHECK(read_with("SHMEM_RANK", "-9223372036854775808", &env) && env.rank == INT64_MIN);
    CHECK(read_with("SHMEM_SPIN", "+100", &env) && env.spin == 100);
    CHECK(!read_with("SHMEM_SPIN", "-2", &env));
    CHECK(!read_with("SHMEM_SPIN", "4294967296", &env)); /* 0 in 32 bits */
    CHECK(!read_with("SHMEM_DEVICE_EPOCH", "-1", &env) && read_with("SHMEM_DEVICE_EPOCH", "4294967295", &env));
    CHECK(!read_with("SHMEM_SEED", "-1", &env) && read_with("SHMEM_SEED", "7", &env));
    CHECK(!read_with("SHMEM_LL128", "7", &env) && !read_with("SHMEM_LL128", "-2", &env));
    CHECK(read_with("SHMEM_LL128", "-1", &env) && read_with("SHMEM_LL128", "1", &env));
    CHECK(!read_with("SHMEM_RANK", "1.5", &env));
    CHECK(!read_with("SHMEM_RANK", " 1", &env));
    CHECK(!read_with("SHMEM_RANK", "1 ", &env));
    CHECK(!read_with("SHMEM_RANK", "9223372036854775808", &env));
    CHECK(read_with("SHMEM_TIMEOUT", "2.5", &env) && env.timeout == 2.5);
    CHECK(read_with("SHMEM_TIMEOUT", "0", &env) && env.timeout == 0.0);
    CHECK(read_with("SHMEM_TIMEOUT", "1e3", &env) && env.timeout == 1000.0);
    CHECK(read_with("SHMEM_TIMEOUT", ".001", &env) && env.timeout > 0.00099 && env.timeout < 0.00101);
    CHECK(!read_with("SHMEM_TIMEOUT", "-1", &env));
    CHECK(!read_with("SHMEM_TIMEOUT", "10s", &env));
    CHECK(!read_with("SHMEM_TIMEOUT", "inf", &env));
    CHECK(!read_with("SHMEM_TIMEOUT", "1e30", &env));
    CHECK(!read_with("SHMEM_LOG", "loud", &env));
    CHECK(read_with("SHMEM_LOG", "Debug", &env));
    CHECK(!read_with("SHMEM_SYMMETRIC_SIZE", "lots\033[2J", &env));
}

static void test_empty(void)
{
    struct env env;
    for (const struct env_row *row = iso_env_rows; row->name; row++)
        CHECK_NAMED(read_with(row->name, "", &env), row->name);
    CHECK(read_with("SHMEM_HUGE_PAGES", "", &env) && env.huge_pages);
    CHECK(read_with("SHMEM_LOG", "", &env) && strcmp(env.log, "") == 0);
    setenv("SHMEM_SYMMETRIC_SIZE", "", 1);
    CHECK(read_with("SMA_SYMMETRIC_SIZE", "4k", &env) && env.symmetric_size == 4096);
    unsetenv("SHMEM_SYMMETRIC_SIZE");
}

/* What the table allows of texts and numbers; the sentence says it. */
static void check_allowed(const char *name, const char *right, const char *wrong, const char *sentence)
{
    struct env env;
    char error[256] = "";
    CHECK_NAMED(read_with(name, right, &env), right);
    setenv(name, wrong, 1);
    CHECK_EQ_NAMED(iso_env_read(&env, error, sizeof error), -EINVAL, wrong);
    CHECK_NAMED(strstr(error, sentence) != NULL, error);
    unsetenv(name);
}

static void test_allowed(void)
{
    check_allowed("SHMEM_BOOT", "uid", "mpi", "\"mpi\", allowed is pmix, uid or single");
    check_allowed("SHMEM_BOOT", "single", "singl", "allowed is");
    check_allowed("SHMEM_BOOT", "pmix", "pmix|uid", "allowed is");
    check_allowed("SHMEM_DEVICE_SHARING", "ipc", "foo", "allowed is vmm or ipc");
    check_allowed("SHMEM_DEVICE_RDMA", "staged", "foo", "allowed is dmabuf, peer or staged");
    check_allowed("SHMEM_DEVICE_BLOCKS", "1024", "0", "allowed is 1..1024");
    check_allowed("SHMEM_DEVICE_BLOCKS", "1", "1025", "allowed is 1..1024");
    check_allowed("SHMEM_WAVE", "64", "13", "allowed is 32 or 64");
    check_allowed("SHMEM_LL128", "-1", "2", "allowed is -1..1");
    check_allowed("SHMEM_SPIN", "0", "-2", "allowed is -1..2147483647");
    check_allowed("SHMEM_SEED", "7", "-1", "allowed is 0 or more");
    check_allowed("SHMEM_VIRTUAL_NODES", "0,0,1", "a", "allowed is numbers in 0..999999999 with commas between");
    check_allowed("SHMEM_VIRTUAL_NODES", "7", "0,", "allowed is numbers");
    check_allowed("SHMEM_VIRTUAL_NODES", "999999999", "1000000000", "allowed is numbers");
    check_allowed("SHMEM_LOG", "Info", "loud", "allowed is error, warn, info or debug");
}

static bool is_stranger(const char *name, const char *nearest, bool near)
{
    struct env_stranger stranger;
    bool found = false;
    setenv(name, "1", 1);
    for (size_t at = 0; iso_env_next_stranger(&at, &stranger);)
        if (strcmp(stranger.name, name) == 0)
            found = strcmp(stranger.nearest, nearest) == 0 && stranger.is_near == near;
    unsetenv(name);
    return found;
}

static void test_strangers(void)
{
    struct env_stranger stranger;
    CHECK(is_stranger("SHMEM_SYMETRIC_SIZE", "SHMEM_SYMMETRIC_SIZE", true));
    CHECK(is_stranger("SHMEM_SYMMETRIC_HEAP_SIZE", "SHMEM_SYMMETRIC_SIZE", true));
    CHECK(is_stranger("SHMEM_HEAP_SIZE", "SHMEM_SYMMETRIC_SIZE", true));
    CHECK(is_stranger("SHMEM_DEBUGG", "SHMEM_DEBUG", true));
    CHECK(is_stranger("SHMEM_HOME", "SHMEM_NODE", false));
    setenv("SHMEM_TEST_ANYTHING", "1", 1);
    setenv("SHMEM_DEBUG", "0", 1);
    for (size_t at = 0; iso_env_next_stranger(&at, &stranger);)
        CHECK_NAMED(strcmp(stranger.name, "SHMEM_TEST_ANYTHING") != 0 && strcmp(stranger.name, "SHMEM_DEBUG") != 0,
                    stranger.name);
    unsetenv("SHMEM_TEST_ANYTHING");
    unsetenv("SHMEM_DEBUG");
}

static void test_old_names(void)
{
    struct env env;
    CHECK(read_with("SMA_SYMMETRIC_SIZE", "4k", &env) && env.symmetric_size == 4096);
    CHECK(!read_with("SMA_SYMMETRIC_SIZE", "4x", &env)); /* the sentence names SMA_SYMMETRIC_SIZE */
    CHECK(read_with("SMA_DEBUG", "1", &env) && env.debug);
    CHECK(read_with("SMA_INFO", "1", &env) && env.info);
    CHECK(read_with("SMA_VERSION", "1", &env) && env.version);
    CHECK(read_with("SMA_TIMEOUT", "nonsense", &env) && env.timeout == 600.0); /* not an old name: not read */
    setenv("SHMEM_SYMMETRIC_SIZE", "8k", 1);
    CHECK(read_with("SMA_SYMMETRIC_SIZE", "nonsense", &env) && env.symmetric_size == 8192);
    unsetenv("SHMEM_SYMMETRIC_SIZE");
    setenv("SMA_SYMMETRIC_SIZE", "5k", 1);
    for (const struct env_row *row = iso_env_rows; row->name; row++)
        if (strcmp(row->name, "SHMEM_SYMMETRIC_SIZE") == 0)
            CHECK(strcmp(iso_env_text(row), "5k") == 0);
    unsetenv("SMA_SYMMETRIC_SIZE");
}

/* A control character in a wrong value must not reach the terminal; a long value is cut. */
static void test_error_text(void)
{
    struct env env;
    char error[256], longer[1000];
    setenv("SHMEM_RANK", "\033[2J\n", 1);
    CHECK_EQ(iso_env_read(&env, error, sizeof error), -EINVAL);
    CHECK_NAMED(strchr(error, '\033') == NULL && strchr(error, '\n') == NULL, error);
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    setenv("SHMEM_RANK", longer, 1);
    CHECK_EQ(iso_env_read(&env, error, sizeof error), -EINVAL);
    CHECK_NAMED(strstr(error, "xxx...") != NULL && strstr(error, "integer") != NULL, error);
    unsetenv("SHMEM_RANK");
}

static void test_locale(void)
{
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        fprintf(stderr, "no German locale here: decimal point not tried\n");
    check_size("1.5k", 1536);
    setlocale(LC_ALL, "C");
}

static void test_levels(void)
{
    enum log_level level = LOG_DEBUG;
    CHECK(iso_log_parse_level("Error", &level) == 0 && level == LOG_ERROR);
    CHECK_EQ(iso_log_parse_level("", &level), -EINVAL);
    iso_log_set_level(LOG_ERROR);
    CHECK(iso_log_shows(LOG_ERROR) && !iso_log_shows(LOG_WARN));
    CHECK_EQ(iso_log_parse_level("trace", &level), -EINVAL);
    iso_log_set_level(LOG_DEBUG);
    CHECK(iso_log_shows(LOG_DEBUG));
    iso_log_set_level(LOG_WARN);
}

/* What `iso_log` writes, read back through a pipe in place of stderr. */
static void check_line(int pe, const char *text, const char *expected)
{
    int ends[2], saved = dup(STDERR_FILENO);
    char line[4096] = "";
    CHECK_EQ(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    iso_log_set_pe(pe);
    errno = ENOENT;
    log_warn("%s: %m", text);
    int left = errno;
    dup2(saved, STDERR_FILENO);
    close(ends[1]);
    close(saved);
    ssize_t n = read(ends[0], line, sizeof line - 1);
    close(ends[0]);
    CHECK(n > 0 && line[n - 1] == '\n');
    CHECK_NAMED(strcmp(line, expected) == 0, line);
    CHECK_EQ(left, ENOENT);
}

static void test_lines(void)
{
    char expected[4096];
    check_line(3, "x", "[pe 3] warning: x: No such file or directory\n");
    snprintf(expected, sizeof expected, "[isomer pid %d] warning: x: No such file or directory\n", (int)getpid());
    check_line(-1, "x", expected);
    char text[3000];
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    snprintf(expected, sizeof expected, "[pe 3] warning: %s", text);
    strcpy(expected + 2043, "...\n"); /* cut, with its newline */
    check_line(3, text, expected);
}

int main(void)
{
    check_self.seed = 1;
    clear_all();
    test_sizes();
    test_wrong_sizes();
    test_sizes_at_random();
    test_fallbacks();
    test_rows_for_tests();
    test_flags();
    test_numbers();
    test_empty();
    test_allowed();
    test_strangers();
    test_old_names();
    test_error_text();
    test_locale();
    test_levels();
    test_lines();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
