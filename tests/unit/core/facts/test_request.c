#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/request.h"

#include "support/test.h"

/* One pod, the result of judging it, and the arena that both live in. */
struct fixture {
    struct arena arena;
    struct pod pod;
    struct pod_container container[CONTAINERS_MAX + 2];
    char name[CONTAINERS_MAX + 2][8];
    struct request_rules rules;
    struct request request;
    struct refusal refusal;
};

static struct fixture fixture;

static void start(void)
{
    arena_reset(&fixture.arena);
    fixture.pod = (struct pod){.uid = "u", .namespace = "default", .name = "web", .node = ""};
    fixture.pod.container = fixture.container;
    fixture.rules = (struct request_rules){"nvidia.com/vgpu", 1, 1};
}

/* Name the resource in one more container. */
static struct pod_container *add(enum container_kind kind, const char *amount)
{
    const uint32_t i = fixture.pod.containers++;
    (void)snprintf(fixture.name[i], sizeof fixture.name[i], "c%u", i);
    fixture.container[i] = (struct pod_container){fixture.name[i], kind, amount, NULL};
    return &fixture.container[i];
}

static enum request_verdict parse(void)
{
    return request_parse(&fixture.pod, &fixture.rules, &fixture.arena, &fixture.request,
                         &fixture.refusal);
}

static void assert_refused(enum reason why, const char *text)
{
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_string_equal(fixture.refusal.text, text);
    assert_string_equal(reason_name(fixture.refusal.why), reason_name(why));
    assert_int_equal(reason_class(why), REASON_CLASS_REQUEST);
}

static void assert_want(uint32_t i, uint32_t parts, uint32_t milli)
{
    assert_true(i < fixture.request.wants);
    assert_int_equal(fixture.request.want[i].parts, parts);
    assert_int_equal(fixture.request.want[i].milli, milli);
}

TEST(amounts_become_parts)
{
    static const struct {
        const char *amount;
        const char *count;
        uint32_t parts;
        uint32_t milli;
    } row[] = {
        {"1", NULL, 1, 1},         {"300", NULL, 1, 300},     {"1000", NULL, 1, 1000},
        {"2000", NULL, 2, 1000},   {"64000", NULL, 64, 1000}, {"1k", NULL, 1, 1000},
        {"3e2", NULL, 1, 300},     {"0.3k", NULL, 1, 300},    {"300000m", NULL, 1, 300},
        {"600", "2", 2, 300},      {"600", " 2 ", 2, 300},    {"2000", "2", 2, 1000},
        {"1500", "2", 2, 750},     {"300", "1", 1, 300},      {"64", "64", 64, 1},
        {"64000", "64", 64, 1000}, {"600", "02", 2, 300},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        start();
        add(CONTAINER_APP, row[i].amount);
        fixture.pod.count = row[i].count;
        assert_int_equal(parse(), REQUEST_OK);
        assert_int_equal(fixture.request.wants, 1);
        assert_want(0, row[i].parts, row[i].milli);
        assert_int_equal(fixture.request.models, 0);
        assert_int_equal(fixture.request.memory_mib, 0);
    }
}

TEST(pods_that_ask_nothing_are_told_from_pods_that_ask_zero)
{
    start();
    assert_int_equal(parse(), REQUEST_NOT_OURS);
    add(CONTAINER_APP, NULL);
    assert_int_equal(parse(), REQUEST_NOT_OURS);
    add(CONTAINER_INIT, "0");
    assert_int_equal(parse(), REQUEST_ZERO);
    add(CONTAINER_APP, "0e5");
    assert_int_equal(parse(), REQUEST_ZERO);
    fixture.pod.count = "nonsense"; /* ignored without an amount */
    fixture.pod.model = "";
    fixture.pod.memory = "x";
    assert_int_equal(parse(), REQUEST_ZERO);
    fixture.pod.count = fixture.pod.model = fixture.pod.memory = NULL;
    add(CONTAINER_APP, "5");
    assert_int_equal(parse(), REQUEST_OK);
    assert_int_equal(fixture.request.wants, 1);
    assert_string_equal(fixture.request.want[0].container, "c3");
}

TEST(wants_stand_in_the_order_of_the_containers)
{
    start();
    add(CONTAINER_SIDECAR, "100");
    add(CONTAINER_INIT, "700");
    add(CONTAINER_APP, NULL);
    add(CONTAINER_APP, "400");
    add(CONTAINER_APP, "0");
    add(CONTAINER_APP, "2000");
    assert_int_equal(parse(), REQUEST_OK);
    assert_int_equal(fixture.request.wants, 4);
    static const char *const name[] = {"c0", "c1", "c3", "c5"};
    static const enum container_kind kind[] = {CONTAINER_SIDECAR, CONTAINER_INIT, CONTAINER_APP,
                                               CONTAINER_APP};
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(fixture.request.want[i].container, name[i]);
        assert_int_equal(fixture.request.want[i].kind, kind[i]);
    }
    assert_want(3, 2, 1000);
}

TEST(a_refused_amount_says_what_to_write_instead)
{
    static const char hint[] = "ask for 1 to 1000 (1000 is one whole GPU) or a multiple of 1000";
    static const struct {
        const char *amount;
        enum reason why;
        const char *text;
    } row[] = {
        {"1500", REASON_AMOUNT,
         "is neither at most 1000 nor a multiple of 1000; ask for 1000 or 2000"},
        {"1001", REASON_AMOUNT,
         "is neither at most 1000 nor a multiple of 1000; ask for 1000 or 2000"},
        {"63999", REASON_AMOUNT,
         "is neither at most 1000 nor a multiple of 1000; ask for 63000 or 64000"},
        {"64001", REASON_AMOUNT,
         "is neither at most 1000 nor a multiple of 1000; ask for at most 64000"},
        {"9223372036854775807", REASON_AMOUNT,
         "is neither at most 1000 nor a multiple of 1000; ask for at most 64000"},
        {"65000", REASON_LIMIT,
         "is more than the 64 GPUs that a container may ask for; 64000 is the most"},
        {"0.5", REASON_AMOUNT,
         "is not a whole number; the unit is a thousandth of a GPU: ask for 500"},
        {"500m", REASON_AMOUNT,
         "is not a whole number; the unit is a thousandth of a GPU: ask for 500"},
        {"1m", REASON_AMOUNT,
         "is not a whole number; the unit is a thousandth of a GPU: ask for 1"},
        {"999m", REASON_AMOUNT,
         "is not a whole number; the unit is a thousandth of a GPU: ask for 999"},
        {"1001m", REASON_AMOUNT, NULL},
        {"0.0005", REASON_AMOUNT, NULL},
        {"1.5", REASON_AMOUNT, NULL},
        {"-0.5", REASON_AMOUNT, NULL},
    };
    char text[REASON_BYTES_MAX];
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        start();
        add(CONTAINER_APP, row[i].amount);
        if (row[i].text != NULL)
            (void)snprintf(text, sizeof text, "nvidia.com/vgpu: %s %s", row[i].amount, row[i].text);
        else
            (void)snprintf(text, sizeof text,
                           "nvidia.com/vgpu: %s is not a whole number; the unit "
                           "is a thousandth of a GPU: %s",
                           row[i].amount, hint);
        assert_refused(row[i].why, text);
    }
    static const char *const bad[][2] = {
        {"-5", "is negative"},       {"-1000", "is negative"},   {"", "is not a number"},
        {"lots", "is not a number"}, {"1Kb", "is not a number"}, {"1e30", "is out of range"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        start();
        add(CONTAINER_APP, bad[i][0]);
        (void)snprintf(text, sizeof text, "nvidia.com/vgpu: %s %s; %s",
                       bad[i][0][0] != '\0' ? bad[i][0] : "\"\"", bad[i][1], hint);
        assert_refused(REASON_AMOUNT, text);
    }
}

