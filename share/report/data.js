/* Objects of reports, read and completed: who writes what a step reads, what moves, how long it may take at best. */

/* The text of a step for people: the node it ends with. */
henry.stepTitle = step => step.node || step.name;

/* Operands, by buffer. */
henry.readOperands = (report, step) => {
    step.reads = step.operands.filter(([, written]) => !written).map(([buffer]) => buffer);
    step.writes = step.operands.filter(([, written]) => written).map(([buffer]) => buffer);
};

/* Bytes and operations of a step: of its record if there is one; otherwise all of its operands, each once. */
henry.readTraffic = (report, step) => {
    const sum = list => [...new Set(list)].reduce((total, buffer) => total + (report.program.buffers[buffer].bytes || 0), 0);
    step.isCounted = henry.isNumber(step.read_bytes);
    if (!step.isCounted) step.read_bytes = sum(step.reads), step.written_bytes = sum(step.writes);
    step.bytes = step.read_bytes + step.written_bytes;
    if (step.category === "control") step.bytes = 0;
};

/* Time of one run: that of a call at its best, as often as a run has it. */
henry.readTime = (report, step) => {
    if (!step.calls) return;
    step.callsOfRun = step.calls / report.run.profiled;
    step.ns = step.min_ns * step.callsOfRun;
    step.mean_ns = step.total_ns / report.run.profiled;
};

/* The nearer limit, and what steps take beyond it. */
henry.readLimits = report => {
    for (const limit of (report.roofline || {steps: []}).steps) {
        const step = report.steps[limit.step];
        if (!step) continue;
        step.ns = limit.ns, step.callsOfRun = limit.calls;
        if (!henry.isNumber(limit.ideal_ns)) continue;
        Object.assign(
            step, {ideal_ns: limit.ideal_ns, limit: limit.limit, lost_ns: limit.lost_ns, move_ns: limit.move_ns, math_ns: limit.math_ns});
        step.reached = limit.ns > 0 ? Math.min(1, limit.ideal_ns / limit.ns) : undefined;
    }
};

/* Edges: from the step that has last written a buffer to each that reads it. A step that writes a part of what is there comes
   behind those who wrote the other parts. */
henry.readEdges = report => {
    const writers = new Map();
    report.edges = [];
    for (const step of report.steps) step.from = [], step.to = [];
    for (const step of report.steps) {
        const seen = new Set();
        for (const buffer of step.reads) {
            for (const writer of writers.get(buffer) || []) {
                if (writer === step.index || seen.has(writer)) continue;
                seen.add(writer);
                report.edges.push({from: writer, to: step.index, buffer});
                report.steps[writer].to.push(step.index);
                step.from.push(writer);
            }
        }
        for (const buffer of step.writes) {
            const old = step.reads.includes(buffer) ? [] : writers.get(buffer) || [];
            writers.set(buffer, [...old, step.index].slice(-8));
        }
    }
};

/* The form with its parameters: that of the call, of records of tuning, or the planner's first. Undefined: nobody says. */
henry.formOf = (report, step) => {
    const pick = report.pickByName.get(step.name), kernel = report.textByName.get(step.name);
    if (step.picked) return step.picked;
    if (pick) return pick.variants[0].form;
    return kernel && kernel.forms && kernel.forms.length ? kernel.forms[0].name : undefined;
};

henry.readSteps = report => {
    const nodes = new Map();
    for (const node of report.nodes || [])
        if (!nodes.has(node.name)) nodes.set(node.name, node);
    report.nodeByName = nodes;
    report.textByName = new Map();
    for (const kernel of report.kernels || []) report.textByName.set(kernel.name, kernel);
    report.pickByName = new Map();
    for (const pick of report.picks || [])
        for (const variant of pick.variants) report.pickByName.set(variant.name, pick);
    report.steps = report.program.steps;
    report.steps.forEach((step, index) => {
        step.index = index;
        step.nodes = step.origins.map(k => report.program.origins[k]).filter(origin => origin && origin.node);
        const last = step.nodes[step.nodes.length - 1];
        step.node = last ? last.node : "";
        step.source = last ? last.source : "";
        step.formName = henry.formOf(report, step);
        henry.readOperands(report, step);
        henry.readTraffic(report, step);
        henry.readTime(report, step);
    });
    henry.readLimits(report);
    report.isTimed = report.steps.some(step => step.ns);
    report.hasLimits = report.steps.some(step => henry.isNumber(step.lost_ns));
    report.stepsNs = report.steps.reduce((sum, step) => sum + (step.ns || 0), 0);
    henry.readEdges(report);
};

/* From which step to which a buffer is alive. What a loop uses is alive in all of its rounds. */
henry.readLives = report => {
    const lives = report.program.buffers.map(() => null), count = report.steps.length;
    const mention = (buffer, first, last) => {
        const life = lives[buffer] || (lives[buffer] = {first, last});
        life.first = Math.min(life.first, first);
        life.last = Math.max(life.last, last);
    };
    let loop = 0, loopEnd = 0;
    report.steps.forEach((step, k) => {
        if (k >= loopEnd && step.kind === "loop") loop = k, loopEnd = k + 1 + (step.then_count || 0) + (step.otherwise_count || 0);
        const inside = k < loopEnd;
        for (const [buffer] of step.operands) mention(buffer, inside ? loop : k, inside ? loopEnd - 1 : k);
    });
    for (const output of report.program.outputs)
        if (lives[output.buffer]) lives[output.buffer].last = count - 1;
    report.lives = lives;
};

henry.readCounters = report => {
    report.counters = {};
    for (const metric of report.metrics || []) report.counters[metric.name] = metric.value;
};

/* Anything but the version may be missing. What all sections take for granted is empty then; each says what it lacks. */
henry.readReport = text => {
    const report = {kind: "report", path: "", made: "", environment: [], ...JSON.parse(text)};
    report.title = report.path.replace(/^.*\//, "") || "a report without a name";
    henry.readCounters(report);
    if (report.program) henry.readSteps(report), henry.readLives(report);
    else report.steps = [], report.edges = [];
    return report;
};
