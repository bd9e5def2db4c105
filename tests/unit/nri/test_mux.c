#include <stdint.h>
#include <string.h>

#include "milligpu/nri/nri.h"

#include "nri/mux.h"
#include "support/scoped.h"
#include "support/test.h"

/* "1:abc " for each piece. */
static int read_all(struct mux *mux, struct text bytes, struct strbuf *out, struct err *err)
{
    struct mux_piece piece;
    int got;
    while ((got = mux_next(mux, &bytes, &piece, err)) > 0)
        strbuf_printf(out, "%u:%.*s ", piece.connection, TEXT_ARG(piece.bytes));
    return got;
}

TEST(mux__cuts_frames_out_of_the_stream)
{
    static const char stream[] = "\0\0\0\1\0\0\0\3abc"
                                 "\0\0\0\2\0\0\0\1x"
                                 "\xff\xff\xff\xff\0\0\0\2yz";
    struct mux mux = {0};
    struct err err;
    SCOPED_STRBUF(out);
    assert_int_equal(read_all(&mux, TEXT(stream), &out, &err), 0);
    assert_string_equal(out.data, "1:abc 2:x 4294967295:yz ");
}

TEST(mux__reads_a_frame_cut_anywhere)
{
    static const char stream[] = "\0\0\0\1\0\0\0\3abc\0\0\0\2\0\0\0\1x";
    struct err err;
    for (size_t cut = 0; cut <= sizeof stream - 1; cut++) {
        struct mux mux = {0};
        char seen[8] = "";
        size_t len = 0;
        struct text part[] = {{stream, cut}, {stream + cut, sizeof stream - 1 - cut}};
        for (size_t i = 0; i < ARRAY_LEN(part); i++) {
            struct mux_piece piece;
            while (mux_next(&mux, &part[i], &piece, &err) > 0) {
                assert_int_equal(piece.connection, len < 3 ? 1 : 2);
                memcpy(seen + len, piece.bytes.at, piece.bytes.len);
                len += piece.bytes.len;
            }
        }
        assert_string_equal(seen, "abcx");
    }
}

TEST(mux__skips_empty_frames)
{
    static const char stream[] = "\0\0\0\1\0\0\0\0"
                                 "\0\0\0\1\0\0\0\0"
                                 "\0\0\0\1\0\0\0\1a"
                                 "\0\0\0\2\0\0\0\0";
    struct mux mux = {0};
    struct err err;
    SCOPED_STRBUF(out);
    assert_int_equal(read_all(&mux, TEXT(stream), &out, &err), 0);
    assert_string_equal(out.data, "1:a ");
}

TEST(mux__takes_at_most_one_message_in_a_frame)
{
    struct mux mux = {0};
    struct err err;
    SCOPED_STRBUF(out);
    assert_int_equal(read_all(&mux, TEXT("\0\0\0\1\0\x40\0\x0a"), &out, &err), 0);
    mux = (struct mux){0};
    assert_int_equal(read_all(&mux, TEXT("\0\0\0\1\0\x40\0\x0b"), &out, &err), -ERR_INVALID);
    assert_string_equal(err.text, "a frame of 4194315 bytes: this is no NRI");
    mux = (struct mux){0};
    assert_int_equal(read_all(&mux, TEXT("HTTP/1.1 400 Bad Request"), &out, &err), -ERR_INVALID);
}

TEST(mux__sends_frames_of_4096_bytes)
{
    static const struct {
        size_t bytes;
        size_t frames;
    } message[] = {{1, 1}, {4095, 1}, {4096, 1}, {4097, 2}, {8192, 2}, {8193, 3}};
    static char content[8193];
    for (size_t i = 0; i < ARRAY_LEN(message); i++) {
        SCOPED_STRBUF(out);
        mux_put(&out, MUX_PLUGIN, (struct text){content, message[i].bytes});
        assert_int_equal(out.len, message[i].bytes + message[i].frames * MUX_HEAD);
        size_t at = 0;
        for (size_t left = message[i].bytes; left > 0;) {
            const size_t bytes = left < NRI_FRAME_MAX ? left : NRI_FRAME_MAX;
            assert_int_equal(mux_u32(out.data + at), MUX_PLUGIN);
            assert_int_equal(mux_u32(out.data + at + 4), bytes);
            at += MUX_HEAD + bytes;
            left -= bytes;
        }
        assert_int_equal(at, out.len);
    }
}
