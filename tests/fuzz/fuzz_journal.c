/* Hostile bytes through the scan of the journal, in three ways that the first byte chooses:
 *
 *   RAW     the rest is taken for segment files as it is.
 *   FORGED  fields of a header and records of batches, around which everything else is made right,
 *           so that the bytes behind the checksums are reached. What the scan accepts can be gone
 * on with: the journal resumes, writes, and is clean again. DAMAGED a script of records that a
 * journal writes, then a few changes to its files. Unless the scan refuses, it gives exactly the
 * records of the batches up to where it ends. */
#include "lq_check.h"
#include "lq_journal_impl.h"
#include "lq_mem.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define SEGMENT     LQ_JOURNAL_SEGMENT_MIN
#define FILES_MAX   6
#define RECORDS_MAX 512

/* Fewer than the bytes of a checksum and one more, so that none can be made to fit. */
#define CHANGES_MAX 6

enum way { RAW, FORGED, DAMAGED, WAYS };

struct files {
    uint8_t *bytes[FILES_MAX];
    size_t lens[FILES_MAX];
    uint64_t names[FILES_MAX];
    size_t n;
};

/* A record in 64 bits, and the batch it went into or came from. */
struct print {
    uint64_t print, seq, segment;
};

struct prints {
    struct print items[RECORDS_MAX];
    size_t n;
};

static void copy(uint8_t *to, const uint8_t *from, size_t len)
{
    if (len > 0) { /* else `from` may be NULL */
        memcpy(to, from, len);
    }
}

static uint8_t *add_file(struct files *files, uint64_t name, size_t len)
{
    uint8_t *bytes = lq_calloc(len, 1);
    LQ_CHECK(files->n < FILES_MAX);
    files->bytes[files->n] = bytes;
    files->lens[files->n] = len;
    files->names[files->n++] = name;
    return bytes;
}

static void remove_file(struct files *files, size_t at)
{
    lq_free(files->bytes[at]);
    files->n--;
    for (; at < files->n; at++) {
        files->bytes[at] = files->bytes[at + 1];
        files->lens[at] = files->lens[at + 1];
        files->names[at] = files->names[at + 1];
    }
}

static void free_files(struct files *files)
{
    while (files->n > 0) {
        remove_file(files, files->n - 1);
    }
}

/* ---- Reading. */

static void add_print(struct prints *prints, const struct lq_journal_record *record)
{
    if (prints->n < RECORDS_MAX) {
        prints->items[prints->n++] = (struct print){
            .print = lq_journal_entry_check(
                record->index ^ record->vote << 20, record->term ^ record->boot << 20,
                (uint8_t)(record->kind << 4 | record->type), record->bytes, record->len)};
    }
}

static void take_record(void *context, const struct lq_journal_record *record,
                        const struct lq_journal_state *state)
{
    LQ_CHECK(lq_journal_tail_is_sound(&state->tail));
    LQ_CHECK(state->first_index <= state->tail.last.index + 1);
    LQ_CHECK(record->kind != LQ_JOURNAL_ENTRY || record->index == state->tail.last.index);
    add_print(context, record);
}

static enum lq_journal_verdict scan_files(struct lq_journal_scan *scan, const struct files *files,
                                          struct prints *prints)
{
    struct lq_journal_finding finding = {0};
    enum lq_journal_verdict verdict;
    prints->n = 0;
    lq_journal_scan_init(scan, 0, 0, take_record, prints);
    for (size_t i = 0; i < files->n; i++) {
        if (!lq_journal_scan_segment(scan, files->names[i], files->bytes[i], files->lens[i])) {
            break;
        }
    }
    verdict = lq_journal_scan_end(scan, &finding);
    LQ_CHECK((verdict == LQ_JOURNAL_CORRUPT) == (finding.fault != LQ_JOURNAL_OK));
    return verdict;
}

/* ---- Writing. */

