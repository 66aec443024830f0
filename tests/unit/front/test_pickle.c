/* The pickle machine on streams written here, opcode by opcode. */
#include "unit/harness.h"

#include "front/pt2/pickle.h"
#include "unit/front/pickle_writer.h"

/* f32 [2, 8] at offset 16 of storage 7 */
static void entry(stream *s, const char *key) { entry_of(s, key, "\x10\x02\x08\x08\x01"); }

static hn_status read_stream(hn_arena *arena, const stream *s, hn_pickle_tensors *out) {
    hn_arena_init(arena);
    *out = (hn_pickle_tensors){0};
    return hn_pickle_read(arena, (hn_str){s->bytes, s->len}, out);
}

static void expect_error(const stream *s, hn_code code, const char *message) {
    hn_arena arena;
    hn_pickle_tensors tensors;
    EXPECT_ERROR(read_stream(&arena, s, &tensors), code, message);
    hn_arena_deinit(&arena);
}

TEST(a_state_dict) {
    stream s = {.len = 0};
    hn_arena arena;
    hn_pickle_tensors got;
    OPS(&s, "\x80\x02}q\x00(");
    entry(&s, "a");
    OPS(&s, "q\x05");
    text(&s, "tied");
    OPS(&s, "h\x05");
    text(&s, "note");
    OPS(&s, "N");
    OPS(&s, "u.");
    EXPECT_OK(read_stream(&arena, &s, &got));
    EXPECT_INT(got.count, 2); /* the note is no tensor */
    EXPECT(hn_str_eq(got.items[1].name, HN_STR("tied")) &&
           hn_str_eq(got.items[1].storage, HN_STR("7")));
    EXPECT_INT(got.items[0].dtype, HN_DTYPE_F32);
    EXPECT_INT(got.items[0].offset_elems, 16);
    EXPECT_INT(got.items[0].rank, 2);
    EXPECT_INT(got.items[0].sizes[0] * 10 + got.items[0].sizes[1], 28);
    EXPECT_INT(got.items[0].strides[0] * 10 + got.items[0].strides[1], 81);
    hn_arena_deinit(&arena);
}

/* OrderedDict with SETITEM and BUILD, numbers of every width, v3 with a dtype that henry lacks. */
TEST(other_forms) {
    stream s = {.len = 0};
    hn_arena arena;
    hn_pickle_tensors got;
    OPS(&s, "\x80\x02");
    global(&s, "collections", "OrderedDict");
    OPS(&s, ")R");
    text(&s, "p");
    global(&s, "torch._utils", "_rebuild_parameter");
    global(&s, "torch._utils", "_rebuild_tensor_v3");
    OPS(&s, "(");
    storage(&s, "torch.storage", "UntypedStorage", "0");
    OPS(&s, "M\x01\x02J\xff\xff\xff\xff\x85\x8a\x02\x00\x80\x85\x89N");
    global(&s, "torch", "float8_e5m2");
    OPS(&s, "tR\x88N\x87Rs}b.");
    EXPECT_OK(read_stream(&arena, &s, &got));
    EXPECT_INT(got.count, 1);
    EXPECT_INT(got.items[0].dtype, HN_DTYPE_NONE);
    EXPECT_STR(got.items[0].dtype_name, "float8_e5m2");
    EXPECT_INT(got.items[0].offset_elems, 0x201);
    EXPECT_INT(got.items[0].sizes[0], -1); /* unchecked numbers: the caller's business */
    EXPECT_INT(got.items[0].strides[0], -32768);
    hn_arena_deinit(&arena);
}

TEST(foreign_names_and_opcodes) {
    stream s = {.len = 0}, t = {.len = 0}, p = {.len = 0};
    OPS(&s, "\x80\x02");
    global(&s, "os", "system");
    expect_error(&s, HN_UNSUPPORTED, "'os.system'");
    OPS(&t, "\x80\x02}\x81."); /* NEWOBJ */
    expect_error(&t, HN_UNSUPPORTED, "opcode 0x81");
    OPS(&p, "\x80\x04}.");
    expect_error(&p, HN_UNSUPPORTED, "protocol 4");
}

TEST(broken_streams) {
    static const struct {
        const char *bytes;
        size_t len;
    } streams[] = {
#define BYTES(literal) {literal, sizeof(literal) - 1}
        BYTES(""),
        BYTES("}"),
        BYTES("."),
        BYTES("(."),
        BYTES("h\x01."),
        BYTES("q\x01."),
        BYTES("t."),
        BYTES("(K"),
        BYTES("X\xff\xff\xff\xff"
              "a."),
        BYTES("}(K\x01u."),
        BYTES("}K\x01s."),
        BYTES("K\x01K\x02K\x03s."),
        BYTES("u."),
        BYTES("R."),
        BYTES(")R."),
        BYTES("K\x01)R."),
        BYTES("Q."),
        BYTES(")Q."),
        BYTES("\x86."),
        BYTES("(\x85."),
        BYTES("b."),
        BYTES("ctorch\n"),
        BYTES("\x8a\x09"
              "aaaaaaaaa."),
        BYTES("ctorch\nFloatStorage\n)R."),
        BYTES("ctorch._utils\n_rebuild_tensor_v2\n)R."),
        BYTES("ctorch._utils\n_rebuild_parameter\n)R.")};
    for (size_t k = 0; k < sizeof streams / sizeof *streams; k++) {
        stream s = {.len = 0};
        hn_arena arena;
        hn_pickle_tensors tensors;
        raw(&s, streams[k].bytes, streams[k].len);
        hn_status status = read_stream(&arena, &s, &tensors);
        if (hn_status_code(status) != HN_CORRUPT)
            HN_TEST_FAIL("stream %zu: %s", k, hn_status_message(status));
        hn_status_free(status);
        hn_arena_deinit(&arena);
    }
    stream number = {.len = 0}, keys = {.len = 0};
    OPS(&number, "K\x01.");
    expect_error(&number, HN_UNSUPPORTED, "no dict of tensors");
    OPS(&keys, "}(K\x01K\x02u.");
    expect_error(&keys, HN_UNSUPPORTED, "no strings");
}

TEST_MAIN
