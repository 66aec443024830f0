/* One step, in a dialogue: its nodes with their source lines, its numbers, what it reads and writes, its text. */

henry.stepLink = (report, index) => henry.el("button", {type: "button", class: "link", click: () => henry.openStep(report, index)},
    `${index} ${henry.stepTitle(report.steps[index])}`);
henry.stepLinks = (report, list) =>
    list.length ? list.flatMap((k, at) => at ? [", ", henry.stepLink(report, k)] : [henry.stepLink(report, k)]) : ["none"];

/* What the compiler made of it. */
henry.formFacts = step => {
    if (!step.fused_loops) return [step.category && ["category", step.category]];
    const vectors = !step.is_vectorized ? "no vectors" : step.lanes ? `${step.lanes} lanes` : "in vectors";
    const rows = step.row_rank ? [step.sizes.slice(0, step.row_rank).join(" x ") + " rows"] : [];
    const inner = step.sizes.slice(step.row_rank).join(" x ");
    const text = [
        henry.plural(step.loads, "load"), henry.plural(step.stores, "store") + (step.atomics ? ` (${step.atomics} atomic)` : ""),
        henry.plural(step.loops, "loop")
    ];
    if (step.reductions) text.push(henry.plural(step.reductions, "reduction"));
    if (step.barriers) text.push(henry.plural(step.barriers, "barrier"));
    const fused = `${henry.plural(step.fused_loops, "loop")} in ${henry.plural(step.phases, "phase")}`;
    return [
        ["form", [step.category, step.form, vectors].concat(step.threads > 1 ? `groups of ${step.threads} threads` : []).join(", ")],
        ["fused", fused + (step.local_buffers ? `, ${henry.plural(step.local_buffers, "local buffer")}` : "")],
        ["extents", rows.concat(inner || []).join(", each of ")],
        ["text", text.join(", ")],
        step.registers &&
            ["registers", `${step.registers} a thread` + (step.stack_bytes ? `, and ${henry.bytes(step.stack_bytes)} on the stack` : "")],
    ];
};

/* How long it takes, what it moves and computes, and what the machine would need for that. */
henry.timeFacts = (report, step) => {
    const bound = !step.isCounted ? " (all of its operands)" : step.is_bound ? " (at most: the data decides)" : "";
    const facts = [];
    if (step.ns)
        facts.push([
            "time",
            `${henry.time(step.ns)} a run, ${henry.percent(step.ns / report.stepsNs)} of all steps; on average ${henry.time(step.mean_ns)}`
        ]);
    if (step.bytes) facts.push(["moves", `${henry.bytes(step.read_bytes)} read, ${henry.bytes(step.written_bytes)} written${bound}`]);
    if (step.ns && step.bytes) facts.push(["rate", henry.rate(step.bytes * (step.callsOfRun || 1) / step.ns * 1e9)]);
    if (henry.isNumber(step.operations)) facts.push(["computes", henry.operations(step.operations) + " operations, counted in additions"]);
    if (henry.isNumber(step.ideal_ns))
        facts.push([
            "limit", `${henry.time(step.ideal_ns)} (${step.limit}): ${henry.time(step.move_ns)} for its bytes, ${
                         henry.time(step.math_ns)} for its operations`
        ]);
    if (henry.isNumber(step.lost_ns))
        facts.push(["lost", `${henry.time(step.lost_ns)}; ${henry.percent(step.reached)} of the limit is reached`]);
    if (henry.isNumber(step.predicted_ns)) facts.push(["planner expects", henry.time(step.predicted_ns)]);
    return facts;
};

henry.stepFacts = (report, step) => henry.facts([
    ["kind", step.kind + (step.device ? " on " + step.device : "")],
    ...henry.formFacts(step),
    ...henry.timeFacts(report, step),
    henry.isNumber(step.extent) &&
        ["iterations", henry.count(step.extent) + (step.grain > 1 ? `, at least ${henry.count(step.grain)} a thread` : "")],
    step.variants && ["picked", `${step.picked}: one of ${henry.plural(step.variants, "form")}, for these sizes`],
    step.grid && ["grid", `${step.grid.join(" x ")} groups of ${step.block.join(" x ")} threads`],
    step.shared_bytes && ["shared memory", henry.bytes(step.shared_bytes)],
    step.scratch_bytes && ["scratch memory", henry.bytes(step.scratch_bytes)],
    ["needs", ...henry.stepLinks(report, step.from)],
    ["is needed by", ...henry.stepLinks(report, step.to.slice(0, 40))],
]);

