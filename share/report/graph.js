/* The graph of steps: each group of fused nodes is a box, below what it needs. Only what is in sight is in the document. */

/* Layers from top to bottom, in which a step stands below what it needs. An edge that crosses few layers goes through places that are
   kept free in them, one for all edges of a step; one that crosses many is drawn when one of its ends is chosen. */
henry.GRAPH = {
    width: 172,
    height: 46,
    pitch: 74,
    gap: 26,
    lane: 10,
    across: 12,
    far: 8
};

henry.findLayers = report => {
    const layers = [];
    for (const step of report.steps) {
        step.layer = step.from.reduce((most, from) => Math.max(most, report.steps[from].layer + 1), 0);
        while (layers[step.layer] && layers[step.layer].length >= henry.GRAPH.across) step.layer++;
        while (layers.length <= step.layer) layers.push([]);
        layers[step.layer].push({step, width: henry.GRAPH.width, from: []});
        step.item = layers[step.layer][layers[step.layer].length - 1];
    }
    return layers;
};

henry.findLanes = (report, layers) => {
    const lanes = report.steps.map(() => new Map());
    for (const edge of report.edges) {
        const from = report.steps[edge.from], to = report.steps[edge.to];
        edge.isFar = to.layer - from.layer > henry.GRAPH.far;
        edge.lanes = [];
        let last = from.item;
        for (let k = from.layer + 1; k < to.layer && !edge.isFar; k++) {
            let lane = lanes[edge.from].get(k);
            if (!lane) {
                lane = {step: null, width: henry.GRAPH.lane, from: [last], layer: k};
                lanes[edge.from].set(k, lane), layers[k].push(lane);
            }
            edge.lanes.push(lane), last = lane;
        }
        if (!edge.isFar) to.item.from.push(last);
    }
};

henry.middleOf = layer =>
    (Math.min(...layer.map(item => item.x - item.width / 2)) + Math.max(...layer.map(item => item.x + item.width / 2))) / 2;

henry.placeLayer = (layer, before) => {
    const GAP = henry.GRAPH.gap, middle = before ? henry.middleOf(before) : 0;
    for (const item of layer) item.wish = item.from.length ? item.from.reduce((sum, from) => sum + from.x, 0) / item.from.length : middle;
    layer.sort((a, b) => a.wish - b.wish || (a.step ? 1 : 0) - (b.step ? 1 : 0));
    let end = -Infinity;
    for (const item of layer) item.x = Math.max(item.wish, end + GAP + item.width / 2), end = item.x + item.width / 2;
    const shift = layer.reduce((sum, item) => sum + item.wish - item.x, 0) / Math.max(1, layer.length);
    for (const item of layer) item.x += shift;
};

/* A long graph wanders to one side; each layer goes back by the mean of those around it. */
henry.straighten = layers => {
    const AROUND = 6, middles = layers.map(henry.middleOf);
    layers.forEach((layer, k) => {
        const near = middles.slice(Math.max(0, k - AROUND), k + AROUND + 1), mean = near.reduce((sum, x) => sum + x, 0) / near.length;
        for (const item of layer) item.x -= mean;
    });
};

/* `x` of an item is its middle, of a step its left edge. */
henry.layOutSteps = report => {
    const G = henry.GRAPH, layers = henry.findLayers(report);
    henry.findLanes(report, layers);
    layers.forEach((layer, k) => henry.placeLayer(layer, layers[k - 1]));
    henry.straighten(layers);
    const items = layers.flat(), least = Math.min(...items.map(item => item.x - item.width / 2));
    for (const item of items) {
        item.x += G.gap - least;
        if (item.step) item.step.x = item.x - G.width / 2, item.step.y = G.gap + item.step.layer * G.pitch;
    }
    return {
        layers: layers.map(layer => layer.filter(item => item.step).map(item => item.step)),
        width: Math.max(...items.map(item => item.x + item.width / 2)) + G.gap,
        height: layers.length * G.pitch + G.gap,
        boxWidth: G.width,
        boxHeight: G.height,
        pitch: G.pitch
    };
};

henry.graphColour = step => step.kind === "kernel" ? "kernel" : step.kind === "extern" ? "extern" : "other";

