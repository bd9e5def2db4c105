/* mps_users - one user at a time is a client of a GPU's MPS. */
#include <stdint.h>
#include <string.h>

#include "agent/mps/mps.h"
#include "support/test.h"

static const struct container_gpu a = {.name = "GPU-a"};
static const struct container_gpu b = {.name = "GPU-b"};
static struct container_facts container[6];
static struct containers_copy copy = {.container = container};

static void add(const char *id, const char *pod, const struct container_gpu *gpu, uint32_t user,
                bool is_mps)
{
    container[copy.count++] = (struct container_facts){.id = id,
                                                       .namespace = "default",
                                                       .pod = pod,
                                                       .n_gpus = 1,
                                                       .gpu = gpu,
                                                       .is_mps = is_mps,
                                                       .user = user};
}

static void judged(const char *id, const char *words)
{
    struct err err = {0};

    const int rc = mps_allow(&copy, text_of(id), &err);
    if (words == NULL ? rc != 0 : rc == 0 || strstr(err.text, words) == NULL)
        fail_msg("%s: \"%s\"", id, err.text);
}

TEST(mps_users__allow_one_user_for_a_gpu)
{
    copy.count = 0;
    add("first", "web", &a, 1000, true);
    judged("first", NULL);
    add("same", "more", &a, 1000, true);
    judged("same", NULL);
    add("root", "train", &a, 0, true);
    judged("root", "its GPU GPU-a that is user 1000, of pod default/web, while it is user 0: set "
                   "runAsUser: 1000");
    judged("nobody", NULL);
}

TEST(mps_users__ignore_other_gpus_and_containers_without_mps)
{
    copy.count = 0;
    add("old", "from-before", &a, 0, false);
    add("first", "web", &a, 1000, true);
    judged("first", NULL);
    judged("old", NULL);
    add("other", "else", &b, 7, true);
    judged("other", NULL);
}
