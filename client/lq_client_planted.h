/* Faults that can be planted in the client's core, to show that its random test finds them
 * (tests/unit/test_client_random.c; mechanism: lq_planted.h). At least one for each duty. */
#ifndef LQ_CLIENT_PLANTED_H
#define LQ_CLIENT_PLANTED_H

#include "lq_planted.h"

enum lq_client_planted_fault {
    LQ_PLANT_CLIENT_FRESH_DEADLINE = 101, /* duty 1: a retry has all of its time again */
    LQ_PLANT_CLIENT_FRESH_OWNER = 102,    /* duty 1: a retry has another owner */
    LQ_PLANT_CLIENT_FRESH_WAIT = 103,     /* duty 2: the wire wait is that of the caller */
    LQ_PLANT_CLIENT_ROUND_DOWN = 104,     /* duty 2: the wire wait is rounded down */
    LQ_PLANT_CLIENT_SEND_LATE = 105,      /* duty 3: sent although its deadline is over */
    LQ_PLANT_CLIENT_WHOLE_FRAMES = 106,   /* duty 3: half a frame counts as not sent */
    LQ_PLANT_CLIENT_NO_CANCEL = 107,      /* duty 3: no C at the deadline */
    LQ_PLANT_CLIENT_NO_CLOSE = 108,       /* duty 3: the session stays open after the margin */
    LQ_PLANT_CLIENT_SURE_TIMEOUT = 109,   /* duty 3: no answer is taken for a timeout */
    LQ_PLANT_CLIENT_RESEND = 110,         /* duty 4: an acquire is sent again */
    LQ_PLANT_CLIENT_NO_GATE = 111,        /* duty 5: a late grant is handed over */
    LQ_PLANT_CLIENT_NO_CHORE = 112,       /* duties 3, 5: a late grant is not given back */
    LQ_PLANT_CLIENT_DOUBT_ALL = 113,      /* duty 6: T and B after the deadline are not believed */
    LQ_PLANT_CLIENT_WAIT_ONE = 114,       /* duty 7: wait 0 waits a second at the server */
    LQ_PLANT_CLIENT_ZERO_FOREVER = 115,   /* duty 7: wait 0 has no transport deadline */
    LQ_PLANT_CLIENT_ANY_OWNER = 116,      /* an answer is matched by its key alone */
    LQ_PLANT_CLIENT_LEASE_FROM_ANSWER = 117, /* the lease counts from the answer */
    LQ_PLANT_CLIENT_ONE_CHANNEL = 118,       /* all acquires that wait share one connection */
};

#endif
