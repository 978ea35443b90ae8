/* All descendants of the calling process, whatever group or session they moved to. A process that
 * is a child subreaper keeps them: whose parent ends becomes its own child. So they are all gone
 * when it has no child left (waitpid says ECHILD). Needs a readable /proc: without, nobody is
 * found. */
#ifndef LQ_KIN_H
#define LQ_KIN_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether there is any. */
bool lq_kin_exist(void);

/* Sends a signal to all descendants but those in process group `but_group` (0: to all). Who is born
 * meanwhile may be missed: send again until nobody is left. A process that is not one, or not any
 * more, is never hit, even if it was given the number of one. */
void lq_kin_signal(int number, pid_t but_group);

#endif
