#include <stdio.h>
#include <string.h>

#include "support/shown.h"
#include "support/test.h"

static struct shown shown;

/* Shows a recorded answer as the command `words` would. */
static int show(const char *words, int (*view)(struct ctl *ctl, const struct document *value),
                const char *json)
{
    shown_begin(&shown, words);
    const int status = view(&shown.ctl, answer(&shown, json));
    shown_end(&shown);
    return status;
}

/* An answer, and what the command prints of it. */
struct shown_row {
    const char *json;
    const char *want;
};

static void each_shows(const char *words,
                       int (*view)(struct ctl *ctl, const struct document *value),
                       const struct shown_row *row, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        if (i > 0)
            shown_free(&shown);
        assert_int_equal(show(words, view, row[i].json), CTL_FINE);
        if (strstr(shown.out, row[i].want) == NULL)
            fail_msg("%s gives %s", row[i].json, shown.out);
    }
}

static int forget(void **state)
{
    (void)state;
    shown_free(&shown);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, NULL, forget)

static const char nodes[] =
    "{\"items\":[{\"name\":\"n1\",\"uid\":\"u1\",\"model\":\"NVIDIA-A100\",\"source\":"
    "\"annotation\",\"state\":\"ok\",\"stateText\":\"\",\"cordoned\":false,\"capacityMilli\":2000,"
    "\"usedMilli\":1300,\"reservedMilli\":200,\"freeMilli\":500,\"largestFreeMilli\":500,"
    "\"fragmentMilli\":130,\"totalMilli\":2000,\"heldGpus\":0,\"gpus\":["
    "{\"id\":\"GPU-1\",\"index\":0,\"model\":\"NVIDIA-A100\",\"mib\":81920,"
    "\"milli\":1000,\"usedMilli\":1000,\"reservedMilli\":0,\"usedMib\":81920,"
    "\"freeMilli\":0,\"measuredMilli\":420,\"measuredMib\":40000,\"pods\":2,"
    "\"state\":\"ok\"},{\"id\":\"GPU-2\",\"index\":1,\"model\":\"NVIDIA-A100\",\"mib\":"
    "81920,\"milli\":1000,\"usedMilli\":300,\"reservedMilli\":200,\"usedMib\":24576,\"freeMilli\":"
    "500,\"fragmentMilli\":130,\"pods\":2,"
    "\"state\":\"ok\"}]},{\"name\":\"n2\",\"uid\":\"u2\",\"model\":\"\",\"source\":"
    "\"label\",\"state\":\"mixed\",\"stateText\":\"whole GPUs and shares\",\"cordoned\":false,"
    "\"capacityMilli\":500,\"usedMilli\":0,\"reservedMilli\":0,\"freeMilli\":0,"
    "\"largestFreeMilli\":0,\"totalMilli\":700,\"beyondMilli\":200,\"heldMilli\":300,"
    "\"closedMilli\":400,\"heldGpus\":1,\"gpus\":[{\"id\":\"n2/gpu-0\",\"index\":0,\"model\":"
    "\"\",\"mib\":0,\"milli\":500,\"usedMilli\":0,\"reservedMilli\":0,\"usedMib\":0,"
    "\"freeMilli\":0,\"pods\":0,\"state\":\"cordoned\"}]}]}";

static const char summary[] =
    "{\"version\":\"0.1.0\",\"cluster\":\"c-1\",\"mode\":\"cluster\",\"ready\":true,\"safeMode\":"
    "false,\"generation\":7,\"policy\":\"mixed\",\"nodes\":2,\"nodeStates\":[{\"state\":"
    "\"ok\",\"nodes\":1},{\"state\":"
    "\"cordoned\",\"nodes\":0},{\"state\":\"mixed\",\"nodes\":1}],\"gpus\":4,\"capacityMilli\":"
    "3500,\"usedMilli\":1300,\"reservedMilli\":200,\"freeMilli\":500,\"largestFreeMilli\":500,"
    "\"fragmentMilli\":130,\"totalMilli\":3500,"
    "\"beyondMilli\":40,\"heldMilli\":1000,\"closedMilli\":500,\"closed\":{\"unhealthy\":0,"
    "\"cordoned\":300,\"mixed\":200},\"heldGpus\":1,\"unplacedMilli\":70,\"allocations\":{"
    "\"reserved\":1,\"bound\":3},\"waitingPods\":1,\"drift\":2,\"models\":[{\"model\":"
    "\"NVIDIA-A100\",\"gpus\":2,\"capacityMilli\":2000,\"usedMilli\":1300,\"reservedMilli\":200,"
    "\"freeMilli\":500,\"largestFreeMilli\":500,\"totalMilli\":2000,\"heldMilli\":0,"
    "\"closedMilli\":0,\"closed\":{\"cordoned\":0}},{\"model\":\"\",\"gpus\":2,\"capacityMilli\":"
    "1500,\"usedMilli\":0,\"reservedMilli\":0,\"freeMilli\":0,\"largestFreeMilli\":0,"
    "\"totalMilli\":1500,\"heldMilli\":1000,\"closedMilli\":500,\"closed\":{\"cordoned\":300,"
    "\"mixed\":200}}]}";

static void show_top_of(const char *words)
{
    shown_begin(&shown, words);
    assert_int_equal(show_top(&shown.ctl, answer(&shown, nodes), answer(&shown, summary)),
                     CTL_FINE);
    shown_end(&shown);
}

FIXTURE_TEST(top_has_a_line_for_each_gpu)
{
    show_top_of("top");
    assert_string_equal(
        shown.out,
        "NODE  GPU  MODEL        USED  RESERVED  MEASURED  FREE  PODS  STATE     REASON\n"
        "n1      0  NVIDIA-A100  1000         0       420     0     2  ok        -\n"
        "n1      1  NVIDIA-A100   300       200         -   500     2  ok        -\n"
        "n2      0  -               0         0         -     0     0  cordoned  -\n"
        "\n2 nodes, 4 GPUs: 1300 used, 200 reserved, 500 free (130 of it of no use "
        "to the pods that come), 1000 held whole, 500 closed of 3460 milli; 40 of what is used "
        "exceeds the size "
        "of its GPU; 1 pod waits\n");
}

/* What is measured of the GPUs of one node, in so many lines of top. */
static void top_measures(const char *words, const char *gpus, const char *const *measured,
                         size_t lines)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"items\":[{\"name\":\"n1\",\"state\":\"ok\",\"gpus\":[%s]}]}", gpus);
    shown_begin(&shown, words);
    assert_int_equal(show_top(&shown.ctl, answer(&shown, text), NULL), CTL_FINE);
    shown_end(&shown);
    const char *line = shown.out;
    for (size_t i = 0; i < lines; i++) {
        line = strchr(line, '\n'); /* of the headings, or of the row before */
        assert_non_null(line);
        const char *found = strstr(++line, measured[i]);
        if (found == NULL || found > strchr(line, '\n'))
            fail_msg("%s of %s: no \"%s\" in line %zu of\n%s", words, gpus, measured[i], i + 1,
                     shown.out);
    }
}

/* In front of an amount that is scaled, or has one in it. */
FIXTURE_TEST(top_marks_what_was_scaled)
{
    static const char two[] = "{\"measuredMilli\":538,\"scaled\":true},{\"measuredMilli\":461}";
    static const struct {
        const char *words;
        const char *gpus;
        size_t lines;
        const char *measured[2];
    } cases[] = {
        {"top", two, 2, {"  ~538  ", "   461  "}},
        {"top --sort-by MEASURED",
         "{\"measuredMilli\":461},{\"measuredMilli\":53,\"scaled\":true}",
         2,
         {"  ~53  ", "  461  "}}, /* as a number, which a text with "~" would not be */
        {"top --by node", two, 1, {"  ~999  "}},
        {"top --by node",
         "{\"measuredMilli\":1},{\"measuredMilli\":2,\"scaled\":true},{}",
         1,
         {"  ~3  "}},
        {"top --by node",
         "{\"measuredMilli\":1},{\"measuredMilli\":2,\"scaled\":false}",
         1,
         {"   3  "}},
        {"top", "{\"measuredMilli\":0,\"scaled\":true}", 1, {"  ~0  "}},
        {"top", "{\"measuredMib\":5,\"scaled\":true}", 1, {"   -  "}},
        {"top --by node",
         "{\"measuredMilli\":4},{\"measuredMib\":5,\"scaled\":true}",
         1,
         {"   4  "}},
        {"top --by node", "{\"scaled\":true}", 1, {"   -  "}},
        {"top -o wide",
         "{\"measuredMilli\":7,\"scaled\":true,\"measuredMib\":5}",
         1,
         {"   5  "}}, /* MiB are not scaled */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (i > 0)
            shown_free(&shown);
        top_measures(cases[i].words, cases[i].gpus, cases[i].measured, cases[i].lines);
    }
}

