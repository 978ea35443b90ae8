/* The one table of texts for what can be wrong with a journal. */
#include "lq_journal.h"

const char *lq_journal_fault_text(enum lq_journal_fault fault)
{
    switch (fault) {
    case LQ_JOURNAL_OK:
        return "no fault";
    case LQ_JOURNAL_SEGMENT_MISSING:
        return "this segment is missing, yet there are older and newer ones";
    case LQ_JOURNAL_NEWEST_MISSING:
        return "this segment is missing, yet the one before was sealed because it existed";
    case LQ_JOURNAL_OLDEST_MISSING:
        return "the log begins behind the end of the newest snapshot: older segments are missing";
    case LQ_JOURNAL_SIZE:
        return "the file does not have the size that it was made with";
    case LQ_JOURNAL_HEADER:
        return "the segment's header is damaged";
    case LQ_JOURNAL_VERSION:
        return "the segment has a format that this version does not know";
    case LQ_JOURNAL_OTHER_CLUSTER:
        return "the segment belongs to another cluster (or to this one before a forced recovery)";
    case LQ_JOURNAL_OTHER_NODE:
        return "the segment belongs to another node";
    case LQ_JOURNAL_OTHER_SEGMENT:
        return "the file holds another segment than its name says";
    case LQ_JOURNAL_CHAIN:
        return "the segment does not continue the one before it: one of them is stale";
    case LQ_JOURNAL_SEAL:
        return "the seal at the segment's end is damaged or contradicts the segment";
    case LQ_JOURNAL_SEAL_MISSING:
        return "the segment has no seal, yet its successor was written to";
    case LQ_JOURNAL_BATCH_HEAD:
        return "the head of a batch is damaged";
    case LQ_JOURNAL_BATCH_SEQ:
        return "a batch has another sequence number than the next one";
    case LQ_JOURNAL_BATCH_LENGTH:
        return "a batch has a length that cannot be";
    case LQ_JOURNAL_BATCH_CHECKSUM:
        return "a batch was written whole, but its checksum is wrong";
    case LQ_JOURNAL_STAMP:
        return "a sector does not carry the stamp of its batch";
    case LQ_JOURNAL_STRAY:
        return "there are bytes where nothing can have been written";
    case LQ_JOURNAL_BATCH_LOST:
        return "a batch that was durable is missing or damaged from here on";
    case LQ_JOURNAL_RECORD:
        return "a batch holds a record that is none";
    case LQ_JOURNAL_ENTRY_CHECK:
        return "a log entry does not have the checksum that its leader gave it";
    case LQ_JOURNAL_ENTRY_GAP:
        return "a log entry's index leaves a gap";
    case LQ_JOURNAL_ENTRY_COVERED:
        return "a log entry replaces one that a snapshot covers";
    case LQ_JOURNAL_ENTRY_TERM:
        return "a log entry's term is below that of the entry before, or above the current one";
    case LQ_JOURNAL_TERM_BACK:
        return "the term went back";
    case LQ_JOURNAL_VOTE_CHANGED:
        return "a second vote was given in one term";
    case LQ_JOURNAL_BOOT_BACK:
        return "the boot counter did not grow";
    case LQ_JOURNAL_MARK_BACK:
        return "a snapshot mark went back, or its term does not fit";
    case LQ_JOURNAL_MARK_ALONE:
        return "a snapshot mark's entry is not in the log";
    }
    return "a fault unknown to this version";
}
