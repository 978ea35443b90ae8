/* Faults that can be planted on purpose, to show that the checks of the simulator and the judge of
 * real runs (tests/jepsen) find them. They exist only in builds with LOQUET_PLANTED, which are for
 * tests alone; in all others LQ_PLANTED is 0. */
#ifndef LQ_PLANTED_H
#define LQ_PLANTED_H

enum lq_planted_fault {
    LQ_PLANT_NONE = 0,
    LQ_PLANT_COMMIT_ALONE = 1,     /* commits what only the leader has */
    LQ_PLANT_NO_DEDUPLICATION = 2, /* applies a command again that was applied */
    LQ_PLANT_EXPIRE_ANY_TOKEN = 3, /* Expire ends whatever grant holds the key */
    LQ_PLANT_EXPIRE_EARLY = 4,     /* Expire ends a lease that runs on */
    LQ_PLANT_TOKEN_AGAIN = 5,      /* gives a token a second time */
    LQ_PLANT_SNAPSHOT_FORGETS = 6, /* a snapshot leaves out a waiter */
    LQ_PLANT_REBASE = 7,           /* table time is based anew on each entry applied */
    LQ_PLANT_ANSWER_EARLY = 8,     /* answers before the commit */
    LQ_PLANT_VOTE_FORGOTTEN = 9,   /* the vote is not stored */
    LQ_PLANT_NEW_NUMBER = 10,      /* resends a command under a new number */
    LQ_PLANT_GRANT_CANCELLED = 11, /* a cancelled waiter stays in the queue */
    LQ_PLANT_BAD_CHECKSUM = 12,    /* an entry with a bad checksum is taken */
    LQ_PLANT_STALE_WRITE = 13,     /* a write is reported whose entries were replaced */
    LQ_PLANT_STALE_GRANT = 14,     /* a grant is delivered however old it is */
    LQ_PLANT_EARLY_MESSAGE = 15,   /* messages leave before term and vote are durable */
    LQ_PLANT_LAST = LQ_PLANT_EARLY_MESSAGE,
};

#ifdef LOQUET_PLANTED
extern int lq_planted; /* the one that is active */
#define LQ_PLANTED(fault) (lq_planted == (fault))
#else
#define LQ_PLANTED(fault) 0
#endif

#endif
