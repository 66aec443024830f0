/* main.c: `henry`: the table of commands, help, and the frame around a command: log, trace, exit status. */
#include "tool.h"

#include "base/compiler.h"
#include "base/log.h"
#include "base/trace.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const tool_command commands[] = {
    {"run", TOOL_USE_RUN, 1, 1, "MODEL [--input F.npy]... [options]", "run a model on arrays in .npy files",
     "MODEL is a .pt2 (compiled first, unless the cache has it) or a .hnb. Inputs come in the order of the model's\n"
     "signature. Exit status 1 when an --expect array differs.\n",
     tool_cmd_run},
    {"compile", TOOL_USE_COMPILE, 1, 1, "MODEL.pt2 -o OUT.hnb [options]", "compile a model into a bundle that runs without a compiler",
     "The bundle holds the weights, unless --weights-beside is given.\n", tool_cmd_compile},
    {"inspect", TOOL_USE_INSPECT, 1, 1, "MODEL|BUNDLE [options]", "show what is in a .pt2 or a .hnb", "", tool_cmd_inspect},
    {"bench", TOOL_USE_BENCH, 1, 16, "MODEL... [options]", "time runs; several models take turns",
     "Without --input the inputs are random: floats in [-1, 1), integers 0 and 1, sizes from the model's signature.\n", tool_cmd_bench},
    {"opt", TOOL_USE_OPT, 1, 1, "-p PASS [-p PASS]... IN.hnir", "run passes on a graph or loops in text form and print the result",
     "", tool_cmd_opt},
    {"cache", TOOL_USE_CACHE, 1, 64, "stats|verify|gc|clear|why|export|import [FILE]...", "look at the cache of compiled code, clean it, carry it elsewhere",
     "stats    what is stored, by kind\n"
     "verify   read and check every entry; bad ones go to quarantine\n"
     "gc       remove the least recently used entries until --max-bytes are left (default: 80 % of the bound)\n"
     "clear    remove everything\n"
     "why FILE which field of the key keeps FILE from being found: a model, with the options that `run` would get, or a kernel's\n"
     "         source, with --entry and --flag as it was compiled\n"
     "export MODEL|KEY... -o FILE  write what these programs need to one file: a model, with the options that `run` would get,\n"
     "         or the first 8 or more digits of a key\n"
     "import FILE  verify such a file and put its entries into this cache\n",
     tool_cmd_cache},
    {"kernel", TOOL_USE_KERNEL, 2, TOOL_LIST_MAX, "compile FILE... [-o OUT] [options]", "compile kernels' sources through the compile service",
     "The suffix tells the language: .c, .cc .cpp .cxx (c++), .cu (cuda); --language python and --language nvcc take .cc and .cu\n"
     "too. What comes out lies beside the source, in -o DIR, or in -o FILE: NAME.so, NAME.abi3.so for a Python module,\n"
     "NAME.sm_90.cubin and NAME.compute_90.ptx for GPUs. Options hold for every FILE.\n",
     tool_cmd_kernel},
    {"bundle", TOOL_USE_BUNDLE, 1, 2, "keygen -o NAME | sign BUNDLE --key KEY | verify BUNDLE [--trust PUB]...", "make keys, sign and verify bundles",
     "keygen   make NAME.key, which signs and which nobody else may read, and NAME.pub, which verifies\n"
     "sign     sign a bundle, and record the digest of its weights\n"
     "verify   compare every byte of a bundle and of its weights with the digests; with --trust also who signed it\n",
     tool_cmd_bundle},
    {"doctor", TOOL_USE_DOCTOR, 0, 0, "[options]", "check compiler, worker, CPU, cache, disk and limits, and say how to fix them",
     "", tool_cmd_doctor},
    {"version", TOOL_USE_VERSION, 0, 0, "", "print the version", "", tool_cmd_version},
};

/* How much of a message is shown. A hostile file may have names of megabytes; the end of a message tells how to go on. */
enum { SHOWN_HEAD = 6000, SHOWN_TAIL = 2000 };

int tool_report(hn_status status) {
    if (!status) return TOOL_OK;
    hn_str message = hn_str_of(hn_status_message(status));
    bool is_whole = message.len <= SHOWN_HEAD + SHOWN_TAIL;
    size_t head = is_whole ? message.len : hn_str_cut(message, SHOWN_HEAD), tail = is_whole ? message.len : hn_str_cut(message, message.len - SHOWN_TAIL);
    hn_strbuf line;
    hn_strbuf_init(&line);
    hn_strbuf_clean(&line, (hn_str){message.ptr, head}, true);
    if (!is_whole) {
        hn_strbuf_printf(&line, " [... %zu bytes ...] ", tail - head);
        hn_strbuf_clean(&line, (hn_str){message.ptr + tail, message.len - tail}, true);
    }
    fprintf(stderr, "henry: %s\n", line.ptr ? line.ptr : "out of memory");
    hn_strbuf_deinit(&line);
    hn_status_free(status);
    return TOOL_FAILED;
}

