#include "lq_args.h"
#include "lq_help.h"
#include "lq_settings.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define SERVER         (LQ_CLI_COMMON | LQ_CLI_CONFIG | LQ_CLI_SERVER)
#define ADMIN          (LQ_CLI_COMMON | LQ_CLI_CONFIG | LQ_CLI_ADMIN)
#define WAIT_AND_LEASE (SERVER | LQ_CLI_WAIT | LQ_CLI_LEASE)

#define MEMBER_DETAILS                                                                             \
    "Actions:\n"                                                                                   \
    "  list                       the members, their addresses and roles\n"                        \
    "  add NODE ADDRESS           a new node, HOST:PORT of its peer port; a standby at first\n"    \
    "  promote NODE               a standby becomes a voter, once it has caught up\n"              \
    "  demote NODE                a voter becomes a standby\n"                                     \
    "  remove NODE                a member leaves, and never comes back under this id\n"           \
    "  replace OLD NEW ADDRESS    a new node takes the place of another, step by step\n"           \
    "  transfer [NODE]            leadership goes to that voter, or to the one that is furthest\n" \
    "\n"                                                                                           \
    "Changes are made by the leader, so give the admin addresses of all nodes. They are safe to\n" \
    "repeat. Unless --no-wait is given, loquet waits until the change is in effect.\n"

const struct lq_cli_command lq_cli_commands[] = {
    {.name = "acquire",
     .usage = "KEY",
     .summary = "Acquire a lock and print its token",
     .details = "It stays held, whatever becomes of this process, until it is released with its\n"
                "token or its lease ends. Hand the token to what the lock protects, and let that\n"
                "refuse lower tokens.\n",
     .options = WAIT_AND_LEASE,
     .n_arguments = 1,
     .has_key = true,
     .run = lq_cmd_acquire},
    {.name = "release",
     .usage = "KEY TOKEN",
     .summary = "Release a lock",
     .details = "Exits with 76 when the token does not hold the key (any more).\n",
     .options = SERVER,
     .n_arguments = 2,
     .has_key = true,
     .run = lq_cmd_release},
    {.name = "renew",
     .usage = "KEY TOKEN",
     .summary = "Let the lease of a lock count anew from now",
     .details = "Exits with 76 when the token does not hold the key (any more).\n",
     .options = SERVER | LQ_CLI_LEASE,
     .n_arguments = 2,
     .has_key = true,
     .run = lq_cmd_renew},
    {.name = "run",
     .usage = "KEY [--] COMMAND [ARGUMENT]...",
     .summary = "Run a command while holding a lock",
     .details =
         "The command finds the key in LOQUET_KEY and the fencing token in LOQUET_TOKEN. The\n"
         "lease is renewed at a third of its length. If that fails, the command is ended, by\n"
         "TERM and then KILL, before the lease can end, and the exit code is 76. --on-lost says\n"
         "otherwise; with --no-renew the command has to be done within one lease.\n"
         "\n"
         "The command runs in a process group of its own, which gets the terminal when loquet\n"
         "has it. TERM, INT, HUP, QUIT, USR1, USR2, TSTP and CONT are passed on to the group.\n"
         "The lock is released when no process is left of the group, nor of what left it for a\n"
         "session of its own: what the command leaves behind gets TERM after 1 s and KILL after\n"
         "5 s more. While the command is stopped\n"
         "(Ctrl-Z) the lock stays held. If loquet is killed, its helper process, lq-keeper,\n"
         "ends the group and releases the lock.\n",
     .options = WAIT_AND_LEASE | LQ_CLI_RUN,
     .n_arguments = 2,
     .has_key = true,
     .runs_command = true,
     .run = lq_cmd_run},
    {.name = "ping",
     .usage = "",
     .summary = "Ask a server for a sign of life and print the round trip time",
     .details = "",
     .options = SERVER,
     .run = lq_cmd_ping},
    {.name = "status",
     .usage = "",
     .summary = "Show the nodes of a cluster, one per line",
     .details =
         "Asks the admin address of each node that is given. Exits with 0 if all answered and\n"
         "a leader is known, with 77 if not, and with 69 if none answered.\n",
     .options = ADMIN,
     .run = lq_cmd_status},
    {.name = "member",
     .usage = "ACTION [ARGUMENT]...",
     .summary = "Show or change the members of a cluster, or who leads it",
     .details = MEMBER_DETAILS,
     .options = ADMIN | LQ_CLI_WAIT | LQ_CLI_NO_WAIT,
     .n_arguments = 1,
     .n_optional = 3,
     .action = lq_cmd_member_action,
     .run = lq_cmd_member},
    {.name = "transfer",
     .usage = "[NODE]",
     .summary = "Hand leadership to another voter: short for member transfer",
     .details = "Without NODE, the one that is furthest leads next.\n",
     .options = ADMIN | LQ_CLI_WAIT | LQ_CLI_NO_WAIT,
     .n_optional = 1,
     .run = lq_cmd_transfer},
    {.name = "bench",
     .usage = "",
     .summary = "Measure how many locks are acquired and released in a second",
     .details =
         "Every connection acquires and releases a key of its own as fast as it can. Prints the\n"
         "pairs of acquire and release in a second, and how long each of them took: half of\n"
         "them at most p50, 99 of 100 at most p99. Ends early on TERM or INT.\n",
     .options = SERVER | LQ_CLI_LEASE | LQ_CLI_BENCH,
     .run = lq_cmd_bench},
    {.name = "version",
     .usage = "",
     .summary = "Print the version",
     .details = "",
     .options = LQ_CLI_COMMON,
     .run = lq_cmd_version},
    {.name = "completion",
     .usage = "bash|zsh",
     .summary = "Print a completion script for a shell",
     .details = "Normally it is installed already.\n",
     .options = LQ_CLI_COMMON,
     .n_arguments = 1,
     .is_hidden = true,
     .run = lq_cmd_completion},
    {.name = NULL},
};

/* Descriptors 0 to 2 may be closed when we start; a socket must not take their place. */
static void fill_standard_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= 2);
    if (fd > 2) {
        (void)close(fd);
    }
}

static enum lq_exit run(struct lq_cli *cli)
{
    enum lq_exit code = LQ_EXIT_OK;
    if ((cli->command->options & LQ_CLI_CONFIG) != 0) {
        code = lq_settings_fill(cli);
    }
    return code == LQ_EXIT_OK ? cli->command->run(cli) : code;
}

int main(int argc, char **argv)
{
    struct lq_cli cli = {0};

    fill_standard_descriptors();
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        return (int)lq_cmd_version(&cli);
    }
    if (!lq_args_parse(&cli, argc, argv)) {
        return LQ_EXIT_USAGE;
    }
    return (int)(cli.help ? lq_help_print(cli.command) : run(&cli));
}
