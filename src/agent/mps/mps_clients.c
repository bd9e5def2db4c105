/*
 * Finds the server of a client and terminates the client's work. Called by the meter's thread
 * before it kills a client; the thread of mps.c parses lists of servers.
 */
#include "mps_clients.h"

#include <stdio.h>

#include "milligpu/run/clock.h"

enum { PID_DIGITS_MAX = 9 /* the kernel's PIDs have 7 at most */ };

/* False if the line is not a PID. */
static bool read_pid(struct text line, uint32_t *out)
{
    const struct text digits = text_trim(line);

    *out = 0;
    if (digits.len == 0 || digits.len > PID_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return false;
        *out = 10 * *out + (uint32_t)(digits.at[i] - '0');
    }
    return *out > 0;
}

uint32_t mps_pids_read(struct text answer, uint32_t out[MPS_SERVERS_MAX])
{
    struct text line;
    uint32_t count = 0;

    while (count < MPS_SERVERS_MAX && text_cut(&answer, '\n', &line))
        count += read_pid(line, &out[count]) ? 1 : 0;
    return count;
}

bool mps_pids_have(struct text answer, uint32_t pid)
{
    struct text line;
    uint32_t one;

    while (text_cut(&answer, '\n', &line))
        if (read_pid(line, &one) && one == pid)
            return true;
    return false;
}

/* The commands for one client, with a common deadline. */
struct talk {
    struct mps_daemon *daemon;
    int64_t until_ms; /* monotonic */
};

static int ask(const struct talk *talk, const char *command, struct strbuf *out, struct err *err)
{
    const int64_t left_ms = talk->until_ms - clock_ms();

    strbuf_reset(out);
    if (left_ms <= 0)
        return err_set(err, ERR_TIMEOUT, "it was not asked in time");
    return mps_daemon_ask(talk->daemon, -1, left_ms, command, out, err);
}

/* Sets *out to the PID of the client's server, 0 if none. Negative: unknown. */
static int find_server(const struct talk *talk, uint32_t pid, uint32_t *out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf answer;
    uint32_t server[MPS_SERVERS_MAX];
    char command[64];

    *out = 0;
    strbuf_init(&answer);
    if (ask(talk, "get_server_list", &answer, err) < 0)
        return err_same(err);
    const uint32_t servers = mps_pids_read((struct text){answer.data, answer.len}, server);
    for (uint32_t i = 0; i < servers && *out == 0; i++) {
        (void)snprintf(command, sizeof command, "get_client_list %u", (unsigned)server[i]);
        if (ask(talk, command, &answer, err) < 0)
            return err_same(err);
        if (mps_pids_have((struct text){answer.data, answer.len}, pid))
            *out = server[i];
    }
    return 0;
}

int mps_client_terminate(struct mps_daemon *daemon, uint32_t pid, int64_t wait_ms, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf answer;
    const struct talk talk = {daemon, clock_ms() + wait_ms};
    uint32_t server;
    char command[64];

    strbuf_init(&answer);
    if (find_server(&talk, pid, &server, err) < 0)
        return err_same(err);
    if (server == 0)
        return err_set(err, ERR_NOT_FOUND, "no server of its MPS daemon has the client %u",
                       (unsigned)pid);
    (void)snprintf(command, sizeof command, "terminate_client %u %u", (unsigned)server,
                   (unsigned)pid);
    return ask(&talk, command, &answer, err);
}
