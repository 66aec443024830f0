/* Where and under what the report and its program were made, and all counters. */

henry.renderEnvironment = report => {
    const section = henry.section("environment", "Environment");
    const pairs = (rows, caption, first) => henry.table(
        [
            {title: first, value: row => row[0]},
            {title: "value", is_wide: true, value: row => row[1], show: row => henry.el("code", {}, row[1])}
        ],
        rows, {caption, limit: 200});
    const machine = [...report.made ? [["made", report.made]] : [], ...report.environment];
    section.append(machine.length ? pairs(machine, "the machine that made this report", "what")
                                  : henry.note("This report does not say where it was made."));
    for (const one of (report.roofline || {ceilings: []}).ceilings) {
        const rows = [
            ...one.levels.map(level => ({name: level.name, holds: level.bytes, read: level.read, copy: level.copy, fill: level.fill})),
            ...Object.entries(one.math).map(([name, value]) => ({name: name.replaceAll("_", " "), math: value}))
        ];
        section.append(henry.table(
            [
                {title: "ceiling", value: row => row.name}, {title: "holds", is_number: true, show: row => henry.bytes(row.holds)},
                ...["read", "copy", "fill"].map(
                    key => ({title: key, is_number: true, show: row => row[key] ? henry.rate(row[key] * 1e9) : "\u2013"})),
                {title: "operations a second", is_number: true, show: row => row.math ? henry.operations(row.math * 1e9) : "\u2013"}
            ],
            rows,
            {caption: `what ${one.name} (${one.device}${one.threads ? `, ${henry.plural(one.threads, "thread")}` : ""}) does at most`}));
    }
    if (report.key && report.key.length) section.append(pairs(report.key, "what the program was compiled under", "field"));
    if (report.program)
        section.append(henry.table(
            [
                {title: "", value: row => row.use}, {title: "name", value: row => row.name},
                {title: "type", is_wide: true, show: row => henry.el("code", {}, row.type)}
            ],
            [
                ...report.program.inputs.map(one => ({...one, use: "input"})),
                ...report.program.outputs.map(one => ({...one, use: one.is_mutation ? "mutation" : "output"}))
            ],
            {caption: "what the program takes and gives"}));
    if (report.metrics)
        section.append(henry.table(
            [
                {title: "counter", value: metric => metric.name},
                {
                    title: "value",
                    is_number: true,
                    value: metric => metric.value,
                    show: metric => metric.unit === "ns"      ? henry.time(metric.value)
                                    : metric.unit === "bytes" ? henry.bytes(metric.value)
                                                              : henry.count(metric.value)
                },
                {title: "unit", value: metric => metric.unit},
                {title: "meaning", is_wide: true, value: metric => metric.meaning},
            ],
            report.metrics, {caption: "counters of the compilation", limit: 200, words: metric => metric.name + " " + metric.meaning}));
    return section;
};
