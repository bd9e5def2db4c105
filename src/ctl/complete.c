/*
 * Completion of a command line (commands, options, values, and names from milligpud), and the
 * scripts for shells. Called by ctl_main() for `__complete` and under the name
 * kubectl_complete-milligpu. It must be quick, so it reads one page of each list, and prints
 * nothing on errors. The output follows cobra's protocol: one word per line, then a directive.
 */
#include "complete.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/map.h"
#include "milligpu/core/rank/policy.h"
#include "milligpu/document/policy/policy_document.h"

#include "commands.h"

enum { FILES = 0, NO_FILES = 4 }; /* cobra's ShellCompDirective */

static const char nodes_path[] = "/api/v1/nodes?limit=1000";

struct completion {
    struct ctl *ctl;
    /* the part of the word in front of the cursor */
    const char *prefix;
    bool can_ask;
    /* with FILES, the shell completes file names, too */
    int directive;
    struct map seen; /* names already printed */
};

static void complete_offer(struct completion *completion, const char *word, const char *help)
{
    must(word[0] != '\0');
    if (!text_starts(text_of(word), completion->prefix))
        return;
    (void)fprintf(completion->ctl->screen.out, "%s%s%s\n", word, help[0] != '\0' ? "\t" : "",
                  help); /* errors are checked in ctl_finish() */
}

/* Skips duplicates, from two namespaces or from allocations and waiting pods. */
static void complete_once(struct completion *completion, const char *word)
{
    if (map_find(&completion->seen, text_of(word)) != NULL)
        return;
    char *kept = arena_copy(&completion->ctl->kept, text_of(word));
    must(map_put(&completion->seen, text_of(kept), kept) == NULL);
    complete_offer(completion, word, "");
}

/* --- names that milligpud knows --- */

/* NULL if there is no answer, which is no error here. */
static const struct document *complete_ask(struct completion *completion, const char *path)
{
    struct document *answer;
    struct err err;

    must(path[0] == '/');
    if (!completion->can_ask || ctl_get(completion->ctl, path, &answer, &err) < 0)
        return NULL;
    return document_get(answer, "items");
}

static void complete_nodes(struct completion *completion)
{
    const struct document *items = complete_ask(completion, nodes_path);

    if (items == NULL)
        return;
    document_each (node, items)
        complete_offer(completion, document_shown(node, "name"), "");
}

/* Namespaces of pods that hold shares; milligpud has no others. */
static void complete_namespaces(struct completion *completion)
{
    const struct document *items = complete_ask(completion, "/api/v1/allocations?limit=1000");

    if (items == NULL)
        return;
    document_each (allocation, items)
        complete_once(completion, document_shown(allocation, "namespace"));
}

/* NAMESPACE/NAME, or only the name with -n. */
static void complete_pods(struct completion *completion, const char *path)
{
    const char *namespace = completion->ctl->options.given[OPTION_namespace];
    const struct document *items = complete_ask(completion, path);
    CLEANUP(strbuf_done) struct strbuf word;

    strbuf_init(&word);
    if (items == NULL)
        return;
    document_each (pod, items) {
        if (namespace != NULL && strcmp(document_shown(pod, "namespace"), namespace) != 0)
            continue;
        strbuf_reset(&word);
        if (namespace == NULL)
            strbuf_printf(&word, "%s/", document_shown(pod, "namespace"));
        strbuf_str(&word, document_shown(pod, "name"));
        complete_once(completion, word.data);
    }
}

static void complete_gpus(struct completion *completion)
{
    const struct document *items = complete_ask(completion, nodes_path);
    CLEANUP(strbuf_done) struct strbuf word;

    strbuf_init(&word);
    if (items == NULL)
        return;
    document_each (node, items) {
        document_each (gpu, document_get(node, "gpus")) {
            strbuf_reset(&word);
            strbuf_printf(&word, "%s/%s", document_shown(node, "name"), document_shown(gpu, "id"));
            complete_offer(completion, word.data, document_shown(gpu, "model"));
        }
    }
}

/* GPUs of one node: indexes, with ids as their meaning. */
static void complete_gpus_of(struct completion *completion, const char *node_name)
{
    const struct document *items = complete_ask(completion, nodes_path);
    char index[24];

    if (items == NULL)
        return;
    document_each (node, items) {
        if (strcmp(document_shown(node, "name"), node_name) != 0)
            continue;
        document_each (gpu, document_get(node, "gpus")) {
            (void)snprintf(index, sizeof index, "%lld", (long long)document_int(gpu, "index"));
            complete_offer(completion, index, document_shown(gpu, "id"));
            complete_offer(completion, document_shown(gpu, "id"), document_shown(gpu, "model"));
        }
    }
}