TEST(the_container_is_named_when_several_ask)
{
    start();
    add(CONTAINER_APP, "300");
    add(CONTAINER_APP, "1500");
    assert_refused(REASON_AMOUNT, "container c1: nvidia.com/vgpu: 1500 is neither at most 1000 nor "
                                  "a multiple of 1000; ask for 1000 or 2000");
    fixture.container[0].amount = "0"; /* asks for nothing, so c1 need not be named */
    assert_refused(REASON_AMOUNT, "nvidia.com/vgpu: 1500 is neither at most 1000 nor "
                                  "a multiple of 1000; ask for 1000 or 2000");
}

TEST(the_first_container_that_is_wrong_decides)
{
    start();
    add(CONTAINER_INIT, "x");
    add(CONTAINER_APP, "1500");
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_non_null(strstr(fixture.refusal.text, "container c0: "));
}

TEST(a_text_of_any_length_is_quoted_in_part)
{
    static char amount[5000];
    memset(amount, 'z', sizeof amount - 1);
    start();
    add(CONTAINER_APP, amount);
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_non_null(strstr(fixture.refusal.text, "zzz...\" is not a number; ask for 1 to 1000"));
    fixture.container[0].amount = "100";
    fixture.pod.count = fixture.pod.model = fixture.pod.memory = amount;
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_COUNT);
    assert_non_null(strstr(fixture.refusal.text, "zzz...\" is not a number of GPUs"));
    fixture.pod.count = NULL;
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_MODEL_SYNTAX);
    fixture.pod.model = NULL;
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_MEMORY_SYNTAX);
    fixture.rules.resource = amount; /* a setting may be absurd, too */
    assert_int_equal(parse(), REQUEST_REFUSED);
    fixture.container[0].amount = "1500";
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(strlen(fixture.refusal.text), REASON_BYTES_MAX - 1);
}

TEST(minimum_and_step_are_settings)
{
    start();
    fixture.rules.min_milli = 50;
    add(CONTAINER_APP, "1");
    assert_refused(REASON_MINIMUM,
                   "nvidia.com/vgpu: 1 is below the minimum of 50; 1000 is one whole GPU; "
                   "did you mean 1000?");
    fixture.container[0].amount = "49";
    assert_int_equal(parse(), REQUEST_REFUSED);
    fixture.container[0].amount = "50";
    assert_int_equal(parse(), REQUEST_OK);

    fixture.rules.step_milli = 50;
    fixture.container[0].amount = "333";
    assert_refused(REASON_STEP, "nvidia.com/vgpu: 333 is not a multiple of 50; ask for 300 or 350");
    fixture.container[0].amount = "350";
    assert_int_equal(parse(), REQUEST_OK);
    fixture.rules.step_milli = 300; /* whole GPUs need not be multiples of the step */
    fixture.container[0].amount = "2000";
    assert_int_equal(parse(), REQUEST_OK);
    fixture.container[0].amount = "950";
    assert_refused(REASON_STEP,
                   "nvidia.com/vgpu: 950 is not a multiple of 300; ask for 900 or 1000");
    fixture.container[0].amount = "200";
    assert_refused(REASON_STEP, "nvidia.com/vgpu: 200 is not a multiple of 300; ask for 300");
    fixture.rules.min_milli = 400;
    fixture.container[0].amount = "450";
    assert_refused(REASON_STEP, "nvidia.com/vgpu: 450 is not a multiple of 300; ask for 600");
    fixture.rules.min_milli = 300; /* the minimum itself may be proposed */
    assert_refused(REASON_STEP,
                   "nvidia.com/vgpu: 450 is not a multiple of 300; ask for 300 or 600");
    fixture.rules.min_milli = 0; /* but never 0 */
    fixture.container[0].amount = "200";
    assert_refused(REASON_STEP, "nvidia.com/vgpu: 200 is not a multiple of 300; ask for 300");
    fixture.rules.step_milli = 0; /* same as 1 */
    assert_int_equal(parse(), REQUEST_OK);
}

TEST(a_small_amount_that_is_refused_may_count_whole_gpus)
{
    start();
    fixture.rules.min_milli = 50;
    add(CONTAINER_APP, "16");
    assert_refused(REASON_MINIMUM, "nvidia.com/vgpu: 16 is below the minimum of 50; 1000 is one "
                                   "whole GPU; did you mean 16000?");
    fixture.container[0].amount = "17";
    assert_refused(REASON_MINIMUM,
                   "nvidia.com/vgpu: 17 is below the minimum of 50; 1000 is one whole GPU");
    fixture.container[0].amount = "8";
    fixture.pod.count = "2";
    assert_refused(REASON_MINIMUM, "nvidia.com/vgpu: 8 (4 on each of 2 GPUs) is below the minimum "
                                   "of 50; 1000 is one whole GPU; did you mean 8000?");
    fixture.pod.count = NULL;
    fixture.rules = (struct request_rules){"nvidia.com/vgpu", 1, 10};
    fixture.container[0].amount = "2e0";
    assert_refused(REASON_STEP, "nvidia.com/vgpu: 2e0 is not a multiple of 10; ask for 10; did you "
                                "mean 2000?");
    fixture.container[0].amount = "17";
    assert_refused(REASON_STEP, "nvidia.com/vgpu: 17 is not a multiple of 10; ask for 10 or 20");
}

