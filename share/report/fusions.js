/* Fusions that were looked at and refused, those first that would have saved most. */

henry.renderFusions = report => {
    const section = henry.section("fusions", "Refused fusions",
        "Loops that could have shared a kernel and do not, and why. The bytes are those that the fusion would have kept out of memory.");
    if (!report.fusions) {
        section.append(henry.note(report.kind === "bundle" ? "A bundle does not record them. Give henry report the model instead."
                                                           : "This report does not have them."));
        return section;
    }
    if (!report.fusions.length) {
        section.append(henry.note("None was refused."));
        return section;
    }
    const stepOf = new Map();
    for (const step of report.steps)
        for (const origin of step.nodes)
            if (!stepOf.has(origin.node)) stepOf.set(origin.node, step.index);
    const node = name =>
        stepOf.has(name) ? henry.el("button", {type: "button", class: "link", click: () => henry.openStep(report, stepOf.get(name))}, name)
                         : name;
    const sums = new Map();
    for (const one of report.fusions) {
        const sum = sums.get(one.reason) || {reason: one.reason, sentence: one.sentence, count: 0, bytes: 0};
        sum.count++, sum.bytes += one.bytes || 0;
        sums.set(one.reason, sum);
    }
    section.append(
        henry.table(
            [
                {title: "reason", value: row => row.reason, show: row => henry.el("code", {}, row.reason)},
                {title: "that is", value: row => row.sentence, is_wide: true}, {title: "fusions", is_number: true, value: row => row.count},
                {title: "would have saved", is_number: true, value: row => row.bytes, show: row => henry.bytes(row.bytes)}
            ],
            [...sums.values()], {caption: "by reason", sort: 3}),
        henry.table(
            [
                {title: "first", value: row => row.first, show: row => node(row.first)},
                {title: "second", value: row => row.second, show: row => node(row.second)},
                {title: "why", value: row => row.sentence, is_wide: true},
                {title: "what both touch", value: row => row.mismatch_sentence || "", is_wide: true},
                {title: "would have saved", is_number: true, value: row => row.bytes, show: row => henry.bytes(row.bytes)},
            ],
            report.fusions, {
                caption: "each of them",
                sort: 3,
                words: row =>
                    `${row.first} ${row.second} ${row.reason} ${row.sentence} ${row.mismatch || ""} ${row.mismatch_sentence || ""}`
            }));
    return section;
};
