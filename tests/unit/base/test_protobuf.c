/* protobuf - the fields of a message, and where it is none. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/protobuf.h"
#include "milligpu/base/strbuf.h"

#include "support/scoped.h"
#include "support/test.h"

/* "1:5 2:abc " for each field, and "broken" where it is none. */
static const char *read_all(struct strbuf *out, struct text message)
{
    struct protobuf in = protobuf_of(message);
    struct protobuf_field field;

    strbuf_reset(out);
    while (protobuf_next(&in, &field)) {
        strbuf_printf(out, "%u:", field.number);
        if (field.type == PROTOBUF_NUMBER)
            strbuf_u64(out, field.value);
        else
            strbuf_text(out, field.text);
        strbuf_char(out, ' ');
    }
    if (in.broken)
        strbuf_str(out, "broken");
    assert_false(protobuf_next(&in, &field)); /* and stays at its end */
    return out->data;
}

TEST(protobuf__reads_fields_in_order)
{
    static const struct {
        struct text message;
        const char *read;
    } row[] = {
        {TEXT(""), ""},
        {{NULL, 0}, ""},
        {TEXT("\x08\x05\x12\3abc"), "1:5 2:abc "},
        {TEXT("\x12\0\x12\0"), "2: 2: "},
        {TEXT("\x09\1\2\3\4\5\6\7\x41\x15xyzw\x08\0"), "1:\1\2\3\4\5\6\7A 2:xyzw 1:0 "},
        {TEXT("\xf8\xff\xff\xff\x0f\1"), "536870911:1 "}, /* the largest number of a field */
        {TEXT("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"), "1:18446744073709551615 "},
        {TEXT("\x08\x85\x80\0"), "1:5 "}, /* longer than it must be */
    };
    SCOPED_STRBUF(out);
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        assert_string_equal(read_all(&out, row[i].message), row[i].read);
}

TEST(protobuf__refuses_broken_fields)
{
    static const struct text broken[] = {
        TEXT("\x08"),                                           /* no value */
        TEXT("\x80"),                                           /* half a number */
        TEXT("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"), /* one of eleven bytes */
        TEXT("\x12\4abc"),                                      /* a byte too few */
        TEXT("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\1abc"),  /* all bytes too few */
        TEXT("\x09\1\2\3\4\5\6\7"),
        TEXT("\x15xyz"),
        TEXT("\0\1"),     /* field 0 */
        TEXT("\x0b\x0c"), /* a group */
        TEXT("\x0e\1"),   /* unknown types */
        TEXT("\x0f\1"),
        TEXT("\x88\x80\x80\x80\x10\1"), /* a number over 32 bits */
    };
    SCOPED_STRBUF(out);
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        SCOPED_STRBUF(behind);
        assert_string_equal(read_all(&out, broken[i]), "broken");
        strbuf_str(&behind, "\x1a\1x");
        strbuf_text(&behind, broken[i]);
        assert_string_equal(read_all(&out, (struct text){behind.data, behind.len}), "3:x broken");
    }
}

TEST(protobuf__checks_the_type_of_a_value)
{
    const struct protobuf_field number = {.number = 1, .type = PROTOBUF_NUMBER, .value = 7};
    const struct protobuf_field text = {.number = 1, .type = PROTOBUF_TEXT, .text = TEXT("abc")};
    const struct protobuf_field fixed = {
        .number = 1, .type = PROTOBUF_FIXED32, .text = TEXT("abcd")};
    struct protobuf in = protobuf_of(TEXT(""));
    assert_int_equal(protobuf_number(&in, &number), 7);
    assert_true(text_is(protobuf_text(&in, &text), "abc"));
    assert_false(in.broken);
    assert_int_equal(protobuf_number(&in, &text), 0);
    assert_true(in.broken);
    in.broken = false;
    assert_int_equal(protobuf_text(&in, &number).len, 0);
    assert_true(in.broken);
    in.broken = false;
    assert_int_equal(protobuf_text(&in, &fixed).len + protobuf_number(&in, &fixed), 0);
    assert_true(in.broken);
}
