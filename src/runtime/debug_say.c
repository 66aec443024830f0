/* debug_say.c: what the debugger has to say goes to its file of lines and to the sink. */
#include "runtime/debug.h"

#include <errno.h>
#include <unistd.h>

/* One write for each line, so that lines of several programs do not mix either. */
static void write_line(int fd, const hn_strbuf *line) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_append(&text, line->ptr, line->len);
    hn_strbuf_putc(&text, '\n');
    for (size_t done = 0; !text.failed && done < text.len;) {
        const ssize_t wrote = write(fd, text.ptr + done, text.len - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) break; /* nobody can be told */
        done += (size_t)wrote;
    }
    hn_strbuf_deinit(&text);
}

hn_status hn_debug_say(hn_debug *d, hn_debug_event *event, hn_strbuf *text) {
    hn_strbuf line;
    hn_status status = NULL;
    hn_strbuf_init(&line);
    hn_strbuf_clean(&line, hn_strbuf_str(text), true);
    hn_strbuf_deinit(text);
    event->line = hn_strbuf_str(&line).ptr;
    if (!event->file && d->out->line_fd >= 0)
        write_line(d->out->line_fd, &line); /* a file speaks for itself */
    if (d->options.sink) status = d->options.sink(d->options.user, event);
    hn_strbuf_deinit(&line);
    return status;
}

hn_status hn_debug_say_tensor(hn_debug *d, const hn_debug_tensor *t) {
    const bool has_stats = d->options.level == HN_DEBUG_STATS;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_debug_print_tensor(t, has_stats, &text);
    return hn_debug_say(
        d,
        &(hn_debug_event){.call = t->call,
                          .when = t->when,
                          .step = t->step,
                          .tensor = t->operand,
                          .stats = has_stats ? &t->seen->stats : NULL,
                          .file = d->options.level == HN_DEBUG_SAVE ? t->seen->file : NULL},
        &text);
}

hn_status hn_debug_say_trouble(hn_debug *d, const hn_debug_tensor *t, hn_status why) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_debug_print_tensor(t, false, &text);
    hn_strbuf_printf(&text, " cannot be looked at: %s", hn_status_message(why));
    hn_status_free(why);
    return hn_debug_say(
        d,
        &(hn_debug_event){.call = t->call, .when = t->when, .step = t->step, .tensor = t->operand},
        &text);
}

hn_status hn_debug_say_step(hn_debug *d, const hn_step_info *step) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_debug_print_step(step, &text);
    return hn_debug_say(
        d, &(hn_debug_event){.call = step->call, .when = HN_DEBUG_BEFORE, .step = step}, &text);
}