TEST(an_amount_is_quoted_as_it_is_written)
{
    static const struct {
        const char *amount;
        const char *says;
    } row[] = {
        {"1.5", "nvidia.com/vgpu: 1.5 is not a whole number"},
        {"0x10", "nvidia.com/vgpu: 0x10 is not a number"},
        {"300m", "nvidia.com/vgpu: 300m is not a whole number; the unit is a thousandth of a GPU: "
                 "ask for 300"},
        {"1.5k", "nvidia.com/vgpu: 1.5k is neither at most 1000 nor"},
        {"+1500", "nvidia.com/vgpu: +1500 is neither"},
        {"-1", "nvidia.com/vgpu: -1 is negative"},
        {"azAZ09", "nvidia.com/vgpu: azAZ09 is not"},
        {"/", "nvidia.com/vgpu: \"/\" is not"},
        {":", "nvidia.com/vgpu: \":\" is not"},
        {"@", "nvidia.com/vgpu: \"@\" is not"},
        {"[", "nvidia.com/vgpu: \"[\" is not"},
        {"`", "nvidia.com/vgpu: \"`\" is not"},
        {"{", "nvidia.com/vgpu: \"{\" is not"},
        {"", "nvidia.com/vgpu: \"\" is not a number"},
        {"3 00", "nvidia.com/vgpu: \"3 00\" is not a number"},
        {"3\n00", "nvidia.com/vgpu: \"3\\n00\" is not a number"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        start();
        add(CONTAINER_APP, row[i].amount);
        assert_int_equal(parse(), REQUEST_REFUSED);
        if (strstr(fixture.refusal.text, row[i].says) != fixture.refusal.text)
            fail_msg("%s", fixture.refusal.text);
    }
    char amount[50] = "";
    memset(amount, 'z', 47);
    start();
    add(CONTAINER_APP, amount);
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_non_null(strstr(fixture.refusal.text, "nvidia.com/vgpu: zzz"));
    amount[47] = 'z'; /* too long to be shown whole */
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_non_null(strstr(fixture.refusal.text, "nvidia.com/vgpu: \"zzz"));
    assert_non_null(strstr(fixture.refusal.text, "zzz...\" is not a number"));
}

TEST(minimum_and_step_judge_what_is_taken_of_one_gpu)
{
    start();
    fixture.rules.min_milli = 50;
    add(CONTAINER_APP, "60");
    fixture.pod.count = "2";
    assert_refused(REASON_MINIMUM, "nvidia.com/vgpu: 60 (30 on each of 2 GPUs) is below the "
                                   "minimum of 50; 1000 is one whole GPU");
    fixture.rules.step_milli = 50;
    fixture.container[0].amount = "260";
    assert_refused(REASON_STEP, "nvidia.com/vgpu: 260 (130 on each of 2 GPUs) is not a multiple of "
                                "50; ask for 200 or 300");
}

TEST(count_annotations_split_evenly_or_say_how)
{
    start();
    add(CONTAINER_APP, "500");
    fixture.pod.count = "3";
    assert_refused(REASON_COUNT, "nvidia.com/vgpu: 500 cannot be split evenly over 3 GPUs "
                                 "(gpu-count); ask for 498 or 501");
    fixture.container[0].amount = "2";
    assert_refused(REASON_COUNT,
                   "nvidia.com/vgpu: 2 cannot be split evenly over 3 GPUs (gpu-count); ask for 3");
    fixture.container[0].amount = "3003";
    assert_refused(REASON_COUNT, "nvidia.com/vgpu: 3003 on 3 GPUs (gpu-count) is more than 1000 on "
                                 "each; ask for at most 3000");
    fixture.container[0].amount = "4000"; /* not divisible, but too much anyway */
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_non_null(strstr(fixture.refusal.text, "more than 1000 on each"));
    fixture.pod.count = "1"; /* on one GPU, not on four */
    assert_refused(REASON_COUNT, "nvidia.com/vgpu: 4000 on 1 GPUs (gpu-count) is more than 1000 on "
                                 "each; ask for at most 1000");
}

TEST(count_annotations_that_are_no_count_are_refused)
{
    static const char *const bad[] = {"",    "0",   "-1",  "+2",   "two", "2.0",
                                      "1e1", "2 2", "0x2", "2GPU", " ",   "000"};
    char text[REASON_BYTES_MAX];
    start();
    add(CONTAINER_APP, "600");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        fixture.pod.count = bad[i];
        (void)snprintf(text, sizeof text,
                       "annotation milligpu.io/gpu-count: \"%s\" is not a number "
                       "of GPUs; write 1 to 64",
                       bad[i]);
        assert_refused(REASON_COUNT, text);
    }
    fixture.pod.count = "65";
    assert_refused(REASON_COUNT,
                   "annotation milligpu.io/gpu-count: \"65\" is more than the 64 GPUs "
                   "that a container may ask for");
    fixture.pod.count = "99999999999999999999999999";
    assert_int_equal(parse(), REQUEST_REFUSED);
    fixture.pod.count = NULL;
    fixture.container[0].count = "4294967298"; /* would be 2 if cut to 32 bits */
    assert_refused(REASON_COUNT, "annotation gpu-count.milligpu.io/c0: \"4294967298\" is more than "
                                 "the 64 GPUs that a container may ask for");
}

TEST(a_containers_own_count_goes_before_the_pods)
{
    start();
    add(CONTAINER_APP, "600");
    add(CONTAINER_APP, "600")->count = "3";
    add(CONTAINER_APP, NULL)->count = "nonsense"; /* ignored: the container asks for nothing */
    fixture.pod.count = "2";
    assert_int_equal(parse(), REQUEST_OK);
    assert_want(0, 2, 300);
    assert_want(1, 3, 200);
    fixture.pod.count = "nonsense";
    fixture.container[0].count = "1";
    assert_int_equal(parse(), REQUEST_OK);
    assert_want(0, 1, 600);
}

TEST(limits_are_named)
{
    start();
    add(CONTAINER_APP, "1");
    while (fixture.pod.containers < CONTAINERS_MAX)
        add(CONTAINER_APP, "1");
    assert_int_equal(parse(), REQUEST_OK);
    add(CONTAINER_APP, NULL); /* a container that asks for nothing does not count */
    assert_int_equal(parse(), REQUEST_OK);
    add(CONTAINER_APP, "1");
    assert_refused(REASON_LIMIT, "the pod has 129 containers that ask; at most 128 may ask for "
                                 "nvidia.com/vgpu");

    start();
    for (int i = 0; i < 8; i++)
        add(CONTAINER_APP, "64000");
    assert_int_equal(parse(), REQUEST_OK);
    add(CONTAINER_APP, "1");
    assert_refused(REASON_LIMIT, "the pod has 513 parts of GPUs over all containers; at most 512 "
                                 "may ask for nvidia.com/vgpu");
}

TEST(what_cannot_be_read_is_refused_with_the_field)
{
    start();
    add(CONTAINER_APP, "300");
    fixture.pod.unreadable = "metadata.annotations[\"milligpu.io/gpu-count\"]: must not hold a NUL";
    assert_refused(REASON_UNREADABLE,
                   "the pod cannot be read: metadata.annotations[\"milligpu.io/gpu-count\"]: must "
                   "not hold a NUL");
    fixture.container[0].amount = ""; /* its container cannot be read */
    assert_refused(REASON_UNREADABLE,
                   "the pod cannot be read: metadata.annotations[\"milligpu.io/gpu-count\"]: must "
                   "not hold a NUL");
    fixture.container[0].amount = "0"; /* asks for nothing, so the annotation does not matter */
    assert_int_equal(parse(), REQUEST_ZERO);
    fixture.container[0].amount = NULL;
    assert_int_equal(parse(), REQUEST_NOT_OURS);
}

