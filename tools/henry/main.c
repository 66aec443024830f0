/* main.c: `henry`: the table of commands, help, and the frame around a command: log, trace, exit
 * status. */
#include "tool.h"

#include "base/compiler.h"
#include "base/file.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/trace.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const tool_command commands[] = {
    {"run", TOOL_USE_RUN, 1, 1, "MODEL [--input F.npy]... [options]",
     "run a model on arrays in .npy files",
     "MODEL is a .pt2 or a .hnir, which is compiled first unless the cache has it, or a .hnb. Give the inputs in the order of the model's\n"
     "signature. The exit status is 1 when an --expect array or a --compare node differs.\n",
     tool_cmd_run},
    {"compile", TOOL_USE_COMPILE, 1, 1, "MODEL.pt2 -o OUT.hnb [options]",
     "compile a model into a bundle that runs without a compiler",
     "The bundle contains the weights unless --weights says otherwise.\n", tool_cmd_compile},
    {"inspect", TOOL_USE_INSPECT, 1, 1, "MODEL|BUNDLE [options]",
     "show what is in a .pt2 or a .hnb", "", tool_cmd_inspect},
    {"bench", TOOL_USE_BENCH, 0, 16, "MODEL... [options]",
     "measure the time of runs; several models take turns",
     "Without --input the inputs are random: floats in [-1, 1), integers 0 or 1, sizes from the model's signature. With --roofline\n"
     "and no model it shows what the machine can do at most.\n",
     tool_cmd_bench},
    {"accuracy", TOOL_USE_ACCURACY, 1, 1, "MODEL.pt2 [--input F.npy]... [options]",
     "run a model beside its reference and show the errors of each kernel, the worst first",
     "Each kernel and operation gets the operands of the real run, and so does its reference, whose sums are rounded once: a row\n"
     "tells what that step does wrong, not what it was given. Rows are sorted by the largest difference in units of the last place\n"
     "of the largest value. Without --input the inputs are random: floats in [-1, 1), integers 0 or 1, sizes from the model's\n"
     "signature or --size.\n",
     tool_cmd_accuracy},
    {"opt", TOOL_USE_OPT, 1, 1, "-p PASS [-p PASS]... IN.hnir",
     "run passes on a graph or on loops in text form and print the result", "", tool_cmd_opt},
    {"cache", TOOL_USE_CACHE, 1, 64, "stats|verify|gc|clear|why|export|import [FILE]...",
     "look into the cache of compiled code, clean it, copy from it",
     "stats    what is stored, by kind\n"
     "verify   read and check every entry; bad ones go to quarantine\n"
     "gc       remove the least recently used entries until --max-bytes are left (default: 80 % of the limit)\n"
     "clear    remove everything\n"
     "why FILE which fields of the key keep FILE from being found. FILE is a model, with the options of 'run', or the source of a\n"
     "         kernel, with the --entry and --flag that it was compiled with\n"
     "export MODEL|KEY... -o FILE  write what these programs need to one file: a model, with the options of 'run',\n"
     "         or the first 8 or more digits of a key\n"
     "import FILE  verify such a file and add its entries to this cache\n",
     tool_cmd_cache},
    {"kernel", TOOL_USE_KERNEL, 2, TOOL_LIST_MAX, "compile FILE... [-o OUT] [options]",
     "compile kernels from source through the compile service",
     "The suffix decides the language: .c, .cc .cpp .cxx (c++), .cu (cuda), .cl (opencl); --language python and --language\n"
     "nvcc also take .cc and .cu. The result goes beside the source, to -o DIR, or to -o FILE: NAME.so, NAME.abi3.so for a Python\n"
     "module, NAME.sm_90.cubin and NAME.compute_90.ptx for CUDA, NAME.clo for OpenCL. The options apply to every FILE.\n",
     tool_cmd_kernel},
    {"bundle", TOOL_USE_BUNDLE, 1, 2,
     "keygen -o NAME | sign BUNDLE --key KEY | verify BUNDLE [--trust PUB]...",
     "make keys, sign and verify bundles",
     "keygen   make NAME.key, which signs and which only you may read, and NAME.pub, which verifies\n"
     "sign     verify a bundle, record the digest of its weights, and sign it\n"
     "verify   compare every byte of a bundle and of its weights with the digests; with --trust also check who signed it\n",
     tool_cmd_bundle},
    {"bisect", TOOL_USE_BISECT, 1, 1, "MODEL.pt2 [--input F.npy]... [--expect F.npy]... [options]",
     "find the kernel, fusion, pass or rewrite that makes a model's results wrong",
     "The results are compared with the --expect arrays, which come from PyTorch, or else with those of the reference\n"
     "interpreter on the imported graph. The graph behind each pass is run by the interpreter, each step of a run is compared\n"
     "with its reference, and rewrites and fusions are left out by halves until the first wrong one is found. The exit status\n"
     "is 1 when something is wrong.\n",
     tool_cmd_bisect},
    {"repro", TOOL_USE_REPRO, 1, 1, "MODEL.pt2 --kernel K -o DIR [--input F.npy]... [options]",
     "write one kernel or operation with its inputs and expected results into a folder of its own",
     "'make' in DIR builds the kernel with a C compiler alone, runs it, compares it with what the reference interpreter computed,\n"
     "and times it; for CUDA with the driver and NVRTC of the machine. For OpenCL the folder has the text, the operands and how the\n"
     "kernel is launched.\n",
     tool_cmd_repro},
    {"reduce", TOOL_USE_REDUCE, 1, 1,
     "MODEL.pt2 -o SMALL.hnir [--input F.npy]... [--test CMD] [options]",
     "shrink a model that fails to a few nodes that fail in the same way",
     "Nodes are taken out as long as the rest fails in the same way: its results are not those of the reference interpreter,\n"
     "compiling or running is an error, it crashes, or it hangs; or CMD, which gets the file, ends with the same status. Then sizes\n"
     "are made smaller. Each attempt runs in a process with limits. The result holds its weights and inputs: 'henry run' and all\n"
     "other commands take it. Without --input the inputs are random. After an interrupt (ctrl-C) the best so far is written.\n",
     tool_cmd_reduce},
    {"report", TOOL_USE_REPORT, 1, 1,
     "[--compare OLD] MODEL|BUNDLE|TRACE|REPORT -o REPORT.html [options]",
     "compile and run a model, and show what became of it and where the time goes, as one page",
     "The page opens in any browser, without a network: times of compiling and running, the graph with its fused groups, kernels by\n"
     "lost time, refused fusions, memory, environment. A model is compiled past the cache of graphs, so that all is known; of a\n"
     "bundle there is what it records, of a trace (--trace of other commands) the time line. OLD, a file of any of these kinds,\n"
     "is what the other one is compared with. Without --input the inputs are random, with the sizes of the export.\n",
     tool_cmd_report},
    {"tune", TOOL_USE_TUNE, 1, 1, "MODEL [-o TUNING.json] | BUNDLE [-o TUNED.hnb] [options]",
     "time the forms of a model's kernels on this machine, and keep the fastest",
     "Kernels that take most of a run come first, until --budget is over. What was measured is kept in the cache: 'henry run' and\n"
     "all other commands use it from then on, and a second 'henry tune' times nothing. -o writes the records to a file, which\n"
     "--tuning takes on another machine of this kind. A bundle needs no compiler: the forms that it has (compile --forms) are timed,\n"
     "and -o writes one that chooses among them by what was measured.\n",
     tool_cmd_tune},
    {"doctor", TOOL_USE_DOCTOR, 0, 0, "[options]",
     "check compiler, worker, CPU, cache, disk and limits, and say how to fix them", "",
     tool_cmd_doctor},
    {"version", TOOL_USE_VERSION, 0, 0, "", "print the version", "", tool_cmd_version},
};