FIXTURE_TEST(top_draws_bars_when_asked)
{
    show_top_of("top --bars=always");
    assert_non_null(strstr(shown.out, "  ####################  "));
    assert_non_null(strstr(shown.out, "  ######++++..........  "));
    assert_non_null(strstr(shown.out, "  ....................  "));
    assert_non_null(strstr(shown.out, "(# used  + reserved  . free)"));
}

FIXTURE_TEST(top_colours_only_where_that_is_allowed)
{
    shown_begin(&shown, "top --bars=always");
    shown.ctl.screen.colors = true;
    shown.ctl.screen.terminal = true;
    shown.ctl.screen.width = 120;
    assert_int_equal(show_top(&shown.ctl, answer(&shown, nodes), NULL), CTL_FINE);
    shown_end(&shown);
    assert_non_null(strchr(shown.out, '\033'));
    shown_free(&shown);
    show_top_of("top --bars=always");
    assert_null(strchr(shown.out, '\033'));
}

FIXTURE_TEST(top_names_gpus_and_tells_the_wide_story)
{
    show_top_of("top -o name");
    assert_string_equal(shown.out, "gpu/GPU-1\ngpu/GPU-2\ngpu/n2/gpu-0\n");
    shown_free(&shown);
    show_top_of("top -o wide --no-headers");
    assert_non_null(strstr(shown.out, "81920        40000  81920  GPU-1"));
    assert_null(strstr(shown.out, "NODE"));
    assert_null(strstr(shown.out, "waits"));
}

FIXTURE_TEST(top_says_when_there_is_nothing)
{
    shown_begin(&shown, "top");
    assert_int_equal(show_top(&shown.ctl, answer(&shown, "{\"items\":[]}"), NULL), CTL_FINE);
    shown_end(&shown);
    assert_string_equal(shown.out, "");
    assert_non_null(strstr(shown.err, "no GPUs"));
}

FIXTURE_TEST(nodes_show_what_decides)
{
    assert_int_equal(show("nodes", show_nodes, nodes), CTL_FINE);
    assert_string_equal(
        shown.out, "NAME  MODEL        GPUS  TOTAL  USED  RESERVED  FREE  HELD  CLOSED  BEYOND  "
                   "LARGEST  STATE  REASON\n"
                   "n1    NVIDIA-A100     2   2000  1300       200   500     0       0       0  "
                   "    500  ok     -\n"
                   "n2    -               1    700     0         0     0   300     400     200  "
                   "      0  mixed  whole GPUs and shares\n");
    shown_free(&shown);
    assert_int_equal(show("nodes -o name", show_nodes, nodes), CTL_FINE);
    assert_string_equal(shown.out, "node/n1\nnode/n2\n");
    shown_free(&shown);
    assert_int_equal(show("nodes -o wide", show_nodes, nodes), CTL_FINE);
    assert_non_null(strstr(shown.out, "whole GPUs and shares"));
    assert_non_null(strstr(shown.out, "LARGEST  FRAGMENT"));
    assert_non_null(strstr(shown.out, "500       130"));
}

/* As a person sees it: in a terminal of 80 columns. */
static void show_on_terminal(const char *words,
                             int (*view)(struct ctl *ctl, const struct document *value),
                             const char *json)
{
    shown_begin(&shown, words);
    shown.ctl.screen.terminal = true;
    shown.ctl.screen.width = 80;
    assert_int_equal(view(&shown.ctl, answer(&shown, json)), CTL_FINE);
    shown_end(&shown);
}

static int show_top_alone(struct ctl *ctl, const struct document *nodes_answer)
{
    return show_top(ctl, nodes_answer, NULL);
}

/* n nodes with 8 GPUs each; the last one has a sick GPU. */
static const char *many_nodes(struct strbuf *out, uint32_t count)
{
    strbuf_str(out, "{\"items\":[");
    for (uint32_t i = 0; i < count; i++) {
        strbuf_printf(out,
                      "%s{\"name\":\"n%02u\",\"model\":\"NVIDIA-L4\",\"state\":\"ok\","
                      "\"stateText\":\"\",\"totalMilli\":8000,\"usedMilli\":%u,\"freeMilli\":%u,"
                      "\"closedMilli\":%u,\"gpus\":[",
                      i > 0 ? "," : "", i, i * 100, i + 1 == count ? 6000 : 8000 - i * 100,
                      i + 1 == count ? 2000 - i * 100 : 0);
        for (uint32_t gpu = 0; gpu < 8; gpu++)
            strbuf_printf(
                out, "%s{\"id\":\"g%u\",\"index\":%u,\"milli\":1000,\"state\":\"%s\"%s}",
                gpu > 0 ? "," : "", gpu, gpu, i + 1 == count && gpu < 2 ? "unhealthy" : "ok",
                i + 1 == count && gpu == 1 ? ",\"healthText\":\"XID 79, since noon\"" : "");
        strbuf_str(out, "]}");
    }
    strbuf_str(out, "]}");
    return out->data;
}

FIXTURE_TEST(a_terminal_gets_a_line_for_each_node_of_many_gpus)
{
    CLEANUP(strbuf_done) struct strbuf eight;
    CLEANUP(strbuf_done) struct strbuf nine;

    strbuf_init(&eight);
    strbuf_init(&nine);
    (void)many_nodes(&eight, 8); /* 64 GPUs */
    (void)many_nodes(&nine, 9);
    show_on_terminal("top", show_top_alone, eight.data);
    assert_non_null(strstr(shown.out, "NODE  GPU  MODEL"));
    assert_non_null(strstr(shown.out, "\n\nn07/1: XID 79, since noon\n"));
    shown_free(&shown);
    show_on_terminal("top", show_top_alone, nine.data);
    assert_non_null(strstr(shown.out, "NODE  GPUS  MODEL      TOTAL  USED  FREE  CLOSED  STATE\n"
                                      "n00      8  NVIDIA-L4   8000     0  8000       0  ok"));
    assert_non_null(
        strstr(shown.out, "n08      8  NVIDIA-L4   8000   800  6000    1200  unhealthy"));
    assert_non_null(strstr(shown.out, "n08: 2 of 8 GPUs unhealthy: XID 79, since noon\n"));
    shown_free(&shown);
    static const char *const by_gpu[] = {"top --by gpu", "top --node n01", "top --state ok",
                                         "top -n a", "top -o wide"};
    for (size_t i = 0; i < ARRAY_LEN(by_gpu); i++) {
        show_on_terminal(by_gpu[i], show_top_alone, nine.data);
        if (strncmp(shown.out, "NODE  GPU  ", strlen("NODE  GPU  ")) != 0)
            fail_msg("%s: %s", by_gpu[i], shown.out);
        shown_free(&shown);
    }
    assert_int_equal(show("top", show_top_alone, nine.data), CTL_FINE); /* no terminal */
    assert_non_null(strstr(shown.out, "NODE  GPU  "));
    shown_free(&shown);
    assert_int_equal(show("top --by node", show_top_alone, eight.data), CTL_FINE);
    assert_non_null(
        strstr(shown.out, "NODE  GPUS  MODEL      TOTAL  USED  RESERVED  MEASURED  FREE"));
}

/* 24 lines: what needs a look comes first, and the rest is counted. */
FIXTURE_TEST(a_picture_of_watch_ends_before_the_terminal_does)
{
    CLEANUP(strbuf_done) struct strbuf many;

    strbuf_init(&many);
    (void)many_nodes(&many, 20);
    shown_begin(&shown, "top --watch");
    shown.ctl.screen.terminal = true;
    shown.ctl.screen.width = 80;
    shown.ctl.screen.rows = 24;
    assert_int_equal(show_top(&shown.ctl, answer(&shown, many.data), answer(&shown, summary)),
                     CTL_FINE);
    shown_end(&shown);
    const char *sick = strstr(shown.out, "n19 ");
    const char *first = strstr(shown.out, "n00 ");
    assert_non_null(sick);
    assert_non_null(first);
    assert_true(sick < first);
    assert_non_null(strstr(shown.out, "more nodes; what needs a look comes first"));
    size_t lines = 0;
    for (const char *at = shown.out; *at != '\0'; at++)
        lines += *at == '\n';
    assert_in_range(lines, 12, 23);
}

