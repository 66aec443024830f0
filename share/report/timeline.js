/* The time line: a line for each thread and worker, spans one inside the other. Reads Chrome's trace format. */

/* Spans of a trace: {name, category, begin, end (microseconds), line: text}. */
henry.spansOf = trace => {
    const events = Array.isArray(trace) ? trace : trace.traceEvents || [], names = new Map(), spans = [], open = new Map();
    const number = value => Number.isFinite(Number(value)) ? Number(value) : 0;
    for (const event of events)
        if (event && event.ph === "M" && event.name === "thread_name" && event.args)
            names.set(event.pid + "/" + event.tid, String(event.args.name));
    const add = (event, begin, end, line) =>
        spans.push({name: String(event.name ?? ""), category: String(event.cat ?? ""), begin, end: Math.max(begin, end), line});
    const first = events.find(event => event && event.ph !== "M");
    const lineOf = event => names.get(event.pid + "/" + event.tid) ||
                            (first && event.pid === first.pid && event.tid === first.tid ? "main thread" : "thread " + event.tid);
    for (const event of events) {
        if (!event) continue;
        const begin = number(event.ts),
              key = event.ph === "b" || event.ph === "e" ? "a" + event.cat + event.id : "t" + event.pid + "/" + event.tid;
        if (event.ph === "X") add(event, begin, begin + number(event.dur), lineOf(event));
        else if (event.ph === "B" || event.ph === "b") open.set(key, [...open.get(key) || [], event]);
        else if ((event.ph === "E" || event.ph === "e") && (open.get(key) || []).length) {
            const opened = open.get(key).pop();
            add(opened, number(opened.ts), begin, event.ph === "e" ? opened.cat || "asynchronous" : lineOf(event));
        }
    }
    return spans.sort((a, b) => a.begin - b.begin || b.end - a.end);
};

/* Lines with rows: a span goes into the first row in which it fits; a span inside of another below it. */
henry.layOutSpans = spans => {
    const lines = new Map();
    for (const span of spans) {
        if (!lines.has(span.line)) lines.set(span.line, {name: span.line, rows: []});
        const rows = lines.get(span.line).rows;
        let row = 0;
        while (row < rows.length && rows[row][rows[row].length - 1].end > span.begin + 1e-3) row++;
        if (row === rows.length) rows.push([]);
        span.row = row;
        rows[row].push(span);
    }
    const order = name => name === "main thread" ? 0 : name === "queued" ? 1 : 2;
    return [...lines.values()].sort((a, b) => order(a.name) - order(b.name) || a.name.localeCompare(b.name, "en", {numeric: true}));
};

/* Which step a span of a run is: those of a run come in their order, those of loops again and again. */
henry.matchSpans = (report, spans) => {
    const byName = new Map();
    for (const step of report.steps) byName.set(step.name, [...byName.get(step.name) || [], step.index]);
    const calls = spans.filter(span => span.category === "call" && span.name.startsWith("run"));
    let call = 0, at = -1;
    for (const span of spans) {
        if (span.category !== "run") continue;
        while (call < calls.length && span.begin > calls[call].end) call++, at = -1;
        const list = byName.get(span.name) || [], next = list.find(index => index > at);
        span.step = next === undefined ? list[0] : next;
        if (span.step !== undefined) at = span.step;
    }
};

henry.spanTotals = spans => {
    const totals = new Map();
    for (const span of spans) {
        const key = span.category + "\u0000" + span.name,
              sum = totals.get(key) || {category: span.category, name: span.name, count: 0, us: 0, longest: 0};
        sum.count++, sum.us += span.end - span.begin, sum.longest = Math.max(sum.longest, span.end - span.begin);
        totals.set(key, sum);
    }
    return [...totals.values()];
};