/* --- the line --- */

static void complete_commands(struct completion *completion)
{
    const struct ctl_commands *commands = completion->ctl->options.commands;

    for (size_t i = 0; i < commands->count; i++)
        complete_offer(completion, commands->command[i].name, commands->command[i].summary);
}

/* command: NULL before a command is typed; then only common options fit. */
static void complete_options(struct completion *completion, const struct ctl_command *command)
{
    char word[64];

    must(completion->prefix[0] == '-');
    for (size_t id = 0; id < OPTIONS; id++) {
        const struct option *option = option_info(id);
        if (!option_is_of(id, NULL) && (command == NULL || !option_is_of(id, command)))
            continue;
        (void)snprintf(word, sizeof word, "--%s", option->name);
        complete_offer(completion, word, option->help);
    }
}

static void complete_words(struct completion *completion, const char *words)
{
    struct text rest = text_of(words);
    struct text word;

    while (text_cut(&rest, ' ', &word))
        complete_offer(completion, arena_copy(&completion->ctl->kept, word), "");
}

/* The states of the command; none before its name, since there would be too many. */
static void complete_states(struct completion *completion)
{
    const struct ctl_command *command = completion->ctl->options.command;
    const char *word;

    if (command == NULL || !option_is_of(OPTION_state, command))
        return;
    must(ctl_state_word(command, 0) != NULL);
    for (size_t i = 0; (word = ctl_state_word(command, i)) != NULL; i++)
        complete_offer(completion, word, "");
}

static bool complete_policy(struct completion *completion, const char *name, const char *help)
{
    must(name[0] != '\0');
    complete_offer(completion, name, help);
    return text_starts(text_of(name), completion->prefix);
}

/* Names of ready policies; a word that is no prefix of one is a file. */
static void complete_policies(struct completion *completion)
{
    struct policy_ready ready;
    bool known = false;

    must(completion->prefix != NULL);
    for (size_t i = 0; policy_ready(i, &ready); i++)
        known = complete_policy(completion, ready.name, "a ready policy") || known;
    for (int i = 0; i < POLICIES; i++)
        known = complete_policy(completion, policy_name((enum policy_kind)i),
                                policy_help((enum policy_kind)i)) ||
                known;
    if (!known)
        completion->directive = FILES;
}

static void complete_value(struct completion *completion, size_t id)
{
    const struct option *option = option_info(id);

    must(option->argument[0] != '\0');
    if (option->words[0] != '\0')
        complete_words(completion, option->words);
    else if (id == OPTION_node)
        complete_nodes(completion);
    else if (id == OPTION_namespace)
        complete_namespaces(completion);
    else if (id == OPTION_state)
        complete_states(completion);
    else if (id == OPTION_policy)
        complete_policies(completion);
    else if (strcmp(option->argument, "FILE") == 0 || id == OPTION_kubeconfig)
        completion->directive = FILES;
}

/* True for names of arguments that are files or folders. */
static bool takes_files(const char *argument)
{
    static const char *const names[] = {"FILE",        "FILE...", "[FILE...]",
                                        "FILE|FOLDER", "LEDGER",  "BACKUP LEDGER"};

    must(argument[0] != '\0');
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(argument, names[i]) == 0)
            return true;
    return false;
}

/* Completes an argument by its name in commands.def; nothing for a key. */
static void complete_argument(struct completion *completion, const struct ctl_options *line)
{
    const char *argument = line->command->arguments;

    if (line->n_arguments >= line->command->most)
        return;
    if (strcmp(argument, "NODE [GPU...]") == 0 && line->n_arguments > 0) {
        complete_gpus_of(completion, line->argument[0]);
    } else if (strcmp(argument, "NODE") == 0 || strcmp(argument, "NODE [GPU...]") == 0) {
        complete_nodes(completion);
    } else if (strcmp(argument, "POD") == 0 || strcmp(argument, "GPU|POD") == 0) {
        complete_pods(completion, "/api/v1/allocations?limit=1000");
        complete_pods(completion, "/api/v1/waiting?limit=1000");
        if (argument[0] == 'G' && line->given[OPTION_pod] == NULL)
            complete_gpus(completion);
    } else if (strcmp(argument, "POLICY") == 0) {
        complete_policies(completion);
    } else if (strcmp(argument, "SHELL") == 0) {
        complete_words(completion, "bash zsh fish");
    } else if (strcmp(argument, "KEYID") != 0) {
        must(takes_files(argument));
        completion->directive = FILES;
    }
}