FIXTURE_TEST(drift_is_counted_before_it_is_listed)
{
    static const char list[] =
        "{\"items\":[{\"kind\":\"adopted\",\"node\":\"n1\",\"namespace\":\"a\",\"name\":\"x\","
        "\"text\":\"bound without us\",\"since\":\"2026-01-02T03:04:00Z\"}],\"counts\":[{\"kind\":"
        "\"adopted\",\"warnings\":1,\"information\":300,\"meaning\":\"a guess\"},{"
        "\"kind\":\"over\","
        "\"warnings\":0,\"information\":0,\"meaning\":\"beyond\"}]}";
    static const char old[] = "{\"items\":[],\"counts\":[{\"kind\":\"adopted\",\"warnings\":0,"
                              "\"information\":300,\"meaning\":\"a guess\"}]}";

    assert_int_equal(show("drift", show_drift, list), CTL_FINE);
    assert_string_equal(shown.out, "KIND     WARNINGS  INFORMATION  MEANING\n"
                                   "adopted         1          300  a guess\n"
                                   "\n"
                                   "KIND     NODE  GPU  POD  WHAT              AGE\n"
                                   "adopted  n1    -    a/x  bound without us   5s\n");
    shown_free(&shown);
    assert_int_equal(show("drift --no-headers --sort-by AGE", show_drift, list), CTL_FINE);
    assert_string_equal(shown.out, "adopted  n1    -    a/x  bound without us   5s\n");
    shown_free(&shown);
    assert_int_equal(show("drift -o name", show_drift, list), CTL_FINE);
    assert_string_equal(shown.out, "adopted/n1\n");
    shown_free(&shown);
    show_on_terminal("drift", show_drift, list); /* the counts say what it is */
    assert_non_null(strstr(shown.out, "KIND     NODE  POD  AGE\nadopted  n1    a/x   5s\n"));
    shown_free(&shown);
    assert_int_equal(show("drift", show_drift, old), CTL_FINE);
    assert_non_null(strstr(shown.out, "adopted         0          300"));
    assert_string_equal(shown.err,
                        "no drift that needs a look; --kind lists what is information\n");
    shown_free(&shown);
    assert_int_equal(show("drift --kind over", show_drift, old), CTL_FINE);
    assert_string_equal(shown.err, "nothing matches\n");
}

FIXTURE_TEST(a_placed_pod_is_not_called_pending)
{
    static const struct shown_row row[] = {
        {"{\"phase\":\"Pending\",\"node\":\"n\",\"allocation\":{\"state\":\"bound\"}}",
         "Phase:        placed; its containers have not started (Pending)\n"},
        {"{\"phase\":\"Running\",\"node\":\"n\",\"allocation\":{\"state\":\"bound\"}}",
         "Phase:        Running\n"},
        {"{\"phase\":\"Pending\",\"node\":\"\",\"allocation\":{\"state\":\"reserved\"}}",
         "Phase:        Pending\n"},
        {"{\"phase\":\"Pending\",\"node\":\"\"}", "Phase:        Pending\n"},
    };

    each_shows("pod a/x", show_pod, row, ARRAY_LEN(row));
}

FIXTURE_TEST(nodes_with_one_answer_are_one_row_on_a_terminal)
{
    static const char pod[] =
        "{\"phase\":\"Pending\",\"node\":\"\",\"reasons\":[],\"nodes\":["
        "{\"name\":\"n1\",\"fits\":false,\"text\":\"no room\",\"detail\":\"d\"},"
        "{\"name\":\"n2\",\"fits\":true,\"text\":\"\",\"detail\":\"d\"},"
        "{\"name\":\"n3\",\"fits\":false,\"text\":\"no room\",\"detail\":\"d\"},"
        "{\"name\":\"n4\",\"fits\":false,\"text\":\"no room\",\"detail\":\"e\"},"
        "{\"name\":\"n5\",\"fits\":false,\"text\":\"no room\",\"detail\":\"d\"},"
        "{\"name\":\"n6\",\"fits\":false,\"text\":\"no room\",\"detail\":\"d\"}]}";

    show_on_terminal("pod a/x -v", show_pod, pod);
    assert_non_null(strstr(shown.out, "NODES  FITS  WHICH                  WHY NOT  DETAIL"));
    assert_non_null(strstr(shown.out, "    4  no    n1, n3, n5 and 1 more  no room  d"));
    assert_non_null(strstr(shown.out, "    1  yes   n2                     -        d"));
    assert_non_null(strstr(shown.out, "    1  no    n4                     no room  e"));
    shown_free(&shown);
    show_on_terminal("pod a/x -v -o wide", show_pod, pod);
    assert_non_null(strstr(shown.out, "n6    no    no room  d"));
}

FIXTURE_TEST(json_and_yaml_are_the_answer_itself)
{
    assert_int_equal(show("drift -o json", show_drift, "{\"items\":[]}"), CTL_FINE);
    assert_string_equal(shown.out, "{\n  \"items\": []\n}\n");
    shown_free(&shown);
    assert_int_equal(show("drift -o yaml", show_drift, "{\"items\":[{\"kind\":\"over\"}]}"),
                     CTL_FINE);
    assert_string_equal(shown.out, "items:\n- kind: over\n");
}

FIXTURE_TEST(a_node_shows_for_each_gpu_what_top_shows)
{
    assert_int_equal(
        show("node n2", show_node,
             "{\"name\":\"n2\",\"model\":\"NVIDIA-L4\",\"source\":\"label\",\"state\":\"mixed\","
             "\"stateText\":\"a pod with whole GPUs lives there\",\"capacityMilli\":2000,"
             "\"reservedMilli\":700,\"heldMilli\":300,\"closedMilli\":1000,\"beyondMilli\":200,"
             "\"heldGpus\":1,\"gpus\":[{\"id\":\"g0\",\"index\":0,\"model\":\"NVIDIA-L4\",\"mib\":"
             "23034,\"milli\":1000,\"state\":\"ok\"},{\"id\":\"g1\",\"index\":1,\"model\":"
             "\"NVIDIA-L4\",\"mib\":23034,\"milli\":1000,\"state\":\"unhealthy\","
             "\"healthText\":\"XID 79, since 12:00\"}]}"),
        CTL_FINE);
    assert_string_equal(
        shown.out,
        "Node:         n2\n"
        "Model:        NVIDIA-L4\n"
        "Inventory:    label\n"
        "State:        mixed, 1 unhealthy GPU: a pod with whole GPUs lives there\n"
        "Milli:        2000: 0 used, 0 free, 700 reserved, 300 held whole, 1000 closed; 200 "
        "of what is used exceeds the size of its GPU\n"
        "Largest:      0 milli free in one piece\n"
        "Held:         1 whole GPU by pods of another resource\n\n"
        "GPU  ID  MODEL        MIB  SIZE  USED  RESERVED  FREE  FRAGMENT  STATE      REASON\n"
        "  0  g0  NVIDIA-L4  23034  1000     0         0     0         0  mixed      -\n"
        "  1  g1  NVIDIA-L4  23034  1000     0         0     0         0  unhealthy  XID 79, since "
        "12:00\n\n"
        "no pod holds a share of them\n");
}

FIXTURE_TEST(a_wide_node_shows_which_gpus_lie_together)
{
    assert_int_equal(
        show(
            "node n2 -o wide", show_node,
            "{\"name\":\"n2\",\"state\":\"ok\",\"gpus\":[{\"id\":\"g0\",\"index\":0,\"numa\":1,"
            "\"nvlink\":[\"g3\",\"g5\",\"gone\",7],\"state\":\"ok\"},{\"id\":\"g3\",\"index\":3,"
            "\"nvlink\":[\"g0\"],\"state\":\"ok\"},{\"id\":\"g5\",\"index\":5,\"numa\":0,\"state\":"
            "\"ok\"}]}"),
        CTL_FINE);
    assert_non_null(strstr(
        shown.out,
        "GPU  ID  MODEL  MIB  SIZE  USED  RESERVED  FREE  FRAGMENT  NUMA  NVLINK  STATE  "
        "REASON\n"
        "  0  g0  -        0     0     0         0     0         0     1  3,5     ok     -\n"
        "  3  g3  -        0     0     0         0     0         0     -  0       ok     -\n"
        "  5  g5  -        0     0     0         0     0         0     0  -       ok     -\n"));
}

