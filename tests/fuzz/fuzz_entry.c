/* Log entries from arbitrary bytes: nothing is read beyond the end, whatever is accepted is well
 * formed, and writing it again gives the same commands. */
#include "lq_check.h"
#include "lq_entry.h"
#include "lq_key.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_command(const struct lq_command *command)
{
    struct lq_buffer out;
    struct lq_commands commands;
    struct lq_command again;
    bool is_origins = lq_command_is_from_origin(command->type);
    LQ_CHECK(command->key_len == 0 || lq_key_is_valid(command->key, command->key_len));
    lq_buffer_init(&out);
    lq_segment_add(&out,
                   is_origins
                       ? lq_segment_begin(&out, LQ_SEGMENT_ORIGIN, command->origin, command->seq)
                       : lq_segment_begin(&out, LQ_SEGMENT_LEADER, (struct lq_origin_id){0}, 0),
                   command);
    LQ_CHECK(lq_segment_open(&commands, out.bytes, out.len));
    LQ_CHECK(lq_commands_next(&commands, &again) == LQ_COMMANDS_ONE);
    LQ_CHECK(again.type == command->type && again.seq == command->seq &&
             again.key_len == command->key_len && again.token == command->token &&
             again.owner == command->owner && again.target == command->target &&
             again.wait_s == command->wait_s && again.lease_s == command->lease_s);
    LQ_CHECK(lq_commands_next(&commands, &again) == LQ_COMMANDS_END);
    lq_buffer_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct lq_commands commands;
    struct lq_command command;
    if (!lq_entry_open(&commands, bytes, len)) {
        return 0;
    }
    while (lq_commands_next(&commands, &command) == LQ_COMMANDS_ONE) {
        check_command(&command);
    }
    return 0;
}