static uint8_t *newest(const struct files *files)
{
    uint8_t *bytes = files->n == 0 ? NULL : files->bytes[files->n - 1];
    LQ_CHECK(bytes != NULL);
    return bytes;
}

static void begin_segment(struct lq_journal *journal, struct files *files)
{
    struct lq_journal_write header, seal;
    lq_journal_begin_segment(journal, journal->segment.salt * 3 + 77, &header, &seal);
    if (seal.len > 0) {
        memcpy(newest(files) + seal.offset, seal.bytes, seal.len);
    }
    memcpy(add_file(files, header.number, (size_t)journal->segment_bytes), header.bytes,
           header.len);
}

/* Writes the batch, if there is one, to the newest file or one more; false when all are full. */
static bool flush(struct lq_journal *journal, struct files *files)
{
    struct lq_journal_write write;
    if (lq_journal_is_empty(journal)) {
        return true;
    }
    if (!lq_journal_finish(journal, &write)) {
        if (files->n == FILES_MAX) {
            return false;
        }
        begin_segment(journal, files);
        LQ_CHECK(lq_journal_finish(journal, &write));
    }
    LQ_CHECK(write.number == files->names[files->n - 1]);
    memcpy(newest(files) + write.offset, write.bytes, write.len);
    lq_journal_durable(journal);
    return true;
}

/* Whatever the scan accepts can be gone on with. */
static void go_on(struct lq_journal_scan *scan, struct files *files, struct prints *prints)
{
    struct lq_journal_record term = {.kind = LQ_JOURNAL_TERM, .term = scan->state.tail.term + 1};
    uint64_t records = prints->n;
    struct lq_journal journal;
    lq_journal_resume(&journal, scan, SEGMENT);
    lq_journal_scan_done(scan);
    if (term.term <= LQ_JOURNAL_NUMBER_MAX && journal.segment.number < LQ_JOURNAL_NUMBER_MAX &&
        journal.segment.seq < LQ_JOURNAL_NUMBER_MAX && files->n < FILES_MAX) {
        LQ_CHECK(lq_journal_put(&journal, &term));
        LQ_CHECK(flush(&journal, files));
        LQ_CHECK(scan_files(scan, files, prints) == LQ_JOURNAL_CLEAN);
        LQ_CHECK(prints->n == RECORDS_MAX || prints->n == records + 1);
        lq_journal_scan_done(scan);
    }
    lq_journal_done(&journal);
}

static void scan_and_go_on(struct files *files)
{
    static struct prints prints;
    struct lq_journal_scan scan;
    enum lq_journal_verdict verdict = scan_files(&scan, files, &prints);
    if (verdict == LQ_JOURNAL_CLEAN || verdict == LQ_JOURNAL_TORN) {
        go_on(&scan, files, &prints);
    } else {
        lq_journal_scan_done(&scan);
    }
}

/* ---- RAW. */

static void try_raw(struct lq_reader *input, struct files *files)
{
    size_t n = 1 + lq_read_u8(input) % 3;
    for (size_t i = 0; i < n; i++) {
        size_t len = i + 1 < n ? input->left / 2 : input->left;
        uint8_t *bytes = add_file(files, i + 1, len);
        copy(bytes, lq_read_bytes(input, len), len);
    }
    scan_and_go_on(files);
}

/* ---- FORGED. */

static void forge_header(struct lq_reader *input, uint8_t *file)
{
    struct lq_journal_header header = {.segment_bytes = SEGMENT, .number = 1, .salt = 5};
    header.tail.term = lq_read_u8(input);
    if (header.tail.term >= 128) { /* not the first segment */
        header.number = 2;
        header.prev_salt = 9;
        header.prev_end = lq_read_u16(input);
        header.prev_seq = lq_read_u8(input);
        header.tail.vote = lq_read_u8(input);
        header.tail.boot = lq_read_u8(input);
        header.tail.mark.index = lq_read_u8(input);
        header.tail.mark.term = lq_read_u8(input);
        header.tail.last.index = lq_read_u8(input);
        header.tail.last.term = lq_read_u8(input);
    }
    lq_journal_header_write(&header, file);
}

