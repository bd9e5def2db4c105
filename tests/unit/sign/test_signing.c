/* A key file is created once and stays private; facts without a good signature are refused. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"
#include "milligpu/sign/signing.h"

#include "support/test.h"

/* RFC 8032, 7.1, TEST 2: the seed as PKCS#8 (RFC 8410), and the public key that belongs to it. */
static const char rfc_key[] = "-----BEGIN PRIVATE KEY-----\n"
                              "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
                              "-----END PRIVATE KEY-----\n";
static const char rfc_public[] = "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=";
static const char other_public[] = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

/* P-256 */
static const char ec_key[] = "-----BEGIN PRIVATE KEY-----\n"
                             "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgGL/MBqew9b8UJXHX\n"
                             "KLt6LfOdAQoJoUvuccru4Cqti6+hRANCAAQuyadJRLZldiV018hDs0BlD6omhIDe\n"
                             "qkFm9xA9ydFHE2cxOdT/yX+GS4+i4BYZzalVE8riRF1+bsjV7aeJtgKe\n"
                             "-----END PRIVATE KEY-----\n";

struct fixture {
    char folder[64];
    char file[96];
    struct err err;
};

static int set_up(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);

    (void)snprintf(fixture->folder, sizeof fixture->folder, "/tmp/milligpu-sign-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    (void)snprintf(fixture->file, sizeof fixture->file, "%s/key", fixture->folder);
    *state = fixture;
    return 0;
}

/* Fails if anything but the key was left in the folder. */
static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    (void)unlink(fixture->file);
    assert_int_equal(rmdir(fixture->folder), 0);
    xfree(fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up, tear_down)

static void put_file(struct fixture *fixture, const char *bytes, size_t len, mode_t mode)
{
    FILE *file = fopen(fixture->file, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(fixture->file, mode), 0);
}

static unsigned mode_of(const char *file)
{
    struct stat st;

    assert_int_equal(stat(file, &st), 0);
    return st.st_mode & 0777U;
}

static struct signing_key *open_key(struct fixture *fixture)
{
    struct signing_key *key = NULL;
    const int rc = signing_key_open(fixture->file, &key, &fixture->err);

    if (rc < 0)
        fail_msg("%s", fixture->err.text);
    assert_non_null(key);
    return key;
}

static void refused(struct fixture *fixture, enum err_code code, const char *part)
{
    struct signing_key *key = NULL;

    assert_int_equal(signing_key_open(fixture->file, &key, &fixture->err), -(int)code);
    assert_null(key);
    if (strstr(fixture->err.text, part) == NULL || strstr(fixture->err.text, fixture->file) == NULL)
        fail_msg("\"%s\" lacks \"%s\" or the file", fixture->err.text, part);
    assert_int_equal(signing_key_check(fixture->file, &fixture->err), -(int)code);
}

static const struct signed_facts facts = {
    TEXT("6d3f2b0c-7d0e-4f3e-8f15-55a7b1b3f001"), TEXT("node-1"),
    TEXT("{\"v\":1,\"containers\":{\"c\":[{\"gpu\":\"GPU-a\",\"index\":0,\"milli\":300,\"mib\":"
         "4915}]}}"),
    SIGNED_ALLOCATION};

FIXTURE_TEST(key_file__is_created_once)
{
    char first[PUBLIC_KEY_TEXT_BYTES];

    assert_int_equal(signing_key_check(fixture->file, &fixture->err), 0);
    assert_int_equal(access(fixture->file, F_OK), -1); /* a check makes none */
    struct signing_key *key = open_key(fixture);
    assert_int_equal(mode_of(fixture->file), 0600);
    assert_int_equal(strlen(signing_key_id(key)), 16);
    assert_true(public_key_has_id(text_of(signing_key_public(key)), signing_key_id(key)));
    (void)snprintf(first, sizeof first, "%s", signing_key_public(key));
    signing_key_free(key);
    key = open_key(fixture);
    assert_string_equal(signing_key_public(key), first);
    signing_key_free(key);
    assert_int_equal(signing_key_check(fixture->file, &fixture->err), 0);
    /* Another file has another key. */
    assert_int_equal(unlink(fixture->file), 0);
    key = open_key(fixture);
    assert_string_not_equal(signing_key_public(key), first);
    signing_key_free(key);
}

FIXTURE_TEST(signing_sign__agrees_with_rfc_8032)
{
    char text[SIGNATURE_TEXT_BYTES];
    char again[SIGNATURE_TEXT_BYTES];
    char id[KEY_ID_BYTES];

    put_file(fixture, rfc_key, sizeof rfc_key - 1, 0600);
    struct signing_key *key = open_key(fixture);
    assert_string_equal(signing_key_public(key), rfc_public);
    /* By sha256sum and by openssl pkeyutl -sign -rawin, of the bytes that signing.h names. */
    assert_string_equal(signing_key_id(key), "39f713d0a644253f");
    assert_int_equal(signing_sign(key, &facts, text, &fixture->err), 0);
    assert_string_equal(
        text, "v1:39f713d0a644253f:km2abcfT7qXUeDbqxh7Nz9Ap71BrgHoTgRpLmzS9jj7cQrDlkulyHBLj8YVOXs22"
              "I3q8yVgQ7ebDWvQ5+JdUDg==");
    assert_int_equal(signing_sign(key, &facts, again, &fixture->err), 0);
    assert_string_equal(again, text);
    assert_true(signature_key_id(text_of(text), id));
    assert_string_equal(id, signing_key_id(key));
    assert_true(signature_is_good(text_of(rfc_public), text_of(text), &facts));
    assert_false(signature_is_good(text_of(other_public), text_of(text), &facts));
    signing_key_free(key);
}

