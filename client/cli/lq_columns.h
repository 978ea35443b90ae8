/* Tables for people: columns as wide as what is in them. */
#ifndef LQ_COLUMNS_H
#define LQ_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define LQ_COLUMNS_MAX 16
#define LQ_CELL_MAX    280 /* any "HOST:PORT" fits */

struct lq_column {
    const char *head;
    bool is_number; /* stands at the right */
};

struct lq_row {
    char cells[LQ_COLUMNS_MAX][LQ_CELL_MAX];
    char note[LQ_CELL_MAX]; /* not empty: stands instead of all cells but the first */
};

/* Puts '?' for all that is not printable ASCII, in place: a text that may come from anywhere is
 * going to a terminal. */
void lq_columns_clean(char *text);

/* Writes a text, cleaned, into a cell or note, cut to its size. */
__attribute__((format(printf, 2, 3))) void lq_columns_set(char ret_cell[LQ_CELL_MAX],
                                                          const char *format, ...);

/* Prints a line of heads and a line for each row; `n_columns` is at most LQ_COLUMNS_MAX. */
void lq_columns_print(FILE *stream, const struct lq_column *columns, size_t n_columns,
                      const struct lq_row *rows, size_t n_rows);

#endif