bool tool_is_terminal(void) {
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && !(kind && strcmp(kind, "dumb") == 0);
}

int tool_usage(const char *command, const char *fmt, ...) {
    va_list args;
    fprintf(stderr, "henry: %s: ", command);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "; see 'henry %s --help'\n", command);
    return TOOL_USAGE;
}

hn_status tool_print(const hn_strbuf *text) {
    HN_TRY(hn_strbuf_status(text));
    if (text->len && fwrite(text->ptr, 1, text->len, stdout) != text->len) return HN_ERROR(HN_IO, "cannot write to standard output");
    return fflush(stdout) == 0 ? NULL : HN_ERROR(HN_IO, "cannot write to standard output");
}

static void print_overview(FILE *to) {
    fputs("Henry compiles PyTorch models to native code and runs them without Python.\n\n"
          "usage: henry COMMAND [options]\n\n",
          to);
    for (size_t k = 0; k < HN_COUNT_OF(commands); k++) fprintf(to, "  %-8s %s\n", commands[k].name, commands[k].summary);
    fputs("\n'henry COMMAND --help' explains one command. Exit status: 0 ok, 1 failed, 2 wrong usage.\n"
          "Environment: HENRY_CACHE_DIR, HENRY_CACHE_TAG, HENRY_CACHE_CHECK, HENRY_REDIS_URL, HENRY_COMPILE_THREADS, HENRY_THREADS, HENRY_LOG,\n"
          "HENRY_CC, HENRY_CXX, HENRY_NVRTC, HENRY_NVCC, HENRY_WORKER, HENRY_WORKER_LOG, HENRY_SLOW_JOBS, HENRY_COMPILE_TIMES,\n"
          "HENRY_NAMESPACES, HENRY_CORES_FILE; docs/cli.md describes them.\n",
          to);
}

static int print_help(const tool_command *command) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "usage: henry %s%s%s\n\n%s.\n%s\n", command->name, *command->synopsis ? " " : "", command->synopsis,
                     command->summary, command->details);
    tool_options_print(command, &text);
    int code = tool_report(tool_print(&text));
    hn_strbuf_deinit(&text);
    return code;
}

static const tool_command *find_command(const char *name) {
    for (size_t k = 0; k < HN_COUNT_OF(commands); k++)
        if (strcmp(commands[k].name, name) == 0) return &commands[k];
    return NULL;
}

/* Messages of the library go to standard error. `levels`: of --log; NULL: HENRY_LOG tells. */
static int set_log(const tool_command *command, const char *levels) {
    hn_status status = hn_log_sink_set(hn_log_to_stderr, NULL);
    if (status) return tool_report(status);
    status = hn_log_levels_set(levels);
    if (!status) return TOOL_OK;
    int code = tool_usage(command->name, "%s%s", levels ? "--log: " : "", hn_status_message(status));
    hn_status_free(status);
    return code;
}

static int run_command(const tool_command *command, const tool_options *options) {
    if (options->args.count < command->args_min || options->args.count > command->args_max)
        return tool_usage(command->name, "expected: henry %s%s%s", command->name, *command->synopsis ? " " : "", command->synopsis);
    int code = set_log(command, options->log);
    if (code != TOOL_OK) return code;
    if (options->trace) hn_trace_start();
    code = command->run(options);
    if (options->trace) {
        int written = tool_report(hn_trace_write(options->trace));
        if (code == TOOL_OK) code = written;
    }
    return code;
}

int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the user's limit is an error of the write, with a message */
    const char *name = argc > 1 ? argv[1] : "";
    if (!*name) {
        print_overview(stderr);
        return TOOL_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        const tool_command *about = argc > 2 ? find_command(argv[2]) : NULL;
        if (about) return print_help(about);
        print_overview(stdout);
        return fflush(stdout) == 0 ? TOOL_OK : tool_report(HN_ERROR(HN_IO, "cannot write to standard output"));
    }
    const tool_command *command = find_command(strcmp(name, "--version") == 0 ? "version" : name);
    if (!command) {
        fprintf(stderr, "henry: unknown command '%s'; see 'henry --help'\n", name);
        return TOOL_USAGE;
    }
    tool_options options;
    int code = TOOL_USAGE;
    if (tool_options_parse(command, argc, argv, 2, &options)) code = options.help ? print_help(command) : run_command(command, &options);
    tool_options_deinit(&options);
    return code;
}