TEST(models_are_globs)
{
    start();
    add(CONTAINER_APP, "300");
    fixture.pod.model = "A100-SXM4-80GB, NVIDIA H100*\t,nvidia-tesla t4";
    assert_int_equal(parse(), REQUEST_OK);
    assert_int_equal(fixture.request.models, 3);
    assert_string_equal(fixture.request.model[0], "A100-SXM4-80GB");
    assert_string_equal(fixture.request.model[1], "H100*");
    assert_string_equal(fixture.request.model[2], "tesla-t4");
    static const struct {
        const char *model;
        bool takes;
    } row[] = {
        {"NVIDIA-A100-SXM4-80GB", true},
        {"NVIDIA A100-SXM4-80GB", true},
        {"a100-sxm4-80gb", true},
        {"A100-SXM4-40GB", false},
        {"A100-SXM4-80GB-MIG-1g.5gb", false},
        {"NVIDIA-H100-80GB-HBM3", true},
        {"H100", true},
        {"GH100", false},
        {"Tesla-T4", true},
        {"NVIDIA Tesla T4", true},
        {"Tesla_T4", false},
        {"", false},
        {"NVIDIA-", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        assert_int_equal(request_takes_model(&fixture.request, text_of(row[i].model)),
                         row[i].takes);
    static char huge[MODEL_BYTES_MAX + 1];
    memset(huge, 'a', sizeof huge);
    fixture.pod.model = "*";
    assert_int_equal(parse(), REQUEST_OK);
    assert_true(request_takes_model(&fixture.request, TEXT("")));
    assert_true(request_takes_model(&fixture.request, (struct text){huge, MODEL_BYTES_MAX}));
    assert_false(request_takes_model(&fixture.request, (struct text){huge, sizeof huge}));
    fixture.pod.model = NULL;
    assert_int_equal(parse(), REQUEST_OK);
    assert_true(request_takes_model(&fixture.request, (struct text){huge, sizeof huge}));
    assert_true(request_takes_model(&fixture.request, (struct text){0}));
}

TEST(a_glob_may_name_the_maker)
{
    start();
    add(CONTAINER_APP, "300");
    fixture.pod.model = "Nvidia*";
    assert_int_equal(parse(), REQUEST_OK);
    assert_true(request_takes_model(&fixture.request, TEXT("NVIDIA-A100")));
    assert_true(request_takes_model(&fixture.request, TEXT("A100")));
    fixture.pod.model = "*V*"; /* must not match the "NVIDIA-" prefix */
    assert_int_equal(parse(), REQUEST_OK);
    assert_false(request_takes_model(&fixture.request, TEXT("NVIDIA-A100")));
    assert_true(request_takes_model(&fixture.request, TEXT("NVIDIA-V100")));
}

TEST(a_list_of_models_from_elsewhere_is_read_alike)
{
    struct request one = {0};

    start();
    assert_null(request_read_models(TEXT(" nvidia-a100* , Tesla T4"), &fixture.arena, &one));
    assert_int_equal(one.models, 2);
    assert_true(request_takes_model(&one, TEXT("NVIDIA-A100-SXM4-80GB")));
    assert_true(request_takes_model(&one, TEXT("Tesla-T4")));
    assert_false(request_takes_model(&one, TEXT("NVIDIA-H100")));
    const char *const wrong[] = {"", "a,", ",a", " ", "a\nb"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct request other = {0};
        assert_non_null(request_read_models(text_of(wrong[i]), &fixture.arena, &other));
    }
}

TEST(models_that_are_none_are_refused)
{
    static const struct {
        const char *given;
        const char *what;
    } row[] = {
        {"", "has an empty entry"},
        {" ", "has an empty entry"},
        {",", "has an empty entry"},
        {"A100,", "has an empty entry"},
        {"A100,,H100", "has an empty entry"},
        {"NVIDIA-", "has an empty entry"},
        {"A\n100", "has characters that no model has"},
        {"\x01"
         "A100",
         "has characters that no model has"},
        {"A\x1F"
         "100",
         "has characters that no model has"},
        {"A\x7F"
         "100",
         "has characters that no model has"},
        {"A\xFF", "has characters that no model has"},
        {"1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3",
         "names more than 32 models"},
        {"T4;L4", "\"T4;L4\" joins models by ; or |; write models or globs, comma separated"},
        {"A100,t4 | l4", "joins models by ; or |"},
    };
    start();
    add(CONTAINER_APP, "300");
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        fixture.pod.model = row[i].given;
        assert_int_equal(parse(), REQUEST_REFUSED);
        assert_int_equal(fixture.refusal.why, REASON_MODEL_SYNTAX);
        assert_non_null(strstr(fixture.refusal.text, row[i].what));
        assert_non_null(strstr(fixture.refusal.text, "annotation milligpu.io/gpu-model: \""));
    }
    fixture.pod.model = "A 1~"; /* the first and last characters a model may have */
    assert_int_equal(parse(), REQUEST_OK);
    fixture.pod.model = "1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2";
    assert_int_equal(parse(), REQUEST_OK);
    assert_int_equal(fixture.request.models, MODELS_MAX);
    static char huge[MODEL_BYTES_MAX + 2];
    memset(huge, 'a', sizeof huge - 1);
    fixture.pod.model = huge;
    assert_int_equal(parse(), REQUEST_REFUSED);
    huge[MODEL_BYTES_MAX] = '\0';
    assert_int_equal(parse(), REQUEST_OK);
}

TEST(memory_is_a_quantity_rounded_up_to_mib)
{
    static const struct {
        const char *given;
        uint32_t mib;
    } row[] = {
        {"16Gi", 16384}, {"0", 0},
        {"1", 1},        {"1Mi", 1},
        {"1048577", 2},  {"16G", 15259},
        {"1.5Gi", 1536}, {"0.1m", 1},
        {" 8Gi ", 8192}, {"4294967295Mi", UINT32_MAX},
    };
    start();
    add(CONTAINER_APP, "300");
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        fixture.pod.memory = row[i].given;
        assert_int_equal(parse(), REQUEST_OK);
        assert_int_equal(fixture.request.memory_mib, row[i].mib);
    }
    static const char *const bad[][2] = {
        {"", "is not a quantity"},     {"16GB", "is not a quantity"},
        {"-1", "is negative"},         {"-16Gi", "is negative"},
        {"99Ei", "is out of range"},   {"4294967296Mi", "is out of range"},
        {"lots", "is not a quantity"},
    };
    char text[REASON_BYTES_MAX];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        fixture.pod.memory = bad[i][0];
        (void)snprintf(text, sizeof text,
                       "annotation milligpu.io/gpu-memory: \"%s\" %s; write a "
                       "quantity of bytes, such as 16Gi",
                       bad[i][0], bad[i][1]);
        assert_refused(REASON_MEMORY_SYNTAX, text);
    }
}

TEST(topology_is_a_word)
{
    static const struct {
        const char *given;
        enum topology topology;
    } row[] = {
        {NULL, TOPOLOGY_ANY},        {"nvlink", TOPOLOGY_NVLINK}, {"numa", TOPOLOGY_NUMA},
        {"NVLink", TOPOLOGY_NVLINK}, {" NUMA ", TOPOLOGY_NUMA},
    };
    static const char *const bad[] = {"", "any", "nvlink,numa", "nv*", "*", "pcie", "nvlink numa"};
    start();
    add(CONTAINER_APP, "2000");
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        fixture.pod.topology = row[i].given;
        fixture.container[0].amount = "2000";
        assert_int_equal(parse(), REQUEST_OK);
        assert_int_equal(fixture.request.topology, row[i].topology);
        fixture.container[0].amount = "1000"; /* lies together by itself */
        assert_int_equal(parse(), REQUEST_OK);
        assert_int_equal(fixture.request.topology, TOPOLOGY_ANY);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char text[REASON_BYTES_MAX];
        fixture.pod.topology = bad[i];
        (void)snprintf(text, sizeof text,
                       "annotation milligpu.io/topology: \"%s\" is no topology; write nvlink (GPUs "
                       "that NVLink joins) or numa (GPUs of one NUMA node)",
                       bad[i]);
        assert_refused(REASON_TOPOLOGY_SYNTAX, text);
    }
}

