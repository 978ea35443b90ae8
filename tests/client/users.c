/* lq_users: see users.h. It ends orderly when its standard input does.
 *
 *     lq_users --endpoints LIST --out HISTORY [--threads N] [--seed N] [--prefix TEXT] */
#include "users.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    const char *endpoints, *out, *prefix;
    unsigned n_threads;
    uint64_t seed;
};

static bool parse(int argc, char **argv, struct options *ret_options)
{
    static const struct option known[] = {
        {"endpoints", required_argument, NULL, 'e'}, {"out", required_argument, NULL, 'o'},
        {"threads", required_argument, NULL, 't'},   {"seed", required_argument, NULL, 's'},
        {"prefix", required_argument, NULL, 'p'},    {NULL, 0, NULL, 0}};
    int option;

    *ret_options = (struct options){.prefix = "", .n_threads = 28, .seed = 1};
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'e':
            ret_options->endpoints = optarg;
            break;
        case 'o':
            ret_options->out = optarg;
            break;
        case 't':
            ret_options->n_threads = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 's':
            ret_options->seed = strtoull(optarg, NULL, 10);
            break;
        case 'p':
            ret_options->prefix = optarg;
            break;
        default:
            return false;
        }
    }
    return ret_options->endpoints != NULL && ret_options->out != NULL && ret_options->n_threads > 0;
}

/* A different stream for each user of each seed; never 0. */
static uint64_t stream(uint64_t seed, unsigned number)
{
    return ((seed + 1) * 0x9e3779b97f4a7c15u ^ (number + 1) * 0xbf58476d1ce4e5b9u) | 1;
}

static void work(struct lq_users *all, const struct options *options)
{
    struct lq_user *users = calloc(options->n_threads, sizeof *users);
    char byte;

    if (users == NULL) {
        exit(1);
    }
    for (unsigned i = 0; i < options->n_threads; i++) {
        users[i] = (struct lq_user){.all = all,
                                    .kind = (enum lq_user_kind)(i % LQ_USER_KINDS),
                                    .number = i + 1,
                                    .random = stream(options->seed, i)};
        if (pthread_create(&users[i].thread, NULL, lq_user_main, &users[i]) != 0) {
            exit(1);
        }
    }
    while (read(STDIN_FILENO, &byte, 1) > 0) {
        /* Until its end. */
    }
    all->is_over = true;
    for (unsigned i = 0; i < options->n_threads; i++) {
        (void)pthread_join(users[i].thread, NULL);
    }
    free(users);
}

int main(int argc, char **argv)
{
    struct lq_users all = {0};
    struct options options;
    struct loquet_why why;

    if (!parse(argc, argv, &options)) {
        (void)fprintf(stderr, "usage: lq_users --endpoints LIST --out HISTORY [--threads N] "
                              "[--seed N] [--prefix TEXT]\n");
        return 64;
    }
    all.prefix = options.prefix;
    all.offset_ns = (int64_t)(lq_user_now() - loquet_now_ms() * 1000000);
    all.client = loquet_open(options.endpoints, &why);
    all.history = fopen(options.out, "w");
    if (all.client == NULL || all.history == NULL) {
        (void)fprintf(stderr, "lq_users: %s\n", all.client == NULL ? why.text : options.out);
        return 1;
    }
    work(&all, &options);
    loquet_close(all.client);
    (void)fprintf(all.history, "{\"t\":%llu,\"e\":\"end\"}\n", (unsigned long long)lq_user_now());
    return fclose(all.history) == 0 ? 0 : 1;
}
