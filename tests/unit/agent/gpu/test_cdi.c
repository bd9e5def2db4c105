/* Specifications in two folders, as the runtime would resolve them. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/document/document.h"
#include "milligpu/run/file.h"

#include "agent/gpu/cdi.h"
#include "support/scoped.h"
#include "support/test.h"
#include "unit/agent/support.h"

static struct err err; /* of the latest call */

#define NVIDIA "nvidia.com/gpu"
#define PLUGIN "k8s.device-plugin.nvidia.com/gpu"

struct fixture {
    char root[64];
    char etc[96];
    char run[96];
    struct cdi *cdi;
};

static int begin(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);
    folder_make(fixture->root, sizeof fixture->root);
    (void)snprintf(fixture->etc, sizeof fixture->etc, "%s/etc", fixture->root);
    (void)snprintf(fixture->run, sizeof fixture->run, "%s/run", fixture->root);
    assert_int_equal(mkdir(fixture->etc, 0755), 0);
    const char *const folder[] = {fixture->etc, fixture->run};
    fixture->cdi = cdi_new(folder, 2); /* run does not exist yet */
    *state = fixture;
    return 0;
}

static int end(void **state)
{
    struct fixture *fixture = *state;
    cdi_free(fixture->cdi);
    folder_remove(fixture->root);
    xfree(fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct fixture *fixture, begin, end)

static void put(const char *folder, const char *name, const char *text)
{
    char path[256];
    (void)mkdir(folder, 0755);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void take(const char *folder, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

/* names: separated by blanks. */
static void put_spec(const char *folder, const char *name, const char *kind, const char *names)
{
    SCOPED_STRBUF(text);
    struct text rest = text_of(names);
    struct text one;
    strbuf_printf(&text, "{\"cdiVersion\":\"0.5.0\",\"kind\":\"%s\",\"devices\":[", kind);
    for (const char *separator = ""; text_cut(&rest, ' ', &one); separator = ",")
        strbuf_printf(&text, "%s{\"name\":\"%.*s\",\"containerEdits\":{\"env\":[\"A=b\"]}}",
                      separator, TEXT_ARG(one));
    strbuf_str(&text, "]}");
    put(folder, name, text.data);
}

/* The kind that names both GPUs, or "none". */
static void finds(struct fixture *fixture, const char *a, const char *b, const char *expected)
{
    const char *const uuid[] = {a, b};
    enum cdi_kind kind;
    const int rc = cdi_find(fixture->cdi, uuid, 2, &kind, &err);
    assert_string_equal(rc == 0 ? cdi_kind_name(kind) : "none", expected);
}

/* The number of GPUs that some specification names, and the kind that names the most. */
static void names(struct fixture *fixture, uint32_t gpus, uint32_t expected, enum cdi_kind kind)
{
    const char *const uuid[] = {"GPU-a", "GPU-b", "GPU-c"};
    enum cdi_kind found;
    assert_int_equal(cdi_named(fixture->cdi, uuid, gpus, &found), expected);
    assert_int_equal(found, kind);
}

static uint32_t skipped(struct fixture *fixture, const char *why_has)
{
    const char *why;
    const uint32_t count = cdi_skipped(fixture->cdi, &why);
    assert_non_null(strstr(why, why_has));
    return count;
}

FIXTURE_TEST(cdi__takes_the_best_kind_that_names_all_gpus)
{
    finds(fixture, "GPU-a", "GPU-b", "none");
    put_spec(fixture->run, "own.json", "milligpu.io/gpu", "GPU-a GPU-b");
    finds(fixture, "GPU-a", "GPU-b", "milligpu.io/gpu");
    put_spec(fixture->etc, "other.json", "example.com/gpu", "GPU-a GPU-b");
    finds(fixture, "GPU-a", "GPU-b", "milligpu.io/gpu");
    put_spec(fixture->run, "plugin.json", PLUGIN, "GPU-a GPU-b");
    finds(fixture, "GPU-a", "GPU-b", PLUGIN);
    put_spec(fixture->run, "one.json", NVIDIA, "0 GPU-a");
    finds(fixture, "GPU-a", "GPU-b", PLUGIN);
    finds(fixture, "GPU-a", "GPU-a", NVIDIA);
    /* Two files may share the work. */
    put_spec(fixture->etc, "two.json", NVIDIA, "1 GPU-b");
    finds(fixture, "GPU-a", "GPU-b", NVIDIA);
    take(fixture->etc, "two.json");
    finds(fixture, "GPU-a", "GPU-b", PLUGIN);
    finds(fixture, "GPU", "GPU-", "none"); /* whole names only */
}

FIXTURE_TEST(cdi__counts_the_gpus_that_a_kind_names)
{
    names(fixture, 3, 0, CDI_KINDS);
    put_spec(fixture->run, "own.json", "milligpu.io/gpu", "GPU-a");
    put_spec(fixture->run, "plugin.json", PLUGIN, "GPU-b");
    names(fixture, 3, 2, CDI_DEVICE_PLUGIN);
    put_spec(fixture->etc, "all.json", NVIDIA, "GPU-a GPU-b GPU-c");
    names(fixture, 3, 3, CDI_NVIDIA);
    put_spec(fixture->etc, "again.json", NVIDIA, "GPU-c");
    names(fixture, 3, 2, CDI_NVIDIA);
    names(fixture, 0, 0, CDI_KINDS);
}

FIXTURE_TEST(cdi__conflicts_within_a_folder_and_overrides_between_folders)
{
    enum cdi_kind kind;
    const char *const uuid[] = {"GPU-a"};
    put_spec(fixture->etc, "a.json", NVIDIA, "GPU-a GPU-b");
    put_spec(fixture->run, "a.json", NVIDIA, "GPU-a GPU-b");
    finds(fixture, "GPU-a", "GPU-b", NVIDIA);
    put_spec(fixture->etc, "b.json", NVIDIA, "GPU-a");
    finds(fixture, "GPU-b", "GPU-b", NVIDIA);
    assert_int_equal(cdi_find(fixture->cdi, uuid, 1, &kind, &err), -ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "no CDI specification of this node names GPU GPU-a"));
    assert_non_null(strstr(err.text, "nvidia-ctk cdi generate"));
    assert_non_null(strstr(err.text, "name the same GPU: remove one"));
    put_spec(fixture->run, "p.json", PLUGIN, "GPU-a");
    finds(fixture, "GPU-a", "GPU-a", PLUGIN);
}

FIXTURE_TEST(cdi__reads_yaml_of_nvidia_ctk)
{
    static const char text[] = "---\ncdiVersion: 0.5.0\ncontainerEdits:\n  env:\n"
                               "  - NVIDIA_VISIBLE_DEVICES=void\ndevices:\n- containerEdits:\n"
                               "    deviceNodes:\n    - path: /dev/nvidia0\n  name: \"0\"\n"
                               "- containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia0\n"
                               "  name: GPU-a\nkind: nvidia.com/gpu\n";
    put(fixture->run, "nvidia.yml", text); /* the runtime does not read it */
    finds(fixture, "GPU-a", "GPU-a", "none");
    put(fixture->run, "nvidia.yaml", text);
    finds(fixture, "GPU-a", "GPU-a", NVIDIA);
}

FIXTURE_TEST(cdi__skips_and_reports_invalid_specifications)
{
    static const char *const bad[] = {
        "{",
        "",
        "[]",
        "{\"kind\":\"nvidia.com/gpu\",\"devices\":[{\"name\":\"GPU-a\",\"containerEdits\":{"
        "\"env\":[]}}]}",
        "{\"cdiVersion\":\"0.5.0\",\"kind\":\"gpu\",\"devices\":[{\"name\":\"GPU-a\","
        "\"containerEdits\":{\"env\":[]}}]}",
        "{\"cdiVersion\":\"0.5.0\",\"kind\":\"nvidia.com/gpu\",\"devices\":[]}",
        "{\"cdiVersion\":\"0.5.0\",\"kind\":\"nvidia.com/gpu\",\"devices\":[{\"name\":\"GPU-a\"}]}",
        "{\"cdiVersion\":\"0.5.0\",\"kind\":\"nvidia.com/gpu\",\"devices\":[{\"name\":\"-a\","
        "\"containerEdits\":{\"env\":[]}}]}",
    };
    char name[32];
    for (uint32_t i = 0; i < ARRAY_LEN(bad); i++) {
        (void)snprintf(name, sizeof name, "%u.json", i);
        put(fixture->run, name, bad[i]);
        finds(fixture, "GPU-a", "GPU-a", "none");
        assert_int_equal(skipped(fixture, fixture->run), i + 1);
    }
    put_spec(fixture->run, "twice.json", NVIDIA, "GPU-a GPU-b GPU-a");
    finds(fixture, "GPU-a", "GPU-b", "none");
    assert_int_equal(skipped(fixture, fixture->run), ARRAY_LEN(bad) + 1);
    put_spec(fixture->run, "good.json", NVIDIA, "GPU-a GPU-b");
    finds(fixture, "GPU-a", "GPU-b", NVIDIA);
}

FIXTURE_TEST(cdi__bounds_sizes_and_counts)
{
    char name[300];
    (void)mkdir(fixture->run, 0755);
    put_spec(fixture->run, "large.json", NVIDIA, "GPU-a");
    (void)snprintf(name, sizeof name, "%s/large.json", fixture->run);
    assert_int_equal(truncate(name, CDI_FILE_BYTES_MAX + 1), 0);
    (void)snprintf(name, sizeof name, "%s/pipe.json", fixture->run);
    assert_int_equal(mkfifo(name, 0600), 0);
    (void)snprintf(name, sizeof name, "%s/folder.json", fixture->run);
    assert_int_equal(mkdir(name, 0700), 0);
    finds(fixture, "GPU-a", "GPU-a", "none");
    assert_int_equal(skipped(fixture, ".json: "), 2);
    for (int i = 0; i < CDI_FILES_MAX; i++) {
        (void)snprintf(name, sizeof name, "%d.json", i);
        put_spec(fixture->etc, name, "example.com/x", "a");
    }
    put_spec(fixture->run, "z.json", NVIDIA, "GPU-a");
    finds(fixture, "GPU-a", "GPU-a", "none");
    assert_int_equal(skipped(fixture, "CDI_FILES_MAX"), 3);
}

FIXTURE_TEST(cdi__reads_an_unchanged_file_once)
{
    char path[256];
    struct stat before;
    put_spec(fixture->etc, "a.json", NVIDIA, "GPU-a");
    finds(fixture, "GPU-a", "GPU-a", NVIDIA);
    /* Other bytes of the same length, with the time set back: it would be seen if it were read. */
    (void)snprintf(path, sizeof path, "%s/a.json", fixture->etc);
    assert_int_equal(stat(path, &before), 0);
    put_spec(fixture->etc, "a.json", NVIDIA, "GPU-b");
    const struct timespec times[] = {before.st_atim, before.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    finds(fixture, "GPU-a", "GPU-a", NVIDIA);
    put_spec(fixture->etc, "a.json", NVIDIA, "GPU-bc");
    finds(fixture, "GPU-a", "GPU-a", "none");
    finds(fixture, "GPU-bc", "GPU-bc", NVIDIA);
}

static void make_folder(const struct fixture *fixture, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", fixture->root, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

#define LIB "usr/lib/x86_64-linux-gnu/"

static void make_host(struct fixture *fixture)
{
    static const char *const paths[] = {"dev/",
                                        "dev/nvidia0",
                                        "dev/nvidia3",
                                        "dev/nvidiactl",
                                        "dev/nvidia-uvm",
                                        "usr/",
                                        "usr/bin/",
                                        "usr/bin/nvidia-smi",
                                        "usr/lib/",
                                        "usr/lib64/",
                                        LIB,
                                        LIB "libcuda.so.1",
                                        LIB "libcuda.so.615.10",
                                        LIB "libnvidia-ml.so.1",
                                        LIB "libGL.so.1",
                                        "usr/lib64/libnvidia-ml.so.1"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (text_ends(text_of(paths[i]), "/"))
            make_folder(fixture, paths[i]);
        else
            put(fixture->root, paths[i], "");
}

static void writes_own(struct fixture *fixture, const struct cdi_own *own, uint32_t expected)
{
    uint32_t count;
    assert_int_equal(cdi_write_own(fixture->cdi, own, &count, &err), 0);
    assert_int_equal(count, expected);
}

/* Our specification for GPU-a on /dev/nvidia3, with the files of make_host(). */
static void put_expected(struct strbuf *out)
{
    static const char *const mounts[] = {"usr/bin/nvidia-smi", LIB "libcuda.so.1",
                                         LIB "libcuda.so.615.10", LIB "libnvidia-ml.so.1"};
    strbuf_str(out,
               "{\"cdiVersion\":\"0.5.0\",\"kind\":\"milligpu.io/gpu\",\"devices\":["
               "{\"name\":\"GPU-a\",\"containerEdits\":{\"deviceNodes\":["
               "{\"path\":\"/dev/nvidia3\",\"hostPath\":\"/dev/nvidia3\"}]}}],"
               "\"containerEdits\":{\"env\":[\"NVIDIA_VISIBLE_DEVICES=void\"],\"deviceNodes\":["
               "{\"path\":\"/dev/nvidiactl\",\"hostPath\":\"/dev/nvidiactl\"},"
               "{\"path\":\"/dev/nvidia-uvm\",\"hostPath\":\"/dev/nvidia-uvm\"}],\"mounts\":[");
    for (size_t i = 0; i < ARRAY_LEN(mounts); i++)
        strbuf_printf(out,
                      "%s{\"hostPath\":\"/%s\",\"containerPath\":\"/%s\","
                      "\"options\":[\"ro\",\"nosuid\",\"nodev\",\"bind\"]}",
                      i > 0 ? "," : "", mounts[i], mounts[i]);
    strbuf_str(out, "]}}\n");
}

FIXTURE_TEST(own_cdi__covers_the_gpus_that_no_specification_names)
{
    SCOPED_STRBUF(expected);
    static const struct cdi_gpu gpu[] = {{"GPU-a", 3}, {"GPU-b", 0}, {"GPU-c", 7}, {"GPU-d", -1}};
    const struct cdi_own own = {
        .folder = fixture->run, .root = fixture->root, .n_gpus = 4, .gpu = gpu};
    struct stat first;
    struct stat second;
    char path[256];
    make_host(fixture);
    put_spec(fixture->etc, "nvidia.json", NVIDIA, "GPU-b");
    writes_own(fixture, &own, 1);
    char *text = file_text(fixture->run, "milligpu.json");
    put_expected(&expected);
    assert_string_equal(text, expected.data);
    xfree(text);
    finds(fixture, "GPU-a", "GPU-a", "milligpu.io/gpu");
    finds(fixture, "GPU-b", "GPU-b", NVIDIA);
    /* The same again is no write. */
    (void)snprintf(path, sizeof path, "%s/milligpu.json", fixture->run);
    assert_int_equal(stat(path, &first), 0);
    writes_own(fixture, &own, 1);
    assert_int_equal(stat(path, &second), 0);
    assert_int_equal(first.st_ino, second.st_ino);
    /* Other specifications name all of them: ours is removed. */
    put_spec(fixture->etc, "nvidia.json", NVIDIA, "GPU-a GPU-b GPU-c");
    writes_own(fixture, &own, 0);
    assert_int_equal(access(path, F_OK), -1);
    writes_own(fixture, &own, 0);
}

static void link_in(const struct fixture *fixture, const char *name, const char *to)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", fixture->root, name);
    assert_int_equal(symlink(to, path), 0);
}

/* Writes it for a GPU on /dev/nvidia3; which folder the driver's libraries are mounted from. */
static const char *mounted_from(struct fixture *fixture)
{
    static const struct cdi_gpu gpu[] = {{"GPU-a", 3}};
    static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib",
                                          "/usr/local/nvidia/lib64"};
    const struct cdi_own own = {
        .folder = fixture->run, .root = fixture->root, .n_gpus = 1, .gpu = gpu};
    const char *found = "none";
    char mount[128];
    writes_own(fixture, &own, 1);
    char *text = file_text(fixture->run, "milligpu.json");
    assert_string_not_equal(text, "");
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        (void)snprintf(mount, sizeof mount, "{\"hostPath\":\"%s/libcuda.so.1\"", folders[i]);
        if (strstr(text, mount) != NULL) {
            assert_string_equal(found, "none");
            found = folders[i];
        }
    }
    xfree(text);
    return found;
}

/* As on a machine whose driver is in /usr/local/nvidia, with links to some of it in /usr/lib. */
FIXTURE_TEST(own_cdi__prefers_the_folder_with_the_driver_files_to_links)
{
    make_host(fixture);
    assert_string_equal(mounted_from(fixture), "/usr/lib/x86_64-linux-gnu");
    take(fixture->root, "usr/lib/x86_64-linux-gnu/libcuda.so.1");
    take(fixture->root, "usr/lib/x86_64-linux-gnu/libcuda.so.615.10");
    assert_string_equal(mounted_from(fixture), "none");
    link_in(fixture, "usr/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1");
    assert_string_equal(mounted_from(fixture), "/usr/lib");
    make_folder(fixture, "usr/local");
    make_folder(fixture, "usr/local/nvidia");
    make_folder(fixture, "usr/local/nvidia/lib64");
    link_in(fixture, "usr/local/nvidia/lib64/libcuda.so.1", "libcuda.so.615.10");
    assert_string_equal(mounted_from(fixture), "/usr/lib");
    put(fixture->root, "usr/local/nvidia/lib64/libcuda.so.615.10", "");
    assert_string_equal(mounted_from(fixture), "/usr/local/nvidia/lib64");
}

FIXTURE_TEST(own_cdi__reports_a_folder_that_cannot_be_written)
{
    static const struct cdi_gpu gpu[] = {{"GPU-a", 0}};
    char folder[128];
    (void)snprintf(folder, sizeof folder, "%s/dev/nvidia0/cdi", fixture->root);
    const struct cdi_own own = {.folder = folder, .root = fixture->root, .n_gpus = 1, .gpu = gpu};
    uint32_t count;
    make_host(fixture);
    assert_int_equal(cdi_write_own(fixture->cdi, &own, &count, &err), -ERR_IO);
    assert_non_null(strstr(err.text, folder));
}