/* Pods may live there all the same, on no GPU that is known. */
FIXTURE_TEST(a_node_without_gpus_says_where_its_pods_are_listed)
{
    assert_int_equal(show("node n3", show_node,
                          "{\"name\":\"n3\",\"state\":\"gone\",\"stateText\":\"the Node object is "
                          "gone, its pods are not\",\"heldGpus\":2,\"gpus\":[]}"),
                     CTL_FINE);
    assert_non_null(strstr(shown.out,
                           "Held:         2 whole GPUs by pods of another resource\n\n"
                           "no GPUs are known here; what its pods hold: allocations --node n3\n"));
    assert_null(strstr(shown.out, "no pod"));
}

FIXTURE_TEST(what_is_wrong_beside_ok_does_not_read_like_a_reason_for_it)
{
    static const struct shown_row row[] = {
        {"{\"state\":\"ok\",\"stateText\":\"\"}", "State:        ok\n"},
        {"{\"state\":\"ok\",\"stateText\":\"\",\"cordoned\":true}", "State:        ok, cordoned\n"},
        {"{\"state\":\"ok\",\"stateText\":\"x is no GPU\",\"cordoned\":true}",
         "State:        ok, cordoned; x is no GPU\n"},
        {"{\"state\":\"ok\",\"stateText\":\"x is no GPU\"}", "State:        ok; x is no GPU\n"},
        {"{\"state\":\"excluded\",\"stateText\":\"MIG\"}", "State:        excluded: MIG\n"},
    };

    each_shows("node n", show_node, row, ARRAY_LEN(row));
}

FIXTURE_TEST(allocations_tell_where_how_much_and_since_when)
{
    assert_int_equal(
        show("allocations -o wide", show_allocations,
             "{\"items\":[{\"uid\":\"p1\",\"namespace\":\"a\",\"name\":\"x\",\"node\":\"n1\","
             "\"state\":\"bound\",\"origin\":\"granted\",\"presumed\":false,\"inDoubt\":false,"
             "\"reservedAt\":\"2026-01-02T02:58:55Z\",\"boundAt\":\"2026-01-02T02:58:56Z\","
             "\"heldGpus\":0,\"unplacedMilli\":0,\"charges\":[{\"gpu\":\"G1\",\"index\":0,"
             "\"milli\":300,\"mib\":10},{\"gpu\":\"G2\",\"index\":1,\"milli\":300,\"mib\":20}],"
             "\"shares\":[{\"measuredMilli\":3,\"measuredMib\":12,"
             "\"idleSince\":\"2026-01-02T03:00:55Z\"},{\"measuredMilli\":4,"
             "\"idleSince\":\"2026-01-02T02:59:55Z\"},{}]},{\"uid\":\"p2\","
             "\"namespace\":\"b\",\"name\":\"y\",\"node\":\"n2\","
             "\"state\":\"reserved\",\"origin\":\"observed\",\"presumed\":true,\"inDoubt\":true,"
             "\"terminatingSince\":\"2026-01-02T03:00:00Z\",\"unplacedMilli\":200,\"charges\":[{"
             "\"gpu\":\"gone/gpu-3\",\"milli\":100,\"mib\":0}],\"shares\":[]}]}"),
        CTL_FINE);
    assert_string_equal(
        shown.out,
        "NAMESPACE  NAME  NODE  GPU:MILLI             MILLI  MEASURED  MIB  MEASUREDMIB   IDLE  "
        "ORIGIN    UID  STATE                                     AGE\n"
        "a          x     n1    0:300,1:300             600         7   30           12  4m10s  "
        "granted   p1   bound                                   5m10s\n"
        "b          y     n2    gone/gpu-3:100,?:200    300         -    0            -      -  "
        "observed  p2   reserved,in-doubt,presumed,terminating      -\n");
}

/* In front of the sum of a pod, if that has such an amount in it; MiB are not scaled. */
FIXTURE_TEST(allocations_mark_what_was_scaled)
{
    assert_int_equal(
        show("allocations -o wide --sort-by MEASURED", show_allocations,
             "{\"items\":[{\"namespace\":\"a\",\"name\":\"x\",\"charges\":[],\"shares\":["
             "{\"measuredMilli\":30,\"measuredMib\":12},"
             "{\"measuredMilli\":400,\"scaled\":true,\"measuredMib\":5}]},"
             "{\"namespace\":\"a\",\"name\":\"y\",\"charges\":[],\"shares\":["
             "{\"measuredMilli\":31,\"measuredMib\":12}]},"
             "{\"namespace\":\"a\",\"name\":\"z\",\"charges\":[],\"shares\":["
             "{\"measuredMib\":12,\"scaled\":true}]}]}"),
        CTL_FINE);
    assert_non_null(strstr(shown.out, "MILLI  MEASURED  MIB  MEASUREDMIB"));
    const char *z = strstr(shown.out, "z ");
    const char *y = strstr(shown.out, "y ");
    const char *x = strstr(shown.out, "x ");
    assert_true(z != NULL && y > z && x > y);
    assert_non_null(strstr(z, "    0         -    0           12 "));
    assert_non_null(strstr(y, "    0        31    0           12 "));
    assert_non_null(strstr(x, "    0      ~430    0           17 "));
}

FIXTURE_TEST(an_empty_history_says_of_what_time)
{
    assert_int_equal(show("history a/x", show_history, "{\"items\":[]}"), CTL_FINE);
    assert_string_equal(shown.err, "no history: nothing was ever held\n");
    shown_free(&shown);
    assert_int_equal(show("history a/x --at 5h", show_history, "{\"items\":[]}"), CTL_FINE);
    assert_string_equal(shown.err, "no history: nothing was held at that time\n");
}

FIXTURE_TEST(a_placed_pod_tells_its_containers)
{
    assert_int_equal(
        show("pod a/x", show_pod,
             "{\"namespace\":\"a\",\"name\":\"x\",\"uid\":\"p1\",\"phase\":\"Running\",\"node\":"
             "\"n1\",\"request\":\"300 milli of one GPU\",\"allocation\":{\"state\":\"bound\","
             "\"node\":\"n1\",\"boundAt\":\"2026-01-02T00:04:05Z\",\"charges\":[{\"gpu\":\"G1\","
             "\"index\":0,\"milli\":300,\"mib\":4915}],\"shares\":[{\"container\":\"c\",\"kind\":"
             "\"app\",\"gpu\":\"G1\",\"index\":0,\"milli\":300,\"mib\":4915,"
             "\"measuredMilli\":12}]}}"),
        CTL_FINE);
    assert_string_equal(shown.out,
                        "Pod:          a/x\n"
                        "Request:      300 milli of one GPU\n"
                        "Phase:        Running\n"
                        "Node:         n1\n"
                        "State:        bound since 2026-01-02T00:04:05Z (3h)\n"
                        "GPU:milli:    0:300\n"
                        "\n"
                        "CONTAINER  KIND  GPU  ID  MILLI   MIB  MEASURED  MEASUREDMIB\n"
                        "c          app   0    G1    300  4915        12            -\n");
}

/* Also where one of its shares was raised, which is another table. */
FIXTURE_TEST(a_placed_pod_marks_what_was_scaled)
{
    char text[800];

    for (int raised = 0; raised < 2; raised++) {
        if (raised > 0)
            shown_free(&shown);
        (void)snprintf(
            text, sizeof text,
            "{\"namespace\":\"a\",\"name\":\"x\",\"allocation\":{\"state\":\"bound\","
            "\"charges\":[],\"shares\":[{\"container\":\"c\",\"mib\":4915,"
            "\"measuredMilli\":12,\"scaled\":true,\"measuredMib\":7},{\"container\":\"d\","
            "\"mib\":4915,%s\"measuredMilli\":13}]}}",
            raised > 0 ? "\"asked\":100," : "");
        assert_int_equal(show("pod a/x", show_pod, text), CTL_FINE);
        assert_int_equal(strstr(shown.out, "ASKED") != NULL, raised);
        assert_non_null(strstr(shown.out, "  4915       ~12            7\n"));
        assert_non_null(strstr(shown.out, "  4915        13            -\n"));
    }
}

