#include "lq_cli.h"
#include "lq_out.h"

enum lq_exit lq_cmd_version(const struct lq_cli *cli)
{
    if (cli->json) {
        json_t *object = lq_out_object(cli, "ok");
        lq_out_set_text(object, "version", loquet_version());
        return lq_out_print(stdout, object) ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
    }
    (void)printf("loquet %s\n", loquet_version());
    return fflush(stdout) == 0 ? LQ_EXIT_OK : LQ_EXIT_OUTPUT;
}
