/* Whole streams of frames, drawn by the seed: any split gives the same frames, and valid, damaged
 * or cut streams have the properties that lq_props.h lists. LQ_SEEDS is the number of rounds. */
#include "lq_props.h"

#include <string.h>

static const struct lq_direction *const directions[] = {&lq_requests, &lq_answers};
#define N_DIRECTIONS 2

#define FRAMES 40

struct stream {
    struct lq_frame frames[FRAMES];
    uint8_t keys[FRAMES][LQ_KEY_MAX];
    uint8_t bytes[FRAMES * LQ_FRAME_MAX];
    size_t len;
};

static void draw_stream(struct stream *stream, const struct lq_direction *direction,
                        struct lq_rand *rand)
{
    stream->len = 0;
    for (int i = 0; i < FRAMES; i++) {
        stream->frames[i] = lq_props_draw(direction, rand, stream->keys[i]);
        stream->len +=
            direction->encode(&stream->frames[i], stream->bytes + stream->len, LQ_FRAME_MAX);
    }
}

/* Feeds a stream in pieces of at most `piece_max` bytes, as a connection would, and checks that the
 * same frames come out. */
static void feed(const struct lq_direction *direction, const struct stream *stream,
                 struct lq_rand *rand, size_t piece_max)
{
    size_t begin = 0, end = 0;
    int n = 0;

    while (end < stream->len) {
        size_t piece = 1 + lq_rand_below(rand, piece_max);
        struct lq_frame frame;
        size_t used;

        end += piece < stream->len - end ? piece : stream->len - end;
        while (direction->decode(stream->bytes + begin, end - begin, &frame, &used) ==
               LQ_DECODED_FRAME) {
            ck_assert_int_lt(n, FRAMES);
            ck_assert(lq_props_equal(&frame, &stream->frames[n]));
            begin += used;
            n++;
        }
        ck_assert_uint_lt(end - begin, LQ_FRAME_MAX);
    }
    ck_assert_int_eq(n, FRAMES);
    ck_assert_uint_eq(begin, stream->len);
}

START_TEST(any_split_gives_the_same_frames)
{
    static struct stream stream;
    static const size_t piece_max[] = {1, 2, 7, 64, 1500, sizeof stream.bytes};
    struct lq_rand rand = lq_rand_of(lq_test_seed(), 1);
    uint64_t rounds = lq_test_number("LQ_SEEDS", 20);

    for (uint64_t round = 0; round < rounds; round++) {
        const struct lq_direction *direction = directions[round % N_DIRECTIONS];
        draw_stream(&stream, direction, &rand);
        for (size_t i = 0; i < sizeof piece_max / sizeof *piece_max; i++) {
            feed(direction, &stream, &rand, piece_max[i]);
        }
    }
}
END_TEST

START_TEST(drawn_frames_have_all_properties)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), 2);
    uint64_t rounds = lq_test_number("LQ_SEEDS", 20) * 5;

    for (uint64_t round = 0; round < rounds; round++) {
        const struct lq_direction *direction = directions[round % N_DIRECTIONS];
        uint8_t key[LQ_KEY_MAX], bytes[LQ_FRAME_MAX];
        struct lq_frame frame = lq_props_draw(direction, &rand, key);
        size_t len = direction->encode(&frame, bytes, sizeof bytes);
        const char *fault = lq_props_fault(direction, bytes, len);

        ck_assert_uint_gt(len, 0);
        ck_assert_msg(fault == NULL, "%s %c: %s", direction->name, frame.op, fault);
    }
}
END_TEST

/* Valid frames with a few bytes changed, cut or doubled. */
START_TEST(damaged_streams_have_all_properties)
{
    struct lq_rand rand = lq_rand_of(lq_test_seed(), 3);
    uint64_t rounds = lq_test_number("LQ_SEEDS", 20) * 10;

    for (uint64_t round = 0; round < rounds; round++) {
        const struct lq_direction *direction = directions[round % N_DIRECTIONS];
        uint8_t key[LQ_KEY_MAX], bytes[2 * LQ_FRAME_MAX];
        struct lq_frame frame = lq_props_draw(direction, &rand, key);
        size_t len = direction->encode(&frame, bytes, LQ_FRAME_MAX);
        const char *fault;

        memcpy(bytes + len, bytes, len);
        len = 1 + lq_rand_below(&rand, 2 * len);
        for (int i = 0; i < 3; i++) {
            bytes[lq_rand_below(&rand, len < 24 ? len : 24)] = (uint8_t)lq_rand_next(&rand);
        }
        fault = lq_props_fault(direction, bytes, len);
        ck_assert_msg(fault == NULL, "%s: %s", direction->name, fault);
    }
}
END_TEST

static Suite *frame_stream_suite(void)
{
    Suite *suite = suite_create("frame_stream");
    TCase *streams = tcase_create("streams");

    tcase_set_timeout(streams, 100);
    tcase_add_test(streams, any_split_gives_the_same_frames);
    tcase_add_test(streams, drawn_frames_have_all_properties);
    tcase_add_test(streams, damaged_streams_have_all_properties);
    suite_add_tcase(suite, streams);
    return suite;
}

int main(void)
{
    (void)lq_test_seed();
    return lq_test_run(frame_stream_suite());
}