FIXTURE_TEST(a_waiting_pod_tells_why_node_by_node)
{
    assert_int_equal(
        show("pod a/x", show_pod,
             "{\"namespace\":\"a\",\"name\":\"x\",\"uid\":\"p1\",\"phase\":\"Pending\",\"node\":"
             "\"\",\"request\":\"300 milli of one GPU\",\"waiting\":{\"since\":"
             "\"2026-01-02T03:03:53Z\",\"lastAsked\":\"2026-01-02T03:04:00Z\",\"asks\":2,"
             "\"text\":\"no GPU with 300 milli free\"},\"nodes\":[{\"name\":\"n1\",\"fits\":false,"
             "\"reason\":\"room\",\"text\":\"no GPU with 300 milli free\",\"detail\":"
             "\"largest free piece 220 milli\"},{\"name\":\"n2\",\"fits\":true,\"reason\":"
             "\"fits\",\"text\":\"\",\"detail\":\"\"}]}"),
        CTL_FINE);
    assert_string_equal(shown.out,
                        "Pod:          a/x\n"
                        "Request:      300 milli of one GPU\n"
                        "Phase:        Pending\n"
                        "Node:         none\n"
                        "Waiting:      since 2026-01-02T03:03:53Z (12s), asked 2 times\n"
                        "Why:          no GPU with 300 milli free\n"
                        "\n"
                        "NODE  FITS  WHY NOT                     DETAIL\n"
                        "n1    no    no GPU with 300 milli free  largest free piece 220 milli\n"
                        "n2    yes   -                           -\n");
}

FIXTURE_TEST(a_waiting_pod_tells_each_reason_once)
{
    static const char pod[] =
        "{\"namespace\":\"a\",\"name\":\"x\",\"uid\":\"p1\",\"phase\":\"Pending\",\"node\":\"\","
        "\"request\":\"300 milli of one GPU\",\"advice\":[\"no\",\"yes\"],\"models\":[{\"name\":"
        "\"A100\",\"standsFor\":[\"A100-x\",\"A100-y\"]},{\"name\":\"T5\",\"standsFor\":[]}],"
        "\"never\":\"no node has one\",\"reasons\":[{"
        "\"reason\":\"room\",\"nodes\":183,\"text\":\"no GPU with 300 milli free\",\"detail\":"
        "\"largest free piece 220 milli\"},{\"reason\":\"no_gpu\",\"nodes\":17,"
        "\"text\":\"no GPUs\",\"detail\":\"\"}],\"nodes\":["
        "{\"name\":\"n1\",\"fits\":false,\"reason\":\"room\",\"text\":"
        "\"no GPU with 300 milli free\",\"detail\":\"room: 220 milli\"}]}";

    assert_int_equal(show("pod a/x", show_pod, pod), CTL_FINE);
    assert_string_equal(shown.out,
                        "Pod:          a/x\n"
                        "Request:      300 milli of one GPU\n"
                        "Model:        A100 stands for A100-x, A100-y\n"
                        "Model:        T5 stands for no GPU of the cluster\n"
                        "Advice:       no\n"
                        "Advice:       yes\n"
                        "Phase:        Pending\n"
                        "Node:         none\n"
                        "Waiting:      kube-scheduler has not asked about it yet\n"
                        "Never:        no node has one\n"
                        "\n"
                        "NODES  REASON  WHY NOT                     NOW\n"
                        "  183  room    no GPU with 300 milli free  largest free piece 220 milli\n"
                        "   17  no_gpu  no GPUs                     -\n");
    shown_free(&shown);
    assert_int_equal(show("pod a/x -v", show_pod, pod), CTL_FINE);
    assert_non_null(strstr(shown.out, "   17  no_gpu  no GPUs"));
    assert_non_null(strstr(shown.out, "n1    no    no GPU with 300 milli free  room: 220"));
}

FIXTURE_TEST(a_waiting_pod_tells_which_nodes_fit_and_may_not_be_used)
{
    static const char none[] =
        "{\"namespace\":\"a\",\"name\":\"x\",\"uid\":\"p1\",\"phase\":\"Pending\",\"node\":\"\","
        "\"request\":\"300 milli of one GPU\",\"reasons\":[],\"unusable\":[{\"reason\":\"tainted\","
        "\"taint\":\"nvidia.com/gpu\",\"nodes\":4,\"text\":\"\",\"names\":[\"g1\",\"g2\",\"g3\"]},"
        "{\"reason\":\"affinity\",\"nodes\":1,\"text\":\"\",\"names\":[\"g9\"]}],\"nodes\":[]}";
    static const char some[] =
        "{\"namespace\":\"a\",\"name\":\"x\",\"uid\":\"p1\",\"phase\":\"Pending\",\"node\":\"\","
        "\"request\":\"300 milli of one GPU\",\"reasons\":[{\"reason\":\"room\",\"nodes\":3},"
        "{\"reason\":\"fits\",\"nodes\":2}],\"unusable\":[{\"reason\":\"cordoned\",\"nodes\":1,"
        "\"text\":\"\",\"names\":[\"g1\"]}],\"nodes\":[]}";
    static const char one[] =
        "{\"namespace\":\"a\",\"name\":\"x\",\"uid\":\"p1\",\"phase\":\"Pending\",\"node\":\"\","
        "\"request\":\"300 milli of one GPU\",\"reasons\":[],"
        "\"unusable\":[{\"reason\":\"cordoned\","
        "\"nodes\":1,\"text\":\"\",\"names\":[\"g1\"]}],\"nodes\":[]}";

    assert_int_equal(show("pod a/x", show_pod, none), CTL_FINE);
    assert_non_null(strstr(shown.out, "Usable:       5 nodes fit, the pod may use none: 4 tainted "
                                      "nvidia.com/gpu (g1, g2, g3, ...), 1 affinity (g9)\n"));
    shown_free(&shown);
    assert_int_equal(show("pod a/x", show_pod, some), CTL_FINE);
    assert_non_null(
        strstr(shown.out, "Usable:       3 nodes fit, the pod may use 2: not 1 cordoned (g1)\n"));
    shown_free(&shown);
    assert_int_equal(show("pod a/x", show_pod, one), CTL_FINE);
    assert_non_null(strstr(shown.out, "1 node fits, the pod may use none: 1 cordoned (g1)\n"));
}

FIXTURE_TEST(history_names_from_and_until)
{
    assert_int_equal(
        show("history x", show_history,
             "{\"items\":[{\"uid\":\"p\",\"namespace\":\"a\",\"name\":\"x\",\"node\":\"n1\","
             "\"nodeUid\":\"u\",\"gpu\":\"G1\",\"milli\":300,\"mib\":1,\"state\":\"released\","
             "\"reservedAt\":\"2026-01-01T14:05:00.123Z\",\"boundAt\":\"2026-01-01T14:05:01.000Z\","
             "\"releasedAt\":\"2026-01-01T15:00:00Z\"}]}"),
        CTL_FINE);
    assert_string_equal(
        shown.out,
        "NAMESPACE  NAME  NODE  GPU  MILLI  STATE     FROM                  UNTIL"
        "                 AGE\n"
        "a          x     n1    G1     300  released  2026-01-01T14:05:00Z  2026-01-01T15:00:00Z  "
        "12h\n");
}

/* Only where the server was asked about a pod, so that a column of blanks proves nothing. */
FIXTURE_TEST(history_of_a_pod_tells_of_memory_over_a_share)
{
    assert_int_equal(
        show(
            "history x", show_history,
            "{\"items\":[{\"namespace\":\"a\",\"name\":\"x\",\"node\":\"n1\",\"gpu\":\"G1\","
            "\"milli\":300,\"state\":\"bound\",\"boundAt\":\"2026-01-02T00:04:05Z\",\"over\":[{"
            "\"at\":\"2026-01-02T02:05:00.123Z\",\"container\":\"c\",\"gpu\":\"G1\",\"how\":"
            "\"killed\",\"mib\":4915},{\"at\":\"2026-01-02T01:05:00Z\",\"container\":\"c\","
            "\"gpu\":\"G1\",\"how\":\"seen\",\"mib\":4915,\"peakMib\":6000}]},{\"namespace\":"
            "\"a\",\"name\":\"x\",\"node\":\"n1\",\"gpu\":\"G2\",\"milli\":300,\"state\":\"bound\","
            "\"boundAt\":\"2026-01-02T00:04:05Z\",\"over\":[{\"at\":\"2026-01-02T01:05:00Z\","
            "\"container\":\"c\",\"gpu\":\"G2\",\"how\":\"seen\",\"mib\":4915,\"peakMib\":6000}]},"
            "{\"namespace\":\"a\",\"name\":\"x\",\"node\":\"n1\",\"gpu\":\"G3\",\"milli\":300,"
            "\"state\":\"bound\",\"boundAt\":\"2026-01-02T00:04:05Z\",\"over\":[]}]}"),
        CTL_FINE);
    assert_string_equal(
        shown.out,
        "NAMESPACE  NAME  NODE  GPU  MILLI  STATE  FROM                  UNTIL  AGE  OVER\n"
        "a          x     n1    G1     300  bound  2026-01-02T00:04:05Z  -       3h  "
        "killed:?/4915:2026-01-02T02:05:00Z,+1\n"
        "a          x     n1    G2     300  bound  2026-01-02T00:04:05Z  -       3h  "
        "seen:6000/4915:2026-01-02T01:05:00Z\n"
        "a          x     n1    G3     300  bound  2026-01-02T00:04:05Z  -       3h  -\n");
}

