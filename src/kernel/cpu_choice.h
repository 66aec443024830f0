/* cpu_choice.h: what may be chosen about a form for a CPU, and its text: the parameters of a form's
 * name (docs/tuning.md). */
#ifndef HN_KERNEL_CPU_CHOICE_H
#define HN_KERNEL_CPU_CHOICE_H

#include "base/str.h"
#include "kernel/cpu.h"

/* The kind's name: "rows-pipelined". Static. */
const char *hn_cpu_form_name(hn_cpu_form form);
bool hn_cpu_form_named(hn_str name, hn_cpu_form *out);

/* "stores=cached ahead=4 grain=64": what is not 0. */
void hn_cpu_choice_print(const hn_cpu_choice *choice, hn_strbuf *out);
/* Reads such a text for a kind; what it leaves out is 0. Errors: invalid-argument, naming the
 * word. */
hn_status hn_cpu_choice_parse(hn_cpu_form form, hn_str text, hn_cpu_choice *out) HN_MUST_USE;

bool hn_cpu_choice_eq(const hn_cpu_choice *a, const hn_cpu_choice *b);

/* What the plan has decided: a choice that gives the same form whatever sizes are expected. */
hn_cpu_choice hn_cpu_choice_of(const hn_cpu_plan *plan);

enum { HN_CPU_CHOICES_MAX = 48 };
/* Choices that are worth a comparison, the planner's own first: those of a candidate's form with
 * stores and prefetches both ways, and more or fewer vectors. */
uint32_t hn_cpu_choices_list(const hn_cpu_plan *plan, hn_cpu_choice out[HN_CPU_CHOICES_MAX]);
/* Those that differ in one number by one step. */
uint32_t hn_cpu_choices_near(const hn_cpu_choice *choice, hn_cpu_choice out[HN_CPU_CHOICES_MAX]);

#endif