henry.graph = report => {
    const plan = henry.layOutSteps(report);
    const key = report.hasLimits ? "lost_ns" : "ns", most = Math.max(1, ...report.steps.map(step => step[key] || 0));
    let scale = 1, chosen = null, found = new Set(), matches = [], match = -1;
    const svg = henry.svg("svg", {style: "position:absolute", "aria-hidden": "true"});
    const space = henry.el("div", {style: "position:relative"}, svg);
    const pane = henry.el("div", {
        class: "pane tall",
        tabindex: "0",
        role: "application",
        "aria-label":
            "graph of steps; arrow down goes to a step that needs this one, up to one that it needs, left and right to its neighbours, Enter opens it"
    },
        space);
    const status = henry.el("p", {class: "status", "aria-live": "polite"},
        "A click opens a step; arrow keys choose one, and Enter opens it. Edges of the chosen one stand out.");
    const counted = henry.el("span", {class: "soft", role: "status"});
    /* Edges by the layers that they cross. */
    const byLayer = plan.layers.map(() => []);
    for (const edge of report.edges) {
        const a = report.steps[edge.from].layer, b = report.steps[edge.to].layer;
        for (let k = a; k < (edge.isFar ? a + 1 : b); k++) byLayer[k].push(edge);
        if (edge.isFar) byLayer[b].push(edge);
    }

    const path = edge => {
        const a = report.steps[edge.from], b = report.steps[edge.to], x2 = b.x + plan.boxWidth / 2, y2 = b.y;
        let x = a.x + plan.boxWidth / 2, y = a.y + plan.boxHeight, text = `M${x},${y}`;
        const isNear = chosen !== null && (edge.from === chosen || edge.to === chosen);
        if (edge.isFar && !isNear) return `M${x},${y} q4,10 14,14 M${x2},${y2} q-4,-10 -14,-14`;
        for (const lane of edge.lanes) {
            const top = henry.GRAPH.gap + lane.layer * plan.pitch, half = (top - y) / 2;
            text += `C${x},${y + half} ${lane.x},${top - half} ${lane.x},${top}V${top + plan.boxHeight}`;
            x = lane.x, y = top + plan.boxHeight;
        }
        const half = Math.max(14, (y2 - y) / 2);
        return text + `C${x},${y + half} ${x2},${y2 - half} ${x2},${y2}`;
    };
    const drawEdge = edge => henry.svg("path", {
        d: path(edge),
        class: "edge" + (edge.isFar ? " is-far" : "") + (chosen !== null && (edge.from === chosen || edge.to === chosen) ? " is-near" : "")
    },
        henry.svg("title", {},
            `${henry.stepTitle(report.steps[edge.from])} \u2192 ${henry.stepTitle(report.steps[edge.to])}: ${
                report.program.buffers[edge.buffer].type}`));
    const cut = (text, room) => text.length > room ? text.slice(0, room - 1) + "\u2026" : text;
    const drawStep = step => {
        const near = chosen !== null && (step.from.includes(chosen) || step.to.includes(chosen));
        const size = step.nodes.length > 1 ? `${step.nodes.length} nodes` : step.kind;
        return henry.svg("g", {
            class: "node" +
                       (step.index === chosen ? " is-chosen"
                           : near             ? " is-near"
                                              : "") +
                       (found.has(step.index) ? " is-found" : ""),
            transform: `translate(${step.x},${step.y})`,
            "data-step": step.index,
            click: () => {
                pane.focus({preventScroll: true});
                choose(step.index);
                henry.openStep(report, step.index);
            }
        },
            henry.svg("rect", {width: plan.boxWidth, height: plan.boxHeight, rx: 6, style: `fill:var(--${henry.graphColour(step)})`}),
            henry.svg("text", {x: 8, y: 18, style: "font-weight:600"}, cut(henry.stepTitle(step), 23)),
            henry.svg("text", {x: 8, y: 34},
                cut(`${step.kind === "extern" ? step.name : size}${step.ns ? " \u00b7 " + henry.time(step.ns) : ""}`, 27)),
            step[key] ? henry.svg("rect", {
                x: 0,
                y: plan.boxHeight - 4,
                width: Math.max(2, plan.boxWidth * step[key] / most),
                height: 4,
                style: "fill:var(--bad);stroke:none"
            })
                      : null,
            henry.svg("title", {}, `step ${step.index}: ${step.name}, ${step.nodes.map(origin => origin.node).join(" ")}`));
    };
    const draw = () => {
        const top = pane.scrollTop / scale, bottom = top + pane.clientHeight / scale,
              width = Math.max(plan.width * scale, pane.clientWidth);
        const margin = Math.max(0, (pane.clientWidth / scale - plan.width) / 2);
        const first = Math.max(0, Math.floor(top / plan.pitch) - 2),
              last = Math.min(plan.layers.length - 1, Math.ceil(bottom / plan.pitch) + 1);
        const edges = new Set(), steps = [];
        for (let k = first; k <= last; k++) byLayer[k].forEach(edge => edges.add(edge)), steps.push(...plan.layers[k]);
        if (chosen !== null)
            for (const edge of report.edges)
                if (edge.from === chosen || edge.to === chosen) edges.add(edge);
        space.style.width = plan.width * scale + "px", space.style.height = plan.height * scale + "px";
        const y = first * plan.pitch;
        svg.style.top = y * scale + "px", svg.style.left = "0";
        svg.setAttribute("width", width), svg.setAttribute("height", (last - first + 2) * plan.pitch * scale);
        svg.setAttribute("viewBox", `${- margin} ${y} ${width / scale} ${(last - first + 2) * plan.pitch}`);
        svg.replaceChildren(...[...edges].map(drawEdge), ...steps.map(drawStep));
    };
    let isWaiting = false;
    const later = () => {
        if (!isWaiting) isWaiting = true, requestAnimationFrame(() => { isWaiting = false, draw(); });
    };
    const reveal = step => {
        const x = (step.x + plan.boxWidth / 2) * scale, y = (step.y + plan.boxHeight / 2) * scale, margin = 90;
        if (y < pane.scrollTop + margin || y > pane.scrollTop + pane.clientHeight - margin) pane.scrollTop = y - pane.clientHeight / 2;
        if (x < pane.scrollLeft + margin || x > pane.scrollLeft + pane.clientWidth - margin) pane.scrollLeft = x - pane.clientWidth / 2;
    };
    const choose = index => {
        const step = report.steps[chosen = index];
        henry.replace(status, henry.stepLink(report, index),
            ` \u2013 ${step.kind} ${step.name}, ${henry.plural(step.nodes.length, "node")}${step.source ? ", " + step.source : ""}${
                step.ns ? ", " + henry.time(step.ns) : ""}; needs ${step.from.length}, is needed by ${step.to.length}.`);
        reveal(step);
        later();
    };
    const move = key => {
        if (chosen === null) return choose(key === "End" ? report.steps.length - 1 : 0);
        const step = report.steps[chosen], layer = plan.layers[step.layer], at = layer.indexOf(step);
        const next = {
            ArrowDown: step.to[0] ?? (chosen + 1 < report.steps.length ? chosen + 1 : undefined),
            ArrowUp: step.from[0] ?? (chosen > 0 ? chosen - 1 : undefined),
            ArrowLeft: layer[at - 1] && layer[at - 1].index,
            ArrowRight: layer[at + 1] && layer[at + 1].index,
            Home: 0,
            End: report.steps.length - 1
        }[key];
        if (next !== undefined) choose(next);
    };
    const zoom = factor => {
        const middle = (pane.scrollTop + pane.clientHeight / 2) / scale;
        scale = Math.min(2, Math.max(.15, scale * factor));
        draw();
        pane.scrollTop = middle * scale - pane.clientHeight / 2;
        later();
    };
    pane.addEventListener("scroll", later);
    pane.addEventListener("keydown", event => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") move(event.key);
        else if (event.key === "Enter" && chosen !== null) henry.openStep(report, chosen);
        else if (event.key === "+" || event.key === "=") zoom(1.25);
        else if (event.key === "-") zoom(.8);
        else return;
        event.preventDefault();
    });
    pane.addEventListener("wheel", event => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15);
    }, {passive: false});
    const search = text => {
        const word = text.trim().toLowerCase();
        matches = word ? report.steps
                             .filter(step => (step.name + " " + step.nodes.map(origin => origin.node + " " + origin.source).join(" "))
                                                 .toLowerCase()
                                                 .includes(word))
                             .map(step => step.index)
                       : [];
        found = new Set(matches), match = -1;
        counted.textContent = word ? henry.plural(matches.length, "step") : "";
        later();
    };
    const next = by => {
        if (!matches.length) return;
        match = (match + by + matches.length) % matches.length;
        counted.textContent = `${match + 1} of ${matches.length}`;
        choose(matches[match]);
    };
    const button = (text, act, label) => henry.el("button", {type: "button", click: act, "aria-label": label || null}, text);
    const box = henry.el("input", {
        type: "search",
        placeholder: "node, kernel or source line",
        "aria-label": "search the graph",
        input: event => search(event.target.value),
        keydown: event => {
            if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
        }
    });
    new ResizeObserver(later).observe(pane);
    requestAnimationFrame(() => {
        draw();
        pane.scrollLeft = Math.max(0, (plan.layers[0][0].x + plan.boxWidth / 2) * scale - pane.clientWidth / 2);
    });
    return [
        henry.el("div", {class: "bar"}, button("\u2212", () => zoom(.8), "zoom out of the graph"),
            button("+", () => zoom(1.25), "zoom into the graph"), box, button("Previous", () => next(-1)), button("Next", () => next(1)),
            counted),
        pane, status
    ];
};

henry.renderGraph = report => {
    const section = henry.section("graph", "Graph",
        "A box is a step: nodes of the model that became one kernel, or a call of an operation. It stands below all that it needs.");
    if (!report.steps.length) {
        section.append(henry.note("There is no program in this report."));
        return section;
    }
    section.append(henry.legend([
        ["kernel", "kernel"], ["operation", "extern"], ["other step", "other"], [report.hasLimits ? "time lost (bar)" : "time (bar)", "bad"]
    ]),
        ...henry.graph(report));
    return section;
};