static const tool_variable variables[] = {
    {"HENRY_CACHE_DIR",
     "the folder of the cache; the default is $XDG_CACHE_HOME/henry, else ~/.cache/henry"},
    {"HENRY_CACHE_TAG", "a word in every key of the cache, which keeps results apart"},
    {"HENRY_CACHE_CHECK",
     "1: a compilation fails if it read something that the key of the cache does not cover"},
    {"HENRY_REDIS_URL", "a cache that machines share, redis:// or unix://"},
    {"HENRY_COMPILE_THREADS", "number of compilers at a time; the default is one per CPU"},
    {"HENRY_THREADS", "threads of a run"},
    {"HENRY_DEBUG_TENSORS", "what is printed, saved or checked of the tensors of each step"},
    {"HENRY_POOL_FILL", "what is in the memory of temporaries and outputs before a run"},
    {"HENRY_METRIC_TABLES", "metric tables to which compilations add rows"},
    {"HENRY_FORM", "forms that kernels are to have: softmax=persistent;sum*=columns"},
    {"HENRY_METRIC_DIR", "the folder of their files; the default is the current one"},
    {"HENRY_LOG", "log messages: a level, or areas with levels"},
    {"HENRY_CC", "the C compiler; the default is the first of gcc, clang, cc"},
    {"HENRY_CXX", "the C++ compiler; the default is the first of g++, clang++, c++"},
    {"HENRY_NVRTC", "the library that compiles CUDA"},
    {"HENRY_NVCC", "the CUDA compiler"},
    {"HENRY_CUBLASLT", "the library that multiplies matrices on CUDA devices; off: none"},
    {"HENRY_CUDNN", "the library that does convolutions on CUDA devices; off: none"},
    {"HENRY_TF32", "1: these two may round f32 operands to 11 bits (TF32)"},
    {"HENRY_WORKER", "the worker program"},
    {"HENRY_WORKER_LOG", "a file to which everything that workers and compilers print is appended"},
    {"HENRY_SLOW_JOBS",
     "seconds after which a running compilation is reported; the default is 60, and 0 means never"},
    {"HENRY_COMPILE_TIMES", "a JSON file for how long each kernel took to compile"},
    {"HENRY_STANDBY",
     "off: the compiler's programs are started for each kernel, as with --no-standby"},
    {"HENRY_NAMESPACES", "off: workers run without PID namespaces"},
    {"HENRY_CORES_FILE",
     "the file through which all programs of a user share the cores that they compile on"},
};

