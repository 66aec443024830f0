/* For what there is code, which forms were compared, and what the program assumes of sizes. */

/* A kernel's name, which opens the first step that runs it, or any of the forms that are named. */
henry.kernelLink = (report, names) => {
    const first = report.steps.findIndex(step => names.includes(step.name));
    return first >= 0 ? henry.el("button", {type: "button", class: "link", click: () => henry.openStep(report, first)}, names[0])
                      : henry.el("code", {}, names[0]);
};

/* What the planner has compared. These times are predictions; what was measured stands in the tables behind. */
henry.variantForms = report => {
    const used = new Map();
    for (const step of report.steps)
        if (step.kind === "kernel") used.set(step.name, (used.get(step.name) || 0) + 1);
    const rows = (report.kernels || []).filter(kernel => kernel.forms && kernel.forms.length);
    if (!rows.length) return [];
    const words = form => [`${henry.time(form.predicted_ns)}, ${
                               form.lanes > 1     ? form.lanes + " lanes"
                               : form.threads > 1 ? form.threads + " threads"
                                                  : "scalar"}, ${henry.plural(form.loads, "load")}, ${
                               henry.plural(form.stores, "store")}, ${henry.plural(form.loops, "loop")}`,
        form.name ? [": ", henry.el("code", {}, form.name)] : ""]
                              .flat();
    return [henry.table(
        [
            {title: "kernel", value: row => row.name, show: row => henry.kernelLink(report, [row.name])},
            {title: "target", value: row => row.target},
            {title: "steps", is_number: true, value: row => used.get(row.name) || 0},
            {title: "forms", is_number: true, value: row => row.forms.length},
            {title: "who decides", value: row => row.is_picked ? "tuning records" : "the planner"},
            {title: "planner's first, predicted", is_wide: true, value: row => row.forms[0].predicted_ns, show: row => words(row.forms[0])},
            {
                title: "its next, predicted",
                is_wide: true,
                value: row => row.forms.length > 1 ? row.forms[1].predicted_ns / row.forms[0].predicted_ns : 0,
                show: row =>
                    row.forms.length > 1
                        ? [`${(row.forms[1].predicted_ns / row.forms[0].predicted_ns).toFixed(2)} times that: `, ...words(row.forms[1])]
                        : "there is none"
            },
        ],
        rows, {caption: "forms that the planner has compared, with the times that it predicts", sort: 5, words: row => row.name})];
};

/* "s0 3 to 32, s1 any": where a box of a kernel's choice lies. */
henry.boxWords = (choice, box) => choice.axes
                                      .map((axis, k) => {
                                          const [low, high] = box.sizes[k];
                                          return `${axis} ${
                                              low === null && high === null ? "any"
                                              : high === null               ? henry.count(low) + " or more"
                                              : low === null                ? "up to " + henry.count(high)
                                              : low === high                ? henry.count(low)
                                                                            : `${henry.count(low)} to ${henry.count(high)}`               }`;
                                      })
                                      .join(", ");

/* At which sizes a variant of a kernel runs. */
henry.variantSizes = (pick, variant) => {
    if (!pick.choice) return "all sizes";
    const boxes = pick.choice.boxes.filter(box => box.variant === variant.form).map(box => henry.boxWords(pick.choice, box));
    if (pick.choice.fallback === variant.form) boxes.push(boxes.length ? "all that no other form has" : "all other sizes");
    return boxes.join("; ");
};

henry.variantsOfKernels = report => {
    const rows = (report.picks || [])
                     .filter(pick => pick.variants.length > 1)
                     .flatMap(pick => pick.variants.map(variant => ({pick, variant, sizes: henry.variantSizes(pick, variant)})));
    if (!rows.length) return [];
    const ran = row => report.run && row.pick.target === report.program.targets[report.program.target].name &&
                       report.steps.some(step => step.picked === row.variant.form && row.pick.variants.some(one => one.name === step.name));
    return [henry.table(
        [
            {title: "node", value: row => row.pick.node, show: row => henry.el("b", {}, row.pick.node)},
            {title: "target", value: row => row.pick.target},
            {title: "form", is_wide: true, value: row => row.variant.form, show: row => henry.el("code", {}, row.variant.form)},
            {title: "runs at", is_wide: true, value: row => row.sizes},
            {title: "here", show: row => ran(row) ? "ran" : "\u2013"},
            {
                title: "text",
                value: row => row.variant.name,
                show: row => henry.el("button",
                    {type: "button", class: "link", click: () => henry.openText(report, row.variant.name, row.variant.form)},
                    row.variant.name)
            },
        ],
        rows, {
            caption: "kernels in several forms: the sizes of a call say which one runs",
            words: row => `${row.pick.node} ${row.variant.form}`
        })];
};

/* The fastest form but the pick, of what was timed. */
henry.nextBest = record => record.forms.filter(form => form.samples && !form.is_pick).sort((a, b) => a.median_ns - b.median_ns)[0];
henry.pickOf = record => record.forms.find(form => form.is_pick) || {form: ""};
henry.recordSizes = record => record.sizes.map(size => `${size.name} = ${henry.count(size.value)}`).join(", ") || "its only ones";