/* A record whose check is right, if it is an entry; else the bytes as they are. */
static size_t forge_record(struct lq_reader *input, uint8_t *ret_bytes, size_t room)
{
    struct lq_journal_record record = {.kind = lq_read_u8(input) % 7};
    size_t len = input->left < room ? input->left : room;
    if (room < LQ_RECORD_HEAD) {
        return 0;
    }
    if (record.kind < LQ_JOURNAL_ENTRY || record.kind > LQ_JOURNAL_RESTART) {
        len = len < 40 ? len : 40;
        copy(ret_bytes, lq_read_bytes(input, len), len);
        return len;
    }
    record.index = lq_read_u8(input);
    record.term = lq_read_u8(input);
    record.vote = lq_read_u8(input);
    record.boot = lq_read_u8(input);
    if (record.kind == LQ_JOURNAL_ENTRY) {
        len = record.vote < input->left ? record.vote : input->left;
        len = len < room - LQ_RECORD_HEAD ? len : room - LQ_RECORD_HEAD;
        record.bytes = lq_read_bytes(input, len);
        record.len = (uint32_t)len;
        record.check = lq_journal_entry_check(record.index, record.term, 0, record.bytes, len);
    }
    len = lq_journal_record_write(&record, ret_bytes);
    copy(ret_bytes + len, record.bytes, record.len);
    return len + record.len;
}

static void try_forged(struct lq_reader *input, struct files *files)
{
    uint8_t *file = add_file(files, 1, SEGMENT), *at = file + LQ_SECTOR;
    struct lq_journal_header header = {0};
    forge_header(input, file);
    if (lq_journal_header_read(file, &header) == LQ_JOURNAL_OK) {
        files->names[0] = header.number;
    }
    for (uint64_t seq = header.prev_seq + 1; input->left > 0 && at < file + SEGMENT - LQ_SECTOR;
         seq++) {
        size_t used = 0, room = LQ_SECTOR_BODY - LQ_BATCH_HEAD;
        for (size_t n = lq_read_u8(input) % 8; n > 0; n--) {
            used += forge_record(input, at + LQ_BATCH_HEAD + used, room - used);
        }
        lq_batch_complete(at, used, header.salt, seq);
        at += LQ_SECTOR;
    }
    scan_and_go_on(files);
}

/* ---- DAMAGED. */

static struct lq_journal_record read_record(struct lq_reader *input, uint8_t op,
                                            const struct lq_journal_tail *tail)
{
    struct lq_journal_record record = {.kind = LQ_JOURNAL_TERM, .term = tail->term + 1};
    uint64_t behind_mark = tail->last.index - tail->mark.index;
    if (op % 8 == 1 && tail->term > 0) {
        return (struct lq_journal_record){.kind = LQ_JOURNAL_BOOT, .boot = tail->boot + 1};
    }
    if (op % 8 == 2 && tail->term > 0) {
        return (struct lq_journal_record){
            .kind = LQ_JOURNAL_RESTART, .index = tail->last.index + 1, .term = tail->term};
    }
    if (op % 8 == 3 && tail->last.index > 0) {
        return (struct lq_journal_record){
            .kind = LQ_JOURNAL_MARK, .index = tail->last.index, .term = tail->last.term};
    }
    if (op % 8 >= 4 && tail->term > 0) {
        uint8_t len = lq_read_u8(input);
        record.kind = LQ_JOURNAL_ENTRY;
        record.index = tail->last.index + 1 - (op % 8 == 4 ? op / 8 % (behind_mark + 1) : 0);
        record.term = tail->term;
        record.bytes = len <= input->left ? lq_read_bytes(input, len) : NULL;
        record.len = record.bytes == NULL ? 0 : len;
        record.check =
            lq_journal_entry_check(record.index, record.term, 0, record.bytes, record.len);
        return record;
    }
    record.vote = op / 8;
    return record;
}

