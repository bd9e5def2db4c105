/* Writes our own CDI specification. Called by the reporter's thread. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/run/file.h"

#include "cdi.h"

enum { LIBRARIES_MAX = 64 };

#define OWN_FILE "milligpu.json"

static const char *const shared_devices[] = {"/dev/nvidiactl", "/dev/nvidia-uvm",
                                             "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"};
/* The last one is in the library path of images with CUDA. */
static const char *const library_folders[] = {"/usr/lib/x86_64-linux-gnu",
                                              "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                                              "/usr/lib", "/usr/local/nvidia/lib64"};
/* The driver's libraries for CUDA, OpenCL and NVML. */
static const char *const libraries[] = {"libcuda.so.*",
                                        "libcudadebugger.so.*",
                                        "libnvidia-ml.so.*",
                                        "libnvidia-cfg.so.*",
                                        "libnvidia-ptxjitcompiler.so.*",
                                        "libnvidia-nvvm.so.*",
                                        "libnvidia-nvvm70.so.*",
                                        "libnvidia-gpucomp.so.*",
                                        "libnvidia-opencl.so.*",
                                        "libnvidia-allocator.so.*"};
static const char *const programs[] = {"/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi"};

/* True if the host has this file; root is the host's root. */
static bool host_has(const char *root, const char *path)
{
    CLEANUP(strbuf_done) struct strbuf name;
    struct stat stat_;

    strbuf_init(&name);
    strbuf_printf(&name, "%s%s", root, path);
    /* lstat(): the target of a link can be outside of our view of the host. */
    return lstat(name.data, &stat_) == 0;
}

static void add_item(struct strbuf *out, const char *separator, const char *path)
{
    strbuf_printf(out, "%s{\"path\":", separator);
    strbuf_json(out, text_of(path));
    strbuf_str(out, ",\"hostPath\":");
    strbuf_json(out, text_of(path));
    strbuf_char(out, '}');
}

static void add_mount(struct strbuf *out, const char **separator, const char *path)
{
    strbuf_printf(out, "%s{\"hostPath\":", *separator);
    strbuf_json(out, text_of(path));
    strbuf_str(out, ",\"containerPath\":");
    strbuf_json(out, text_of(path));
    strbuf_str(out, ",\"options\":[\"ro\",\"nosuid\",\"nodev\",\"bind\"]}");
    *separator = ",";
}

static bool is_library(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
        if (fnmatch(libraries[i], name, 0) == 0)
            return true;
    return false;
}

static int compare_names(const void *a, const void *b)
{
    char *const *first = a;
    char *const *second = b;
    return strcmp(*first, *second);
}

/* Sorted, so that the file does not change without need. */
static size_t list_libraries(const char *root, const char *folder, char *out[LIBRARIES_MAX])
{
    CLEANUP(strbuf_done) struct strbuf name;
    const struct dirent *file;
    size_t count = 0;

    strbuf_init(&name);
    strbuf_printf(&name, "%s%s", root, folder);
    DIR *dir = opendir(name.data);
    if (dir == NULL)
        return 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of ours */
    while (count < LIBRARIES_MAX && (file = readdir(dir)) != NULL)
        if (is_library(file->d_name))
            out[count++] = xstrdup(file->d_name);
    (void)closedir(dir); /* only read */
    qsort(out, count, sizeof *out, compare_names);
    return count;
}

/* True if the folder has libcuda; as_file: as a regular file, not only a link. */
static bool has_cuda(const char *root, const char *folder, bool as_file)
{
    CLEANUP(strbuf_done) struct strbuf name;
    const struct dirent *file;
    struct stat stat_;
    bool has = false;

    strbuf_init(&name);
    strbuf_printf(&name, "%s%s", root, folder);
    DIR *dir = opendir(name.data);
    if (dir == NULL)
        return false;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of ours */
    while (!has && (file = readdir(dir)) != NULL)
        if (text_starts(text_of(file->d_name), "libcuda.so."))
            has =
                !as_file || (fstatat(dirfd(dir), file->d_name, &stat_, AT_SYMLINK_NOFOLLOW) == 0 &&
                             S_ISREG(stat_.st_mode));
    (void)closedir(dir); /* only read */
    return has;
}

/*
 * The driver's library folder; NULL if there is none. Folders with files are preferred, because a
 * folder of links can lack some libraries.
 */
static const char *driver_folder(const char *root)
{
    for (int links = 0; links < 2; links++)
        for (size_t i = 0; i < ARRAY_LEN(library_folders); i++)
            if (has_cuda(root, library_folders[i], links == 0))
                return library_folders[i];
    return NULL;
}

static void add_libraries(struct strbuf *out, const char **separator, const char *root)
{
    CLEANUP(strbuf_done) struct strbuf path;
    char *name[LIBRARIES_MAX];
    const char *folder = driver_folder(root);

    strbuf_init(&path);
    if (folder == NULL)
        return;
    const size_t count = list_libraries(root, folder, name);
    for (size_t i = 0; i < count; i++) {
        strbuf_reset(&path);
        strbuf_printf(&path, "%s/%s", folder, name[i]);
        add_mount(out, separator, path.data);
        xfree(name[i]);
    }
}

static void write_common(struct strbuf *out, const char *root)
{
    const char *separator = "";

    strbuf_str(out, "\"containerEdits\":{\"env\":[\"NVIDIA_VISIBLE_DEVICES=void\"],"
                    "\"deviceNodes\":[");
    for (size_t i = 0; i < ARRAY_LEN(shared_devices); i++) {
        if (!host_has(root, shared_devices[i]))
            continue;
        add_item(out, separator, shared_devices[i]);
        separator = ",";
    }
    strbuf_str(out, "],\"mounts\":[");
    separator = "";
    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        if (host_has(root, programs[i]))
            add_mount(out, &separator, programs[i]);
    add_libraries(out, &separator, root);
    strbuf_str(out, "]}");
}

/* True if no other kind names the GPU, and its device node exists. */
static bool is_for_us(struct cdi *cdi, const struct cdi_own *own, const struct cdi_gpu *gpu)
{
    enum cdi_kind kind;
    char device[32];
    struct err err;

    if (gpu->minor < 0)
        return false;
    (void)snprintf(device, sizeof device, "/dev/nvidia%d", gpu->minor);
    if (!host_has(own->root, device))
        return false;
    return cdi_find(cdi, &gpu->uuid, 1, &kind, &err) < 0 || kind == CDI_OWN;
}

static uint32_t write_spec(struct cdi *cdi, const struct cdi_own *own, struct strbuf *out)
{
    uint32_t count = 0;

    strbuf_printf(out, "{\"cdiVersion\":\"0.5.0\",\"kind\":\"%s\",\"devices\":[",
                  cdi_kind_name(CDI_OWN));
    for (uint32_t i = 0; i < own->n_gpus; i++) {
        const struct cdi_gpu *gpu = &own->gpu[i];
        char device[32];
        if (!is_for_us(cdi, own, gpu))
            continue;
        (void)snprintf(device, sizeof device, "/dev/nvidia%d", gpu->minor);
        strbuf_str(out, count++ > 0 ? ",{\"name\":" : "{\"name\":");
        strbuf_json(out, text_of(gpu->uuid));
        strbuf_str(out, ",\"containerEdits\":{\"deviceNodes\":[");
        add_item(out, "", device);
        strbuf_str(out, "]}}");
    }
    strbuf_str(out, "],");
    write_common(out, own->root);
    strbuf_str(out, "}\n");
    return count;
}

static bool is_as_written(const char *file, const struct strbuf *text)
{
    CLEANUP(xfreep) char *bytes = NULL;
    size_t len;
    struct err err;

    return file_read(file, CDI_FILE_BYTES_MAX, &bytes, &len, &err) == 0 && len == text->len &&
           memcmp(bytes, text->data, len) == 0;
}

int cdi_write_own(struct cdi *cdi, const struct cdi_own *own, uint32_t *out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf text;
    CLEANUP(strbuf_done) struct strbuf file;

    strbuf_init(&text);
    strbuf_init(&file);
    strbuf_printf(&file, "%s/" OWN_FILE, own->folder);
    *out = write_spec(cdi, own, &text);
    if (*out == 0) {
        if (unlink(file.data) != 0 && errno != ENOENT && errno != ENOTDIR)
            return err_set(err, ERR_IO, "%s: %m", file.data);
        return 0;
    }
    if (is_as_written(file.data, &text))
        return 0;
    if (mkdir(own->folder, 0755) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "%s: %m", own->folder);
    return file_replace(file.data, (struct text){text.data, text.len}, err);
}