FIXTURE_TEST(a_plan_of_moves_says_where_from_and_where_to)
{
    static const char plan[] =
        "{\"generation\":9,\"learned\":true,\"cutShort\":true,\"leftOut\":true,\"pods\":7,"
        "\"freeMilli\":1500,\"fragmentMilli\":1400,\"fragmentMilliAfter\":400,\"moves\":[{"
        "\"uid\":\"u\",\"namespace\":\"a\",\"name\":\"web\",\"from\":{\"node\":\"n1\","
        "\"charges\":[{\"gpu\":\"G1\",\"index\":1,\"milli\":500,\"mib\":1},{\"gpu\":\"G3\","
        "\"index\":3,\"milli\":200,\"mib\":1}]},\"to\":{\"node\":\"n2\",\"charges\":[{"
        "\"gpu\":\"G0\",\"index\":0,\"milli\":500,\"mib\":1},{\"gpu\":\"G7\",\"index\":7,"
        "\"milli\":200,\"mib\":1}]},\"gainMilli\":1000}],\"shapes\":[{\"gpus\":1,\"milli\":1000,"
        "\"models\":\"\",\"before\":0,\"after\":1},{\"gpus\":2,\"milli\":300,"
        "\"models\":\"A100*,H100\",\"before\":4,\"after\":3}]}";

    assert_int_equal(show("defrag --plan", show_defrag, plan), CTL_FINE);
    assert_string_equal(
        shown.out,
        "NAMESPACE  NAME  SHARE    FROM    TO      GAIN\n"
        "a          web   500,200  n1/1,3  n2/0,7  1000\n"
        "\nfragment: 1400 of 1500 free milli now, 400 after; moves 1, pods looked at 7\n"
        "pods of 1000 milli: 0 more fit now, 1 after\n"
        "pods of 2 x 300 milli (A100*,H100): 4 more fit now, 3 after\n"
        "The search ended at its bound: there may be better or more moves.\n"
        "There are more pods or different requests than were looked at.\n"
        "Nothing was moved. Evict one pod after the other, in this order; TO is where each fits by "
        "GPU,\nand kube-scheduler decides where it goes.\n");
    shown_free(&shown);
    assert_int_equal(show("defrag --plan --no-headers", show_defrag, plan), CTL_FINE);
    assert_string_equal(shown.out, "a          web   500,200  n1/1,3  n2/0,7  1000\n");
    shown_free(&shown);
    assert_int_equal(show("defrag --plan -o name", show_defrag, plan), CTL_FINE);
    assert_string_equal(shown.out, "pod/a/web\n");
}

FIXTURE_TEST(a_plan_without_moves_says_why)
{
    assert_int_equal(show("defrag --plan", show_defrag,
                          "{\"learned\":true,\"pods\":0,\"freeMilli\":1500,"
                          "\"fragmentMilli\":30,\"fragmentMilliAfter\":30,\"moves\":[]}"),
                     CTL_FINE);
    assert_string_equal(shown.out, "fragment: 30 of 1500 free milli now, 30 after; moves 0, pods "
                                   "looked at 0\n");
    assert_string_equal(
        shown.err, "no moves: none gains as much as --min-gain, 100 milli unless it is given\n");
    shown_free(&shown);
    assert_int_equal(
        show("defrag --plan", show_defrag, "{\"learned\":true,\"fragmentMilli\":0,\"moves\":[]}"),
        CTL_FINE);
    assert_string_equal(shown.err, "no moves: nothing that is free is a fragment\n");
    shown_free(&shown);
    assert_int_equal(show("defrag --plan", show_defrag, "{\"learned\":false,\"moves\":[]}"),
                     CTL_FINE);
    assert_string_equal(shown.err,
                        "no moves: the workload is not known yet, so nothing is a fragment\n");
}

FIXTURE_TEST(usage_since_a_time_counts_hours)
{
    assert_int_equal(
        show("usage --since 7d", show_usage_past,
             "{\"since\":\"2026-01-01T00:00:00Z\",\"items\":[{\"namespace\":\"a\",\"model\":\"T4\","
             "\"pods\":3,\"grantedMilliHours\":12345,\"grantedMibHours\":2048,"
             "\"measuredMilliHours\":2500,\"measuredOfMilliHours\":10000},{\"namespace\":\"b\","
             "\"model\":\"\",\"pods\":1,\"grantedMilliHours\":7,\"grantedMibHours\":0},"
             "{\"namespace\":\"c\",\"model\":\"T4\",\"pods\":0,\"grantedMilliHours\":0,"
             "\"grantedMibHours\":0,\"measuredMilliHours\":0,\"measuredOfMilliHours\":0}]}"),
        CTL_FINE);
    assert_string_equal(
        shown.out, "NAMESPACE  MODEL    PODS  GPU-HOURS  MEASURED  USED  COVERED  GIB-HOURS\n"
                   "a          T4          3     12.345     2.500   25%      81%          2\n"
                   "b          unknown     1      0.007         -     -        -          0\n"
                   "c          T4          0      0.000     0.000     -        -          0\n");
    shown_free(&shown);
    assert_int_equal(show("usage --since 7d", show_usage_past, "{\"items\":[]}"), CTL_FINE);
    assert_string_equal(shown.err, "nothing was granted since then\n");
}

FIXTURE_TEST(usage_ends_with_a_total)
{
    static const char usage[] =
        "{\"items\":[{\"namespace\":\"a\",\"model\":\"A100\",\"pods\":2,\"gpus\":1,"
        "\"boundMilli\":300,"
        "\"reservedMilli\":200,\"mib\":40960,\"heldGpus\":0,"
        "\"unplacedMilli\":0},{\"namespace\":\"b\","
        "\"model\":\"\",\"pods\":1,\"gpus\":0,\"boundMilli\":0,\"reservedMilli\":0,\"mib\":0,"
        "\"heldGpus\":2,\"unplacedMilli\":70}],\"total\":{\"pods\":3,\"gpus\":1,\"boundMilli\":300,"
        "\"reservedMilli\":200,\"mib\":40960,\"heldGpus\":2,\"unplacedMilli\":70}}";

    assert_int_equal(show("usage", show_usage, usage), CTL_FINE);
    assert_string_equal(
        shown.out, "NAMESPACE  MODEL    PODS  GPUS  BOUND  RESERVED    MIB  WHOLE\n"
                   "a          A100        2     1    300       200  40960      0\n"
                   "b          unknown     1     0      0         0      0      2\n"
                   "\ntotal: pods 3, GPUs 1, 300 bound + 200 reserved = 500 milli; 2 held whole; "
                   "70 milli of GPUs that are not known\n");
    shown_free(&shown);
    assert_int_equal(show("usage -o name --no-headers", show_usage, usage), CTL_FINE);
    assert_string_equal(shown.out, "a/A100\nb/\n");
    shown_free(&shown);
    assert_int_equal(show("usage", show_usage, "{\"items\":[]}"), CTL_FINE);
    assert_string_equal(shown.err, "nobody holds anything\n");
}

FIXTURE_TEST(drift_and_waiting_have_their_lines)
{
    assert_int_equal(show("drift", show_drift,
                          "{\"items\":[{\"kind\":\"over\",\"node\":\"n1\",\"gpu\":\"G1\",\"text\":"
                          "\"800 of 500\"},{\"kind\":\"presumed\",\"node\":\"n1\",\"namespace\":"
                          "\"a\",\"name\":\"x\",\"text\":\"a guess\",\"since\":"
                          "\"2026-01-02T03:04:00Z\"}]}"),
                     CTL_FINE);
    assert_string_equal(shown.out, "KIND      NODE  GPU  POD  WHAT        AGE\n"
                                   "over      n1    G1   -    800 of 500    -\n"
                                   "presumed  n1    -    a/x  a guess      5s\n");
    shown_free(&shown);
    assert_int_equal(show("waiting", show_waiting, "{\"items\":[]}"), CTL_FINE);
    assert_string_equal(shown.out, "");
    assert_string_equal(shown.err, "no pod waits\n");
    shown_free(&shown);
    assert_int_equal(
        show("waiting", show_waiting,
             "{\"items\":[{\"namespace\":\"a\",\"name\":\"x\",\"uid\":\"u\",\"asks\":3,"
             "\"request\":\"300 milli\",\"text\":\"no room\"}],\"overflow\":true}"),
        CTL_FINE);
    assert_non_null(strstr(shown.out, "no room"));
    assert_null(strstr(shown.out, "wait"));
    assert_non_null(strstr(shown.err, "More pods wait than milligpud remembers"));
}