/*
 * As a kubectl plugin, requests names only if the line or the environment has an address: kubectl
 * port-forward would take seconds, and nothing listens at the default address.
 */
int complete_line(struct ctl *ctl, const struct ctl_commands *commands, int argc, char *const *argv,
                  bool asks)
{
    struct completion completion = {.ctl = ctl, .prefix = "", .directive = NO_FILES};

    must(argc > 0);
    map_init(&completion.seen);
    /* The word at the cursor is not parsed. */
    if (argc > 1)
        completion.prefix = argv[--argc];
    const size_t wants = options_scan(commands, argc, argv, &ctl->options);
    completion.can_ask = asks || ctl->environment_server != NULL ||
                         ctl->options.given[OPTION_server] != NULL ||
                         ctl->options.given[OPTION_port_file] != NULL;
    if (wants < OPTIONS)
        complete_value(&completion, wants);
    else if (completion.prefix[0] == '-')
        complete_options(&completion, ctl->options.command);
    else if (ctl->options.command == NULL)
        complete_commands(&completion);
    else
        complete_argument(&completion, &ctl->options);
    (void)fprintf(ctl->screen.out, ":%d\n", completion.directive); /* checked in ctl_finish() */
    map_done(&completion.seen);
    return CTL_FINE;
}

/* --- the scripts --- */

static const char bash_script[] =
    "# completion of milligpuctl for bash: source <(milligpuctl completion bash)\n"
    "_milligpuctl()\n"
    "{\n"
    "    local lines line\n"
    "    COMPREPLY=()\n"
    "    mapfile -t lines < <(milligpuctl " COMPLETE_COMMAND
    " \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "    [ \"${#lines[@]}\" -gt 0 ] || return\n"
    "    for line in \"${lines[@]:0:${#lines[@]}-1}\"; do\n"
    "        COMPREPLY+=(\"${line%%$'\\t'*}\")\n"
    "    done\n"
    "    [ \"${lines[-1]}\" != :0 ] || compopt -o default\n"
    "}\n"
    "complete -F _milligpuctl milligpuctl\n";

static const char zsh_script[] =
    "#compdef milligpuctl\n"
    "# completion of milligpuctl for zsh: source <(milligpuctl completion zsh)\n"
    "_milligpuctl()\n"
    "{\n"
    "    local -a lines words_of\n"
    "    local line\n"
    "    lines=(\"${(@f)$(milligpuctl " COMPLETE_COMMAND
    " \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
    "    if [[ ${lines[-1]} == :0 ]]; then\n"
    "        _files\n"
    "        return\n"
    "    fi\n"
    "    for line in \"${(@)lines[1,-2]}\"; do\n"
    "        words_of+=(\"${${line%%$'\\t'*}//:/\\\\:}:${${line#*$'\\t'}#$line}\")\n"
    "    done\n"
    "    _describe milligpuctl words_of\n"
    "}\n"
    "compdef _milligpuctl milligpuctl\n"
    "# zsh runs a file of fpath as the function itself, at the first completion.\n"
    "[[ ${funcstack[1]-} != _milligpuctl ]] || _milligpuctl \"$@\"\n";

static const char fish_script[] =
    "# completion of milligpuctl for fish: milligpuctl completion fish | source\n"
    "function __milligpuctl_lines\n"
    "    set -l before (commandline -opc)\n"
    "    milligpuctl " COMPLETE_COMMAND " $before[2..-1] (commandline -ct) 2>/dev/null\n"
    "end\n"
    "function __milligpuctl_words\n"
    "    __milligpuctl_lines | string match -v -r '^:[0-9]+$'\n"
    "end\n"
    "complete -c milligpuctl -f -a '(__milligpuctl_words)'\n"
    "complete -c milligpuctl -n '__milligpuctl_lines | string match -q :0' -F\n";

int command_completion(struct ctl *ctl)
{
    static const struct {
        const char *shell;
        const char *script;
    } scripts[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
    const char *shell = ctl->options.argument[0];
    struct err err;

    for (size_t i = 0; i < ARRAY_LEN(scripts); i++)
        if (strcmp(scripts[i].shell, shell) == 0) {
            (void)fputs(scripts[i].script, ctl->screen.out); /* checked in ctl_finish() */
            return CTL_FINE;
        }
    (void)err_set(&err, ERR_INVALID, "SHELL is %.60s: it must be one of: bash zsh fish", shell);
    return ctl_misused(ctl, &err);
}
