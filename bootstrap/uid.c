/* SPDX-License-Identifier: MIT */
/* The text of a unique id: parsing and printing, no I/O. */
#include "uid.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* -1: not a hex digit. By hand: isxdigit follows the locale. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns what follows the address and its colon, or NULL. */
static const char *parse_address(const char *text, struct tcp_address *address)
{
    char number[46]; /* the longest IPv6 address */
    bool ipv6 = *text == '[';
    const char *start = text + ipv6;
    const char *end = strchr(start, ipv6 ? ']' : ':');
    if (!end || (size_t)(end - start) >= sizeof number)
        return NULL;
    memcpy(number, start, (size_t)(end - start));
    number[end - start] = '\0';
    if (!iso_tcp_parse(number, address) || address->ipv6 != ipv6)
        return NULL;
    end += ipv6;
    return *end == ':' ? end + 1 : NULL;
}

int iso_uid_parse(const unsigned char id[ISO_UID_BYTES], struct uid *uid, const char **why)
{
    memset(uid, 0, sizeof *uid);
    const char *text = (const char *)id;
    *why = "it is not a text of less than 128 bytes";
    if (!memchr(id, 0, ISO_UID_BYTES) || *text == '\0')
        return -EINVAL;
    *why = "it does not begin with a numeric address, a.b.c.d or [IPv6], and a colon";
    if (!(text = parse_address(text, &uid->address)))
        return -EINVAL;
    *why = "its port is not in 1..65535, or no colon follows";
    unsigned port = 0;
    for (int digits = 0; *text >= '0' && *text <= '9' && digits < 6; text++, digits++)
        port = port * 10 + (unsigned)(*text - '0');
    if (port == 0 || port > 65535 || *text != ':')
        return -EINVAL;
    uid->address.port = (uint16_t)port;
    text++;
    *why = "its secret is not 32 hexadecimal digits";
    if (strlen(text) != 2 * AUTH_BYTES)
        return -EINVAL;
    for (int i = 0; i < AUTH_BYTES; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return -EINVAL;
        uid->secret[i] = (unsigned char)(high << 4 | low);
    }
    *why = "";
    return 0;
}

bool iso_uid_is_same(const struct uid *a, const struct uid *b)
{
    return iso_tcp_is_same(&a->address, &b->address) && memcmp(a->secret, b->secret, sizeof a->secret) == 0;
}

void iso_uid_format(const struct uid *uid, unsigned char id[ISO_UID_BYTES])
{
    char *text = (char *)id;
    memset(id, 0, ISO_UID_BYTES);
    iso_tcp_name(&uid->address, text);
    size_t n = strlen(text);
    text[n++] = ':';
    for (int i = 0; i < AUTH_BYTES; i++)
        n += (size_t)snprintf(text + n, ISO_UID_BYTES - n, "%02x", uid->secret[i]);
}

void iso_uid_list_missing(const bool *here, int size, char *text, size_t text_bytes)
{
    size_t n = 0;
    text[0] = '\0';
    for (int r = 0; r < size; r++) {
        if (here[r])
            continue;
        int last = r;
        while (last + 1 < size && !here[last + 1])
            last++;
        if (n + 32 > text_bytes) {
            snprintf(text + n, text_bytes - n, ", ...");
            return;
        }
        n += (size_t)snprintf(text + n, text_bytes - n, last == r ? "%s%d" : "%s%d-%d", n > 0 ? ", " : "", r, last);
        r = last;
    }
}
