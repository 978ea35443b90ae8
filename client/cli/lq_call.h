/* What the commands with one request and one answer share. */
#ifndef LQ_CALL_H
#define LQ_CALL_H

#include "lq_cli.h"

/* A handle with the endpoints of the options and the environment, or NULL with `ret_code` set after
 * saying what is wrong. Free it with loquet_free. */
struct loquet_client *lq_call_open(const struct lq_cli *cli, enum lq_exit *ret_code);

/* Makes a ticket from the arguments KEY TOKEN. False after saying what is wrong. */
bool lq_call_ticket(const struct lq_cli *cli, struct loquet_ticket *ret_ticket);

/* Says why the request was not done and returns the code for it. */
enum lq_exit lq_call_explain(const struct lq_cli *cli, const struct loquet_client *client,
                             enum loquet_result result);

#endif
