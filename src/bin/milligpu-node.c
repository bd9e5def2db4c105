/* main() of milligpu-node, the agent of one node: reads the settings and runs it. */
#include <stdio.h>

#include "milligpu/agent/agent.h"

#include "agent/gpu/clear_fault.h"
#include "agent/gpu/driver_release.h"
#include "agent/mps/mps.h"
#include "milligpu_version.h"

/* Differs from EXIT_FAILURE (an agent that failed), so that its supervisor can tell them apart. */
enum { WRONG_SETTINGS = 2 };

enum { RELEASE_MS = 30000 };

extern char **environ;

/* Prints the settings; the help for set NULL. */
static int node_say(const struct settings_set *set)
{
    struct strbuf out;

    strbuf_init(&out);
    if (set != NULL)
        settings_print(&out, set);
    else
        agent_settings_help(&out);
    (void)fputs(out.data, stdout);
    strbuf_done(&out);
    return EXIT_SUCCESS;
}

static int node_act(const struct settings_set *set, enum agent_action action)
{
    const struct agent_settings *settings = settings_values(set);
    struct err err;
    int rc = 0;

    switch (action) {
    case AGENT_HELP:
        return node_say(NULL);
    case AGENT_PRINT:
        return node_say(set);
    case AGENT_CHECK:
        (void)puts("the settings are fine");
        return EXIT_SUCCESS;
    case AGENT_VERSION:
        (void)printf("milligpu-node %s (%s)\n", MILLIGPU_VERSION, MILLIGPU_COMMIT);
        return EXIT_SUCCESS;
    case AGENT_UNINSTALL:
        rc = agent_uninstall(settings, &err);
        break;
    case AGENT_CLEAR_FAULT:
        rc = clear_fault_ask(settings->state_dir, settings->gpu, CLEAR_FAULT_WAIT_MS, &err);
        break;
    case AGENT_RELEASE_DRIVER:
    case AGENT_TAKE_DRIVER:
        rc = driver_release_ask(settings->state_dir, action == AGENT_RELEASE_DRIVER, RELEASE_MS,
                                &err);
        break;
    case AGENT_PREPARE_MPS:
        rc = mps_prepare(settings->mps_shm, settings->mps_shm_mib, &err);
        break;
    case AGENT_RUN:
        rc = agent_run(settings, &err);
        break;
    }
    if (rc == 0)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "milligpu-node: %s\n", err.text);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct settings_set *set;
    enum agent_action action;
    struct err err;

    if (agent_settings_load(argc, argv, environ, &set, &action, &err) < 0) {
        (void)fprintf(stderr, "milligpu-node: %s\ntry --help\n", err.text);
        return WRONG_SETTINGS;
    }
    const struct settings_command *renamed = settings_renamed(set);
    if (renamed != NULL)
        (void)fprintf(stderr, "milligpu-node: %s is now %s; the next version does not accept %s\n",
                      renamed->former, renamed->flag, renamed->former);
    const int status = node_act(set, action);
    settings_free(set);
    return status;
}
