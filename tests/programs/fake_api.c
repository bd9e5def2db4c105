/*
 * fake_api - an API server of one cluster file, for end-to-end tests to talk to and to disturb.
 *
 *   fake_api [--cluster FILE] [--name NAME] [--port-file FILE] [--tls FOLDER] [--client-ca FILE]
 *            [--token TOKEN]
 *
 * The folder holds server.crt and server.key; the port file gets the URL. Commands come on stdin
 * and answers go to stdout, one line of JSON each. Faults and tokens do not apply there, and the
 * program ends when stdin does.
 *
 *   {"do":"fault","match":M,"kind":K,"times":1,"number":0,"text":"","retryAfter":0}  fake_api.h
 *   {"do":"request","method":M,"path":P,"body":{}}   not by HTTP -> {"status":N,"body":"..."}
 *   {"do":"seen","part":P}                           -> {"count":N}, since the last start
 *   {"do":"token","token":T}  {"do":"compact"}  {"do":"release"}
 *   {"do":"stop"}             nobody listens; faults and counts are forgotten, the cluster is not
 *   {"do":"start"}            on the same port again
 */
#include "support/fake_api.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "milligpu/base/alloc.h"

#include "support/scoped.h"

struct options {
    const char *cluster;
    const char *name;
    const char *port_file;
    const char *tls;
    const char *client_ca;
    const char *token;
};

struct server {
    struct fake_apiserver *fake;
    struct fake_api *api; /* NULL: stopped */
    bool secure;
    struct fake_tls tls;
    unsigned port;
    const char *token;
    json_t *kept; /* the JSON that faults and the token borrow from */
};

static void end(int number)
{
    (void)number;
    (void)close(STDIN_FILENO); /* the next read ends the program */
}

/* ---- starting ---- */

static char *read_file(const char *folder, const char *name)
{
    SCOPED_STRBUF(path);
    struct strbuf text;
    char bytes[4096];
    size_t got;

    strbuf_init(&text);
    strbuf_printf(&path, "%s%s%s", folder, folder[0] != '\0' ? "/" : "", name);
    FILE *file = fopen(path.data, "re");
    must(file != NULL);
    while ((got = fread(bytes, 1, sizeof bytes, file)) > 0)
        strbuf_add(&text, bytes, got);
    must(fclose(file) == 0);
    return strbuf_steal(&text);
}

static void begin(struct server *server)
{
    must(server->api == NULL);
    server->api = fake_api_new_at(server->fake, server->secure ? &server->tls : NULL, server->port);
    must(server->api != NULL);
    server->port = fake_api_port(server->api);
    fake_api_token(server->api, server->token);
}

static void write_port(const struct server *server, const char *path)
{
    SCOPED_STRBUF(new);

    strbuf_printf(&new, "%s.new", path);
    FILE *file = fopen(new.data, "we");
    must(file != NULL);
    must(fprintf(file, "%s\n", fake_api_url(server->api)) > 0);
    must(fclose(file) == 0 && rename(new.data, path) == 0);
}

static bool take_option(struct options *options, const char *flag, const char *value)
{
    const struct {
        const char *flag;
        const char **to;
    } known[] = {
        {"--cluster", &options->cluster},     {"--name", &options->name},
        {"--port-file", &options->port_file}, {"--tls", &options->tls},
        {"--client-ca", &options->client_ca}, {"--token", &options->token},
    };

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(known[i].flag, flag) == 0) {
            *known[i].to = value;
            return true;
        }
    return false;
}

/* ---- commands ---- */

static const char *word(const json_t *command, const char *key)
{
    const char *value = json_string_value(json_object_get(command, key));
    return value != NULL ? value : "";
}

static unsigned number(const json_t *command, const char *key)
{
    return (unsigned)json_integer_value(json_object_get(command, key));
}

static bool fault_kind(const char *name, enum fault_kind *out)
{
    static const char *const names[] = {
        [FAULT_STATUS] = "status",     [FAULT_LOSE] = "lose", [FAULT_REFUSE] = "refuse",
        [FAULT_TRUNCATE] = "truncate", [FAULT_DRIP] = "drip", [FAULT_HALF_OPEN] = "half-open",
        [FAULT_SILENT] = "silent",     [FAULT_SLOW] = "slow", [FAULT_STREAM] = "stream",
        [FAULT_LIE] = "lie",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0) {
            *out = (enum fault_kind)i;
            return true;
        }
    return false;
}

