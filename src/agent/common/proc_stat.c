/*
 * Parses /proc/PID/stat. Called by the meter's thread for processes, and by the thread of MPS for
 * its daemons.
 */
#include "proc_stat.h"

#include <string.h>

enum { STAT_STATE = 3, STAT_PARENT = 4, STAT_BEGAN = 22 }; /* fields, from 1 */

/* The text after the process name, which is in brackets and can contain any bytes. */
static struct text behind_name(struct text stat)
{
    const char *end = stat.len > 0 ? memrchr(stat.at, ')', stat.len) : NULL;

    return end != NULL ? (struct text){end + 1, stat.len - (size_t)(end + 1 - stat.at)} : TEXT("");
}

static bool read_number(struct text word, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < word.len; i++) {
        if (word.at[i] < '0' || word.at[i] > '9' || *out > (UINT64_MAX - 9) / 10)
            return false;
        *out = 10 * *out + (uint64_t)(word.at[i] - '0');
    }
    return word.len > 0;
}

bool proc_stat_read(struct text stat, struct proc_stat *out)
{
    struct text rest = text_trim(behind_name(stat));
    struct text word;
    uint64_t parent = 0;
    bool is_whole = false;

    *out = (struct proc_stat){0};
    for (int field = STAT_STATE; field <= STAT_BEGAN && text_cut(&rest, ' ', &word); field++) {
        if (field == STAT_PARENT && (!read_number(word, &parent) || parent > UINT32_MAX))
            return false;
        is_whole = field == STAT_BEGAN && read_number(word, &out->began);
    }
    out->parent = (uint32_t)parent;
    return is_whole;
}