struct signed_text {
    char part[4][512]; /* uid, node, annotation, signature */
    size_t len[4];
    char key[PUBLIC_KEY_TEXT_BYTES];
    size_t key_len;
};

static bool is_good(const struct signed_text *is)
{
    const struct signed_facts what = {{is->part[0], is->len[0]},
                                      {is->part[1], is->len[1]},
                                      {is->part[2], is->len[2]},
                                      SIGNED_ALLOCATION};

    return signature_is_good((struct text){is->key, is->key_len},
                             (struct text){is->part[3], is->len[3]}, &what);
}

/* Each byte in each of its other 255 values, and each length less and one more. */
static void changes_nothing_else(struct signed_text *is, char *bytes, size_t *len)
{
    const size_t was = *len;

    for (size_t i = 0; i < was; i++) {
        const char good = bytes[i];
        for (unsigned by = 1; by < 256; by++) {
            bytes[i] = (char)((unsigned char)good ^ by);
            assert_false(is_good(is));
        }
        bytes[i] = good;
        *len = i;
        assert_false(is_good(is));
        *len = was;
    }
    bytes[was] = 'A';
    *len = was + 1;
    assert_false(is_good(is));
    bytes[was] = '\0';
    *len = was;
    assert_true(is_good(is));
}

FIXTURE_TEST(signature__is_refused_after_any_changed_byte)
{
    const struct text part[3] = {TEXT("u-1"), TEXT("n-1"), TEXT("{\"v\":1}")};
    const struct signed_facts what = {part[0], part[1], part[2], SIGNED_ALLOCATION};
    struct signed_text is = {.key_len = 0};

    put_file(fixture, rfc_key, sizeof rfc_key - 1, 0400);
    struct signing_key *key = open_key(fixture);
    for (size_t i = 0; i < 3; i++) {
        memcpy(is.part[i], part[i].at, part[i].len);
        is.len[i] = part[i].len;
    }
    assert_int_equal(signing_sign(key, &what, is.part[3], &fixture->err), 0);
    is.len[3] = strlen(is.part[3]);
    assert_int_equal(is.len[3], SIGNATURE_TEXT_BYTES - 1);
    (void)snprintf(is.key, sizeof is.key, "%s", signing_key_public(key));
    is.key_len = PUBLIC_KEY_TEXT_BYTES - 1;
    assert_true(is_good(&is));
    for (size_t i = 0; i < 4; i++)
        changes_nothing_else(&is, is.part[i], &is.len[i]);
    changes_nothing_else(&is, is.key, &is.key_len);
    signing_key_free(key);
}

/* NULs separate the parts, so that no byte can move from one to the next. */
FIXTURE_TEST(signature__binds_the_borders_of_its_parts)
{
    const struct signed_facts a = {TEXT("uid"), TEXT("node"), TEXT("{}"), SIGNED_ALLOCATION};
    const struct signed_facts b = {TEXT("uidn"), TEXT("ode"), TEXT("{}"), SIGNED_ALLOCATION};
    const struct signed_facts c = {TEXT("uid\0node"), TEXT(""), TEXT("{}"), SIGNED_ALLOCATION};
    char text[SIGNATURE_TEXT_BYTES];
    struct signing_key *key = open_key(fixture);
    const struct text public_key = text_of(signing_key_public(key));

    assert_int_equal(signing_sign(key, &a, text, &fixture->err), 0);
    assert_true(signature_is_good(public_key, text_of(text), &a));
    assert_false(signature_is_good(public_key, text_of(text), &b));
    assert_false(signature_is_good(public_key, text_of(text), &c));
    signing_key_free(key);
}

