/* An assertion for loops of millions: Check's own ones tell the parent process each time they pass,
 * this one only when it fails. */
#ifndef LQ_HOT_ASSERT_H
#define LQ_HOT_ASSERT_H

#include <check.h>

#define LQ_HOT_ASSERT(condition)                                                                   \
    (__builtin_expect(!(condition), 0) ? ck_abort_msg("not so: %s", #condition) : (void)0)

#endif