/* One container of several GPUs is enough, wherever it stands. */
TEST(topology_is_of_the_containers_with_several_gpus)
{
    start();
    add(CONTAINER_APP, "300");
    add(CONTAINER_APP, "600")->count = "2";
    add(CONTAINER_APP, "100");
    fixture.pod.topology = "numa";
    assert_int_equal(parse(), REQUEST_OK);
    assert_int_equal(fixture.request.topology, TOPOLOGY_NUMA);
    assert_string_equal(topology_name(TOPOLOGY_ANY), "any");
    assert_string_equal(topology_name(TOPOLOGY_NUMA), "numa");
    assert_string_equal(topology_name(TOPOLOGY_NVLINK), "nvlink");
}

TEST(reasons_are_judged_in_the_order_of_their_table)
{
    start();
    add(CONTAINER_APP, "1500");
    fixture.pod.model = "";
    fixture.pod.memory = "x";
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_AMOUNT);
    fixture.container[0].amount = "300";
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_MODEL_SYNTAX);
    fixture.pod.model = "T4";
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_MEMORY_SYNTAX);
    fixture.pod.topology = "x";
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_MEMORY_SYNTAX);
    fixture.pod.memory = NULL;
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_TOPOLOGY_SYNTAX);
}

static const char *refused(enum reason why)
{
    request_refuse(&fixture.request, why, &fixture.refusal);
    assert_int_equal(fixture.refusal.why, why);
    return fixture.refusal.text;
}

TEST(refusal__hints_at_commas)
{
    start();
    add(CONTAINER_APP, "300");
    fixture.pod.model = "A100*, T4 L4";
    assert_int_equal(parse(), REQUEST_OK);
    assert_string_equal(refused(REASON_MODEL), "no GPU of model A100* or T4-L4 (several models? "
                                               "separate them by commas)");
    assert_string_equal(refused(REASON_ROOM), "no GPU with 300 milli free, model A100* or T4-L4");
    fixture.pod.model = "T4 L4, A10 A2"; /* said once */
    assert_int_equal(parse(), REQUEST_OK);
    assert_string_equal(refused(REASON_MODEL), "no GPU of model T4-L4 or A10-A2 (several models? "
                                               "separate them by commas)");
}

TEST(texts_of_refusals_have_the_requests_numbers)
{
    start();
    add(CONTAINER_APP, "300");
    assert_int_equal(parse(), REQUEST_OK);
    for (int why = REASON_MIXED; why <= REASON_UNSEARCHED; why++)
        assert_string_equal(refused((enum reason)why), "no GPU with 300 milli free");
    assert_string_equal(refused(REASON_NO_GPU), "no GPUs");
    assert_string_equal(refused(REASON_SMALL), "no GPU of 300 milli");
    assert_string_equal(refused(REASON_UNKNOWN_NODE), "the ledger does not know the node");
    assert_string_equal(refused(REASON_ELSEWHERE), reason_help(REASON_ELSEWHERE));
    assert_string_equal(refused(REASON_COUNT), reason_help(REASON_COUNT));

    fixture.pod.model = "A100*, H100*";
    fixture.pod.memory = "16Gi";
    assert_int_equal(parse(), REQUEST_OK);
    assert_string_equal(refused(REASON_MODEL), "no GPU of model A100* or H100*");
    assert_string_equal(refused(REASON_MEMORY), "no GPU on which 300 milli come with 16384 MiB");
    assert_string_equal(refused(REASON_MEMORY_UNKNOWN),
                        "no GPU whose memory is known, and gpu-memory asks for 16384 MiB");
    assert_string_equal(refused(REASON_ROOM), "no GPU with 300 milli free, model A100* or H100*");
    fixture.pod.model = "A100*";
    assert_int_equal(parse(), REQUEST_OK);
    assert_string_equal(refused(REASON_MODEL), "no GPU of model A100*");
    assert_string_equal(refused(REASON_ROOM), "no GPU with 300 milli free, model A100*");
    fixture.pod.model = NULL; /* cannot happen; the text must still be true */
    assert_int_equal(parse(), REQUEST_OK);
    assert_string_equal(refused(REASON_MODEL), reason_help(REASON_MODEL));

    start();
    add(CONTAINER_APP, "600");
    fixture.pod.count = "2";
    assert_int_equal(parse(), REQUEST_OK);
    assert_string_equal(refused(REASON_ROOM), "no 2 GPUs with 300 milli free each");
    assert_string_equal(refused(REASON_FEW), "fewer than 2 suitable GPUs for 300 milli each");
    assert_string_equal(refused(REASON_TOPOLOGY), reason_help(REASON_TOPOLOGY));
    fixture.pod.topology = "nvlink";
    assert_int_equal(parse(), REQUEST_OK);
    assert_string_equal(refused(REASON_TOPOLOGY),
                        "no 2 suitable GPUs for one container, all linked by NVLink");
    assert_string_equal(refused(REASON_ROOM),
                        "no 2 GPUs with 300 milli free each, all linked by NVLink");
    fixture.pod.topology = "numa";
    fixture.pod.model = "T4";
    assert_int_equal(parse(), REQUEST_OK);
    assert_string_equal(refused(REASON_TOPOLOGY),
                        "no 2 suitable GPUs for one container, on one NUMA node");
    assert_string_equal(refused(REASON_ROOM),
                        "no 2 GPUs with 300 milli free each, on one NUMA node, model T4");
    fixture.pod.model = NULL;
    add(CONTAINER_APP, "800")->count = "2"; /* with equal counts, the first is named */
    assert_int_equal(parse(), REQUEST_OK);
    assert_string_equal(refused(REASON_FEW), "fewer than 2 suitable GPUs for 300 milli each");

    start();
    add(CONTAINER_INIT, "700");
    add(CONTAINER_SIDECAR, "100");
    add(CONTAINER_APP, "400");
    add(CONTAINER_APP, "2000");
    fixture.pod.memory = "1Gi";
    assert_int_equal(parse(), REQUEST_OK);
    assert_string_equal(
        refused(REASON_ROOM),
        "no GPUs with room for 700 milli (init), 100 milli (sidecar), 400 milli and "
        "2 whole GPUs");
    assert_string_equal(refused(REASON_SMALL), "no GPU of 1000 milli");
    assert_string_equal(refused(REASON_FEW), "fewer than 2 suitable GPUs for 1000 milli each");
    assert_string_equal(refused(REASON_MEMORY),
                        "no GPU on which 100 to 1000 milli come with 1024 MiB each");
}

