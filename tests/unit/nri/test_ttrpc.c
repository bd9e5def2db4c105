#include <stdint.h>
#include <string.h>

#include "milligpu/nri/nri.h"

#include "nri/ttrpc.h"
#include "support/scoped.h"
#include "support/test.h"

static const char two_messages[] = "\0\0\0\3\0\0\0\1\1\0abc"
                                   "\0\0\0\0\0\0\0\3\2\7";

static void expect_two(struct ttrpc *ttrpc, struct text part[], size_t parts)
{
    struct ttrpc_message message;
    struct err err;
    int seen = 0;
    for (size_t i = 0; i < parts; i++) {
        while (ttrpc_next(ttrpc, &part[i], &message, &err) > 0) {
            seen++;
            assert_int_equal(message.stream, seen == 1 ? 1 : 3);
            assert_int_equal(message.type, seen == 1 ? TTRPC_REQUEST : TTRPC_RESPONSE);
            assert_int_equal(message.flags, seen == 1 ? 0 : 7);
            assert_true(text_is(message.data, seen == 1 ? "abc" : ""));
        }
        assert_int_equal(part[i].len, 0);
    }
    assert_int_equal(seen, 2);
}

TEST(ttrpc__reads_a_message_cut_anywhere)
{
    const size_t bytes = sizeof two_messages - 1;
    for (size_t cut = 0; cut <= bytes; cut++) {
        CLEANUP(ttrpc_done) struct ttrpc ttrpc;
        ttrpc_init(&ttrpc);
        expect_two(&ttrpc, (struct text[]){{two_messages, cut}, {two_messages + cut, bytes - cut}},
                   2);
    }
}

TEST(ttrpc__reads_single_bytes)
{
    struct text part[sizeof two_messages - 1];
    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        part[i] = (struct text){two_messages + i, 1};
    CLEANUP(ttrpc_done) struct ttrpc ttrpc;
    ttrpc_init(&ttrpc);
    expect_two(&ttrpc, part, ARRAY_LEN(part));
}

TEST(ttrpc__reads_what_it_wrote)
{
    SCOPED_STRBUF(out);
    ttrpc_put(&out, &(struct ttrpc_message){1, TTRPC_REQUEST, 0, TEXT("abc")});
    ttrpc_put(&out, &(struct ttrpc_message){3, TTRPC_RESPONSE, 7, TEXT("")});
    assert_int_equal(out.len, sizeof two_messages - 1);
    assert_memory_equal(out.data, two_messages, out.len);
}

TEST(ttrpc__takes_messages_up_to_4_mib)
{
    struct ttrpc_message message;
    struct err err;
    CLEANUP(ttrpc_done) struct ttrpc ttrpc;
    ttrpc_init(&ttrpc);
    struct text head = TEXT("\0\x40\0\0\0\0\0\1\1\0");
    assert_int_equal(ttrpc_next(&ttrpc, &head, &message, &err), 0);
    /* Announced bytes take no memory before they arrive. */
    assert_true(ttrpc.buf.capacity < 4096);
    ttrpc_done(&ttrpc);
    ttrpc_init(&ttrpc);
    head = TEXT("\0\x40\0\1\0\0\0\1\1\0");
    assert_int_equal(ttrpc_next(&ttrpc, &head, &message, &err), -ERR_TOO_LARGE);
    assert_string_equal(err.text, "a message of 4194305 bytes; 4194304 are allowed");
}

TEST(ttrpc__frees_the_memory_of_a_long_message)
{
    static char data[1 << 20];
    struct ttrpc_message message;
    struct err err;
    CLEANUP(ttrpc_done) struct ttrpc ttrpc;
    SCOPED_STRBUF(bytes);
    ttrpc_init(&ttrpc);
    ttrpc_put(&bytes, &(struct ttrpc_message){1, TTRPC_REQUEST, 0, {data, sizeof data}});
    struct text rest = {bytes.data, bytes.len};
    assert_int_equal(ttrpc_next(&ttrpc, &rest, &message, &err), 1);
    assert_int_equal(message.data.len, sizeof data);
    assert_int_equal(ttrpc_next(&ttrpc, &rest, &message, &err), 0);
    assert_true(ttrpc.buf.capacity < 4096);
}
