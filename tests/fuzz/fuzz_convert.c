/*
 * Manifests of other sharers: whatever they are, converting ends, and converting the result changes
 * nothing. Where nothing was converted, the result is the input. The first byte chooses the rules.
 */
#include <string.h>

#include "ctl/convert/convert.h"
#include "support.h"

struct messages {
    uint32_t lines;
};

static void count_line(void *user, const char *line)
{
    struct messages *messages = user;
    for (const char *at = line; *at != '\0'; at++)
        must((unsigned char)*at >= ' ');
    must(strncmp(line, "f: ", 3) == 0);
    messages->lines++;
}

static uint32_t convert(uint8_t rules, struct text bytes, struct strbuf *out)
{
    struct messages messages = {0};
    struct conversion conversion = {
        .rules = {.resource = "nvidia.com/vgpu",
                  .gpu_mib = (rules & 4) != 0 ? 0 : 40960,
                  .aliyun_mib = (rules & 8) != 0 ? 1 : 1024,
                  .from = (enum convert_peer)(rules & 3)},
        .user = &messages,
        .say = count_line,
    };
    convert_text(&conversion, bytes, "f", out);
    must(conversion.unconverted <= messages.lines);
    return messages.lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SCOPED_STRBUF(once);
    SCOPED_STRBUF(twice);
    const size_t before = heap_bytes();
    if (size == 0 || size > CONVERT_BYTES_MAX / 4)
        return 0;
    const struct text bytes = {(const char *)data + 1, size - 1};
    (void)convert(data[0], bytes, &once);
    heap_is_bounded(before, size);
    (void)convert(data[0], (struct text){once.data, once.len}, &twice);
    must(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    return 0;
}
