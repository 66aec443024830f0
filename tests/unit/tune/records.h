/* records.h: tuning records for tests. */
#ifndef HN_TESTS_TUNE_RECORDS_H
#define HN_TESTS_TUNE_RECORDS_H

#include "tune/record.h"

#define TEST_DEVICE "kind=cpu\nname=A CPU\nlevel=x86-64-v3\nthreads=2\n"

/* Three forms of a kernel over one size; the second one is the fastest. */
static inline hn_tuning_record test_record(hn_form_timing forms[3], int number, int64_t size) {
    forms[0] = (hn_form_timing){.form = {HN_STR("rows"), HN_STR("lanes=16")},
                                .median_ns = 1200.5,
                                .low_ns = 1190,
                                .high_ns = 1230.25,
                                .samples = 40,
                                .predicted_ns = 1000};
    forms[1] = (hn_form_timing){.form = {HN_STR("tiles"), HN_STR("lanes=16 grain=64")},
                                .median_ns = 800,
                                .low_ns = 790,
                                .high_ns = 0.1 + 810,
                                .samples = 41};
    forms[2] = (hn_form_timing){.form = {HN_STR("streams"), HN_STR("")},
                                .dropped = HN_STR("does not build: \"no\"")};
    return (hn_tuning_record){.kernel = HN_STR("softmax"),
                              .digest = hn_digest_of(&number, sizeof number),
                              .size_count = 1,
                              .sizes = {size},
                              .symbols = {HN_STR("s0")},
                              .device = HN_STR(TEST_DEVICE),
                              .forms = forms,
                              .form_count = 3,
                              .pick = 1,
                              .how = HN_TUNING_TIMED,
                              .tool = HN_STR("henry 0.1.0")};
}

#endif
