/*
 * replay - the main of a fuzz target in builds without libFuzzer.
 *
 * Gives the target the empty input and every file of the folders named on the command line. A file
 * whose name is not a hash is also given cut off at every length up to a limit, because truncation
 * is the most common fault of a network. Inputs that a search found are named by their hash, and
 * are given whole only.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/base.h"

enum { INPUT_MAX = 1 << 20, CUTS_MAX = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An exact copy on the heap, so that reading one byte too far is detected. */
static void give(const uint8_t *data, size_t size)
{
    CLEANUP(freep) uint8_t *exact = malloc(size > 0 ? size : 1);
    must(exact != NULL);
    if (size > 0)
        memcpy(exact, data, size);
    (void)LLVMFuzzerTestOneInput(exact, size);
}

static bool is_named(const char *path)
{
    enum { HASH_DIGITS = 40 };
    const char *name = strrchr(path, '/');
    return name == NULL || strspn(name + 1, "0123456789abcdef") != HASH_DIGITS;
}

static int replay_file(const char *path)
{
    static uint8_t input[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return -1;
    }
    const size_t size = fread(input, 1, sizeof input, file);
    const bool whole = feof(file) != 0 && ferror(file) == 0;
    (void)fclose(file);
    if (!whole) {
        (void)fprintf(stderr, "%s: unreadable or longer than %d bytes\n", path, INPUT_MAX);
        return -1;
    }
    for (size_t cut = 0; cut < size && cut < CUTS_MAX && is_named(path); cut++)
        give(input, cut);
    give(input, size);
    return 0;
}

static int replay_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        perror(folder);
        return -1;
    }
    int files = 0;
    int result = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        must(length > 0 && (size_t)length < sizeof path);
        files++;
        if (replay_file(path) < 0)
            result = -1;
    }
    (void)closedir(dir);
    printf("%s: %d inputs\n", folder, files);
    return files > 0 ? result : -1;
}

int main(int argc, char **argv)
{
    int result = EXIT_SUCCESS;
    give(NULL, 0);
    for (int i = 1; i < argc; i++)
        if (replay_folder(argv[i]) < 0)
            result = EXIT_FAILURE;
    return result;
}
