/* Checks of our own invariants. They stay on in release builds: a lock server that runs on after a
 * broken invariant may lie, one that stops is merely down. Outside input is never asserted, it is
 * handled. */
#ifndef LQ_CHECK_H
#define LQ_CHECK_H

/* Aborts with the place and text of `condition` on standard error when it is false. Evaluated
 * exactly once. */
#define LQ_CHECK(condition)                                                                        \
    (__builtin_expect(!(condition), 0) ? lq_check_failed(__FILE__, __LINE__, #condition) : (void)0)

/* For a place that is never reached: aborts with `text`. */
#define LQ_BUG(text) lq_check_failed(__FILE__, __LINE__, text)

/* Prints "file:line: check failed: text" and aborts. Called by LQ_CHECK and LQ_BUG alone. */
__attribute__((noreturn, cold)) void lq_check_failed(const char *file, int line, const char *text);

#endif