henry.timeline = (report, spans) => {
    const lines = henry.layOutSpans(spans), rows = lines.flatMap(line => line.rows.map((list, k) => ({list, line, first: k === 0})));
    const ROW = 20, TOP = 24, LEFT = 116, begin = spans[0].begin,
          end = Math.max(...lines.map(line => Math.max(...line.rows.map(row => row[row.length - 1].end))), begin + 1);
    let from = begin, to = end, chosen = null, matches = [], match = -1, words = "";
    rows.forEach((row, k) => row.list.forEach(span => { span.at = k; }));
    const names = [
        "phase", "pass", "compile", "queued", "publish", "run", "call", "other", "text", "soft", "line", "accent", "mark", "raised",
        "panel", "on-bar"
    ];
    let colours = {};
    const canvas = henry.el("canvas", {
        tabindex: "0",
        role: "application",
        "aria-label": "time line; arrow keys go from span to span, plus and minus zoom, 0 shows all, Enter opens a step",
        style: `height:${TOP + rows.length * ROW + 4}px`
    });
    const status = henry.el("p", {class: "status", "aria-live": "polite"}, "Choose a span with the mouse or the arrow keys.");
    const found = henry.el("span", {class: "soft", role: "status"});

    const x = us => LEFT + (us - from) / (to - from) * (canvas.clientWidth - LEFT);
    const us = position => from + (position - LEFT) / Math.max(1, canvas.clientWidth - LEFT) * (to - from);
    const drawSpan = (pen, span, width) => {
        const left = Math.max(LEFT, x(span.begin)), right = Math.min(width, x(span.end)), top = TOP + span.at * ROW;
        const isFound = words && span.isFound;
        pen.globalAlpha = words && !isFound ? .3 : 1;
        pen.fillStyle = isFound ? colours.mark : colours[span.category] || colours.other;
        pen.fillRect(left, top + 1, Math.max(1, right - left - .5), ROW - 3);
        if (right - left > 34) {
            pen.fillStyle = isFound ? colours.text : colours["on-bar"];
            pen.save(), pen.beginPath(), pen.rect(left, top, right - left - 3, ROW), pen.clip();
            pen.fillText(span.name, left + 4, top + ROW / 2);
            pen.restore();
        }
        if (span === chosen) {
            pen.strokeStyle = colours.accent, pen.lineWidth = 2.5;
            pen.strokeRect(left - 1, top, Math.max(3, right - left + 1), ROW - 2);
        }
        pen.globalAlpha = 1;
    };
    /* Spans below a pixel are drawn once a pixel. */
    const drawRow = (pen, list, width) => {
        let low = 0, high = list.length, last = -1;
        while (low < high) {
            const middle = low + high >> 1;
            if (list[middle].end < from) low = middle + 1;
            else high = middle;
        }
        for (let k = low; k < list.length && list[k].begin <= to; k++) {
            const right = x(list[k].end);
            if (right < last + 1 && list[k] !== chosen && !(words && list[k].isFound)) continue;
            drawSpan(pen, list[k], width);
            last = right;
        }
    };
    const drawAxis = (pen, width, height) => {
        const steps = [1, 2, 5], wanted = (to - from) / Math.max(2, (width - LEFT) / 110);
        let unit = 10 ** Math.floor(Math.log10(wanted));
        unit *= steps.find(step => step * unit >= wanted) || 10;
        pen.fillStyle = colours.soft, pen.strokeStyle = colours.line, pen.lineWidth = 1;
        for (let at = Math.ceil((from - begin) / unit) * unit; at <= to - begin; at += unit) {
            pen.beginPath(), pen.moveTo(x(begin + at), TOP - 5), pen.lineTo(x(begin + at), height), pen.stroke();
            pen.fillText(henry.time(at * 1000), x(begin + at) + 3, 11);
        }
    };
    const draw = () => {
        const width = canvas.clientWidth, height = canvas.clientHeight, scale = devicePixelRatio || 1;
        if (!width) return;
        colours = henry.colours(names);
        canvas.width = Math.round(width * scale), canvas.height = Math.round(height * scale);
        const pen = canvas.getContext("2d");
        pen.scale(scale, scale);
        pen.font = "12px system-ui, sans-serif", pen.textBaseline = "middle";
        pen.fillStyle = colours.raised, pen.fillRect(0, 0, width, height);
        drawAxis(pen, width, height);
        rows.forEach((row, k) => {
            drawRow(pen, row.list, width);
            if (row.first)
                pen.strokeStyle = colours.line, pen.lineWidth = 1, pen.beginPath(), pen.moveTo(0, TOP + k * ROW - .5),
                pen.lineTo(width, TOP + k * ROW - .5), pen.stroke();
        });
        pen.fillStyle = colours.panel, pen.fillRect(0, 0, LEFT - 1, height);
        pen.fillStyle = colours.text;
        rows.forEach((row, k) => {
            if (row.first) pen.fillText(row.line.name, 6, TOP + k * ROW + ROW / 2, LEFT - 12);
        });
    };
    let isWaiting = false;
    const later = () => {
        if (!isWaiting) isWaiting = true, requestAnimationFrame(() => { isWaiting = false, draw(); });
    };

    const show = (a, b) => {
        const least = Math.max(.05, (end - begin) * 1e-10), width = Math.min(Math.max(b - a, least), (end - begin) * 1.04);
        from = Math.max(begin - (end - begin) * .02, Math.min(a, end + (end - begin) * .02 - width)), to = from + width;
        later();
    };
    const zoom = (factor, around) => show(around - (around - from) * factor, around + (to - around) * factor);
    const middle = () =>
        chosen && chosen.end > from && chosen.begin < to ? Math.min(to, Math.max(from, (chosen.begin + chosen.end) / 2)) : (from + to) / 2;
    const choose = (span, move) => {
        chosen = span;
        if (!span) {
            later();
            return;
        }
        const step = span.step !== undefined && report.steps[span.step];
        henry.replace(status, henry.el("b", {}, span.name),
            ` \u2013 ${span.category || "span"}, ${henry.time((span.end - span.begin) * 1000)}, from ${
                henry.time((span.begin - begin) * 1000)} on, ${span.line}. `,
            step ? henry.stepLink(report, span.step) : "");
        if (move && (span.begin < from || span.end > to)) {
            const width = Math.max(to - from, (span.end - span.begin) * 1.2);
            show((span.begin + span.end) / 2 - width / 2, (span.begin + span.end) / 2 + width / 2);
        } else later();
    };
    const spanAt = event => {
        const row = rows[Math.floor((event.offsetY - TOP) / ROW)], at = us(event.offsetX), slack = (to - from) / canvas.clientWidth * 2;
        return row && event.offsetX >= LEFT ? row.list.find(span => span.begin - slack <= at && span.end + slack >= at) : null;
    };
    const neighbour = (row, at) => row.list
                                       .reduce(
                                           (best, span) => {
                                               const distance = Math.max(span.begin - at, at - span.end, 0);
                                               return !best || distance < best.distance ? {span, distance} : best;
                                           },
                                           null)
                                       .span;
    const move = (key) => {
        if (!chosen) return choose(rows.flatMap(row => row.list).find(span => span.end >= from) || spans[0], true);
        const list = rows[chosen.at].list, k = list.indexOf(chosen), across = key === "ArrowUp" ? -1 : 1;
        if (key === "ArrowLeft" || key === "ArrowRight")
            return choose(list[Math.min(list.length - 1, Math.max(0, k + (key === "ArrowLeft" ? -1 : 1)))], true);
        const row = rows[chosen.at + across];
        if (row) choose(neighbour(row, (chosen.begin + chosen.end) / 2), true);
    };
    const keys = {
        "+": () => zoom(.6, middle()),
        "=": () => zoom(.6, middle()),
        "-": () => zoom(1 / .6, middle()),
        "0": () => show(begin, end),
        Escape: () => choose(null),
        Enter: () => chosen && chosen.step !== undefined && henry.openStep(report, chosen.step)
    };
    canvas.addEventListener("keydown", event => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key.startsWith("Arrow") && event.shiftKey)
            show(from + (to - from) * (event.key === "ArrowLeft" ? -.2 : .2), to + (to - from) * (event.key === "ArrowLeft" ? -.2 : .2));
        else if (event.key.startsWith("Arrow")) move(event.key);
        else if (keys[event.key]) keys[event.key]();
        else return;
        event.preventDefault();
    });
    canvas.addEventListener("wheel", event => {
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
            const by = (event.deltaX || event.deltaY) / canvas.clientWidth * (to - from);
            show(from + by, to + by);
        } else if (event.ctrlKey || document.activeElement === canvas)
            zoom(event.deltaY < 0 ? .8 : 1.25, us(Math.max(LEFT, event.offsetX)));
        else return;
        event.preventDefault();
    }, {passive: false});
    let drag = null;
    canvas.addEventListener("pointerdown", event => {
        drag = {at: event.offsetX, from, to, moved: false};
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
        if (!drag) {
            canvas.title = (spanAt(event) || {name: ""}).name;
            return;
        }
        const by = (drag.at - event.offsetX) / (canvas.clientWidth - LEFT) * (drag.to - drag.from);
        drag.moved = drag.moved || Math.abs(drag.at - event.offsetX) > 3;
        if (drag.moved) show(drag.from + by, drag.to + by);
    });
    canvas.addEventListener("pointerup", event => {
        if (drag && !drag.moved) choose(spanAt(event));
        drag = null;
    });
    canvas.addEventListener("dblclick", event => {
        const span = spanAt(event);
        if (span) show(span.begin - (span.end - span.begin) * .05, span.end + (span.end - span.begin) * .05);
    });

    const search = text => {
        words = text.trim().toLowerCase();
        for (const span of spans)
            span.isFound =
                Boolean(words) && (span.name.toLowerCase().includes(words) ||
                                      (span.step !== undefined && henry.stepTitle(report.steps[span.step]).toLowerCase().includes(words)));
        matches = spans.filter(span => span.isFound);
        match = -1;
        found.textContent = words ? henry.plural(matches.length, "span") : "";
        later();
    };
    const next = by => {
        if (!matches.length) return;
        match = (match + by + matches.length) % matches.length;
        found.textContent = `${match + 1} of ${matches.length}`;
        choose(matches[match], true);
    };
    const button = (text, act, label) => henry.el("button", {type: "button", click: act, "aria-label": label || null}, text);
    const calls = spans.filter(span => span.category === "call"), lastRun = calls.filter(span => span.name.startsWith("run")).pop(),
          compiling = calls.find(span => !span.name.startsWith("run"));
    const fit = span => () => show(span.begin - (span.end - span.begin) * .02, span.end + (span.end - span.begin) * .02);
    const box = henry.el("input", {
        type: "search",
        placeholder: "search spans",
        "aria-label": "search spans",
        input: event => search(event.target.value),
        keydown: event => {
            if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
        }
    });
    const tools = henry.el("div", {class: "bar"}, button("\u2212", () => zoom(1 / .6, middle()), "zoom out"),
        button("+", () => zoom(.6, middle()), "zoom in"), button("All", () => show(begin, end)),
        compiling ? button("Compilation", fit(compiling)) : null, lastRun ? button("Last run", fit(lastRun)) : null, box,
        button("Previous", () => next(-1)), button("Next", () => next(1)), found);
    henry.redraws.add(draw);
    new ResizeObserver(later).observe(canvas);
    return [tools, henry.el("div", {class: "pane"}, canvas), status];
};

henry.renderTimeline = report => {
    const section = henry.section(
        "timeline", "Time line", "When what was done, by which thread. Click the line, then turn the wheel to zoom; drag to move.");
    const spans = report.trace ? henry.spansOf(report.trace) : [];
    if (!spans.length) {
        section.append(henry.note("There is no trace in this report."));
        return section;
    }
    henry.matchSpans(report, spans);
    const used = [...new Set(spans.map(span => span.category))].filter(
        name => ["phase", "pass", "compile", "queued", "publish", "run", "call"].includes(name));
    section.append(...henry.timeline(report, spans), henry.legend(used.map(name => [name, name])),
        henry.el("details", {}, henry.el("summary", {}, "The same as a table"),
            henry.table(
                [
                    {title: "span", value: row => row.name},
                    {title: "kind", value: row => row.category},
                    {title: "count", is_number: true, value: row => row.count},
                    {title: "total", is_number: true, value: row => row.us, show: row => henry.time(row.us * 1000)},
                    {title: "longest", is_number: true, value: row => row.longest, show: row => henry.time(row.longest * 1000)},
                ],
                henry.spanTotals(spans),
                {caption: "time by kind and name", sort: 3, words: row => row.name + " " + row.category, limit: 50})));
    return section;
};
