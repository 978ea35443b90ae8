/* `loquet completion bash|zsh`: prints a completion script, made from the tables of commands and
 * options, so that it knows what this very program knows. The build runs it, and installs what it
 * prints. Keys and tokens are not completed: only a server knows them.
 *
 * An option's values are completed when the table has them as "a|b|c", or as a FILE. */
#include "lq_args.h"
#include "lq_out.h"

#include <stdio.h>
#include <string.h>

/* ---- What the tables say. */

static bool has_words(const struct lq_cli_option *option)
{
    return option->value != NULL && strchr(option->value, '|') != NULL;
}

static bool is_file(const struct lq_cli_option *option)
{
    return option->value != NULL && strcmp(option->value, "FILE") == 0;
}

/* "a|b|c" as "a b c". */
static void print_words(const char *value)
{
    for (; *value != '\0'; value++) {
        (void)putchar(*value == '|' ? ' ' : *value);
    }
}

static void print_actions(const struct lq_cli_command *command)
{
    const char *name;
    for (size_t i = 0; (name = command->action(i)) != NULL; i++) {
        (void)printf("%s%s", i == 0 ? "" : " ", name);
    }
}

/* ---- bash. */

static const char bash_head[] =
    "# Completion of loquet for bash, made by: loquet completion bash\n"
    "\n"
    "# _loquet_options COMMAND: its options; of loquet itself without one.\n"
    "_loquet_options()\n"
    "{\n"
    "    case $1 in\n";

static const char bash_values[] =
    "    esac\n"
    "}\n"
    "\n"
    "# _loquet_values OPTION: the words it takes, FILE for a file, - for what is not completed.\n"
    "_loquet_values()\n"
    "{\n"
    "    case $1 in\n";

static const char bash_actions[] =
    "    esac\n"
    "}\n"
    "\n"
    "# _loquet_words COMMAND: what its first argument can be; COMMAND "
    "when a command follows it.\n"
    "_loquet_words()\n"
    "{\n"
    "    case $1 in\n";

/* Words are split here, and not taken from COMP_WORDS, since readline splits at : and =, too. */
static const char bash_tail[] =
    "    esac\n"
    "}\n"
    "\n"
    "# _loquet_offer KIND WORDS CURRENT\n"
    "_loquet_offer()\n"
    "{\n"
    "    case $1 in\n"
    "    FILE) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$3\") "
    ";;\n"
    "    COMMAND) mapfile -t COMPREPLY < <(compgen -c -- \"$3\") ;;\n"
    "    *) mapfile -t COMPREPLY < <(compgen -W \"$2\" -- \"$3\") ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_loquet()\n"
    "{\n"
    "    local words=() word command='' awaits='' options=yes n=0 prefix='' current kind\n"
    "    read -a words <<<\"${COMP_LINE:0:COMP_POINT}\"\n"
    "    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=('')\n"
    "    current=${words[-1]} COMPREPLY=()\n"
    "    for word in \"${words[@]:1:${#words[@]}-2}\"; do\n"
    "        if [[ -n $awaits ]]; then\n"
    "            awaits=''\n"
    "        elif [[ $options == yes && $word == -* ]]; then\n"
    "            [[ $word == -- ]] && options=no\n"
    "            [[ -n $(_loquet_values \"$word\") ]] && awaits=$word\n"
    "        elif [[ -z $command ]]; then\n"
    "            command=$word\n"
    "        else\n"
    "            n=$((n + 1))\n"
    "            [[ $n -gt 1 && $(_loquet_words \"$command\") == COMMAND ]] && options=no\n"
    "        fi\n"
    "    done\n"
    "    if [[ -z $awaits && $options == yes && $current == --*=* ]]; then\n"
    "        awaits=${current%%=*} current=${current#*=}\n"
    "        [[ $COMP_WORDBREAKS == *=* ]] || prefix=$awaits=\n"
    "    fi\n"
    "    if [[ -n $awaits ]]; then\n"
    "        kind=$(_loquet_values \"$awaits\")\n"
    "        [[ $kind == - ]] || _loquet_offer \"$kind\" \"$kind\" \"$current\"\n"
    "    elif [[ $options == yes && $current == -* ]]; then\n"
    "        _loquet_offer - \"$(_loquet_options \"$command\")\" \"$current\"\n"
    "    elif [[ -z $command ]]; then\n"
    "        _loquet_offer - \"$(_loquet_words '')\" \"$current\"\n"
    "    elif [[ $(_loquet_words \"$command\") == COMMAND ]]; then\n"
    "        [[ $n -eq 1 ]] && _loquet_offer COMMAND '' \"$current\"\n"
    "        [[ $n -gt 1 ]] && _loquet_offer FILE '' \"$current\"\n"
    "    elif [[ $n -eq 0 ]]; then\n"
    "        _loquet_offer - \"$(_loquet_words \"$command\")\" \"$current\"\n"
    "    fi\n"
    "    COMPREPLY=(\"${COMPREPLY[@]/#/$prefix}\")\n"
    "}\n"
    "\n"
    "complete -F _loquet loquet\n";

static void print_bash_options(const char *command, unsigned set)
{
    const char *before = "";
    (void)printf("    %s) echo '", command);
    for (const struct lq_cli_option *option = lq_cli_options; option->name != NULL; option++) {
        if ((option->set & set) != 0) {
            (void)printf("%s--%s", before, option->name);
            before = " ";
        }
    }
    (void)printf("' ;;\n");
}

