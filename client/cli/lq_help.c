#include "lq_help.h"

#include "lq_args.h"

#include <stdio.h>

static void print_options(unsigned set)
{
    (void)printf("\nOptions:\n");
    for (const struct lq_cli_option *option = lq_cli_options; option->name != NULL; option++) {
        if ((option->set & set) != 0) {
            int used =
                printf("  --%s %s", option->name, option->value == NULL ? "" : option->value);
            (void)printf("%*s%s\n", used < 28 ? 28 - used : 1, "", option->help);
        }
    }
}

static void print_exit_codes(void)
{
    (void)printf("\nExit codes:\n");
    for (const struct lq_exit_row *row = lq_exit_table; row->code != NULL; row++) {
        (void)printf("  %-6s %s\n", row->code, row->text);
    }
}

static void print_loquet(void)
{
    (void)printf("usage: loquet COMMAND [OPTION]... [ARGUMENT]...\n\n"
                 "Locks with queues, leases and fencing tokens, from a loquetd.\n\nCommands:\n");
    for (const struct lq_cli_command *command = lq_cli_commands; command->name != NULL; command++) {
        if (!command->is_hidden) {
            (void)printf("  %-10s %s\n", command->name, command->summary);
        }
    }
    print_options(~0U);
    (void)printf(
        "\nA key is 1 to 1024 bytes of UTF-8. IPv6 addresses stand in brackets: "
        "[::1]:7311.\n"
        "loquet COMMAND --help tells more about one.\n"
        "\nConfiguration files:\n"
        "  endpoints, admin, lease, wait and json may stand in ~/.config/loquet/loquet.conf\n"
        "  ($XDG_CONFIG_HOME) and in /etc/loquet/loquet.conf, as key = value; like\n"
        "  endpoints = \"10.0.0.1,10.0.0.2\"; lease = 60; json = true;\n"
        "  Options come first, then LOQUET_ENDPOINTS and LOQUET_ADMIN, then the user's file,\n"
        "  then the system's. --config or LOQUET_CONFIG names one file instead of both.\n");
    print_exit_codes();
}

static void print_command(const struct lq_cli_command *command)
{
    (void)printf("usage: loquet %s [OPTION]...%s%s\n\n%s.\n%s", command->name,
                 command->usage[0] == '\0' ? "" : " ", command->usage, command->summary,
                 command->details);
    print_options(command->options);
}

enum lq_exit lq_help_print(const struct lq_cli_command *command)
{
    if (command == NULL) {
        print_loquet();
    } else {
        print_command(command);
    }
    return fflush(stdout) == 0 ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
}