/* How much of a message is shown. A hostile file may have names of megabytes; the end of a message
 * tells how to go on. */
enum { SHOWN_HEAD = 6000, SHOWN_TAIL = 2000 };

int tool_report(hn_status status) {
    if (!status) return TOOL_OK;
    hn_str message = hn_str_of(hn_status_message(status));
    bool is_whole = message.len <= SHOWN_HEAD + SHOWN_TAIL;
    size_t head = is_whole ? message.len : hn_str_cut(message, SHOWN_HEAD),
           tail = is_whole ? message.len : hn_str_cut(message, message.len - SHOWN_TAIL);
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
    if (text->len && fwrite(text->ptr, 1, text->len, stdout) != text->len)
        return HN_ERROR(HN_IO, "cannot write to standard output");
    return fflush(stdout) == 0 ? NULL : HN_ERROR(HN_IO, "cannot write to standard output");
}

hn_status tool_deliver(const tool_options *options, const hn_strbuf *text) {
    HN_TRY(hn_strbuf_status(text));
    if (!options->output || strcmp(options->output, "-") == 0) return tool_print(text);
    return hn_file_write_atomic(options->output, hn_strbuf_str(text).ptr, text->len, false);
}

static const tool_help help = {commands, HN_COUNT_OF(commands), variables, HN_COUNT_OF(variables)};

/* One of the texts of help.c to stdout. */
static int show(void (*print)(const tool_help *help, hn_strbuf *out)) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    print(&help, &text);
    int code = tool_report(tool_print(&text));
    hn_strbuf_deinit(&text);
    return code;
}

static int print_help(const tool_command *command) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    tool_help_command(command, &text);
    int code = tool_report(tool_print(&text));
    hn_strbuf_deinit(&text);
    return code;
}

const char *tool_suggest(const char *word, const char *const *names,
                         char out[HN_NEAREST_TEXT_BYTES]) {
    hn_nearest nearest;
    hn_nearest_begin(&nearest, hn_str_of(word));
    for (; *names; names++) hn_nearest_offer(&nearest, hn_str_of(*names));
    return hn_nearest_text(&nearest, out);
}

static int refuse_command(const char *name) {
    const char *names[HN_COUNT_OF(commands) + 1] = {NULL};
    char text[HN_NEAREST_TEXT_BYTES];
    for (size_t k = 0; k < HN_COUNT_OF(commands); k++) names[k] = commands[k].name;
    fprintf(stderr, "henry: unknown command '%s'%s; see 'henry --help'\n", name,
            tool_suggest(name, names, text));
    return TOOL_USAGE;
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
    int code =
        tool_usage(command->name, "%s%s", levels ? "--log: " : "", hn_status_message(status));
    hn_status_free(status);
    return code;
}

static int run_command(const tool_command *command, const tool_options *options) {
    if (options->args.count < command->args_min || options->args.count > command->args_max)
        return tool_usage(command->name, "expected: henry %s%s%s", command->name,
                          *command->synopsis ? " " : "", command->synopsis);
    int code = set_log(command, options->log);
    if (code == TOOL_OK) code = tool_tables_check(command->name, options);
    if (code != TOOL_OK) return code;
    if (options->trace) hn_trace_start();
    code = command->run(options);
    if (code == TOOL_OK) tool_tables_say(options);
    if (options->trace) {
        int written = tool_report(hn_trace_write(options->trace));
        if (code == TOOL_OK) code = written;
    }
    return code;
}

/* henry help [COMMAND | tables | --man] */
static int help_command(const char *about) {
    if (!about) return show(tool_help_overview);
    if (strcmp(about, "--man") == 0) return show(tool_help_man);
    if (strcmp(about, "tables") == 0) return show(tool_help_tables);
    const tool_command *command = find_command(about);
    return command ? print_help(command) : refuse_command(about);
}

int main(int argc, char **argv) {
    /* a file beyond the user's limit is an error of the write, with a message */
    signal(SIGXFSZ, SIG_IGN);
    const char *name = argc > 1 ? argv[1] : "";
    if (!*name) {
        hn_strbuf text;
        hn_strbuf_init(&text);
        tool_help_overview(&help, &text);
        fputs(hn_strbuf_str(&text).ptr, stderr);
        hn_strbuf_deinit(&text);
        return TOOL_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return help_command(argc > 2 ? argv[2] : NULL);
    const tool_command *command = find_command(strcmp(name, "--version") == 0 ? "version" : name);
    if (!command) return refuse_command(name);
    tool_options options;
    int code = TOOL_USAGE;
    if (tool_options_parse(command, argc, argv, 2, &options))
        code = options.help ? print_help(command) : run_command(command, &options);
    tool_options_deinit(&options);
    return code;
}
