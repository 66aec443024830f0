/* The table of steps, those first that lose most. */

henry.kernelColumns = report => [{title: "step", value: step => step.index, show: step => `${step.index} ${henry.stepTitle(step)}`},
    {title: "kernel", value: step => step.name, show: step => henry.el("code", {}, step.name)},
    {title: "what", value: step => step.category || step.kind},
    {title: "nodes", is_number: true, value: step => step.nodes.length},
    report.isTimed && {
        title: "time",
        is_number: true,
        value: step => step.ns,
        show: step => henry.time(step.ns),
        help: "of one run: the fastest call, as often as a run has it"
    },
    report.isTimed && {
        title: "share",
        is_number: true,
        value: step => step.ns,
        show: step => step.ns ? [henry.percent(step.ns / report.stepsNs), henry.meter(step.ns / report.stepsNs)] : "\u2013"
    },
    report.hasLimits && {
        title: "lost",
        is_number: true,
        value: step => step.lost_ns,
        show: step => henry.time(step.lost_ns),
        help: "time beyond the nearer limit of the machine"
    },
    report.hasLimits && {
        title: "of the limit",
        is_number: true,
        value: step => step.reached,
        show: step =>
            henry.isNumber(step.reached) ? [`${henry.percent(step.reached)} ${step.limit || ""}`, henry.meter(step.reached)] : "\u2013"
    },
    {
        title: "moves",
        is_number: true,
        value: step => step.bytes,
        show: step => step.bytes ? (step.isCounted && !step.is_bound ? "" : "\u2264\u00a0") + henry.bytes(step.bytes) : "\u2013",
        help: "bytes read and written in one call"
    },
    report.isTimed && {
        title: "rate",
        is_number: true,
        value: step => step.ns && step.bytes ? step.bytes * step.callsOfRun / step.ns : undefined,
        show: step => step.ns && step.bytes ? henry.rate(step.bytes * step.callsOfRun / step.ns * 1e9) : "\u2013"
    },
    report.steps.some(step => henry.isNumber(step.operations)) && {
        title: "computes",
        is_number: true,
        value: step => step.operations,
        show: step => henry.operations(step.operations),
        help: "in additions"
    },
    report.steps.some(step => henry.isNumber(step.predicted_ns)) && {
        title: "expected",
        is_number: true,
        value: step => step.predicted_ns,
        show: step => henry.time(step.predicted_ns),
        help: "what the planner expects"
    },
    {title: "source", value: step => step.source, show: step => henry.el("code", {}, step.source)},
].filter(column => column);

/* What an ideal compiler would still gain, and whether the ceilings can be trusted. */
henry.kernelSums = report => {
    const r = report.roofline, fast = report.steps.filter(step => step.ns && step.move_ns > 1.1 * step.ns).length,
          busy = r.ceilings.filter(one => one.own_share < .8);
    return [
        henry.el("p", {},
            `The steps take ${henry.time(r.ns)}; at the limits of this machine they would take ${henry.time(r.ideal_ns)}. The rest, ${
                henry.time(
                    r.lost_ns)}, is what better kernels would gain. If nothing between inputs and outputs went through memory, it would be ${
                henry.time(r.whole_ns)} (${r.whole_limit}).` +
                (r.unknown_ns > 0 ? ` Of steps that take ${henry.time(r.unknown_ns)} besides nothing is known.` : "")),
        fast || busy.length ? henry.note(`The ceilings were measured while the machine was busy, it seems${
                                  fast ? `: ${henry.plural(fast, "step")} ${fast === 1 ? "is" : "are"} faster than they allow`
                                       : ""}. "henry bench --roofline --measure" measures them again.`)
                            : null,
    ].filter(one => one);
};

henry.renderKernels = report => {
    const section = henry.section("kernels", "Kernels by lost time",
        report.hasLimits ? "What each step takes beyond the time that this machine needs at least for its bytes and operations."
        : report.isTimed ? "No limits of the machine are known to this report, so the steps stand by their time."
                         : "Nothing ran, so there are no times.");
    if (!report.steps.length) {
        section.append(henry.note("There is no program in this report."));
        return section;
    }
    const columns = henry.kernelColumns(report), wanted = report.hasLimits ? "lost" : report.isTimed ? "time" : "moves";
    if (report.hasLimits) section.append(...henry.kernelSums(report));
    section.append(henry.table(columns, report.steps, {
        caption: "steps of the program; the first column opens one",
        sort: columns.findIndex(column => column.title === wanted),
        open: step => henry.openStep(report, step.index),
        words: step => `${step.name} ${step.kind} ${step.nodes.map(origin => origin.node + " " + origin.source).join(" ")}`
    }));
    return section;
};