/* An agent may sign reports of its node; a report must not pass as an allocation, or back. */
FIXTURE_TEST(signature__is_good_for_one_kind_of_facts)
{
    static const struct signed_facts report = {
        .node = TEXT("n1"), .bytes = TEXT("{\"v\":1}"), .kind = SIGNED_USAGE};
    struct signed_facts other = report;
    char text[SIGNATURE_TEXT_BYTES];

    put_file(fixture, rfc_key, sizeof rfc_key - 1, 0600);
    struct signing_key *key = open_key(fixture);
    assert_int_equal(signing_sign(key, &report, text, &fixture->err), 0);
    /* By openssl pkeyutl -sign -rawin, of the bytes that signing.h names. */
    assert_string_equal(
        text,
        "v1:39f713d0a644253f:ExdL65hQzZUmuXHGdPA18HJAz2CFRnaQzDvfBfSureXhzEp7ZgldIZp9J/+aVB42v"
        "Wj+rNL6LLoSQVRv+cGGDQ==");
    assert_true(signature_is_good(text_of(rfc_public), text_of(text), &report));
    other.kind = SIGNED_ALLOCATION;
    assert_false(signature_is_good(text_of(rfc_public), text_of(text), &other));
    /* The same bytes with another border between the name of the node and the report. */
    other = (struct signed_facts){TEXT(""), TEXT("n1"), TEXT("{\"v\":1}"), SIGNED_ALLOCATION};
    assert_int_equal(signing_sign(key, &other, text, &fixture->err), 0);
    assert_false(signature_is_good(text_of(rfc_public), text_of(text), &report));
    other = report;
    other.node = TEXT("n2");
    assert_int_equal(signing_sign(key, &report, text, &fixture->err), 0);
    assert_false(signature_is_good(text_of(rfc_public), text_of(text), &other));
    signing_key_free(key);
}

TEST(signature__is_refused_for_garbage_of_any_length)
{
    char bytes[256];
    char id[KEY_ID_BYTES];

    for (unsigned fill = 0; fill < 256; fill++)
        for (size_t len = 0; len <= sizeof bytes; len += len > 120 ? 32 : 1) {
            memset(bytes, (int)fill, sizeof bytes);
            const struct text text = {bytes, len};
            assert_false(signature_key_id(text, id));
            assert_false(signature_is_good(text, text, &facts));
            assert_false(signature_is_good(text_of(rfc_public), text, &facts));
            if (len != PUBLIC_KEY_TEXT_BYTES - 1)
                assert_false(public_key_has_id(text, "0000000000000000"));
        }
    assert_false(signature_key_id(TEXT("v1:66687AADF862BD77:"), id));
    assert_false(public_key_has_id(TEXT("AAAA"), ""));
}

FIXTURE_TEST(key_file__is_refused_when_readable_by_others)
{
    static const mode_t bad[] = {0640, 0604, 0644, 0620, 0602, 0610, 0601, 0666, 0664, 0440};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        put_file(fixture, rfc_key, sizeof rfc_key - 1, bad[i]);
        refused(fixture, ERR_INVALID, "others could read it");
        assert_int_equal(mode_of(fixture->file), bad[i]);
        assert_int_equal(unlink(fixture->file), 0);
    }
    /* kubelet adds exactly these to every file of a volume with fsGroup. */
    put_file(fixture, rfc_key, sizeof rfc_key - 1, 0660);
    signing_key_free(open_key(fixture));
    assert_int_equal(mode_of(fixture->file), 0600);
}

FIXTURE_TEST(key_file__is_refused_with_the_reason)
{
    CLEANUP(xfreep) char *large = xcalloc(20000, 1);

    put_file(fixture, "", 0, 0600);
    refused(fixture, ERR_INVALID, "is empty");
    put_file(fixture, "rubbish\n", 8, 0600);
    refused(fixture, ERR_INVALID, "is no private key");
    put_file(fixture, rfc_key, sizeof rfc_key / 2, 0600);
    refused(fixture, ERR_INVALID, "is no private key");
    put_file(fixture, ec_key, sizeof ec_key - 1, 0600);
    refused(fixture, ERR_INVALID, "another kind");
    memset(large, 'x', 20000);
    put_file(fixture, large, 20000, 0600);
    refused(fixture, ERR_TOO_LARGE, "too large");
    assert_int_equal(unlink(fixture->file), 0);
    assert_int_equal(mkdir(fixture->file, 0700), 0);
    refused(fixture, ERR_INVALID, "is no file");
    assert_int_equal(rmdir(fixture->file), 0);
    assert_int_equal(mkfifo(fixture->file, 0600), 0);
    refused(fixture, ERR_INVALID, "is no file");
}

FIXTURE_TEST(key_file__may_be_a_link)
{
    char target[120];

    (void)snprintf(target, sizeof target, "%s/target", fixture->folder);
    put_file(fixture, rfc_key, sizeof rfc_key - 1, 0600);
    assert_int_equal(rename(fixture->file, target), 0);
    assert_int_equal(symlink("target", fixture->file), 0);
    struct signing_key *key = open_key(fixture);
    assert_string_equal(signing_key_public(key), rfc_public);
    signing_key_free(key);
    /* A link to nothing stays one: no key is made in somebody's place. */
    assert_int_equal(unlink(target), 0);
    struct signing_key *none = NULL;
    assert_int_equal(signing_key_open(fixture->file, &none, &fixture->err), -ERR_NOT_FOUND);
}

FIXTURE_TEST(key_file__reports_a_missing_folder)
{
    struct signing_key *key = NULL;
    char file[128];

    (void)snprintf(file, sizeof file, "%s/no/key", fixture->folder);
    assert_int_equal(signing_key_open(file, &key, &fixture->err), -ERR_NOT_FOUND);
    assert_null(key);
    assert_non_null(strstr(fixture->err.text, "cannot be made"));
    signing_key_free(NULL);
}
