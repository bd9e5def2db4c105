/*
 * cdi - the names of GPUs in CDI specifications (Container Device Interface).
 *
 * Specifications are files *.json and *.yaml in folders, each with one kind ("nvidia.com/gpu") and
 * devices of that kind by name; a container gets KIND=NAME. They are written by nvidia-ctk,
 * NVIDIA's device plugin, or this program. cdi_find() returns the kind that names all GPUs of a
 * container by UUID.
 *
 * Names are resolved as the runtime does (container-device-interface 1.0, pkg/cdi/cache.go):
 *   1. A later folder overrides an earlier one.
 *   2. A name is unresolvable if two files of one folder define it for the same kind, even if
 *      another folder defines it, too.
 *   3. An invalid file is ignored: no kind, no devices, a device without a name or edits, or a
 *      duplicate name. Edits and versions are not checked further, so the runtime can still refuse
 *      a file accepted here; then the container is not created, with the runtime's error.
 *   4. Files with another ending, also *.yml, are ignored, as the runtime does. Only the first
 *      document of a YAML stream counts.
 *
 * A file is read again only if its name, modification time, size, or inode changes: an unchanged
 * folder costs a readdir(), and a stat() per file.
 *
 * One thread per struct cdi.
 */
#ifndef MILLIGPU_CDI_H
#define MILLIGPU_CDI_H

#include "milligpu/base/arena.h"
#include "milligpu/base/err.h"

enum {
    CDI_FOLDERS_MAX = 4,
    CDI_FILES_MAX = 256,                  /* files of all folders; more are skipped */
    CDI_FILE_BYTES_MAX = 4 * 1024 * 1024, /* bytes of one file; a larger one is skipped */
};

#define CDI_FOLDER_STATIC  "/etc/cdi"
#define CDI_FOLDER_DYNAMIC "/var/run/cdi"

/* From best to worst. */
enum cdi_kind {
    CDI_NVIDIA,        /* nvidia.com/gpu: nvidia-ctk cdi generate */
    CDI_DEVICE_PLUGIN, /* k8s.device-plugin.nvidia.com/gpu: NVIDIA's device plugin */
    CDI_OWN,           /* milligpu.io/gpu: cdi_write_own() */
    CDI_KINDS,         /* also: none of these */
};
const char *cdi_kind_name(enum cdi_kind kind);

struct cdi;

/* The folders, copied, in ascending priority; they need not exist. */
struct cdi *cdi_new(const char *const folder[], uint32_t folders) MUST_USE;
void cdi_free(struct cdi *cdi); /* NULL is fine */

/* Scans the folders, and sets *out to the best kind that names all of these GPUs. */
int cdi_find(struct cdi *cdi, const char *const uuid[], uint32_t uuids, enum cdi_kind *out,
             struct err *err) MUST_USE;

/*
 * Scans the folders, and returns how many of these GPUs have a name of any kind. *out: the best
 * kind that names one of them, or CDI_KINDS.
 */
uint32_t cdi_named(struct cdi *cdi, const char *const uuid[], uint32_t uuids, enum cdi_kind *out);

/* Number of files ignored by the last scan; *why: the reason for the first of them, borrowed. */
uint32_t cdi_skipped(const struct cdi *cdi, const char **why);

struct cdi_gpu {
    const char *uuid;
    int32_t minor; /* of /dev/nvidia<minor>; negative if unknown: the GPU is left out */
};

struct cdi_own {
    const char *folder; /* folder of milligpu.json: CDI_FOLDER_DYNAMIC */
    const char *root;   /* the host's root in our mount namespace: "", or "/host" */
    uint32_t n_gpus;
    const struct cdi_gpu *gpu;
};

/*
 * Writes our own specification for the GPUs that no other kind names, or removes the file if there
 * are none. Write-and-rename, only if the content changes. *out: number of GPUs in it.
 *
 * It has device nodes (/dev/nvidia<minor>; shared by all GPUs: nvidiactl, nvidia-uvm,
 * nvidia-uvm-tools and nvidia-modeset, if they exist). It mounts, read-only and at the same path,
 * nvidia-smi and the driver's libraries for CUDA and NVML (list in cdi_own.c) from the first usual
 * library folder that has libcuda.so.NUMBER as a file, else as a link. Missing, compared with
 * nvidia-ctk: hooks, so ld.so.cache is not updated (an image whose loader does not search that
 * folder needs LD_LIBRARY_PATH), libcuda.so has no link and CUDA's forward compatibility is not
 * enabled; graphics and video; MIG, IMEX and GDS; drivers installed in a container; sockets of the
 * persistence daemon and the fabric manager. So it is the last resort, for nodes with a plain
 * driver.
 */
int cdi_write_own(struct cdi *cdi, const struct cdi_own *own, uint32_t *out,
                  struct err *err) MUST_USE;

/* A parsed file. Strings are in the arena of cdi_spec_read(). */
struct cdi_spec {
    const char *kind;
    uint32_t n_names;
    const char **name; /* names of the devices, distinct and sorted */
};
/* The text of err begins with file. */
int cdi_spec_read(struct text bytes, const char *file, struct arena *arena, struct cdi_spec *out,
                  struct err *err) MUST_USE;

#endif