/* The nodes that the group has, each with where its operands come from: inside of it, or another step. */
henry.stepNodes = (report, step) => {
    const inside = new Set(step.nodes.map(origin => origin.node));
    return henry.table(
        [
            {title: "node", value: origin => origin.node},
            {title: "operator", show: origin => henry.el("code", {}, (report.nodeByName.get(origin.node) || {op: ""}).op)},
            {title: "result", show: origin => (report.nodeByName.get(origin.node) || {types: []}).types.join(", ")},
            {
                title: "of",
                is_wide: true,
                show: origin => (
                    report.nodeByName.get(origin.node) ||
                    {from: []}).from.flatMap((name, k) => [k ? ", " : "", inside.has(name) ? henry.el("b", {}, name) : name])
            },
            {title: "source", show: origin => henry.el("code", {}, origin.source)},
        ],
        step.nodes, {caption: "nodes of the model that it does; operands in bold are computed in it, too", limit: 200});
};

henry.stepOperands = (report, step) => henry.table(
    [
        {title: "buffer", value: ([buffer]) => buffer},
        {title: "use", show: ([, written]) => written ? "written" : "read"},
        {title: "name", is_wide: true, show: ([buffer]) => report.program.buffers[buffer].name},
        {title: "kind", show: ([buffer]) => report.program.buffers[buffer].kind},
        {title: "tensor", show: ([buffer]) => henry.el("code", {}, report.program.buffers[buffer].type)},
        {title: "bytes", is_number: true, show: ([buffer]) => henry.bytes(report.program.buffers[buffer].bytes)},
    ],
    step.operands, {caption: "what it reads and writes"});

henry.stepText = (report, step) => {
    const code = step.kernel ? report.program.codes[step.kernel] : null;
    /* of several forms the one that the sizes at hand take, which is not the one that the step is listed with */
    const names = step.picked ? [step.name] : code ? code.code.map(one => one.symbol) : [];
    const kernels = names.map(name => report.textByName.get(name)).filter(one => one);
    if (step.kind !== "kernel" && !kernels.length)
        return [henry.el("p", {class: "soft"}, "An operation that Henry has: there is no generated text.")];
    if (!kernels.length) return [henry.el("p", {class: "soft"}, "A bundle has no source text. Give henry report the model instead.")];
    return [...kernels.flatMap(kernel => henry.kernelText(kernel)), ...kernels.flatMap(kernel => henry.otherTexts(report, kernel))];
};

henry.kernelText = kernel => [henry.el("h3", {}, `Source for ${kernel.target} (${kernel.language})`),
    henry.el("pre", {tabindex: "0", "aria-label": "source text of " + kernel.name}, henry.el("code", {}, kernel.text))];

/* Of a kernel in several forms those that run at other sizes: buttons that open them. */
henry.otherTexts = (report, kernel) => {
    const pick = report.pickByName.get(kernel.name);
    const others = pick ? pick.variants.filter(one => one.name !== kernel.name && report.textByName.has(one.name)) : [];
    if (!others.length) return [];
    return [
        henry.el("h3", {}, "Other forms of this kernel"),
        henry.el("ul", {},
            others.map(
                one => henry.el("li", {},
                    henry.el("button", {type: "button", class: "link", click: () => henry.openText(report, one.name, one.form)}, one.form),
                    ` (${henry.variantSizes(pick, one)})`)))
    ];
};

/* The text of a form, whether it ran or not. */
henry.openText = (report, name, form) => {
    const dialog = document.getElementById("step"), kernel = report.textByName.get(name);
    henry.replace(dialog,
        henry.el("div", {class: "head"}, henry.el("h2", {id: "step-title"}, "Form ", henry.el("code", {class: "soft"}, form)),
            henry.el("button", {type: "button", click: () => dialog.close()}, "Close")),
        kernel ? henry.kernelText(kernel) : henry.el("p", {class: "soft"}, "This report does not have its text."));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
};

henry.openStep = (report, index) => {
    const step = report.steps[index], dialog = document.getElementById("step");
    henry.replace(dialog,
        henry.el("div", {class: "head"},
            henry.el("h2", {id: "step-title"}, `Step ${index}: ${henry.stepTitle(step)} `, henry.el("code", {class: "soft"}, step.name)),
            henry.el("button", {type: "button", click: () => dialog.close()}, "Close")),
        henry.stepFacts(report, step), henry.stepNodes(report, step), henry.stepOperands(report, step), henry.stepText(report, step));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    if (report === henry.shown) history.replaceState(null, "", "#step-" + index);
};
document.getElementById("step").addEventListener("close", () => {
    if (/^#step-/.test(location.hash)) history.replaceState(null, "", location.pathname + location.search);
});
