/* The first look: sizes, times, and what costs most. */

henry.tile = (name, value, ...more) => henry.el(
    "div", {class: "tile"}, henry.el("dt", {}, name), henry.el("dd", {}, value, more.length ? henry.el("small", {}, ...more) : null));

henry.summaryTiles = report => {
    const c = report.counters, tiles = [];
    const kernels = report.steps.filter(step => step.kind === "kernel").length,
          calls = report.steps.filter(step => step.kind === "extern").length;
    if (report.program) {
        tiles.push(henry.tile(
            "steps", henry.count(report.steps.length), `${henry.plural(kernels, "kernel")}, ${henry.plural(calls, "call")} of operations`));
        const unique = new Set(report.steps.filter(step => step.kind === "kernel").map(step => step.name)).size;
        tiles.push(henry.tile("different kernels", henry.count(unique),
            report.metrics ? `${c.kernels_compiled} compiled, ${c.kernels_cached} from the cache` : null));
    }
    if (report.metrics) {
        tiles.push(henry.tile("fusion", `${henry.count(c.loops)} \u2192 ${henry.count(c.steps_scheduled)}`,
            `loops to steps; ${henry.plural(c.nodes_imported, "node")} in the model`));
        tiles.push(henry.tile("kernels move", henry.bytes(c.bytes_read + c.bytes_written),
            `${henry.bytes(c.bytes_read)} read, ${henry.bytes(c.bytes_written)} written in a run`));
    }
    if (report.compilation)
        tiles.push(henry.tile("compiled in", henry.time(report.compilation.total_ns),
            report.compilation.saved_ns ? `${henry.time(report.compilation.saved_ns)} saved by the cache` : null));
    if (report.run && report.run.count)
        tiles.push(henry.tile("a run takes", henry.time(report.run.median_ns),
            `median of ${henry.plural(report.run.count > 1 ? report.run.count - 1 : 1, "run")}; the first took ${
                henry.time(report.run.first_ns)}`));
    if (report.hasLimits)
        tiles.push(henry.tile("lost to the limits", henry.time(report.roofline.lost_ns),
            `of ${henry.time(report.roofline.ns)} in steps: what better kernels would gain. As one kernel, all would take ${
                henry.time(report.roofline.whole_ns)}`));
    if (report.program) {
        const workspace = report.program.workspaces.reduce((sum, one) => sum + (one.bytes || 0), 0);
        tiles.push(henry.tile("memory", henry.bytes(workspace), `temporaries; ${henry.bytes(report.program.weights_bytes)} of weights`));
    }
    return henry.el("dl", {class: "tiles"}, tiles);
};

henry.phaseColours = ["phase", "pass", "publish", "queued", "kernel", "compile", "other"];
henry.summaryPhases = report => {
    const phases = report.compilation.phases.filter(phase => phase.ns > 0), sum = phases.reduce((total, phase) => total + phase.ns, 0);
    return [
        henry.el("h3", {}, "Time of the compilation"),
        henry.el("div",
            {class: "stack", role: "img", "aria-label": phases.map(phase => `${phase.name} ${henry.time(phase.ns)}`).join(", ")},
            phases.map((phase, k) => henry.el("span", {
                style: `flex:${phase.ns / sum};background:var(--${henry.phaseColours[k % 7]})`,
                title: `${phase.name} ${henry.time(phase.ns)}`
            },
                           phase.ns / sum > .06 ? phase.name : ""))),
        henry.legend(phases.map((phase, k) => [`${phase.name} ${henry.time(phase.ns)}`, henry.phaseColours[k % 7]])),
    ];
};

/* How the graph became what was lowered. */
henry.summaryPasses =
    report =>
        henry.el("details", {},
            henry.el("summary", {},
                `Passes: ${henry.plural(report.passes[0].nodes_before, "node")} became ${
                    henry.count(report.passes[report.passes.length - 1].nodes_after)}`),
            henry.table(
                [
                    {title: "pass", show: pass => pass.name},
                    {title: "time", is_number: true, show: pass => henry.time(pass.ns)},
                    {title: "nodes before", is_number: true, show: pass => henry.count(pass.nodes_before)},
                    {title: "nodes after", is_number: true, show: pass => henry.count(pass.nodes_after)},
                ],
                report.passes, {caption: "passes over the graph, in their order"}));

/* The steps that cost most: by what is lost, or by their time. */
henry.summaryWorst = report => {
    const key = report.hasLimits ? "lost_ns" : "ns";
    const worst = report.steps.filter(step => step[key] > 0).sort((a, b) => b[key] - a[key]).slice(0, 5);
    if (!worst.length) return [];
    const most = worst[0][key];
    return [
        henry.el("h3", {}, report.hasLimits ? "Where most time is lost" : "Where the time goes"),
        henry.el("ol", {class: "worst"},
            worst.map(step => henry.el("li", {},
                          henry.el("span", {}, henry.stepLink(report, step.index), " ", henry.el("code", {class: "soft"}, step.name)),
                          henry.el("span", {class: "num"}, henry.time(step[key])), henry.meter(step[key] / most)))),
    ];
};

henry.renderSummary = report => {
    const section = henry.section("summary", "Summary");
    if (!report.path && !report.program && !report.trace) {
        section.append(henry.note("There is nothing in this report."));
        return section;
    }
    const what = {model: "a model, compiled past the cache of graphs", bundle: "a bundle", trace: "a trace"}[report.kind] || report.kind;
    section.append(henry.el("p", {class: "soft"}, henry.el("code", {}, report.path), ` is ${what}`,
        report.program ? `, for ${report.program.targets.map(target => target.name).join(", ")}` : "", "."));
    if (report.run && report.run.problem)
        section.append(henry.el("p", {class: "note bad"}, "There are no times of steps, or not all: ", report.run.problem));
    if (report.run && report.run.is_random && report.run.count)
        section.append(henry.note("It ran on random inputs, with the sizes of the export. Give --input for others."));
    section.append(henry.summaryTiles(report));
    if (report.compilation) section.append(...henry.summaryPhases(report));
    if (report.passes && report.passes.length) section.append(henry.summaryPasses(report));
    section.append(...henry.summaryWorst(report));
    return section;
};