static void print_bash_value(const struct lq_cli_option *option)
{
    (void)printf("    --%s) echo '", option->name);
    if (has_words(option)) {
        print_words(option->value);
    } else {
        (void)printf("%s", is_file(option) ? "FILE" : "-");
    }
    (void)printf("' ;;\n");
}

static void print_bash_words(void)
{
    (void)printf("    '') echo '");
    for (const struct lq_cli_command *command = lq_cli_commands; command->name != NULL; command++) {
        if (!command->is_hidden) {
            (void)printf("%s%s", command == lq_cli_commands ? "" : " ", command->name);
        }
    }
    (void)printf("' ;;\n");
    for (const struct lq_cli_command *command = lq_cli_commands; command->name != NULL; command++) {
        if (command->runs_command) {
            (void)printf("    %s) echo COMMAND ;;\n", command->name);
        } else if (command->action != NULL) {
            (void)printf("    %s) echo '", command->name);
            print_actions(command);
            (void)printf("' ;;\n");
        }
    }
}

static void print_bash(void)
{
    (void)printf("%s", bash_head);
    for (const struct lq_cli_command *command = lq_cli_commands; command->name != NULL; command++) {
        print_bash_options(command->name, command->options);
    }
    print_bash_options("*", ~0U);
    (void)printf("%s", bash_values);
    for (const struct lq_cli_option *option = lq_cli_options; option->name != NULL; option++) {
        if (option->value != NULL) {
            print_bash_value(option);
        }
    }
    (void)printf("%s", bash_actions);
    print_bash_words();
    (void)printf("%s", bash_tail);
}

/* ---- zsh. */

static const char zsh_head[] = "#compdef loquet\n"
                               "# Completion of loquet for zsh, made by: loquet completion zsh\n"
                               "\n"
                               "_loquet()\n"
                               "{\n"
                               "    local curcontext=$curcontext state state_descr line\n"
                               "    typeset -A opt_args\n"
                               "    local -a commands\n"
                               "    commands=(\n";

static const char zsh_tail[] = "        esac\n"
                               "        ;;\n"
                               "    esac\n"
                               "}\n"
                               "\n"
                               "_loquet \"$@\"\n";

/* Text within quotes within a description of _arguments. */
static void print_zsh_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            (void)printf("'\\''");
        } else {
            (void)printf("%s%c", strchr("[]:\\", *text) != NULL ? "\\" : "", *text);
        }
    }
}

static void print_zsh_option(const struct lq_cli_option *option, const char *indent)
{
    (void)printf("%s'--%s%s[", indent, option->name, option->value == NULL ? "" : "=");
    print_zsh_text(option->help);
    (void)printf("]");
    if (option->value != NULL) {
        (void)printf(":");
        print_zsh_text(option->value);
        (void)printf(":");
        if (has_words(option)) {
            (void)printf("(");
            print_words(option->value);
            (void)printf(")");
        } else {
            (void)printf("%s", is_file(option) ? "_files" : " ");
        }
    }
    (void)printf("' \\\n");
}

static void print_zsh_options(unsigned set, const char *indent)
{
    for (const struct lq_cli_option *option = lq_cli_options; option->name != NULL; option++) {
        if ((option->set & set) != 0) {
            print_zsh_option(option, indent);
        }
    }
}

/* Arguments that are not completed have an empty list of words. An action of one space would show a
 * message instead, and then zsh inserts no option either. */
static void print_zsh_command(const struct lq_cli_command *command)
{
    (void)printf("        %s)\n            _arguments -S \\\n", command->name);
    print_zsh_options(command->options, "                ");
    if (command->runs_command) {
        (void)printf("                '1:KEY:()' '*:::command:_normal'\n");
    } else if (command->action != NULL) {
        (void)printf("                '1:action:(");
        print_actions(command);
        (void)printf(")' '*:argument:()'\n");
    } else {
        (void)printf("                '*:%s:()'\n",
                     command->usage[0] == '\0' ? "no argument" : command->usage);
    }
    (void)printf("            ;;\n");
}

static void print_zsh(void)
{
    (void)printf("%s", zsh_head);
    for (const struct lq_cli_command *command = lq_cli_commands; command->name != NULL; command++) {
        if (!command->is_hidden) {
            (void)printf("        '%s:", command->name);
            print_zsh_text(command->summary);
            (void)printf("'\n");
        }
    }
    (void)printf("    )\n    _arguments -C -S \\\n");
    print_zsh_options(~0U, "        ");
    (void)printf("        '(-)1: :->command' '(-)*:: :->argument'\n"
                 "    case $state in\n"
                 "    command) _describe -t commands command commands ;;\n"
                 "    argument)\n"
                 "        case $line[1] in\n");
    for (const struct lq_cli_command *command = lq_cli_commands; command->name != NULL; command++) {
        if (!command->is_hidden) {
            print_zsh_command(command);
        }
    }
    (void)printf("%s", zsh_tail);
}

enum lq_exit lq_cmd_completion(const struct lq_cli *cli)
{
    const char *shell = cli->arguments[0];
    if (strcmp(shell, "bash") == 0) {
        print_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh();
    } else {
        return lq_out_fail(cli, "invalid", LQ_EXIT_USAGE,
                           "there is no completion for '%.100s': give bash or zsh", shell);
    }
    return fflush(stdout) == 0 ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
}