TEST(requests_are_told_to_people)
{
    char text[128];
    start();
    add(CONTAINER_APP, "300");
    assert_int_equal(parse(), REQUEST_OK);
    request_format(&fixture.request, text, sizeof text);
    assert_string_equal(text, "300 milli of one GPU");
    fixture.container[0].amount = "1000";
    assert_int_equal(parse(), REQUEST_OK);
    request_format(&fixture.request, text, sizeof text);
    assert_string_equal(text, "1 whole GPU");
    fixture.container[0].amount = "2000";
    assert_int_equal(parse(), REQUEST_OK);
    request_format(&fixture.request, text, sizeof text);
    assert_string_equal(text, "2 whole GPUs");
    fixture.container[0].amount = "600";
    fixture.container[0].count = "2";
    add(CONTAINER_INIT, "700");
    assert_int_equal(parse(), REQUEST_OK);
    request_format(&fixture.request, text, sizeof text);
    assert_string_equal(text, "2 x 300 milli and 700 milli (init)");
    fixture.pod.model = "T4";
    fixture.pod.memory = "2Gi";
    assert_int_equal(parse(), REQUEST_OK);
    request_format(&fixture.request, text, sizeof text);
    assert_string_equal(text, "2 x 300 milli and 700 milli (init), model T4, "
                              "at least 2048 MiB in each share");
    fixture.pod.topology = "nvlink";
    assert_int_equal(parse(), REQUEST_OK);
    request_format(&fixture.request, text, sizeof text);
    assert_string_equal(text, "2 x 300 milli and 700 milli (init), model T4, "
                              "at least 2048 MiB in each share, all linked by NVLink");
    fixture.pod.topology = NULL;
    fixture.pod.memory = "1Mi";
    assert_int_equal(parse(), REQUEST_OK);
    request_format(&fixture.request, text, sizeof text);
    assert_non_null(strstr(text, ", at least 1 MiB in each share"));
    request_format(&fixture.request, text, 8);
    assert_string_equal(text, "2 x ...");
    fixture.pod.memory = NULL;
    fixture.pod.model = NULL;
    fixture.pod.whole_gpus = 1;
    assert_int_equal(parse(), REQUEST_OK);
    request_format(&fixture.request, text, sizeof text);
    assert_string_equal(text, "2 x 300 milli and 700 milli (init), beside 1 whole GPU of the "
                              "other resource");
    start();
    add(CONTAINER_APP, NULL);
    fixture.pod.whole_gpus = 2;
    assert_int_equal(parse(), REQUEST_WHOLE);
    request_format(&fixture.request, text, sizeof text);
    assert_string_equal(text, "2 whole GPUs of the other resource");
}

TEST(a_clone_is_equal_and_stands_alone)
{
    start();
    add(CONTAINER_APP, "600")->count = "2";
    add(CONTAINER_INIT, "700");
    fixture.pod.model = "A100*,H100*";
    fixture.pod.memory = "16Gi";
    fixture.pod.topology = "nvlink";
    assert_int_equal(parse(), REQUEST_OK);
    struct request *clone = request_clone(&fixture.request);
    const uint32_t hash = request_hash(&fixture.request);
    assert_true(request_eq(clone, &fixture.request));
    assert_int_equal(request_hash(clone), hash);
    arena_done(&fixture.arena); /* the original is gone */
    memset(fixture.name, 0, sizeof fixture.name);
    assert_string_equal(clone->want[1].container, "c1");
    assert_string_equal(clone->model[1], "H100*");
    assert_int_equal(clone->memory_mib, 16384);
    assert_int_equal(clone->topology, TOPOLOGY_NVLINK);
    assert_int_equal(request_hash(clone), hash);
    xfree(clone);
}

TEST(a_request_names_the_containers_that_ask_for_nothing)
{
    start();
    add(CONTAINER_INIT, NULL);
    add(CONTAINER_APP, "300");
    add(CONTAINER_APP, "0");
    add(CONTAINER_APP, "600");
    add(CONTAINER_SIDECAR, NULL);
    fixture.pod.model = "A100*,H100*";
    assert_int_equal(parse(), REQUEST_OK);
    struct request *clone = request_clone(&fixture.request);
    memset(fixture.name, 0, sizeof fixture.name);
    arena_done(&fixture.arena);
    static const char *const name[] = {"c0", "c2", "c4"};
    assert_int_equal(clone->others, 3);
    for (size_t i = 0; i < ARRAY_LEN(name); i++)
        assert_string_equal(clone->other[i], name[i]);
    assert_string_equal(clone->want[1].container, "c3");
    assert_string_equal(clone->model[0], "A100*");
    assert_string_equal(clone->model[1], "H100*");
    xfree(clone);
}

/* What runs has had its Binding, and there are more pods that run than pods that wait. */
TEST(of_a_bound_pod_it_names_none)
{
    start();
    add(CONTAINER_APP, "300");
    add(CONTAINER_APP, NULL);
    fixture.pod.node = "n1";
    assert_int_equal(request_parse_bound(&fixture.pod, &fixture.rules, &fixture.arena,
                                         &fixture.request, &fixture.refusal),
                     REQUEST_OK);
    assert_int_equal(fixture.request.others, 0);
}

TEST(a_pod_has_so_many_containers_beside_those_that_ask)
{
    start();
    add(CONTAINER_APP, "300");
    for (int i = 0; i < CONTAINERS_MAX; i++)
        add(CONTAINER_APP, NULL);
    assert_int_equal(parse(), REQUEST_OK);
    assert_int_equal(fixture.request.others, CONTAINERS_MAX);
    add(CONTAINER_APP, "0");
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_LIMIT);
    assert_string_equal(fixture.refusal.text,
                        "the pod has 129 containers that ask for no nvidia.com/vgpu; at most 128 "
                        "may be in a pod that asks for it");
    fixture.pod.node = "n1";
    assert_int_equal(request_parse_bound(&fixture.pod, &fixture.rules, &fixture.arena,
                                         &fixture.request, &fixture.refusal),
                     REQUEST_OK);
}

TEST(requests_differ_in_everything_they_have)
{
    start();
    add(CONTAINER_APP, "600")->count = "3";
    add(CONTAINER_INIT, "600");
    fixture.pod.model = "A100*";
    fixture.pod.memory = "16Gi";
    fixture.pod.topology = "numa";
    assert_int_equal(parse(), REQUEST_OK);
    struct request *first = request_clone(&fixture.request);
    for (int change = 0; change < 9; change++) {
        start();
        add(change == 0 ? CONTAINER_SIDECAR : CONTAINER_APP, change == 1 ? "603" : "600")->count =
            "3";
        add(CONTAINER_INIT, "600")->count = change == 2 ? "2" : NULL;
        fixture.pod.model = change == 3 ? "A100?" : "A100*";
        fixture.pod.memory = change == 4 ? "17Gi" : "16Gi";
        if (change == 5)
            add(CONTAINER_APP, "600");
        if (change == 6)
            fixture.pod.model = "A100*,T4";
        fixture.pod.topology = change == 7 ? "nvlink" : change == 8 ? NULL : "numa";
        assert_int_equal(parse(), REQUEST_OK);
        assert_false(request_eq(first, &fixture.request));
        assert_int_not_equal(request_hash(first), request_hash(&fixture.request));
    }
    xfree(first);
}

/* Otherwise a tenant who renames each container would never get a remembered answer. */
TEST(what_containers_are_called_makes_no_other_request)
{
    struct want one = {.container = "c", .parts = 2, .milli = 300};
    struct want two = {.container = "another", .parts = 2, .milli = 300};
    const struct request request = {.wants = 1, .want = &one};
    const struct request renamed = {.wants = 1, .want = &two};
    assert_true(request_eq(&request, &renamed));
    assert_int_equal(request_hash(&request), request_hash(&renamed));
}

