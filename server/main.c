#include "lq_config.h"
#include "lq_log.h"
#include "lq_offline.h"
#include "lq_server.h"
#include "lq_testing.h"
#include "lq_user.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* As sysexits(3) has it for a command that was used wrongly. */
#define EXIT_USAGE 64

/* Keeps the C library's allocator from saving up work for one long pause: freed pieces of any size
 * are joined at once (no fast bins), and the heap is not given back, since that takes 10 ms for 100
 * MB whenever its end happens to become free. Large arrays come from the kernel and do go back. See
 * docs/decisions/0006. */
static void set_up_memory(void)
{
    (void)mallopt(M_MXFAST, 0);
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, -1);
    (void)mallopt(M_TOP_PAD, 1 << 20);
}

/* Standard input, output and error exist, so that no socket takes their numbers and is written log
 * lines into. */
static void set_up_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) {
        (void)close(fd);
    }
}

/* What is done with a data directory instead of serving. */
static int work_offline(const struct lq_config *config)
{
    struct lq_offline_options options = {.to = config->to,
                                         .node = (uint32_t)config->node_id,
                                         .address = config->peer,
                                         .segment_bytes = config->segment_bytes};
    if (config->inspect[0] != '\0') {
        return lq_offline_inspect(config->inspect, config->json, stdout);
    }
    if (config->recover[0] != '\0') {
        options.from = config->recover;
        return lq_offline_recover(&options, stdout);
    }
    options.from = config->restore;
    return lq_offline_restore(&options, stdout);
}

/* What was read is valid in itself; whether the user exists is up to the machine. */
static int check_config(const struct lq_config *config)
{
    struct lq_user user;
    char why[LQ_CONFIG_ERROR];
    if (config->user[0] != '\0' && !lq_user_find(config->user, &user, why, sizeof why)) {
        (void)fprintf(stderr, "loquetd: --user: %s\n", why);
        return EXIT_USAGE;
    }
    (void)printf("loquetd: the configuration is valid\n");
    return 0;
}

int main(int argc, char *argv[])
{
    struct lq_config config;
    struct lq_config_error error;
    set_up_memory();
    set_up_descriptors();
    if (!lq_testing_start()) {
        return EXIT_USAGE;
    }
    if (!lq_config_read(&config, argc, argv, environ, &error)) {
        (void)fprintf(stderr, "loquetd: %s\n", error.text);
        return EXIT_USAGE;
    }
    if (config.help) {
        lq_config_print_help();
        return 0;
    }
    if (config.version) {
        (void)printf("loquetd %s%s\n", LOQUET_VERSION, LQ_TESTING_WORDS);
        return 0;
    }
    if (config.inspect[0] != '\0' || config.recover[0] != '\0' || config.restore[0] != '\0') {
        return work_offline(&config);
    }
    if (config.check_config) {
        return check_config(&config);
    }
    lq_log_set_level((enum lq_log_level)lq_log_level_of(config.log_level));
    if (!lq_user_become(&config)) {
        return EXIT_FAILURE;
    }
    return lq_server_run(&config);
}
