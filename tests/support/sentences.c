#include "support/sentences.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "support/test.h"

enum { SENTENCE_BYTES = 512 };

static bool continues(FILE *in)
{
    const int next = fgetc(in);

    (void)ungetc(next, in);
    return next == ' ' && fscanf(in, " ") == 0;
}

/* False at the end of the file. */
static bool read_sentence(FILE *in, char *out, uint32_t *line)
{
    size_t used = 0;
    bool goes_on;

    do {
        if (fgets(out + used, (int)(SENTENCE_BYTES - used), in) == NULL)
            return false;
        ++*line;
        used = strcspn(out, "\n");
        assert_int_equal(out[used], '\n'); /* the line is complete */
        goes_on = continues(in);
        out[used] = goes_on ? ' ' : '\0';
        used++;
    } while (goes_on);
    return true;
}

uint32_t sentences_each(const char *file, void *user,
                        void (*take)(void *user, uint32_t line, char *sentence))
{
    char sentence[SENTENCE_BYTES];
    uint32_t line = 0;
    uint32_t count = 0;
    FILE *in = fopen(file, "re");

    if (in == NULL)
        fail_msg("%s: run me in the source tree", file);
    while (read_sentence(in, sentence, &line)) {
        size_t length = strcspn(sentence, "#");
        while (length > 0 && sentence[length - 1] == ' ')
            length--;
        sentence[length] = '\0';
        if (length == 0)
            continue;
        take(user, line, sentence);
        count++;
    }
    (void)fclose(in);
    return count;
}
