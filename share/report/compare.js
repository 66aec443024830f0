/* What changed from an earlier report to a later one. */

/* With their parameters, where both reports have these. */
henry.formsOfPair = pair => !pair.before || !pair.after                   ? ["", ""]
                            : pair.before.formName && pair.after.formName ? [pair.before.formName, pair.after.formName]
                                                                          : [pair.before.form, pair.after.form];

/* Steps that do the same nodes are the same; of several, in their order. */
henry.pairSteps = (before, after) => {
    const key = step => step.kind + "\u0000" + step.nodes.map(origin => origin.node).join("\u0000") + (step.nodes.length ? "" : step.name);
    const waiting = new Map(), pairs = [];
    for (const step of before.steps) waiting.set(key(step), [...waiting.get(key(step)) || [], step]);
    for (const step of after.steps) {
        const list = waiting.get(key(step)) || [];
        pairs.push({before: list.shift() || null, after: step});
    }
    for (const list of waiting.values())
        for (const step of list) pairs.push({before: step, after: null});
    for (const pair of pairs) {
        pair.ns = (pair.after && pair.after.ns || 0) - (pair.before && pair.before.ns || 0);
        pair.bytes = (pair.after && pair.after.bytes || 0) - (pair.before && pair.before.bytes || 0);
        const [before, after] = henry.formsOfPair(pair);
        pair.form = before !== after ? ` (${before} \u2192 ${after})` : "";
        pair.change = !pair.before                           ? "new"
                      : !pair.after                          ? "gone"
                      : pair.before.name !== pair.after.name ? "other text"
                      : pair.form                            ? "other form"
                      : pair.bytes                           ? "other sizes"
                                                             : "same";
    }
    return pairs;
};

/* Of what is better when it is less; other numbers are neither good nor bad. */
henry.difference = (value, show, isCost = true) => value ? henry.el("span", {class: !isCost     ? null
                                                                                    : value > 0 ? "bad"
                                                                                                : "good"},
                                                               henry.signed(show(Math.abs(value)), value))
                                                         : "same";

henry.costs = new Set([
    "median of a run", "compilation", "kernels", "temporaries", "kernels_generated", "bytes_read", "bytes_written", "operations",
    "predicted_ns"
]);

henry.compareNumbers = (before, after) => {
    const rows = [], add = (name, a, b, show) => {
        if (henry.isNumber(a) || b) rows.push({name, a, b, show});
    }; /* an earlier henry has fewer counters */
    const of = report => ({
        steps: report.program && report.steps.length,
        kernels: report.program && report.steps.filter(step => step.kind === "kernel").length,
        memory: report.program && report.program.workspaces.reduce((sum, one) => sum + (one.bytes || 0), 0),
        run: report.run && report.run.count ? report.run.median_ns : undefined,
        compile: report.compilation && report.compilation.total_ns
    });
    const a = of(before), b = of(after);
    add("median of a run", a.run, b.run, henry.time), add("compilation", a.compile, b.compile, henry.time),
        add("steps", a.steps, b.steps, henry.count), add("kernels", a.kernels, b.kernels, henry.count),
        add("temporaries", a.memory, b.memory, henry.bytes);
    const units = {ns: henry.time, bytes: henry.bytes};
    for (const metric of after.metrics || [])
        add(metric.name, before.counters[metric.name], metric.value, units[metric.unit] || henry.count);
    return rows;
};

henry.compareFields = (before, after) => {
    const fields = report => new Map([...report.environment, ...report.key || []].map(([name, value]) => [name, value])),
          a = fields(before), b = fields(after), rows = [];
    for (const name of new Set([...a.keys(), ...b.keys()]))
        if (a.get(name) !== b.get(name)) rows.push([name, a.get(name) ?? "\u2013", b.get(name) ?? "\u2013"]);
    return rows;
};

/* Picks of the same kernel, by its digest, at the same sizes. */
henry.comparePicks = (before, after) => {
    const of = report =>
        new Map((report.picks || [])
                    .flatMap(pick => pick.records.map(record => [[pick.digest, pick.target, henry.recordSizes(record)].join("\u0000"),
                                                          {pick, record, best: henry.pickOf(record)}])));
    const a = of(before), b = of(after), rows = [];
    for (const key of new Set([...a.keys(), ...b.keys()])) {
        const old = a.get(key), now = b.get(key);
        if (!old || !now || old.best.form !== now.best.form) rows.push({old, now, either: now || old});
    }
    return rows;
};

