/* internal.h: the parts of the object, shared by the files of src/report. */
#ifndef HN_REPORT_INTERNAL_H
#define HN_REPORT_INTERNAL_H

#include "base/json.h"
#include "base/json_put.h"
#include "report/report.h"
#include "tune/record.h"

/* data.c: any value, all of it: the page has a stricter reader than hn_json_skip. Errors:
 * corrupt. */
hn_status hn_report_check_value(hn_json *json) HN_MUST_USE;

/* program.c: "program": {...}, of a source that has a bundle. */
hn_status hn_report_put_program(const hn_report_source *source, hn_strbuf *out) HN_MUST_USE;

/* limits.c: "roofline": {...}. */
void hn_report_put_roofline(const hn_roofline *roofline, hn_strbuf *out);

/* model.c: "nodes": [...], of a source that has a graph; */
hn_status hn_report_put_nodes(const hn_graph *graph, hn_strbuf *out) HN_MUST_USE;
/* "kernels": [...], of one that has a driver. */
hn_status hn_report_put_kernels(const hn_driver *d, hn_strbuf *out) HN_MUST_USE;
/* picks.c: "picks": [...], the kernels whose forms records of tuning say, likewise. */
hn_status hn_report_put_picks(const hn_driver *d, hn_strbuf *out) HN_MUST_USE;
/* "KEY": "rows-kept streams=4", as records of tuning have it. */
void hn_report_put_form_name(const char *key, const hn_form_name *name, hn_strbuf *out);
/* "fusions": [...], those that were refused, likewise. */
void hn_report_put_fusions(const hn_driver *d, hn_strbuf *out);

#endif