/* Different hashes are not guaranteed, but equal ones would make every look-up a comparison. */
TEST(every_part_of_a_request_counts_for_its_hash)
{
    const char *model[] = {"A100*", "T4"};
    struct want want = {.container = "c", .parts = 2, .milli = 300};
    const struct request request = {.wants = 1, .want = &want, .models = 2, .model = model};
    const uint32_t hash = request_hash(&request);
    want.parts = 3; /* the only difference */
    assert_int_not_equal(request_hash(&request), hash);
    want.parts = 2;
    want.milli = 301;
    assert_int_not_equal(request_hash(&request), hash);
    want.milli = 300;
    assert_int_equal(request_hash(&request), hash);

    const char *other[] = {"A100*", "T5"};
    const struct request second = {.wants = 1, .want = &want, .models = 2, .model = other};
    assert_false(request_eq(&request, &second));
    assert_int_not_equal(request_hash(&second), hash);
}

/* The most that is known, one below HOST_UNKNOWN. */
#define HOST_MOST (HOST_UNKNOWN - 1)

TEST(the_host_is_what_kube_scheduler_counts_rounded_up)
{
    static const int64_t mib = INT64_C(1024) * 1024;
    const struct {
        int64_t cpu_milli;
        int64_t memory_bytes;
        struct host host;
    } row[] = {
        {0, 0, {0, 0}},
        {1, 1, {1, 1}},
        {1500, mib, {1500, 1}},
        {1500, mib + 1, {1500, 2}},
        {HOST_MOST, HOST_MOST * mib, {HOST_MOST, HOST_MOST}},
        {HOST_MOST + INT64_C(1), HOST_MOST * mib + 1, {HOST_MOST, HOST_MOST}},
        {HOST_UNKNOWN + INT64_C(1), HOST_UNKNOWN * mib, {HOST_MOST, HOST_MOST}},
        {INT64_MAX, INT64_MAX, {HOST_MOST, HOST_MOST}},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        start();
        add(CONTAINER_APP, "300");
        fixture.pod.cpu_milli = row[i].cpu_milli;
        fixture.pod.memory_bytes = row[i].memory_bytes;
        assert_int_equal(parse(), REQUEST_OK);
        assert_int_equal(fixture.request.host.cpu_milli, row[i].host.cpu_milli);
        assert_int_equal(fixture.request.host.memory_mib, row[i].host.memory_mib);
    }
}

TEST(pods_that_are_bound_and_pods_of_whole_gpus_have_a_host_too)
{
    start();
    fixture.pod.whole_gpus = 1;
    fixture.pod.cpu_milli = 2000;
    assert_int_equal(parse(), REQUEST_WHOLE);
    assert_int_equal(fixture.request.host.cpu_milli, 2000);
    add(CONTAINER_APP, "300");
    fixture.pod.node = "n1";
    fixture.pod.cpu_milli = 3000;
    assert_int_equal(request_parse_bound(&fixture.pod, &fixture.rules, &fixture.arena,
                                         &fixture.request, &fixture.refusal),
                     REQUEST_OK);
    assert_int_equal(fixture.request.host.cpu_milli, 3000);
}

/* It never decides whether a pod fits, so a remembered refusal holds for every host. */
TEST(what_a_pod_takes_of_the_host_makes_no_other_request)
{
    struct want want = {.container = "c", .parts = 2, .milli = 300};
    const struct request request = {.wants = 1, .want = &want};
    const struct request other = {.wants = 1, .want = &want, .host = {4000, 16384}};
    assert_true(request_eq(&request, &other));
    assert_int_equal(request_hash(&request), request_hash(&other));
    struct request *clone = request_clone(&other);
    assert_int_equal(clone->host.cpu_milli, 4000);
    assert_int_equal(clone->host.memory_mib, 16384);
    xfree(clone);
}

TEST(whole_gpus_of_the_other_resource_are_part_of_the_request)
{
    start();
    fixture.pod.whole_gpus = 1;
    assert_int_equal(parse(), REQUEST_WHOLE);
    fixture.pod.whole_gpus = 2;
    assert_int_equal(parse(), REQUEST_WHOLE); /* no container names our resource */
    assert_int_equal(fixture.request.wants, 0);
    assert_int_equal(fixture.request.whole, 2);
    assert_true(request_asks(&fixture.request));
    add(CONTAINER_APP, "0");
    assert_int_equal(parse(), REQUEST_WHOLE);
    add(CONTAINER_APP, "300");
    assert_int_equal(parse(), REQUEST_OK);
    assert_int_equal(fixture.request.whole, 2);
    add(CONTAINER_APP, "1500");
    assert_int_equal(parse(), REQUEST_REFUSED);
    start();
    assert_int_equal(parse(), REQUEST_NOT_OURS);
    assert_false(request_asks(&fixture.request));
}

TEST(requests_that_differ_in_whole_gpus_are_two)
{
    const struct request one = {.whole = 1};
    const struct request two = {.whole = 2};
    assert_false(request_eq(&one, &two));
    assert_int_not_equal(request_hash(&one), request_hash(&two));
    struct request *copy = request_clone(&two);
    assert_true(request_eq(copy, &two));
    assert_int_equal(request_hash(copy), request_hash(&two));
    xfree(copy);
}

TEST(a_refusal_says_what_whole_gpus_cannot_live_beside)
{
    struct want want = {.container = "c", .kind = CONTAINER_APP, .parts = 1, .milli = 300};
    struct request request = {.whole = 1};
    struct refusal refusal;
    request_refuse(&request, REASON_MIXED, &refusal);
    assert_string_equal(refusal.text, "the node's GPUs are shared");
    request_refuse(&request, REASON_UNKNOWN_NODE, &refusal);
    assert_string_equal(refusal.text, "the ledger does not know the node");
    request.wants = 1;
    request.want = &want;
    static const enum reason moment[] = {REASON_MIXED, REASON_ROOM}; /* same text for both */
    for (size_t i = 0; i < ARRAY_LEN(moment); i++) {
        request_refuse(&request, moment[i], &refusal);
        assert_string_equal(refusal.text, "no GPU with 300 milli free, beside 1 whole GPU and no "
                                          "other pod's shares");
    }
    request.whole = 2;
    request_refuse(&request, REASON_ROOM, &refusal);
    assert_non_null(strstr(refusal.text, "beside 2 whole GPUs and"));
    char text[128];
    request_format(&request, text, sizeof text);
    assert_string_equal(text, "300 milli of one GPU, beside 2 whole GPUs of the other resource");
    request.whole = 1;
    request.wants = 0;
    request_format(&request, text, sizeof text);
    assert_string_equal(text, "1 whole GPU of the other resource");
}

static enum request_verdict parse_bound(void)
{
    fixture.pod.node = "n1";
    return request_parse_bound(&fixture.pod, &fixture.rules, &fixture.arena, &fixture.request,
                               &fixture.refusal);
}

TEST(policy_is_not_asked_about_what_runs)
{
    start();
    fixture.rules.min_milli = 500;
    fixture.rules.step_milli = 250;
    add(CONTAINER_APP, "301");
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 1, 301);
}