henry.renderPickChanges = (before, after) => {
    const rows = henry.comparePicks(before, after);
    if (!rows.length) return (after.picks || []).length ? [henry.note("Picks of tuning records are the same.")] : [];
    const form = one => one ? henry.el("code", {}, one.best.form) : "\u2013",
          time = one => one && one.best.samples ? henry.time(one.best.median_ns) : "\u2013";
    return [henry.table(
        [
            {title: "kernel", value: row => row.either.pick.node},
            {title: "target", value: row => row.either.pick.target},
            {title: "sizes", value: row => henry.recordSizes(row.either.record)},
            {title: "pick before", is_wide: true, show: row => form(row.old)},
            {title: "measured before", is_number: true, show: row => time(row.old)},
            {title: "pick after", is_wide: true, show: row => form(row.now)},
            {title: "measured after", is_number: true, show: row => time(row.now)},
        ],
        rows, {caption: "picks of tuning records that differ"})];
};

henry.renderCompare =
    (before, after) => {
        const which = report => [report.path || report.title, report.made].filter(text => text).join(", ");
        const section = henry.section("changes", "What changed", henry.el("b", {}, "before"), `: ${which(before)}. `,
            henry.el("b", {}, "after"), `: ${which(after)}.`);
        const numbers = henry.compareNumbers(before, after).filter(row => row.a !== row.b);
        section.append(
            numbers.length ? henry.table(
                                 [
                                     {title: "what", value: row => row.name},
                                     {title: "before", is_number: true, show: row => row.show(row.a)},
                                     {title: "after", is_number: true, show: row => row.show(row.b)}, {
                                         title: "difference",
                                         is_number: true,
                                         value: row => (row.b || 0) - (row.a || 0),
                                         show: row => henry.difference((row.b || 0) - (row.a || 0), row.show, henry.costs.has(row.name))
                                     },
                                     {
                                         title: "ratio",
                                         is_number: true,
                                         value: row => row.a ? (row.b || 0) / row.a : 0,
                                         show: row => row.a ? ((row.b || 0) / row.a).toFixed(3) : "\u2013"
                                     }
                                 ],
                                 numbers, {caption: "numbers that differ", limit: 200})
                           : henry.note("No number differs."));
        const pairs = henry.pairSteps(before, after), changed = pairs.filter(pair => pair.change !== "same");
        const step = pair => pair.after || pair.before;
        if (pairs.length)
            section.append(henry.el("p", {},
                               `${henry.count(pairs.length - changed.length)} of ${
                                   henry.count(pairs.length)} steps are the same kernel for the same nodes; ${
                                       ["other text", "other form", "other sizes", "new", "gone"]
                                           .map(word => `${changed.filter(pair => pair.change === word).length} ${word}`)
                                           .join(", ")}.`),
                henry.table(
                    [
                        {title: "step", value: pair => henry.stepTitle(step(pair)), show: pair => henry.stepTitle(step(pair))},
                        {title: "change", value: pair => pair.change, show: pair => pair.change + pair.form},
                        {
                            title: "kernel before",
                            value: pair => pair.before ? pair.before.name : "",
                            show: pair => pair.before
                                              ? henry.el("button",
                                                    {type: "button", class: "link", click: () => henry.openStep(before, pair.before.index)},
                                                    pair.before.name)
                                              : "\u2013"
                        },
                        {
                            title: "after",
                            value: pair => pair.after ? pair.after.name : "",
                            show: pair => pair.after
                                              ? henry.el("button",
                                                    {type: "button", class: "link", click: () => henry.openStep(after, pair.after.index)},
                                                    pair.after.name)
                                              : "\u2013"
                        },
                        {
                            title: "time before",
                            is_number: true,
                            value: pair => pair.before && pair.before.ns,
                            show: pair => henry.time(pair.before && pair.before.ns)
                        },
                        {
                            title: "time after",
                            is_number: true,
                            value: pair => pair.after && pair.after.ns,
                            show: pair => henry.time(pair.after && pair.after.ns)
                        },
                        {
                            title: "time",
                            is_number: true,
                            value: pair => pair.ns,
                            show: pair => pair.ns ? henry.difference(pair.ns, henry.time) : "\u2013"
                        },
                        {
                            title: "bytes",
                            is_number: true,
                            value: pair => pair.bytes,
                            show: pair => pair.bytes ? henry.difference(pair.bytes, henry.bytes) : "same"
                        },
                    ],
                    pairs, {
                        caption: "steps, the slower ones first",
                        sort: 6,
                        words: pair => `${pair.change} ${
                                [pair.before, pair.after]
                                    .filter(one => one)
                                    .map(one => one.name + " " + one.nodes.map(origin => origin.node).join(" "))
                                    .join(" ")}`
                    }));
        section.append(...henry.renderPickChanges(before, after));
        const fields = henry.compareFields(before, after);
        section.append(fields.length ? henry.table(
                                           [
                                               {title: "field", value: row => row[0]},
                                               {title: "before", is_wide: true, show: row => henry.el("code", {}, row[1])},
                                               {title: "after", is_wide: true, show: row => henry.el("code", {}, row[2])}
                                           ],
                                           fields, {caption: "options, compiler and machine that differ", limit: 200})
                                     : henry.note("Options, compiler and machine are the same."));
        return section;
    };
