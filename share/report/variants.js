/* For what there is code, which forms were compared, and what the program assumes of sizes. */

henry.variantForms = report => {
    const used = new Map();
    for (const step of report.steps)
        if (step.kind === "kernel") used.set(step.name, (used.get(step.name) || 0) + 1);
    const rows = (report.kernels || []).filter(kernel => kernel.forms && kernel.forms.length);
    if (!rows.length) return [];
    const words = form => form ? `${henry.time(form.predicted_ns)}, ${
                                     form.lanes > 1     ? form.lanes + " lanes"
                                     : form.threads > 1 ? form.threads + " threads"
                                                        : "scalar"}, ${henry.plural(form.loads, "load")}, ${
                                     henry.plural(form.stores, "store")}, ${henry.plural(form.loops, "loop")}`
                               : "";
    const first = name => report.steps.findIndex(step => step.name === name);
    return [
        henry.table(
            [
                {
                    title: "kernel",
                    value: row => row.name,
                    show: row => first(row.name) >= 0
                                     ? henry.el("button",
                                           {type: "button", class: "link", click: () => henry.openStep(report, first(row.name))}, row.name)
                                     : henry.el("code", {}, row.name)
                },
                {title: "target", value: row => row.target},
                {title: "steps", is_number: true, value: row => used.get(row.name) || 0},
                {title: "forms", is_number: true, value: row => row.forms.length},
                {title: "picked", is_wide: true, value: row => row.forms[0].predicted_ns, show: row => words(row.forms[0])},
                {
                    title: "next best",
                    is_wide: true,
                    value: row => row.forms.length > 1 ? row.forms[1].predicted_ns / row.forms[0].predicted_ns : 0,
                    show: row =>
                        row.forms.length > 1
                            ? `${(row.forms[1].predicted_ns / row.forms[0].predicted_ns).toFixed(2)} times that: ${words(row.forms[1])}`
                            : "there is none"
                },
            ],
            rows, {caption: "forms that the planner has compared, with the times that it expects", sort: 4, words: row => row.name})
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
    section.append(...henry.variantForms(report));
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
