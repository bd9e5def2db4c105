#include <string.h>

#include "milligpu/http/http.h"

#include "support/test.h"

TEST(address__with_a_port_is_valid)
{
    static const struct {
        const char *address;
        bool loopback;
    } right[] = {
        {"127.0.0.1:8910", true},  {"127.255.1.2:0", true},
        {"localhost:65535", true}, {"[::1]:80", true},
        {"0.0.0.0:1", false},      {"10.1.2.3:443", false},
        {"[::]:0", false},         {"[fd00::7]:1", false},
        {"128.0.0.1:1", false},    {"[::ffff:127.0.0.1]:1", false},
    };
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        if (http_address_check(right[i].address, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(http_address_is_loopback(right[i].address), right[i].loopback);
    }
}

TEST(address__error_names_the_mistake_and_an_example)
{
    static const struct {
        const char *address;
        const char *says;
    } wrong[] = {
        {"", "no port"},
        {"127.0.0.1", "no port"},
        {"8910", "no port"},
        {":8910", "0.0.0.0 means every one"},
        {"[]:8910", "0.0.0.0 means every one"},
        {"127.0.0.1:", "not 0 to 65535"},
        {"127.0.0.1:65536", "not 0 to 65535"},
        {"127.0.0.1:-1", "not 0 to 65535"},
        {"127.0.0.1:80 ", "not 0 to 65535"},
        {"127.0.0.1:http", "not 0 to 65535"},
        {"127.0.0.1:000080", "not 0 to 65535"},
        {"127.0.0.1:99999999999999999999", "not 0 to 65535"},
        {"::1:80", "without brackets"},
        {"127.0.0.1:80:81", "without brackets"},
        {"[::1]", "no port"},
        {"[::1", "no port"},
        {"[::1]80", "no port"},
        {"[127.0.0.1]:80", "IP address"},
        {"[zz]:80", "IP address"},
        {"256.0.0.1:80", "IP address"},
        {"node.example:80", "IP address"},
        {"http://127.0.0.1:80", "without brackets"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1",
         "port"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct err err;
        assert_int_equal(http_address_check(wrong[i].address, &err), -ERR_INVALID);
        if (strstr(err.text, wrong[i].says) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", err.text, wrong[i].says);
        assert_non_null(strstr(err.text, "127.0.0.1:8910 or [::1]:0"));
        assert_false(http_address_is_loopback(wrong[i].address));
    }
}