FIXTURE_TEST(waiting__is_counted_by_reason_first)
{
    static const char answer[] =
        "{\"counts\":[{\"by\":\"milligpu\",\"reason\":\"room\",\"pods\":7},"
        "{\"by\":\"kube-scheduler\",\"reason\":\"taint\",\"pods\":2},"
        "{\"by\":\"gate\",\"reason\":\"gated\",\"pods\":1},"
        "{\"by\":\"nobody\",\"reason\":\"scheduler\",\"pods\":1},"
        "{\"by\":\"nobody\",\"reason\":\"unasked\",\"pods\":1}],"
        "\"items\":[{\"namespace\":\"a\",\"name\":\"x\",\"uid\":\"u\",\"asks\":3,\"offered\":2,"
        "\"request\":\"300 milli\",\"text\":\"offered 2\",\"condition\":\"no \\u001b[31mvolume\"},"
        "{\"namespace\":\"a\",\"name\":\"y\",\"uid\":\"v\",\"asks\":0,\"request\":\"1 milli\","
        "\"text\":\"gated: b\",\"condition\":\"blocked\"}]}";

    assert_int_equal(show("waiting", show_waiting, answer), CTL_FINE);
    assert_string_equal(
        shown.out,
        "12 wait: 7 room, 2 refused by kube-scheduler: taint, 1 gated, 1 of a scheduler that never "
        "asked, 1 not asked about yet\n\n"
        "NAMESPACE  NAME  REQUEST    ASKS  REASON               AGE\n"
        "a          x     300 milli     3  no \\u001b[31mvolume    -\n"
        "a          y     1 milli       0  gated: b               -\n");
    shown_free(&shown);
    assert_int_equal(show("waiting --no-headers", show_waiting, answer), CTL_FINE);
    assert_null(strstr(shown.out, "wait:"));
    shown_free(&shown);
    assert_int_equal(show("waiting -o json", show_waiting, answer), CTL_FINE);
    assert_null(strstr(shown.out, "wait:"));
    shown_free(&shown);
    assert_int_equal(show("waiting", show_waiting,
                          "{\"counts\":[{\"by\":\"milligpu\",\"reason\":\"room\",\"pods\":1}],"
                          "\"items\":[]}"),
                     CTL_FINE);
    assert_string_equal(shown.out, "1 waits: 1 room\n\n");
}

FIXTURE_TEST(a_pod__shows_what_its_scheduler_said_and_its_predecessor)
{
    assert_int_equal(
        show("pod a/x", show_pod,
             "{\"namespace\":\"a\",\"name\":\"x\",\"request\":\"300 milli\",\"phase\":"
             "\"Pending\",\"node\":\"\",\"scheduling\":{\"scheduler\":\"s\",\"serves\":true,"
             "\"asked\":false,\"by\":\"kube-scheduler\",\"reason\":\"taint\",\"text\":\"s finds no "
             "node\",\"condition\":\"Unschedulable: 0/1\",\"since\":\"2026-01-02T03:04:00Z\"},"
             "\"predecessor\":{\"text\":\"the older pod x-1 holds 700\"}}"),
        CTL_FINE);
    assert_non_null(strstr(shown.out, "Waiting:      s finds no node\n"));
    assert_non_null(strstr(shown.out, "Condition:    Unschedulable: 0/1 since 2026-01-02T03:04:00Z "
                                      "(5s)\n"));
    assert_non_null(strstr(shown.out, "Predecessor:  the older pod x-1 holds 700\n"));
    shown_free(&shown);
    assert_int_equal(show("pod a/x", show_pod,
                          "{\"namespace\":\"a\",\"name\":\"x\",\"node\":\"\",\"scheduling\":{"
                          "\"scheduler\":\"s\",\"serves\":true,\"asked\":true}}"),
                     CTL_FINE);
    assert_non_null(strstr(shown.out, "Waiting:      a bind is in progress\n"));
    assert_null(strstr(shown.out, "Condition"));
}

FIXTURE_TEST(keys_have_their_lines)
{
    assert_int_equal(
        show(
            "keys", show_keys,
            "{\"namespace\":\"gpu\",\"items\":[{\"id\":\"0123456789abcdef\",\"state\":"
            "\"signing\",\"published\":true,\"since\":\"2026-01-02T03:04:00Z\",\"pods\":12},"
            "{\"id\":\"1123456789abcdef\",\"state\":\"next\",\"published\":false,\"since\":"
            "\"2026-01-02T03:04:00Z\",\"pods\":0},{\"id\":\"2123456789abcdef\",\"state\":\"other\","
            "\"published\":true,\"pods\":3}],\"trouble\":\"no room\"}"),
        CTL_FINE);
    assert_string_equal(shown.out, "KEY               STATE    PUBLISHED  PODS  SINCE\n"
                                   "0123456789abcdef  signing  yes          12     5s\n"
                                   "1123456789abcdef  next     no            0     5s\n"
                                   "2123456789abcdef  other    yes           3      -\n");
    assert_string_equal(shown.err, "The keys cannot change: no room\n");
    shown_free(&shown);
    assert_int_equal(show("keys", show_keys, "{\"items\":[]}"), CTL_FINE);
    assert_string_equal(shown.err, "nothing is signed: milligpud is standalone\n");
}

FIXTURE_TEST(summary_adds_up_by_name)
{
    assert_int_equal(show("summary", show_summary, summary), CTL_FINE);
    assert_string_equal(
        shown.out,
        "Cluster:      c-1, cluster\n"
        "milligpud:    0.1.0, ready\n"
        "Policy:       mixed\n"
        "Nodes:        2 with 4 GPUs: 1 ok, 1 mixed\n"
        "Milli:        3500 = 1300 used + 200 reserved + 500 free + 1000 held whole + 500 closed\n"
        "Beyond:       40 of what is held exceeds the size of its GPU\n"
        "Closed:       300 cordoned, 200 mixed\n"
        "Held whole:   1 GPU by pods of another resource\n"
        "Unplaced:     70 milli of pods whose GPUs are not known\n"
        "Largest:      500 milli free in one piece\n"
        "Fragment:     130 of 500 free milli: of no use to the pods that come\n"
        "Allocations:  3 bound, 1 reserved\n"
        "Waiting pods: 1\n"
        "Drift:        2\n"
        "\n"
        "MODEL        GPUS  TOTAL  USED  RESERVED  FREE  HELD  CLOSED  LARGEST  CLOSED BY\n"
        "NVIDIA-A100     2   2000  1300       200   500     0       0      500  -\n"
        "unknown         2   1500     0         0     0  1000     500        0  300 cordoned, 200 "
        "mixed\n");
}

FIXTURE_TEST(summary_shouts_when_nothing_is_granted)
{
    assert_int_equal(show("summary", show_summary, "{\"ready\":false,\"safeMode\":true}"),
                     CTL_FINE);
    assert_non_null(strstr(shown.out, "NOT READY, SAFE MODE"));
}

