#include "server.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads its log up to the line that tells the address. */
static void read_address(struct server *server)
{
    char log[4096], *address;
    size_t len = 0;

    for (;;) {
        ssize_t n = read(server->log_fd, log + len, sizeof log - 1 - len);
        ck_assert_msg(n > 0, "loquetd ended: %.*s", (int)len, log);
        len += (size_t)n;
        log[len] = '\0';
        address = strstr(log, "address=");
        if (strstr(log, "msg=listening") != NULL && address != NULL &&
            strpbrk(address, " \n") != NULL) {
            address += strlen("address=");
            (void)snprintf(server->endpoint, sizeof server->endpoint, "%.*s",
                           (int)strcspn(address, " \n"), address);
            return;
        }
    }
}

void server_start(struct server *server)
{
    const char *program = getenv("LOQUETD");
    const char *listen = server->endpoint[0] != '\0' ? server->endpoint : "127.0.0.1:0";
    int fds[2];

    ck_assert_msg(program != NULL, "set LOQUETD to the path of loquetd");
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    server->pid = fork();
    if (server->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(fds[1], STDERR_FILENO);
        (void)execl(program, program, "--listen", listen, (char *)NULL);
        _exit(127);
    }
    ck_assert_int_gt(server->pid, 0);
    (void)close(fds[1]);
    server->log_fd = fds[0];
    read_address(server);
}

static void send_signal(const struct server *server, int number)
{
    ck_assert_int_eq(kill(server->pid, number), 0);
}

void server_freeze(struct server *server)
{
    int status;

    send_signal(server, SIGSTOP);
    ck_assert_int_eq(waitpid(server->pid, &status, WUNTRACED), server->pid);
    ck_assert(WIFSTOPPED(status));
}

void server_thaw(struct server *server)
{
    send_signal(server, SIGCONT);
}

void server_kill(struct server *server)
{
    if (server->pid > 0) {
        send_signal(server, SIGKILL);
        ck_assert_int_eq(waitpid(server->pid, NULL, 0), server->pid);
        (void)close(server->log_fd);
        server->pid = 0;
    }
}