static json_t *add_fault(struct server *server, json_t *command)
{
    struct fault fault = {
        .match = word(command, "match"),
        .times = number(command, "times"),
        .number = number(command, "number"),
        .text = word(command, "text"),
        .retry_after_s = (int)number(command, "retryAfter"),
    };

    if (!fault_kind(word(command, "kind"), &fault.kind) || fault.times == 0)
        return json_pack("{s:s}", "error", "a fault has a kind and times");
    must(json_array_append(server->kept, command) == 0);
    fake_api_fault(server->api, &fault);
    return json_object();
}

static json_t *request(struct server *server, const json_t *command)
{
    const json_t *body = json_object_get(command, "body");
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
    SCOPED_STRBUF(out);

    const int status =
        fake_apiserver_request(server->fake, word(command, "method"), word(command, "path"),
                               text != NULL ? text_of(text) : TEXT(""), &out);
    json_t *answer = json_pack("{s:i,s:s}", "status", status, "body", out.data);
    free(text);
    return answer;
}

static json_t *set_token(struct server *server, json_t *command)
{
    must(json_array_append(server->kept, command) == 0);
    server->token = json_string_value(json_object_get(command, "token"));
    fake_api_token(server->api, server->token);
    return json_object();
}

/* Commands that need a running server. */
static json_t *obey_running(struct server *server, const char *what, json_t *command)
{
    if (strcmp(what, "fault") == 0)
        return add_fault(server, command);
    if (strcmp(what, "token") == 0)
        return set_token(server, command);
    if (strcmp(what, "seen") == 0)
        return json_pack("{s:I}", "count",
                         (json_int_t)fake_api_seen(server->api, word(command, "part")));
    if (strcmp(what, "release") == 0) {
        fake_api_release(server->api);
    } else if (strcmp(what, "stop") == 0) {
        fake_api_free(server->api);
        server->api = NULL;
    } else {
        return json_pack("{s:s}", "error", "there is no such command");
    }
    return json_object();
}

static json_t *obey(struct server *server, json_t *command)
{
    const char *what = word(command, "do");

    if (strcmp(what, "request") == 0)
        return request(server, command);
    if (strcmp(what, "compact") == 0) {
        fake_apiserver_compact(server->fake);
        return json_object();
    }
    if (strcmp(what, "start") == 0 && server->api == NULL) {
        begin(server);
        return json_object();
    }
    if (server->api == NULL)
        return json_pack("{s:s}", "error", "the server is stopped");
    return obey_running(server, what, command);
}

static void serve_stdin(struct server *server)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t len;

    while ((len = getline(&line, &capacity, stdin)) > 0) {
        json_t *command = json_loadb(line, (size_t)len, JSON_ALLOW_NUL, NULL);
        json_t *answer = command != NULL ? obey(server, command)
                                         : json_pack("{s:s}", "error", "that is not JSON");
        char *text = json_dumps(answer, JSON_COMPACT);
        must(text != NULL);
        (void)printf("%s\n", text);
        (void)fflush(stdout);
        free(text);
        json_decref(answer);
        json_decref(command);
    }
    free(line);
}

int main(int argc, char **argv)
{
    struct options options = {.name = "fake"};
    struct server server = {.kept = json_array()};
    const struct sigaction on_end = {.sa_handler = end}; /* no SA_RESTART: it interrupts a read */
    struct err err;

    for (int i = 1; i < argc; i += 2)
        if (i + 1 == argc || !take_option(&options, argv[i], argv[i + 1])) {
            (void)fprintf(stderr, "fake_api: %s: see the head of its source\n", argv[i]);
            return 2;
        }
    must(sigaction(SIGTERM, &on_end, NULL) == 0 && signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    server.fake = fake_apiserver_new(options.name);
    if (options.cluster != NULL && fake_apiserver_load(server.fake, options.cluster, &err) < 0) {
        (void)fprintf(stderr, "fake_api: %s\n", err.text);
        fake_apiserver_free(server.fake);
        json_decref(server.kept);
        return 1;
    }
    server.secure = options.tls != NULL;
    CLEANUP(xfreep) char *cert = server.secure ? read_file(options.tls, "server.crt") : NULL;
    CLEANUP(xfreep) char *key = server.secure ? read_file(options.tls, "server.key") : NULL;
    CLEANUP(xfreep) char *ca = options.client_ca != NULL ? read_file("", options.client_ca) : NULL;
    server.tls = (struct fake_tls){cert, key, ca};
    server.token = options.token;
    begin(&server);
    if (options.port_file != NULL)
        write_port(&server, options.port_file);
    serve_stdin(&server);
    fake_api_free(server.api);
    fake_apiserver_free(server.fake);
    json_decref(server.kept);
    return 0;
}
