/*
 * cdi - under which name the container runtime knows a GPU (Container Device Interface).
 *
 * Specifications are files *.json and *.yaml in folders, each with one kind ("nvidia.com/gpu") and
 * devices of that kind by name; a container gets KIND=NAME. Who wrote them differs: nvidia-ctk,
 * NVIDIA's device plugin, or this program. cdi_find() looks which kind names all GPUs of a
 * container, by UUID.
 *
 * It judges as the runtime does (container-device-interface 1.0, pkg/cdi/cache.go):
 *   1. A later folder overrides an earlier one.
 *   2. A name that two files of one folder have for the same kind cannot be resolved, whatever
 *      another folder says.
 *   3. A file that breaks a rule counts for nothing: no kind, no devices, a device without a name,
 *      without edits, or with the name of another one. Unlike the runtime, we do not look further
 *      into edits and versions, so a file that we believe may still be refused there; then the
 *      container is not created, with the runtime's text.
 *   4. Files with another ending, *.yml too, are not looked at, since the runtime does not. Of a
 *      stream of YAML documents the first counts.
 *
 * A file is read again only if its name, modification time, size, or inode is another one: a folder
 * that did not change costs a readdir() and a stat() per file.
 *
 * One thread for each struct cdi.
 */
#ifndef MILLIGPU_CDI_H
#define MILLIGPU_CDI_H

#include "milligpu/base/arena.h"
#include "milligpu/base/err.h"

enum {
    CDI_FOLDERS_MAX = 4,
    CDI_FILES_MAX = 256,                  /* of all folders; the rest is skipped */
    CDI_FILE_BYTES_MAX = 4 * 1024 * 1024, /* of one file; a larger one is skipped */
};

#define CDI_FOLDER_STATIC  "/etc/cdi"
#define CDI_FOLDER_DYNAMIC "/var/run/cdi"

/* The best first. */
enum cdi_kind {
    CDI_NVIDIA,        /* nvidia.com/gpu: nvidia-ctk cdi generate */
    CDI_DEVICE_PLUGIN, /* k8s.device-plugin.nvidia.com/gpu: NVIDIA's device plugin */
    CDI_OWN,           /* milligpu.io/gpu: cdi_write_own() */
    CDI_KINDS,         /* none of these */
};
const char *cdi_kind_name(enum cdi_kind kind);

struct cdi;

/* The folders in the order of priority, the lowest first; they need not exist. */
struct cdi *cdi_new(const char *const folder[], uint32_t folders) MUST_USE;
void cdi_free(struct cdi *cdi); /* NULL is fine */

/* Looks at the folders, then: the best kind that names all of these. */
int cdi_find(struct cdi *cdi, const char *const uuid[], uint32_t uuids, enum cdi_kind *out,
             struct err *err) MUST_USE;

/*
 * Looks at the folders, then: how many of these some kind names. *out: the best kind that names one
 * of them; CDI_KINDS: none does.
 */
uint32_t cdi_named(struct cdi *cdi, const char *const uuid[], uint32_t uuids, enum cdi_kind *out);

/* How many files could not be used when it looked last; *why: the first of them, borrowed. */
uint32_t cdi_skipped(const struct cdi *cdi, const char **why);

struct cdi_gpu {
    const char *uuid;
    int32_t minor; /* /dev/nvidia<minor>; below 0: not known, and the GPU is left out */
};

struct cdi_own {
    const char *folder; /* where to write milligpu.json: CDI_FOLDER_DYNAMIC */
    const char *root;   /* where we see the root of the host: "", or "/host" in a container */
    uint32_t gpus;
    const struct cdi_gpu *gpu;
};

/*
 * Writes our own specification for those of the GPUs that no specification of another kind names;
 * the file is removed if there are none. It is replaced as a whole, and only if it would change.
 * *out: how many GPUs it has.
 *
 * It has device nodes (/dev/nvidia<minor>; for all: nvidiactl, nvidia-uvm, nvidia-uvm-tools, and
 * nvidia-modeset, those that exist), and mounts, read-only and under their own path, nvidia-smi and
 * the driver's libraries for CUDA and NVML (list in cdi_own.c) from the first usual library folder
 * that has libcuda.so.NUMBER as a file, else as a link. Left out, compared with nvidia-ctk: hooks,
 * so ld.so.cache is not updated (an image whose loader does not search that folder needs
 * LD_LIBRARY_PATH), libcuda.so has no link and CUDA's forward compatibility is not enabled;
 * graphics and video; MIG, IMEX and GDS; drivers installed in a container; sockets of the
 * persistence daemon and the fabric manager. So it is the last resort, for nodes with a plain
 * driver and nothing else.
 */
int cdi_write_own(struct cdi *cdi, const struct cdi_own *own, uint32_t *out,
                  struct err *err) MUST_USE;

/* One file, read. Strings are in arena. */
struct cdi_spec {
    const char *kind;
    uint32_t names;
    const char **name; /* distinct */
};
/* The text of err begins with the name of the file. */
int cdi_spec_read(struct text bytes, const char *file, struct arena *arena, struct cdi_spec *out,
                  struct err *err) MUST_USE;

#endif