FIXTURE_TEST(policy_shows_which_rules_hold)
{
    assert_int_equal(show("policy", show_policy,
                          "{\"name\":\"/etc/p.yaml\",\"digest\":\"ab12\",\"policy\":\"rollout\","
                          "\"seed\":0,\"memory\":\"filter\",\"prices\":\"known\",\"rules\":[{"
                          "\"number\":1,\"name\":\"night\",\"nodes\":\"pool=night\","
                          "\"namespaces\":\"all\",\"says\":\"only whole GPUs\",\"when\":"
                          "\"daily 20:00-08:00 UTC\",\"changesAt\":\"2026-01-02T08:00:00.000Z\","
                          "\"holds\":true}],\"changesAt\":\"2026-01-02T08:00:00.000Z\",\"failed\":{"
                          "\"since\":\"2026-01-02T01:00:00.000Z\",\"text\":\"line 7\"}}"),
                     CTL_FINE);
    assert_non_null(strstr(shown.out, "Policy:       /etc/p.yaml (digest ab12)\n"));
    assert_non_null(
        strstr(shown.out, "Rules:        1, others hold from 2026-01-02T08:00:00.000Z\n"));
    assert_non_null(strstr(shown.out, "not read since 2026-01-02T01:00:00.000Z"));
    assert_non_null(strstr(shown.out, "night"));
    assert_non_null(strstr(shown.out, "only whole GPUs"));
    shown_free(&shown);
    assert_int_equal(show("policy -o name", show_policy, "{\"name\":\"mixed\"}"), CTL_FINE);
    assert_string_equal(shown.out, "policy/mixed\n");
    shown_free(&shown);
    assert_int_equal(show("policy", show_policy, "{\"name\":\"spread\",\"rules\":[]}"), CTL_FINE);
    assert_non_null(strstr(shown.out, "spread (bare)"));
}

FIXTURE_TEST(doctor_fails_when_a_check_failed)
{
    assert_int_equal(show("doctor", show_doctor,
                          "{\"checks\":[{\"name\":\"daemon\",\"status\":\"ok\",\"text\":\"ready\","
                          "\"fix\":\"\"},{\"name\":\"wake\",\"status\":\"warning\",\"text\":"
                          "\"silent\",\"fix\":\"look\"}]}"),
                     CTL_FINE);
    assert_string_equal(shown.out, "ok       daemon      ready\n"
                                   "WARNING  wake        silent\n"
                                   "                     do: look\n");
    shown_free(&shown);
    static const char failed[] = "{\"checks\":[{\"name\":\"api\",\"status\":\"failed\",\"text\":"
                                 "\"no \\u001b[2J answer\",\"fix\":\"mend it\"}]}";
    assert_int_equal(show("doctor", show_doctor, failed), CTL_NO);
    assert_string_equal(shown.out, "FAILED   api         no \\u001b[2J answer\n"
                                   "                     do: mend it\n");
    shown_free(&shown);
    assert_int_equal(show("doctor -o json", show_doctor, failed), CTL_NO);
    shown_free(&shown);
    assert_int_equal(show("doctor", show_doctor, "{}"), CTL_NO);
}

/* Such text comes from annotations that tenants write and models that nodes show. */
FIXTURE_TEST(text_of_others_does_not_steer_the_terminal)
{
#define ODD "\\u001b]0;x\\u0007\\u202e\\u009b2J"
    static const char node[] = "{\"name\":\"n" ODD "\",\"model\":\"" ODD "\",\"stateText\":\"" ODD
                               "\",\"gpus\":[{\"id\":\"" ODD "\",\"model\":\"" ODD
                               "\",\"state\":\"" ODD "\"}],\"allocations\":[{\"namespace\":\"" ODD
                               "\",\"name\":\"" ODD "\",\"state\":\"" ODD "\"}]}";
    static const char pod[] = "{\"namespace\":\"d\",\"name\":\"p\",\"request\":\"" ODD
                              "\",\"text\":\"" ODD "\",\"node\":\"" ODD "\",\"reason\":\"" ODD
                              "\",\"waiting\":{\"text\":\"" ODD "\",\"request\":\"" ODD
                              "\"},\"annotation\":\"" ODD "\",\"history\":[{\"why\":\"" ODD "\"}]}";
    static const char list[] =
        "{\"items\":[{\"namespace\":\"" ODD "\",\"name\":\"" ODD "\",\"node\":\"" ODD
        "\",\"text\":\"" ODD "\",\"request\":\"" ODD "\",\"kind\":\"" ODD "\",\"gpu\":\"" ODD
        "\",\"why\":\"" ODD "\",\"state\":\"" ODD "\",\"origin\":\"" ODD "\",\"uid\":\"" ODD
        "\",\"over\":[{\"how\":\"" ODD "\",\"at\":\"" ODD "\"}]}]}";
    static const struct {
        const char *words;
        int (*view)(struct ctl *ctl, const struct document *value);
        const char *json;
    } row[] = {
        {"node n", show_node, node},
        {"pod p", show_pod, pod},
        {"allocations", show_allocations, list},
        {"waiting", show_waiting, list},
        {"usage", show_usage, list},
        {"usage", show_usage_past, list},
        {"history x", show_history, list},
        {"drift", show_drift, list},
    };
    static const char *const formats[] = {"", " -o wide", " -o name", " -o json", " -o yaml"};

    for (size_t i = 0; i < ARRAY_LEN(row) * ARRAY_LEN(formats); i++) {
        char words[64];
        if (i > 0)
            shown_free(&shown);
        (void)snprintf(words, sizeof words, "%s%s", row[i % ARRAY_LEN(row)].words,
                       formats[i / ARRAY_LEN(row)]);
        (void)show(words, row[i % ARRAY_LEN(row)].view, row[i % ARRAY_LEN(row)].json);
        for (size_t at = 0; at < shown.out_bytes; at++) {
            const unsigned char c = (unsigned char)shown.out[at];
            if ((c < ' ' && c != '\n') || c >= 0x7f)
                fail_msg("%s: byte %02x in %s", words, c, shown.out);
        }
        if (strcasestr(shown.out, "u202e") == NULL && strstr(words, "-o name") == NULL)
            fail_msg("%s shows nothing of it: %s", words, shown.out);
    }
#undef ODD
}

FIXTURE_TEST(answers_of_another_shape_are_shown_without_harm)
{
    static const char *const odd[] = {
        "{}",
        "[]",
        "null",
        "17",
        "{\"items\":17}",
        "{\"items\":[17,null,[],{}]}",
        "{\"items\":[{\"name\":17,\"gpus\":[17,{}],\"charges\":{\"a\":1},\"milli\":\"x\"}]}",
        "{\"checks\":[1],\"gpus\":[1],\"models\":[1],\"allocation\":17,\"waiting\":[],\"nodes\":1}",
        "{\"rules\":[17,{}],\"failed\":17}",
    };
    int (*const views[])(struct ctl *, const struct document *) = {
        show_nodes, show_node,    show_allocations, show_pod,    show_waiting, show_history,
        show_drift, show_summary, show_doctor,      show_defrag, show_policy,  show_keys,
    };
    for (size_t i = 0; i < ARRAY_LEN(odd); i++)
        for (size_t j = 0; j < ARRAY_LEN(views); j++) {
            const int status = show("nodes", views[j], odd[i]);
            assert_true(status == CTL_FINE || (views[j] == show_doctor && status == CTL_NO));
            shown_free(&shown);
            shown_begin(&shown, "nodes");
            shown.ctl.screen.terminal = true;
            shown.ctl.screen.width = 1 + 7 * i; /* narrow ones, too */
            assert_int_equal(views[j](&shown.ctl, answer(&shown, odd[i])), status);
            shown_end(&shown);
            shown_free(&shown);
        }
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        shown_begin(&shown, i % 2 == 0 ? "top --by node --watch" : "top --watch");
        shown.ctl.screen.terminal = true;
        shown.ctl.screen.width = 1 + 9 * i;
        shown.ctl.screen.rows = 1 + 3 * i;
        assert_int_equal(show_top(&shown.ctl, answer(&shown, odd[i]), answer(&shown, "17")),
                         CTL_FINE);
        shown_end(&shown);
        shown_free(&shown);
    }
    shown_begin(&shown, "top");
    assert_int_equal(show_top(&shown.ctl, answer(&shown, odd[6]), answer(&shown, "17")), CTL_FINE);
    shown_end(&shown);
}

FIXTURE_TEST(moments_are_absolute_or_so_long_ago)
{
    static const struct {
        const char *given;
        const char *want;
    } cases[] = {
        {"2026-01-01T14:05:00Z", "2026-01-01T14:05:00Z"},
        {"5s", "2026-01-02T03:04:00.000Z"},
        {"4m", "2026-01-02T03:00:05.000Z"},
        {"3h", "2026-01-02T00:04:05.000Z"},
        {"1d", "2026-01-01T03:04:05.000Z"},
        {"", ""},
        {"1", ""},
        {"1w", ""},
        {"-1d", ""},
        {"1dd", ""},
        {"12345678901d", ""},
        {"yesterday", ""},
        {"2026-13-01T00:00:00Z", ""},
    };
    char out[AGE_BYTES + 32];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        at_format(cases[i].given, NOW_MS, out);
        assert_string_equal(out, cases[i].want);
    }
    shown_begin(&shown, "top");
    shown_end(&shown);
}
