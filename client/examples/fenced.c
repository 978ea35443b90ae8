/* A row in an SQLite database that refuses whoever comes with an old token: the lock's holder may
 * have been asleep while its lease ended and another one wrote. This is what makes it safe.
 *
 *     fenced ENDPOINTS DATABASE NAME TEXT [SLEEP_S]
 *
 * Acquires NAME, sleeps if asked to (longer than the lease: 2 s), then writes TEXT. */
#include <loquet.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char create[] =
    "CREATE TABLE IF NOT EXISTS rows (name TEXT PRIMARY KEY, text TEXT, token INTEGER NOT NULL)";
static const char insert[] = "INSERT OR IGNORE INTO rows VALUES (?1, '', 0)";
/* The one line that matters. Tokens fit: they stay below 2^63. */
static const char update[] =
    "UPDATE rows SET text = ?2, token = ?3 WHERE name = ?1 AND token <= ?3";

/* Runs one statement; the number of rows that it changed, -1 on an error. */
static int change(sqlite3 *db, const char *sql, const char *name, const char *text,
                  sqlite3_int64 token)
{
    sqlite3_stmt *statement = NULL;
    int status = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (status == SQLITE_OK) {
        (void)sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(statement, 2, text, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(statement, 3, token);
        status = sqlite3_step(statement);
    }
    (void)sqlite3_finalize(statement);
    return status == SQLITE_DONE ? sqlite3_changes(db) : -1;
}

static int write_row(const char *path, const char *name, const char *text, sqlite3_int64 token)
{
    sqlite3 *db = NULL;
    int changed = -1;
    if (sqlite3_open(path, &db) == SQLITE_OK && sqlite3_busy_timeout(db, 5000) == SQLITE_OK &&
        sqlite3_exec(db, create, NULL, NULL, NULL) == SQLITE_OK &&
        change(db, insert, name, NULL, 0) >= 0) {
        changed = change(db, update, name, text, token);
    }
    if (changed < 0) {
        (void)fprintf(stderr, "fenced: %s\n", sqlite3_errmsg(db));
    }
    (void)sqlite3_close(db);
    return changed;
}

int main(int argc, char **argv)
{
    struct loquet_request request = {.wait_ms = 10000, .lease_s = 2};
    struct loquet_ticket *ticket;
    struct loquet_client *client;
    struct loquet_why why;
    enum loquet_result result;
    int changed;

    if (argc < 5) {
        (void)fprintf(stderr, "usage: fenced ENDPOINTS DATABASE NAME TEXT [SLEEP_S]\n");
        return 64;
    }
    client = loquet_open(argv[1], &why);
    if (client == NULL) {
        (void)fprintf(stderr, "fenced: %s\n", why.text);
        return 1;
    }
    request.key = argv[3];
    result = loquet_acquire(client, &request, &ticket, &why);
    if (result != LOQUET_ACQUIRED) {
        (void)fprintf(stderr, "fenced: %s %s\n", loquet_result_text(result), why.text);
        loquet_close(client);
        return 1;
    }
    if (argc > 5) {
        (void)sleep(
            (unsigned)strtoul(argv[5], NULL, 10)); /* a long pause of the garbage collector, say */
    }
    changed = write_row(argv[2], argv[3], argv[4], (sqlite3_int64)loquet_ticket_token(ticket));
    (void)printf("%s %llu\n",
                 changed == 1   ? "written"
                 : changed == 0 ? "refused"
                                : "failed",
                 (unsigned long long)loquet_ticket_token(ticket));
    (void)loquet_release(ticket, NULL);
    loquet_ticket_free(ticket);
    loquet_close(client);
    return changed == 1 ? 0 : 1;
}
