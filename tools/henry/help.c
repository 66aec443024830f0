/* help.c: the tables of commands, options and variables as text, for a terminal and as a manual
 * page. */
#include "tool.h"

static void usage_line(const tool_command *command, hn_strbuf *out) {
    hn_strbuf_printf(out, "henry %s%s%s", command->name, *command->synopsis ? " " : "",
                     command->synopsis);
}

/* Names with commas between them, on lines of at most 100 characters. */
static void variable_names(const tool_help *help, hn_strbuf *out) {
    size_t column = 0;
    for (uint32_t k = 0; k < help->variable_count; k++) {
        size_t len = strlen(help->variables[k].name) + 2;
        if (column + len > 100) hn_strbuf_putc(out, '\n'), column = 0;
        else if (k) hn_strbuf_putc(out, ' ');
        hn_strbuf_printf(out, "%s%s", help->variables[k].name,
                         k + 1 < help->variable_count ? "," : "");
        column += len;
    }
}

void tool_help_overview(const tool_help *help, hn_strbuf *out) {
    hn_strbuf_puts(
        out,
        "Henry compiles PyTorch models to native code and runs them without Python.\n\nusage: henry COMMAND [options]\n\n");
    for (uint32_t k = 0; k < help->command_count; k++)
        hn_strbuf_printf(out, "  %-8s %s\n", help->commands[k].name, help->commands[k].summary);
    hn_strbuf_puts(
        out,
        "\n'henry COMMAND --help' explains one command. Exit status: 0 ok, 1 failed, 2 wrong usage.\n"
        "Environment variables, which docs/cli.md and henry(1) describe:\n");
    variable_names(help, out);
    hn_strbuf_putc(out, '\n');
}

void tool_help_command(const tool_command *command, hn_strbuf *out) {
    hn_strbuf_puts(out, "usage: ");
    usage_line(command, out);
    hn_strbuf_printf(out, "\n\n%s.\n%s\n", command->summary, command->details);
    tool_options_print(command, out);
}

/* --- the manual page, in the language of man(7) --- */

void tool_man_text(const char *text, hn_strbuf *out) {
    bool at_start = true;
    for (; *text; text++) {
        if (at_start && (*text == '.' || *text == '\'')) hn_strbuf_puts(out, "\\&");
        at_start = *text == '\n';
        if (*text == '\\') hn_strbuf_puts(out, "\\e");
        else if (*text == '-') hn_strbuf_puts(out, "\\-");
        else if (*text == '~') hn_strbuf_puts(out, "\\(ti");
        else if (*text == '\'') hn_strbuf_puts(out, "\\(aq");
        else hn_strbuf_putc(out, *text);
    }
}

static void man_command(const tool_command *command, hn_strbuf *out) {
    hn_strbuf usage;
    hn_strbuf_init(&usage);
    usage_line(command, &usage);
    hn_strbuf_puts(out, ".SS ");
    tool_man_text(hn_strbuf_str(&usage).ptr, out);
    hn_strbuf_putc(out, '\n');
    tool_man_text(command->summary, out);
    hn_strbuf_puts(out, ".\n");
    if (*command->details) {
        hn_strbuf_puts(out, ".PP\n.nf\n"); /* lines as they stand: some are tables */
        tool_man_text(command->details, out);
        hn_strbuf_puts(out, ".fi\n");
    }
    tool_options_man(command, out);
    hn_strbuf_deinit(&usage);
}

void tool_help_man(const tool_help *help, hn_strbuf *out) {
    hn_strbuf_puts(
        out,
        ".TH HENRY 1 \"\" \"Henry " HENRY_VERSION_STRING
        "\" \"User Commands\"\n.SH NAME\nhenry \\- compile and run PyTorch models without Python\n"
        ".SH SYNOPSIS\n.B henry\n.I COMMAND\n[options]\n.SH DESCRIPTION\n"
        "Henry compiles PyTorch models that torch.export saved (.pt2) to native code, and runs them without Python.\n"
        "Data goes to standard output, everything else to standard error.\n.SH COMMANDS\n");
    for (uint32_t k = 0; k < help->command_count; k++) man_command(&help->commands[k], out);
    hn_strbuf_puts(out, ".SH ENVIRONMENT\nAn option takes precedence over its variable.\n");
    for (uint32_t k = 0; k < help->variable_count; k++) {
        hn_strbuf_printf(out, ".TP\n.B %s\n", help->variables[k].name);
        tool_man_text(help->variables[k].text, out);
        hn_strbuf_puts(out, ".\n");
    }
    hn_strbuf_puts(
        out,
        ".SH EXIT STATUS\n0 if the command succeeded, 1 if it failed (one line on standard error says why), 2 for wrong usage.\n");
}
