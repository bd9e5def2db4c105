/* Loads NVML by dlopen() and resolves its functions. Watcher's thread. */
#include "nvml_library.h"

#include <dlfcn.h>
#include <string.h>

const char *nvml_words(int code)
{
    switch (code) {
#define X(name, number, words)                                                                     \
    case number:                                                                                   \
        return words;
        NVML_CODES(X)
#undef X
    default:
        return "an error that milligpu does not know";
    }
}

int nvml_library_fail(struct err *err, const char *function, int code)
{
    must(code != NVML_SUCCESS);

    enum err_code kind = ERR_IO;
    if (code == NVML_DRIVER_NOT_LOADED || code == NVML_LIB_RM_VERSION_MISMATCH)
        kind = ERR_UNAVAILABLE;
    else if (code == NVML_TIMEOUT)
        kind = ERR_TIMEOUT;
    else if (code == NVML_NO_PERMISSION)
        kind = ERR_FORBIDDEN;
    return err_set(err, kind, "nvml%s: %s (NVML error %d)", function, nvml_words(code), code);
}

void nvml_text(char *out, size_t bytes, const char *from, size_t from_bytes)
{
    must(bytes > 0);

    const size_t len = strnlen(from, from_bytes < bytes - 1 ? from_bytes : bytes - 1);
    for (size_t i = 0; i < len; i++)
        out[i] = from[i] < 0x20 || from[i] > 0x7e ? '?' : from[i];
    memset(out + len, 0, bytes - len);
}

static const struct {
    const char *name;
    size_t offset; /* offset of its pointer in struct nvml_library */
    bool is_required;
} functions[] = {
#define X(name, required, arguments) {"nvml" #name, offsetof(struct nvml_library, name), required},
    NVML_FUNCTIONS(X)
#undef X
};

/*
 * Resolves all functions. Returns the first required one that is missing, or NULL. The results of
 * dlsym() are copied bytewise, since ISO C has no conversion from void * to a function pointer.
 */
static const char *find_functions(struct nvml_library *library)
{
    const char *missing = NULL;

    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        void *symbol = dlsym(library->handle, functions[i].name);
        static_assert(sizeof symbol == sizeof library->Init_v2, "pointers are of one size");
        memcpy((char *)library + functions[i].offset, &symbol, sizeof symbol);
        if (symbol == NULL && functions[i].is_required && missing == NULL)
            missing = functions[i].name;
    }
    return missing;
}

int nvml_library_open(struct nvml_library *out, const char *name, struct err *err)
{
    *out = (struct nvml_library){.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)};
    if (out->handle == NULL) {
        const char *why = dlerror(); /* NOLINT(concurrency-mt-unsafe): of this thread */
        return err_set(err, ERR_UNAVAILABLE, "the NVIDIA driver's library cannot be loaded: %s",
                       why != NULL ? why : name);
    }
    const char *missing = find_functions(out);
    int rc = 0;
    if (missing != NULL) {
        rc = err_set(err, ERR_UNAVAILABLE, "%s has no %s: the driver is too old", name, missing);
    } else {
        const int code = out->Init_v2();
        if (code != NVML_SUCCESS)
            rc = nvml_library_fail(err, "Init_v2", code);
    }
    if (rc < 0) {
        (void)dlclose(out->handle);
        *out = (struct nvml_library){.handle = NULL};
    }
    return rc;
}

void nvml_library_close(struct nvml_library *library)
{
    if (library->handle == NULL)
        return;
    (void)library->Shutdown();      /* a failure has no remedy */
    (void)dlclose(library->handle); /* a new driver has a new library file */
    *library = (struct nvml_library){.handle = NULL};
}
