#include "support_pool.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "milligpu/base/base.h"

enum { CLASSES = 24, CLASS_FIRST = 5 };

union block {
    struct {
        union block *next;
        int class;
    } head;
    max_align_t align;
};

static union block *free_blocks[CLASSES];

static int class_of(int bytes)
{
    int class = 0;
    while (class < CLASSES && 1 << (class + CLASS_FIRST) < bytes)
        class ++;
    must(class < CLASSES);
    return class;
}

static void *pool_take(int bytes)
{
    const int class = class_of(bytes);
    union block *block = free_blocks[class];
    if (block != NULL)
        free_blocks[class] = block->head.next;
    else
        block = malloc(sizeof *block + ((size_t)1 << (class + CLASS_FIRST)));
    must(block != NULL);
    block->head.class = class;
    return block + 1;
}

static void pool_give(void *memory)
{
    union block *block = (union block *)memory - 1;
    block->head.next = free_blocks[block->head.class];
    free_blocks[block->head.class] = block;
}

static int pool_size(void *memory)
{
    const union block *block = (const union block *)memory - 1;
    return 1 << (block->head.class + CLASS_FIRST);
}

static void *pool_grow(void *memory, int bytes)
{
    if (bytes <= pool_size(memory))
        return memory;
    void *larger = pool_take(bytes);
    memcpy(larger, memory, (size_t)pool_size(memory));
    pool_give(memory);
    return larger;
}

static int pool_round(int bytes)
{
    return 1 << (class_of(bytes) + CLASS_FIRST);
}

static int pool_init(void *user)
{
    must(user == NULL);
    return SQLITE_OK;
}

static void pool_shutdown(void *user)
{
    must(user == NULL);
}

void sqlite_use_pool(void)
{
    static const sqlite3_mem_methods pool = {pool_take,  pool_give, pool_grow,     pool_size,
                                             pool_round, pool_init, pool_shutdown, NULL};
    must(sqlite3_config(SQLITE_CONFIG_MALLOC, &pool) == SQLITE_OK);
    must(sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) == SQLITE_OK);
}
