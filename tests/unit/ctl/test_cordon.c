/* cordon - the choice of a GPU, the new annotation, and its line for a shell. */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/limits.h"

#include "ctl/commands/cordon.h"
#include "ctl/commands/gpu_name.h"
#include "ctl/kubectl.h"
#include "support/scoped.h"
#include "support/shown.h"
#include "support/test.h"

static struct err err; /* of the latest call */

static struct shown shown;

#define GPU(index, id, state)                                                                      \
    "{\"index\":" #index ",\"id\":\"" id "\",\"state\":\"" state "\",\"cordoned\":false}"

static const char node_json[] = "{\"name\":\"n1\",\"gpus\":[" GPU(0, "GPU-aaaa1111", "ok") "," GPU(
    1, "GPU-aaaa2222",
    "ok") "," GPU(2, "GPU-bbbb", "unhealthy") "," GPU(1, "GPU-old", "absent") "," GPU(7, "77",
                                                                                      "ok") "]}";

static int set_up(void **state __attribute__((unused)))
{
    shown_begin(&shown, "nodes");
    return 0;
}

static int tear_down(void **state __attribute__((unused)))
{
    shown_end(&shown);
    shown_free(&shown);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, set_up, tear_down)

static void finds(const char *name, const char *id)
{
    const struct document *gpu = NULL;

    if (gpu_name_find(answer(&shown, node_json), name, &gpu, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    assert_string_equal(document_shown(gpu, "id"), id);
}

static void finds_none(const char *name, const char *says)
{
    const struct document *gpu;

    assert_true(gpu_name_find(answer(&shown, node_json), name, &gpu, &err) < 0);
    assert_string_equal(err.text, says);
}

FIXTURE_TEST(gpu_choice__takes_id_index_or_prefix)
{
    finds("0", "GPU-aaaa1111");
    finds("00", "GPU-aaaa1111");
    finds("2", "GPU-bbbb");
    finds("GPU-bbbb", "GPU-bbbb");
    finds("GPU-old", "GPU-old");
    finds("GPU-aaaa1", "GPU-aaaa1111");
    finds("77", "77"); /* an id goes before an index */
    finds("7", "77");
}

FIXTURE_TEST(gpu_choice__lists_the_gpus_when_ambiguous)
{
    static const char all[] = "0 (GPU-aaaa1111), 1 (GPU-aaaa2222), 2 (GPU-bbbb), 1 (GPU-old, "
                              "absent), 7 (77)";
    char text[256];
    static const char *const none[] = {"3",          "GPU-x", "GPU-aab",  "-1",
                                       "4294967296", "0x0",   "GPU-bbbbb"};
    const struct document *gpu;

    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        (void)snprintf(text, sizeof text, "node n1 has no GPU %s; it has %s", none[i], all);
        finds_none(none[i], text);
    }
    (void)snprintf(text, sizeof text, "the name of a GPU is empty; node n1 has %s", all);
    finds_none("", text);
    (void)snprintf(text, sizeof text,
                   "GPU-aaa is too short for the beginning of an id, which needs 8 letters; node "
                   "n1 has %s",
                   all);
    finds_none("GPU-aaa", text);
    finds_none("1", "1 means several GPUs of node n1, name one by its id: 1 (GPU-aaaa2222), 1 "
                    "(GPU-old, absent)");
    finds_none("GPU-aaaa", "GPU-aaaa means several GPUs of node n1, name one by its id: 0 "
                           "(GPU-aaaa1111), 1 (GPU-aaaa2222)");
    assert_true(gpu_name_find(answer(&shown, "{\"name\":\"n2\",\"gpus\":[]}"), "0", &gpu, &err) <
                0);
    assert_string_equal(err.text, "node n2 has no GPU 0: it has none");
}

FIXTURE_TEST(gpu_choice__bounds_the_list_of_an_error)
{
    char json[8192] = "{\"name\":\"n1\",\"gpus\":[";
    const struct document *gpu;

    for (int i = 0; i < 64; i++)
        (void)snprintf(json + strlen(json), sizeof json - strlen(json),
                       "%s{\"index\":%d,\"id\":\"GPU-%d\",\"state\":\"ok\"}", i > 0 ? "," : "", i,
                       i);
    (void)snprintf(json + strlen(json), sizeof json - strlen(json), "]}");
    assert_true(gpu_name_find(answer(&shown, json), "64", &gpu, &err) < 0);
    assert_non_null(strstr(err.text, "7 (GPU-7) and more"));
    assert_null(strstr(err.text, "GPU-8"));
}

FIXTURE_TEST(node_name__follows_kubernetes)
{
    char longest[NAME_BYTES_MAX + 2];

    memset(longest, 'a', sizeof longest);
    longest[NAME_BYTES_MAX] = '\0';
    assert_true(node_name_is_valid(longest));
    longest[NAME_BYTES_MAX] = 'a';
    longest[NAME_BYTES_MAX + 1] = '\0';
    assert_false(node_name_is_valid(longest));
    assert_true(node_name_is_valid("n"));
    assert_true(node_name_is_valid("ip-10-0-0-1.ec2.internal"));
    static const char *const bad[] = {"",    "-n",  "--all", "n-",  ".n",  "N",
                                      "n/1", "n 1", "n;ls",  "n\n", "n=1", "\xc3\xa4"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (node_name_is_valid(bad[i]))
            fail_msg("%s is valid", bad[i]);
}

/* words: GPUs of the node, separated by blanks; "": the whole node. */
static void becomes(const char *have, bool lift, const char *words, const char *value)
{
    struct document *node = answer(&shown, node_json);
    const struct document *gpu[8];
    struct cordon_change change = {.node = node, .gpu = gpu, .lift = lift};
    struct text rest = text_of(words);
    struct text word;
    SCOPED_STRBUF(out);
    bool same;

    while (rest.len > 0 && text_cut(&rest, ' ', &word)) {
        const char *name = arena_copy(&shown.ctl.kept, word);
        assert_int_equal(gpu_name_find(node, name, &gpu[change.n_gpus++], &err), 0);
    }
    assert_int_equal(cordon_merge(&change, have, &out, &same, &err), 0);
    if (value == NULL)
        assert_true(same);
    else
        assert_string_equal(out.data, value);
    assert_int_equal(same, value == NULL);
}

FIXTURE_TEST(cordon__adds_to_the_annotation)
{
    becomes("", false, "", "all");
    becomes("GPU-bbbb", false, "", "all");
    becomes("all", false, "", NULL);
    becomes("all", false, "0", NULL);
    becomes("", false, "0", "GPU-aaaa1111");
    becomes("", false, "2 0 2", "GPU-bbbb,GPU-aaaa1111");
    becomes("GPU-bbbb", false, "0", "GPU-bbbb,GPU-aaaa1111");
    becomes(" GPU-bbbb , GPU-away,, GPU-bbbb", false, "0", "GPU-bbbb,GPU-away,GPU-aaaa1111");
    becomes("GPU-bbbb,GPU-away", false, "2", NULL);
    becomes("GPU-bbbb, all", false, "0", NULL);
}

FIXTURE_TEST(uncordon__keeps_other_cordons)
{
    becomes("all", true, "", "");
    becomes("GPU-bbbb,GPU-away", true, "", "");
    becomes("", true, "", NULL);
    becomes("", true, "0", NULL);
    becomes("GPU-bbbb", true, "2", "");
    becomes("GPU-bbbb", true, "0", NULL);
    becomes("GPU-bbbb,GPU-away,GPU-aaaa1111", true, "2 0", "GPU-away");
    becomes("n1/gpu-2,GPU-away", true, "2", "GPU-away"); /* by its former, made-up id */
    becomes("all", true, "0", "GPU-aaaa2222,GPU-bbbb,GPU-old,77");
    becomes("all,GPU-away,GPU-aaaa1111", true, "0", "GPU-away,GPU-aaaa2222,GPU-bbbb,GPU-old,77");
    becomes("all", true, "0 GPU-aaaa2222 2 GPU-old 77", "");
}

FIXTURE_TEST(cordon__keeps_an_annotation_that_is_not_a_list)
{
    static const char *const odd[] = {"GPU-a b", "GPU-a,\x1b[2J", "\xc3\xa4", "a\nb"};
    const struct document *gpu = NULL;

    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        struct document *node = answer(&shown, node_json);
        struct cordon_change change = {.node = node, .gpu = &gpu, .n_gpus = 1};
        struct strbuf out;
        bool same;
        assert_int_equal(gpu_name_find(node, "0", &gpu, &err), 0);
        strbuf_init(&out);
        assert_true(cordon_merge(&change, odd[i], &out, &same, &err) < 0);
        assert_non_null(strstr(err.text, "has an entry that is no GPU"));
        assert_null(strchr(err.text, '\x1b'));
        strbuf_done(&out);
    }
}

FIXTURE_TEST(shell_line__quotes_the_same_words)
{
    struct kubectl kubectl = {0};
    SCOPED_STRBUF(line);

    kubectl_add(&kubectl, "kubectl");
    kubectl_add(&kubectl, "milligpu.io/cordon=GPU-1,n1/gpu-0");
    kubectl_add(&kubectl, "a b");
    kubectl_add(&kubectl, "it's");
    kubectl_add(&kubectl, "$(ls)");
    kubectl_add(&kubectl, "");
    kubectl_line(&line, &kubectl);
    assert_string_equal(line.data, "kubectl milligpu.io/cordon=GPU-1,n1/gpu-0 'a b' 'it'\\''s' "
                                   "'$(ls)' ''");
}
