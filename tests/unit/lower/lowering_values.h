/* lowering_values.h: graphs lowered for a target with given operations, whose programs are run by
 * the interpreters and compared with the graph's. */
#ifndef HN_TESTS_LOWERING_VALUES_H
#define HN_TESTS_LOWERING_VALUES_H

#include "lowering.h"

#include "support/program_run.h"

static void lower_with(lowering *t, const hn_operations *operations) {
    EXPECT_OK(hn_lower(t->graph, &(hn_lower_options){.operations = operations}, &t->arena,
                       &t->scratch, &t->program));
    if (t->program) EXPECT_OK(hn_program_verify(t->program));
}

static void expect_values(lowering *t, hn_run_calls calls, const double *tolerance) {
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS], wanted[HN_RANDOM_MAX_TENSORS],
        got[HN_RANDOM_MAX_TENSORS];
    const uint32_t outputs = t->graph->outputs.count;
    uint32_t count = 0;
    for (uint32_t k = 0; k < t->graph->inputs.count; k++)
        count += t->graph->inputs.items[k].kind == HN_INPUT_USER;
    if (!t->program) return;
    EXPECT_OK(hn_random_inputs(5, &t->arena, t->graph, 0, inputs));
    EXPECT_OK(hn_interpret(&t->arena, t->graph, inputs, count, wanted));
    EXPECT_OK(hn_program_run_all(&t->arena, t->program, t->graph, inputs, count, calls, got));
    EXPECT_OK(hn_outputs_compare(got, wanted, tolerance, outputs));
}

/* Random graphs with contractions: in turns with each of three sets of operations. `by_loops` has
 * none of its own, so the loops beside calls are run. */
HN_UNUSED static void lowering_check_random(const hn_operations *by_operation,
                                            const hn_operations *by_loops,
                                            const hn_operations *others) {
    const hn_operations *const operations[3] = {by_operation, by_loops, others};
    static const hn_run_calls calls[3] = {HN_RUN_OPERATIONS, HN_RUN_LOOPS, HN_RUN_OPERATIONS};
    for (uint64_t seed = 0; seed < 240; seed++) {
        double tolerance[HN_RANDOM_MAX_TENSORS];
        lowering t;
        if (lowering_parse(&t, "")) {
            EXPECT_OK(hn_random_contractions_add(seed, t.graph, tolerance));
            lower_with(&t, operations[seed % 3]);
            expect_values(&t, calls[seed % 3], tolerance);
        }
        lowering_end(&t);
    }
}

#endif
