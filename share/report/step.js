/* One step, in a dialogue: its nodes with their source lines, its numbers, what it reads and writes, its text. */

henry.stepLink = (report, index) => henry.el("button", {type: "button", class: "link", click: () => henry.openStep(report, index)},
    `${index} ${henry.stepTitle(report.steps[index])}`);
henry.stepLinks = (report, list) => list.length ? list.flatMap((k, at) => at ? [", ", henry.stepLink(report, k)] : [henry.stepLink(report, k)]) : ["none"];

henry.stepFacts = (report, step) => henry.facts([
    ["kind", step.kind + (step.device ? " on " + step.device : "")],
    step.form ? ["form", `${step.category}, ${step.form}` + (step.is_vectorized ? step.lanes ? `, ${step.lanes} lanes` : ", in vectors" : ", no vectors") + (step.threads > 1 ? `, groups of ${step.threads} threads` : "")] : step.category ? ["category", step.category] : null,
    step.fused_loops ? ["fused", `${henry.plural(step.fused_loops, "loop")} in ${henry.plural(step.phases, "phase")}` + (step.local_buffers ? `, ${henry.plural(step.local_buffers, "local buffer")}` : "")] : null,
    step.sizes ? ["extents", [step.row_rank ? step.sizes.slice(0, step.row_rank).join(" x ") + " rows" : "", step.sizes.slice(step.row_rank).join(" x ")].filter(text => text).join(", each of ")] : null,
    step.fused_loops ? ["text", `${henry.plural(step.loads, "load")}, ${henry.plural(step.stores, "store")}` + (step.atomics ? ` (${step.atomics} atomic)` : "") + `, ${henry.plural(step.loops, "loop")}` + (step.reductions ? `, ${henry.plural(step.reductions, "reduction")}` : "") + (step.barriers ? `, ${henry.plural(step.barriers, "barrier")}` : "")] : null,
    step.registers ? ["registers", `${step.registers} a thread` + (step.stack_bytes ? `, and ${henry.bytes(step.stack_bytes)} on the stack` : "")] : null,
    step.ns ? ["time", `${henry.time(step.ns)} a run, ${henry.percent(step.ns / report.stepsNs)} of all steps; on average ${henry.time(step.mean_ns)}`] : null,
    step.bytes ? ["moves", `${henry.bytes(step.read_bytes)} read, ${henry.bytes(step.written_bytes)} written` + (!step.isCounted ? " (all of its operands)" : step.is_bound ? " (at most: the data decides)" : "")] : null,
    step.ns && step.bytes ? ["rate", henry.rate(step.bytes * (step.callsOfRun || 1) / step.ns * 1e9)] : null,
    henry.isNumber(step.operations) ? ["computes", henry.operations(step.operations) + " operations, counted in additions"] : null,
    henry.isNumber(step.ideal_ns) ? ["limit", `${henry.time(step.ideal_ns)} (${step.limit}): ${henry.time(step.move_ns)} for its bytes, ${henry.time(step.math_ns)} for its operations`] : null,
    henry.isNumber(step.lost_ns) ? ["lost", `${henry.time(step.lost_ns)}; ${henry.percent(step.reached)} of the limit is reached`] : null,
    henry.isNumber(step.predicted_ns) ? ["planner expects", henry.time(step.predicted_ns)] : null,
    henry.isNumber(step.extent) ? ["iterations", henry.count(step.extent) + (step.grain > 1 ? `, at least ${henry.count(step.grain)} a thread` : "")] : null,
    step.grid ? ["grid", `${step.grid.join(" x ")} groups of ${step.block.join(" x ")} threads`] : null,
    step.shared_bytes ? ["shared memory", henry.bytes(step.shared_bytes)] : null,
    step.scratch_bytes ? ["scratch memory", henry.bytes(step.scratch_bytes)] : null,
    ["needs", ...henry.stepLinks(report, step.from)],
    ["is needed by", ...henry.stepLinks(report, step.to.slice(0, 40))],
]);

/* The nodes that the group has, each with where its operands come from: inside of it, or another step. */
henry.stepNodes = (report, step) => {
    const inside = new Set(step.nodes.map(origin => origin.node));
    return henry.table([
        {title: "node", value: origin => origin.node},
        {title: "operator", show: origin => henry.el("code", {}, (report.nodeByName.get(origin.node) || {op: ""}).op)},
        {title: "result", show: origin => (report.nodeByName.get(origin.node) || {types: []}).types.join(", ")},
        {title: "of", is_wide: true, show: origin => (report.nodeByName.get(origin.node) || {from: []}).from.flatMap((name, k) => [k ? ", " : "", inside.has(name) ? henry.el("b", {}, name) : name])},
        {title: "source", show: origin => henry.el("code", {}, origin.source)},
    ], step.nodes, {caption: "nodes of the model that it does; operands in bold are computed in it, too", limit: 200});
};

henry.stepOperands = (report, step) => henry.table([
    {title: "buffer", value: ([buffer]) => buffer},
    {title: "use", show: ([, written]) => written ? "written" : "read"},
    {title: "name", is_wide: true, show: ([buffer]) => report.program.buffers[buffer].name},
    {title: "kind", show: ([buffer]) => report.program.buffers[buffer].kind},
    {title: "tensor", show: ([buffer]) => henry.el("code", {}, report.program.buffers[buffer].type)},
    {title: "bytes", is_number: true, show: ([buffer]) => henry.bytes(report.program.buffers[buffer].bytes)},
], step.operands, {caption: "what it reads and writes"});

henry.stepText = (report, step) => {
    const code = step.kernel ? report.program.codes[step.kernel] : null;
    const kernels = code ? code.code.map(one => report.textByName.get(one.symbol)).filter(one => one) : [];
    if (step.kind !== "kernel" && !kernels.length) return [henry.el("p", {class: "soft"}, "An operation that Henry has: there is no generated text.")];
    if (!kernels.length) return [henry.el("p", {class: "soft"}, "A bundle has no source text. Give henry report the model instead.")];
    return kernels.flatMap(kernel => [
        henry.el("h3", {}, `Source for ${kernel.target} (${kernel.language})`),
        henry.el("pre", {tabindex: "0", "aria-label": "source text of " + kernel.name}, henry.el("code", {}, kernel.text)),
    ]);
};

henry.openStep = (report, index) => {
    const step = report.steps[index], dialog = document.getElementById("step");
    henry.replace(dialog,
        henry.el("div", {class: "head"}, henry.el("h2", {id: "step-title"}, `Step ${index}: ${henry.stepTitle(step)} `, henry.el("code", {class: "soft"}, step.name)),
            henry.el("button", {type: "button", click: () => dialog.close()}, "Close")),
        henry.stepFacts(report, step), henry.stepNodes(report, step), henry.stepOperands(report, step), henry.stepText(report, step));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    if (report === henry.shown) history.replaceState(null, "", "#step-" + index);
};
document.getElementById("step").addEventListener("close", () => {
    if (/^#step-/.test(location.hash)) history.replaceState(null, "", location.pathname + location.search);
});