TEST(what_a_bound_pod_wishes_is_passed_over_where_it_cannot_be_used)
{
    start();
    add(CONTAINER_APP, "600");
    fixture.pod.count = "two";
    fixture.pod.model = "A100*,,";
    fixture.pod.memory = "plenty";
    assert_int_equal(parse(), REQUEST_REFUSED);
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 1, 600);
    assert_int_equal(fixture.request.models, 0);
    assert_int_equal(fixture.request.memory_mib, 0);
    assert_int_equal(fixture.refusal.why, REASON_NONE);
    fixture.pod.count = "7"; /* does not divide the amount */
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 1, 600);
    fixture.pod.count = "3";
    fixture.pod.model = "A100*";
    fixture.pod.memory = "1Gi";
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 3, 200);
    assert_int_equal(fixture.request.models, 1);
    assert_int_equal(fixture.request.memory_mib, 1024);
}

TEST(a_bound_pod_demands_no_topology)
{
    start();
    add(CONTAINER_APP, "2000");
    fixture.pod.topology = "nvlink";
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_int_equal(fixture.request.topology, TOPOLOGY_ANY);
    fixture.pod.topology = "nonsense";
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_int_equal(fixture.request.topology, TOPOLOGY_ANY);
}

TEST(a_bound_pod_is_split_as_its_allocation_says)
{
    struct pod_share line[66] = {{.container = "other", .gpu = "GPU-x", .milli = 600}};
    char name[66][16];
    for (uint32_t i = 1; i < ARRAY_LEN(line); i++) {
        (void)snprintf(name[i], sizeof name[i], "GPU-%u", i);
        line[i] = (struct pod_share){.container = "c0", .gpu = name[i], .milli = 750};
    }
    start();
    add(CONTAINER_APP, "1500"); /* its gpu-count: "2" was removed */
    assert_int_equal(parse_bound(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_AMOUNT);
    fixture.pod.annotation = NOTE_OK;
    fixture.pod.share = line;
    fixture.pod.shares = 3;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 2, 750);
    fixture.pod.count = "3"; /* added later */
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 2, 750);
    line[2].milli = 749;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 3, 500);
    line[1].milli = 749;
    line[2].milli = 750;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 3, 500);
    fixture.pod.container[0].amount = "600"; /* the lines do not split it; gpu-count does */
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 3, 200);
    line[1].milli = 750;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 3, 200);
    fixture.pod.container[0].amount = "1500";
    line[2].gpu = name[1];
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 3, 500);
    line[2].gpu = name[2];
    fixture.pod.annotation = NOTE_BROKEN;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 3, 500);
    fixture.pod.annotation = NOTE_OK;
    fixture.pod.container[0].amount = "2000"; /* as one part on one GPU, which cannot be */
    fixture.pod.count = NULL;
    fixture.pod.shares = 2;
    line[1].milli = 2000;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 2, 1000);
    fixture.pod.container[0].amount = "640";
    fixture.pod.shares = 65; /* 64 lines of this container */
    for (uint32_t i = 1; i < ARRAY_LEN(line); i++)
        line[i].milli = 10;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 64, 10);
    fixture.pod.container[0].amount = "650";
    fixture.pod.shares = 66; /* 65 lines of this container */
    for (uint32_t i = 1; i < ARRAY_LEN(line); i++)
        line[i].milli = 10;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 1, 650);
}

/* If the pod is unreadable, only its allocation tells how the amount was split. */
TEST(a_bound_pod_that_cannot_be_read_is_refused_unless_its_allocation_tells)
{
    struct pod_share line[] = {{.container = "c0", .gpu = "GPU-a", .milli = 300},
                               {.container = "c0", .gpu = "GPU-b", .milli = 300}};
    start();
    add(CONTAINER_APP, "600");
    fixture.pod.unreadable = "metadata.annotations[\"milligpu.io/gpu-count\"]: must not hold a NUL";
    assert_int_equal(parse_bound(), REQUEST_REFUSED);
    assert_int_equal(fixture.refusal.why, REASON_UNREADABLE);
    fixture.pod.annotation = NOTE_OK;
    fixture.pod.share = line;
    fixture.pod.shares = 2;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 2, 300);
}

/* Its lines show what the pod has; the amount in the spec was split into what it asked for. */
TEST(a_raised_allocation_splits_the_amount_by_what_was_asked)
{
    struct pod_share line[] = {{.container = "c0", .gpu = "GPU-a", .milli = 400, .asked = 300},
                               {.container = "c0", .gpu = "GPU-b", .milli = 400, .asked = 300}};
    start();
    add(CONTAINER_APP, "600");
    fixture.pod.annotation = NOTE_OK;
    fixture.pod.share = line;
    fixture.pod.shares = 2;
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 2, 300);
    line[1].asked = 0; /* 400, which together is not the amount */
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 1, 600);
    line[0].asked = 0;
    fixture.pod.container[0].amount = "800";
    assert_int_equal(parse_bound(), REQUEST_OK);
    assert_want(0, 2, 400);
}

TEST(what_is_not_refused_has_no_reason)
{
    start();
    add(CONTAINER_APP, "x");
    assert_int_equal(parse(), REQUEST_REFUSED);
    fixture.container[0].amount = "300";
    assert_int_equal(parse(), REQUEST_OK);
    assert_int_equal(fixture.refusal.why, REASON_NONE);
    assert_string_equal(fixture.refusal.text, "");
}

TEST(the_peak_is_that_of_the_pods_life)
{
    static const struct {
        enum container_kind kind[4];
        uint32_t amount[4];
        uint32_t peak;
    } row[] = {
        {{CONTAINER_APP, CONTAINER_APP, CONTAINER_APP, CONTAINER_APP}, {1, 2, 3, 4}, 10},
        {{CONTAINER_INIT, CONTAINER_INIT, CONTAINER_APP, CONTAINER_APP}, {700, 300, 400, 400}, 800},
        {{CONTAINER_INIT, CONTAINER_INIT, CONTAINER_APP, CONTAINER_APP}, {700, 900, 400, 400}, 900},
        /* the sidecar runs beside the second init container, not beside the first */
        {{CONTAINER_INIT, CONTAINER_SIDECAR, CONTAINER_INIT, CONTAINER_APP},
         {900, 100, 850, 0},
         950},
        {{CONTAINER_INIT, CONTAINER_SIDECAR, CONTAINER_INIT, CONTAINER_APP},
         {960, 100, 850, 0},
         960},
        {{CONTAINER_SIDECAR, CONTAINER_SIDECAR, CONTAINER_INIT, CONTAINER_APP}, {10, 20, 5, 7}, 37},
        {{CONTAINER_SIDECAR, CONTAINER_SIDECAR, CONTAINER_INIT, CONTAINER_APP}, {10, 20, 9, 7}, 39},
        {{CONTAINER_INIT, CONTAINER_INIT, CONTAINER_APP, CONTAINER_APP}, {0, 0, 0, 0}, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct want want[4] = {0};
        for (size_t k = 0; k < 4; k++)
            want[k] = (struct want){"c", row[i].kind[k], 1, 1};
        const struct request request = {.wants = 4, .want = want};
        assert_int_equal(request_peak(&request, row[i].amount), row[i].peak);
    }
}

static int clean(void **state)
{
    (void)state;
    arena_done(&fixture.arena);
    return 0;
}

TEST_GROUP(NULL, clean)
