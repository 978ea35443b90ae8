#include "lq_columns.h"

#include <stdarg.h>
#include <string.h>

#define GAP 2 /* blanks between two columns */

void lq_columns_clean(char *text)
{
    for (char *at = text; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~') {
            *at = '?';
        }
    }
}

void lq_columns_set(char ret_cell[LQ_CELL_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(ret_cell, LQ_CELL_MAX, format, arguments);
    va_end(arguments);
    lq_columns_clean(ret_cell);
}

static bool is_noted(const struct lq_row *row)
{
    return row->note[0] != '\0';
}

static size_t width_of(const struct lq_column *column, size_t at, const struct lq_row *rows,
                       size_t n_rows)
{
    size_t width = strlen(column->head);
    for (size_t i = 0; i < n_rows; i++) {
        size_t len = is_noted(&rows[i]) && at > 0 ? 0 : strlen(rows[i].cells[at]);
        width = len > width ? len : width;
    }
    return width;
}

/* A line; nothing stands behind its last text. */
static void print_line(FILE *stream, const struct lq_column *columns, size_t n_columns,
                       const size_t *widths, const char *const *texts)
{
    int blanks = 0;
    for (size_t i = 0; i < n_columns; i++) {
        int pad = (int)(widths[i] - strlen(texts[i]));
        int before = columns[i].is_number ? pad : 0;
        if (texts[i][0] != '\0') {
            (void)fprintf(stream, "%*s%s", blanks + before, "", texts[i]);
            blanks = 0;
        } else {
            blanks += before;
        }
        blanks += pad - before + GAP;
    }
    (void)fputc('\n', stream);
}

void lq_columns_print(FILE *stream, const struct lq_column *columns, size_t n_columns,
                      const struct lq_row *rows, size_t n_rows)
{
    size_t widths[LQ_COLUMNS_MAX] = {0};
    const char *texts[LQ_COLUMNS_MAX] = {""};
    for (size_t i = 0; i < n_columns; i++) {
        widths[i] = width_of(&columns[i], i, rows, n_rows);
        texts[i] = columns[i].head;
    }
    print_line(stream, columns, n_columns, widths, texts);
    for (size_t row = 0; row < n_rows; row++) {
        for (size_t i = 0; i < n_columns; i++) {
            texts[i] = rows[row].cells[i];
        }
        if (is_noted(&rows[row])) {
            (void)fprintf(stream, "%-*s%*s%s\n", (int)widths[0], texts[0], GAP, "", rows[row].note);
        } else {
            print_line(stream, columns, n_columns, widths, texts);
        }
    }
}
