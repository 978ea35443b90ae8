/* The controlling terminal and its foreground process group. A command in a group of its own must
 * be lent the terminal, or reading from it, or Ctrl-C on it, would not work. */
#ifndef LQ_TTY_H
#define LQ_TTY_H

#include <stdbool.h>
#include <sys/types.h>

struct lq_tty {
    int fd;    /* -1: there is no controlling terminal */
    bool lent; /* to the command's group */
};

/* Opens the controlling terminal, if there is one. */
void lq_tty_init(struct lq_tty *tty);

/* Whether the terminal is ours to lend: our process group is the foreground one. */
bool lq_tty_is_ours(const struct lq_tty *tty);

/* Whether a command should get the terminal at once: it is ours, and standard input and output are
 * terminals. In a pipeline others may need it; a command that does gets it when it asks
 * (lq_front.c). */
bool lq_tty_is_wanted(const struct lq_tty *tty);

/* Makes `group` the foreground group, if the terminal is ours. */
void lq_tty_lend(struct lq_tty *tty, pid_t group);

/* Makes our own group the foreground one again, if it was lent. */
void lq_tty_take_back(struct lq_tty *tty);

#endif