static void write_script(struct lq_reader *input, struct lq_journal *journal, struct files *files,
                         struct prints *written)
{
    size_t done = 0;
    bool has_room = true;
    for (uint8_t op = lq_read_u8(input);
         op != 0xFF && input->left > 0 && has_room && written->n < RECORDS_MAX / 2;
         op = lq_read_u8(input)) {
        struct lq_journal_record record = read_record(input, op, &journal->state.tail);
        bool is_put = lq_journal_put(journal, &record);
        if (is_put) {
            add_print(written, &record);
        }
        if (!is_put || op >= 0xC0) {
            has_room = flush(journal, files);
            for (; has_room && done < written->n; done++) {
                written->items[done].seq = journal->segment.seq;
                written->items[done].segment = journal->segment.number;
            }
        }
    }
    written->n = done;
}

static void change_files(struct lq_reader *input, struct files *files)
{
    for (size_t n = 0; n < CHANGES_MAX && input->left > 0 && files->n > 0; n++) {
        uint8_t what = lq_read_u8(input);
        size_t i = lq_read_u8(input) % files->n, j = what / 8 % files->n;
        size_t at = lq_read_u16(input) % SEGMENT, sector = at / LQ_SECTOR * LQ_SECTOR;
        size_t from = lq_read_u8(input) % (SEGMENT / LQ_SECTOR) * LQ_SECTOR;
        if (what % 8 == 0) {
            remove_file(files, i);
        } else if (what % 8 == 1) {
            memset(files->bytes[i] + sector, 0, LQ_SECTOR);
        } else if (what % 8 == 2) {
            memmove(files->bytes[i] + sector, files->bytes[j] + from, LQ_SECTOR);
        } else if (what % 8 == 3) {
            memmove(files->bytes[i], files->bytes[j], SEGMENT);
        } else {
            files->bytes[i][at] ^= what;
        }
    }
}

/* What was read are the records of the batches from the oldest file up to where the scan ended. */
static void check_read(const struct prints *read, const struct prints *written, uint64_t oldest,
                       uint64_t seq)
{
    size_t at = 0, n = 0;
    while (at < written->n && written->items[at].segment < oldest) {
        at++;
    }
    for (; at < written->n && written->items[at].seq <= seq; at++, n++) {
        LQ_CHECK(n < read->n && read->items[n].print == written->items[at].print);
    }
    LQ_CHECK(n == read->n);
}

static void try_damaged(struct lq_reader *input, struct files *files)
{
    static struct prints written, read;
    struct lq_journal journal;
    struct lq_journal_scan scan;
    enum lq_journal_verdict verdict;
    written.n = 0;
    lq_journal_init(&journal, 1, 2, SEGMENT);
    begin_segment(&journal, files);
    write_script(input, &journal, files, &written);
    lq_journal_done(&journal);
    verdict = scan_files(&scan, files, &read);
    LQ_CHECK(verdict == LQ_JOURNAL_CLEAN);
    check_read(&read, &written, 1, scan.seq);
    LQ_CHECK(read.n == written.n);
    lq_journal_scan_done(&scan);
    change_files(input, files);
    verdict = scan_files(&scan, files, &read);
    if (verdict == LQ_JOURNAL_CLEAN || verdict == LQ_JOURNAL_TORN) {
        check_read(&read, &written, files->names[0], scan.seq);
        go_on(&scan, files, &read);
    } else {
        lq_journal_scan_done(&scan);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct lq_reader input = lq_reader_of(bytes, len);
    struct files files = {0};
    switch ((enum way)(lq_read_u8(&input) % WAYS)) {
    case RAW:
        try_raw(&input, &files);
        break;
    case FORGED:
        try_forged(&input, &files);
        break;
    case DAMAGED:
    case WAYS:
        try_damaged(&input, &files);
        break;
    }
    free_files(&files);
    return 0;
}
