/* Memory over the steps of a run: where each temporary lies, and how much is alive. */

/* Workspaces of devices and blocks of outputs: {title, bytes, boxes}. */
henry.memories = report => {
    const buffers = report.program.buffers, lives = report.lives, memories = [];
    const boxes = belongs =>
        buffers.map((buffer, index) => ({buffer, index}))
            .filter(({buffer, index}) => buffer && belongs(buffer) && lives[index] && henry.isNumber(buffer.offset) && buffer.bytes > 0)
            .map(({buffer, index}) => ({
                index,
                name: buffer.name,
                kind: buffer.kind,
                type: buffer.type,
                bytes: buffer.bytes,
                at: buffer.offset,
                first: lives[index].first,
                last: lives[index].last
            }));
    for (const one of report.program.workspaces)
        memories.push({
            title: "temporaries on " + one.device,
            bytes: one.bytes || 0,
            boxes: boxes(buffer => buffer.kind === "temp" && (buffer.device || "cpu") === one.device)
        });
    buffers.forEach((pool, index) => {
        if (pool && pool.kind === "pool")
            memories.push({title: "block of outputs " + index, bytes: pool.bytes || 0, boxes: boxes(buffer => buffer.pool === index)});
    });
    return memories.filter(one => one.boxes.length);
};

/* Bytes alive at each step; what shares bytes counts once. */
henry.aliveBytes = (memory, count) => {
    const begins = Array.from({length: count}, () => []), alive = new Array(count).fill(0), current = new Set();
    for (const box of memory.boxes) begins[box.first].push(box);
    for (let k = 0; k < count; k++) {
        for (const box of begins[k]) current.add(box);
        let until = -1;
        for (const box of [...current].sort((a, b) => a.at - b.at)) {
            const end = box.at + box.bytes;
            if (end > until) alive[k] += end - Math.max(box.at, until), until = end;
            if (box.last <= k) current.delete(box);
        }
    }
    return alive;
};

henry.memoryPicture = (report, memory, status) => {
    const WIDTH = 1100, HEIGHT = 340, LEFT = 70, TOP = 14, count = report.steps.length;
    const alive = henry.aliveBytes(memory, count), most = Math.max(...alive),
          top = Math.max(memory.bytes, ...memory.boxes.map(box => box.at + box.bytes));
    const x = step => LEFT + step / count * (WIDTH - LEFT - 8), y = bytes => TOP + HEIGHT * (1 - bytes / top);
    const order = [...memory.boxes].sort((a, b) => a.first - b.first || a.at - b.at);
    let chosen = -1;
    const rects = order.map((box, k) => henry.svg("rect", {
        class: "box",
        x: x(box.first),
        y: y(box.at + box.bytes),
        width: Math.max(1, x(box.last + 1) - x(box.first)),
        height: Math.max(1, y(box.at) - y(box.at + box.bytes)),
        style: `fill:var(--${["kernel", "extern", "phase", "queued", "publish"][box.index % 5]})${
            y(box.at) - y(box.at + box.bytes) < 4 ? ";stroke-width:0" : ""}`,
        click: () => choose(k)
    },
                                henry.svg("title", {}, `${box.name || "buffer " + box.index}: ${henry.bytes(box.bytes)}`)));
    let line = "";
    alive.forEach((bytes, k) => {
        if (!k || bytes !== alive[k - 1] || k === count - 1)
            line += `${k ? "H" + x(k).toFixed(1) : "M" + x(0)}${k ? "V" : ","}${y(bytes).toFixed(1)}`;
    });
    const svg = henry.svg("svg", {
        viewBox: `0 0 ${WIDTH} ${HEIGHT + TOP + 22}`,
        width: "100%",
        role: "img",
        "aria-label": `${memory.title}: ${henry.bytes(memory.bytes)}, at most ${henry.bytes(most)} alive`
    },
        henry.svg("path", {class: "axis", d: `M${LEFT},${TOP}V${TOP + HEIGHT}H${WIDTH - 8}`, fill: "none"}), rects,
        henry.svg("path", {class: "alive", d: line + `H${x(count)}`}),
        henry.svg("path", {class: "bound", d: `M${LEFT},${y(most)}H${WIDTH - 8}`}),
        henry.svg("text", {x: LEFT - 6, y: TOP + 8, "text-anchor": "end"}, henry.bytes(top)),
        henry.svg("text", {x: LEFT - 6, y: TOP + HEIGHT, "text-anchor": "end"}, "0"),
        henry.svg("text", {x: LEFT, y: TOP + HEIGHT + 17}, "step 0"),
        henry.svg("text", {x: WIDTH - 8, y: TOP + HEIGHT + 17, "text-anchor": "end"}, "step " + (count - 1)));
    const choose = k => {
        if (chosen >= 0) rects[chosen].classList.remove("is-chosen");
        const box = order[chosen = k];
        rects[k].classList.add("is-chosen");
        henry.replace(status, henry.el("b", {}, box.name || "buffer " + box.index),
            ` \u2013 ${box.type}, ${henry.bytes(box.bytes)} at ${henry.count(box.at)}, from step `, henry.stepLink(report, box.first),
            " to ", henry.stepLink(report, box.last), ".");
    };
    const pane = henry.el("div", {
        class: "pane",
        tabindex: "0",
        role: "application",
        "aria-label": memory.title + "; left and right arrow keys go from buffer to buffer"
    },
        svg);
    pane.addEventListener("keydown", event => {
        if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
        choose(chosen < 0 ? 0 : Math.min(order.length - 1, Math.max(0, chosen + (event.key === "ArrowRight" ? 1 : -1))));
        event.preventDefault();
    });
    return {pane, most, peak: alive.indexOf(most)};
};

henry.renderMemory = report => {
    const section = henry.section("memory", "Memory",
        "Offsets of temporaries upwards, steps of a run to the right. The curve is what is alive; no plan can need less than the dashed line.");
    const memories = report.program ? henry.memories(report) : [];
    if (!memories.length) {
        section.append(henry.note(report.program ? "The program has no temporaries." : "There is no program in this report."));
        return section;
    }
    for (const memory of memories) {
        const status = henry.el("p", {class: "status", "aria-live": "polite"}, "Choose a buffer with the mouse or the arrow keys.");
        const picture = henry.memoryPicture(report, memory, status);
        const atPeak = memory.boxes.filter(box => box.first <= picture.peak && box.last >= picture.peak);
        section.append(henry.el("h3", {}, memory.title),
            henry.el("p", {}, `${henry.bytes(memory.bytes)} planned, at most ${henry.bytes(picture.most)} alive, at step `,
                henry.stepLink(report, picture.peak), picture.most ? `: ${(memory.bytes / picture.most).toFixed(3)} of that.` : "."),
            picture.pane, status,
            henry.el("details", {}, henry.el("summary", {}, "What is alive at the peak"),
                henry.table(
                    [
                        {title: "buffer", value: box => box.name || "buffer " + box.index},
                        {title: "tensor", show: box => henry.el("code", {}, box.type)},
                        {title: "bytes", is_number: true, value: box => box.bytes, show: box => henry.bytes(box.bytes)},
                        {title: "from", is_number: true, value: box => box.first, show: box => henry.stepLink(report, box.first)},
                        {title: "to", is_number: true, value: box => box.last, show: box => henry.stepLink(report, box.last)},
                    ],
                    atPeak, {caption: "buffers alive at the peak", sort: 2})));
    }
    return section;
};
