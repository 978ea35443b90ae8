/* A turn: read, let the time act, then obey the core until it wants nothing more.
 *
 * Reading comes before writing, since a server may have closed a connection that was idle, and an
 * acquire once written is never written again; and before the time acts, since an answer that is
 * here already counts more than a deadline that has just passed. */
#include "lq_driver.h"

#include "lq_mem.h"
#include "lq_socket.h"
#include "lq_time.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct lq_link {
    struct lq_channel *channel;
    void *watcher;
    size_t place;    /* in `links` */
    size_t endpoint; /* dialled */
    int fd;          /* -1: its address is being looked up */
    short wanted;    /* the watcher was told */
    bool dialling;
    bool ready;       /* poll said that there is something */
    uint64_t read_in; /* the turn in which it was last read */
};

void lq_driver_init(struct lq_driver *driver)
{
    memset(driver, 0, sizeof *driver);
    lq_cluster_init(&driver->cluster);
}

/* ---- Links. */

static struct lq_link *add_link(struct lq_driver *driver, struct lq_channel *channel,
                                size_t endpoint)
{
    struct lq_link *link = lq_malloc(sizeof *link);

    if (driver->n_links == driver->cap_links) {
        driver->cap_links = driver->cap_links * 2 + 4;
        driver->links = lq_realloc(driver->links, driver->cap_links, sizeof(struct lq_link *));
    }
    *link = (struct lq_link){.channel = channel,
                             .place = driver->n_links,
                             .endpoint = endpoint,
                             .fd = -1,
                             .dialling = true};
    driver->links[driver->n_links++] = link;
    lq_core_set_io(channel, link);
    return link;
}

static void set_socket(struct lq_driver *driver, struct lq_link *link, int fd)
{
    link->fd = fd;
    driver->changes++;
    if (fd >= 0 && driver->watch != NULL) {
        link->watcher = driver->watch->begin(driver->watch->context, link, fd);
    }
}

static void remove_link(struct lq_driver *driver, struct lq_link *link)
{
    struct lq_link *last = driver->links[--driver->n_links];

    last->place = link->place;
    driver->links[link->place] = last;
    driver->changes++;
    if (link->watcher != NULL) {
        driver->watch->end(link->watcher, link->fd);
    } else if (link->fd >= 0) {
        (void)close(link->fd);
    }
    lq_free(link);
}

static void close_links(struct lq_driver *driver)
{
    void *io;
    while (lq_core_next_closed(driver->cluster.core, &io) != NULL) {
        remove_link(driver, io);
    }
}

void lq_driver_drop(struct lq_driver *driver)
{
    if (driver->cluster.core != NULL) {
        lq_core_drop_all(driver->cluster.core, lq_time_now_ms());
        close_links(driver);
    }
}

void lq_driver_done(struct lq_driver *driver)
{
    lq_driver_drop(driver);
    lq_cluster_done(&driver->cluster);
    lq_free(driver->links);
    lq_free(driver->pollfds);
    driver->links = NULL;
    driver->pollfds = NULL;
}

/* ---- Requests. */

enum loquet_result lq_driver_set_endpoints(struct lq_driver *driver, const char *text,
                                           struct loquet_why *ret_why)
{
    struct lq_endpoints endpoints;

    ret_why->endpoint[0] = '\0';
    if (!lq_endpoints_parse(&endpoints, text, LQ_ENDPOINTS_PORT, ret_why->text,
                            sizeof ret_why->text)) {
        return LOQUET_INVALID;
    }
    if (!lq_endpoints_resolve(&endpoints, ret_why->text, sizeof ret_why->text)) {
        return LOQUET_CLOSED;
    }
    ret_why->text[0] = '\0';
    lq_driver_resolved(driver, &endpoints);
    return LOQUET_ALIVE;
}

struct lq_request *lq_driver_submit(struct lq_driver *driver, struct lq_order *order,
                                    struct loquet_why *ret_why)
{
    return lq_cluster_submit(&driver->cluster, order, lq_time_now_ms(), ret_why);
}

bool lq_driver_take(struct lq_driver *driver, struct lq_outcome *ret_outcome)
{
    return lq_core_take(driver->cluster.core, lq_time_now_ms(), ret_outcome);
}

uint64_t lq_driver_due_ms(const struct lq_driver *driver)
{
    return driver->cluster.core == NULL ? LQ_NEVER : lq_core_due_ms(driver->cluster.core);
}

/* ---- The turn. */

static void read_link(struct lq_driver *driver, struct lq_link *link)
{
    struct lq_core *core = driver->cluster.core;

    link->ready = false;
    link->read_in = driver->turn;
    if (link->fd < 0) {
        return;
    }
    if (link->dialling) {
        link->dialling = !lq_socket_finish_dial(core, link->channel, link->fd);
        driver->changes += !link->dialling;
    } else if (lq_core_is_open(link->channel)) {
        if (lq_core_is_full(link->channel)) {
            lq_core_writable(core, link->channel); /* if it is not, writing will tell */
            driver->changes++;
        }
        lq_socket_receive(core, link->channel, link->fd);
    }
}

static void write_link(struct lq_driver *driver, struct lq_link *link)
{
    if (link->read_in != driver->turn) {
        read_link(driver, link);
    }
    if (lq_core_is_open(link->channel)) {
        lq_socket_transmit(driver->cluster.core, link->channel, link->fd);
        driver->changes += lq_core_is_full(link->channel);
    }
}

static void dial(struct lq_driver *driver, struct lq_channel *channel, size_t i)
{
    const struct lq_address *address = &driver->cluster.endpoints.addresses[i];
    struct lq_link *link = add_link(driver, channel, address->endpoint);

    if (address->len > 0) {
        set_socket(driver, link, lq_socket_dial(driver->cluster.core, channel, address));
    }
}