henry.variantPicks = report => {
    const rows = (report.picks || []).flatMap(pick => pick.records.map(record => ({pick, record, best: henry.pickOf(record)})));
    if (!rows.length) return [];
    return [
        henry.table(
            [
                {
                    title: "kernel",
                    value: row => row.pick.node,
                    show: row => [henry.el("b", {}, row.pick.node), " ", henry.kernelLink(report, row.pick.variants.map(one => one.name))]
                },
                {title: "target", value: row => row.pick.target},
                {title: "sizes", value: row => henry.recordSizes(row.record)},
                {title: "pick", is_wide: true, value: row => row.best.form, show: row => henry.el("code", {}, row.best.form)},
                {
                    title: "measured",
                    is_number: true,
                    value: row => row.best.median_ns,
                    show: row => row.best.samples ? henry.time(row.best.median_ns) : "\u2013",
                    help: "the median of the samples"
                },
                {
                    title: "interval",
                    is_number: true,
                    value: row => row.best.samples ? row.best.high_ns - row.best.low_ns : 0,
                    show: row => row.best.samples ? `${henry.time(row.best.low_ns)} to ${henry.time(row.best.high_ns)}` : "\u2013",
                    help: "in which the median lies"
                },
                {title: "samples", is_number: true, value: row => row.best.samples || 0},
                {
                    title: "predicted",
                    is_number: true,
                    value: row => row.best.predicted_ns,
                    show: row => henry.time(row.best.predicted_ns),
                    help: "what the planner expects of the pick"
                },
                {
                    title: "next best, measured",
                    is_wide: true,
                    value: row => henry.nextBest(row.record) ? henry.nextBest(row.record).median_ns / row.best.median_ns : 0,
                    show:
                        row => {
                            const next = henry.nextBest(row.record);
                            return next && row.best.samples
                               ? [`${(next.median_ns / row.best.median_ns).toFixed(2)} times that: `, henry.el("code", {}, next.form)]
                               : "none was timed";
                        }
                },
                {
                    title: "certain",
                    value: row => row.record.is_certain ? "yes" : "no",
                    help: "no other form's interval meets that of the pick"
                },
                {title: "how", value: row => row.record.how},
            ],
            rows, {
                caption: "picks of tuning records, with the times that were measured",
                sort: 4,
                words: row => `${row.pick.node} ${row.best.form}`
            })
    ];
};

henry.renderVariants = report => {
    const section = henry.section("variants", "Variants and picks",
        "What was compiled for which processor, which form of each kernel was picked, and for which sizes the program is.");
    if (!report.program) {
        section.append(henry.note("There is no program in this report."));
        return section;
    }
    const program = report.program;
    section.append(henry.table(
        [
            {title: "target", value: target => target.name + (target === program.targets[program.target] && report.run ? " (ran)" : "")},
            {title: "kind", value: target => target.kind},
            {title: "needs", is_wide: true, value: target => target.needs.join(" ")},
            {title: "objects", is_number: true, value: target => program.objects.filter(object => object.target === target.name).length},
            {
                title: "code",
                is_number: true,
                value: target =>
                    program.objects.filter(object => object.target === target.name).reduce((sum, object) => sum + object.bytes, 0),
                show: target => henry.bytes(
                    program.objects.filter(object => object.target === target.name).reduce((sum, object) => sum + object.bytes, 0))
            },
        ],
        program.targets, {caption: "targets"}));
    const calls = new Map();
    for (const step of report.steps)
        if (step.kind === "extern") calls.set(step.name, (calls.get(step.name) || 0) + 1);
    if (calls.size)
        section.append(
            henry.el("p", {}, "Operations that the library does: ", [...calls].map(([name, count]) => `${count} ${name}`).join(", "), "."));
    section.append(...henry.variantPicks(report), ...henry.variantsOfKernels(report), ...henry.variantForms(report));
    if (program.symbols.length)
        section.append(henry.table(
            [
                {title: "size", value: symbol => symbol.name},
                {
                    title: "here",
                    is_number: true,
                    value: symbol => symbol.value,
                    show: symbol => symbol.is_data ? "from the data" : henry.count(symbol.value)
                },
                {title: "least", is_number: true, value: symbol => symbol.min, show: symbol => henry.count(symbol.min)},
                {title: "most", is_number: true, value: symbol => symbol.max, show: symbol => henry.count(symbol.max)},
            ],
            program.symbols, {caption: "sizes that calls may choose"}));
    if (program.guards.length)
        section.append(henry.table(
            [
                {title: "guard", value: guard => guard.text, show: guard => henry.el("code", {}, guard.text)},
                {title: "because", is_wide: true, value: guard => guard.reason}
            ],
            program.guards, {caption: "what the program assumes of sizes; other sizes are another variant"}));
    return section;
};