/* The address of an endpoint was looked up; NULL: it has none. */
static void dial_resolved(struct lq_driver *driver, struct lq_link *link,
                          const struct lq_address *address)
{
    struct lq_core *core = driver->cluster.core;

    if (address == NULL || address->len == 0) {
        lq_core_lost(core, link->channel, lq_time_now_ms(), LQ_WHY_DIAL, EHOSTUNREACH);
    } else {
        set_socket(driver, link, lq_socket_dial(core, link->channel, address));
    }
}

void lq_driver_resolved(struct lq_driver *driver, const struct lq_endpoints *endpoints)
{
    lq_cluster_set(&driver->cluster, endpoints);
    for (size_t i = 0; i < driver->n_links; i++) {
        const struct lq_address *address = NULL;
        for (size_t k = endpoints->n_addresses; k > 0; k--) {
            if (endpoints->addresses[k - 1].endpoint == driver->links[i]->endpoint) {
                address = &endpoints->addresses[k - 1];
            }
        }
        if (driver->links[i]->fd < 0) {
            dial_resolved(driver, driver->links[i], address);
        }
    }
}

/* Does one thing that the core wants; false when it wants nothing. That comes: after all addresses
 * failed there is a pause, and what the kernel does not take is not offered again. */
static bool obey(struct lq_driver *driver)
{
    struct lq_core *core = driver->cluster.core;
    size_t address;
    struct lq_channel *channel = lq_core_next_dial(core, lq_time_now_ms(), &address);

    if (channel != NULL) {
        dial(driver, channel, address);
        return true;
    }
    channel = lq_core_next_output(core);
    if (channel != NULL) {
        write_link(driver, lq_core_io(channel));
        return true;
    }
    return false;
}

static short wanted_events(const struct lq_link *link)
{
    if (link->dialling) {
        return POLLOUT;
    }
    return lq_core_is_full(link->channel) ? POLLIN | POLLOUT : POLLIN;
}

static void tell_watchers(struct lq_driver *driver)
{
    for (size_t i = 0; driver->watch != NULL && i < driver->n_links; i++) {
        struct lq_link *link = driver->links[i];
        if (link->watcher != NULL && link->wanted != wanted_events(link)) {
            link->wanted = wanted_events(link);
            driver->watch->want(link->watcher, link->wanted);
        }
    }
}

static void read_links(struct lq_driver *driver, bool all)
{
    for (size_t i = 0; i < driver->n_links; i++) {
        if (all || driver->links[i]->ready) {
            read_link(driver, driver->links[i]);
        }
    }
}

static void run_turn(struct lq_driver *driver, bool read_all)
{
    struct lq_core *core = driver->cluster.core;
    uint64_t due_ms;

    if (core == NULL) {
        return;
    }
    driver->turn++;
    read_links(driver, read_all);
    due_ms = lq_core_due_ms(core);
    if (due_ms > 0 && due_ms <= lq_time_now_ms()) { /* 0: there is something to drain first */
        read_links(driver, true);
        lq_core_tick(core, lq_time_now_ms());
    }
    do {
        close_links(driver);
    } while (obey(driver));
    close_links(driver);
    tell_watchers(driver);
}

void lq_driver_turn(struct lq_driver *driver)
{
    run_turn(driver, false);
}

void lq_driver_step(struct lq_driver *driver)
{
    run_turn(driver, true);
}

/* ---- Polling. */

struct pollfd *lq_driver_pollfds(struct lq_driver *driver, const struct pollfd *own, size_t n_own,
                                 nfds_t *ret_n)
{
    size_t n = n_own + driver->n_links;

    if (driver->cap_pollfds < n) {
        driver->cap_pollfds = n * 2;
        driver->pollfds = lq_realloc(driver->pollfds, driver->cap_pollfds, sizeof(struct pollfd));
    }
    for (size_t i = 0; i < n_own; i++) {
        driver->pollfds[i] = own[i];
    }
    for (size_t i = 0; i < driver->n_links; i++) {
        const struct lq_link *link = driver->links[i];
        driver->pollfds[n_own + i] = (struct pollfd){.fd = link->fd, .events = wanted_events(link)};
    }
    *ret_n = n;
    return driver->pollfds;
}

void lq_driver_ready(struct lq_link *link)
{
    link->ready = true;
}

/* The link with that socket, which is likely to be at `place`; NULL: closed meanwhile. */
static struct lq_link *find_link(const struct lq_driver *driver, int fd, size_t place)
{
    if (place < driver->n_links && driver->links[place]->fd == fd) {
        return driver->links[place];
    }
    for (size_t i = 0; i < driver->n_links; i++) {
        if (driver->links[i]->fd == fd) {
            return driver->links[i];
        }
    }
    return NULL;
}

void lq_driver_polled(struct lq_driver *driver, size_t n_own, nfds_t n)
{
    for (size_t i = n_own; i < n; i++) {
        struct lq_link *link = NULL;
        if (driver->pollfds[i].revents != 0) {
            link = find_link(driver, driver->pollfds[i].fd, i - n_own);
        }
        if (link != NULL) {
            lq_driver_ready(link);
        }
    }
}

void lq_driver_poll(struct lq_driver *driver, const struct pollfd *own, size_t n_own)
{
    nfds_t n;
    struct pollfd *pollfds = lq_driver_pollfds(driver, own, n_own, &n);

    (void)poll(pollfds, n, -1); /* whatever it says, the next step looks for itself */
}
