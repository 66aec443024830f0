"use strict";
/* What all scripts share: elements, numbers for people, colours. Text from a report goes into the page as text only. */
const henry = {};

/* An element: attributes (functions: listeners; true: present; null and false: absent), children: elements and texts. */
henry.element = (space, name, attributes, children) => {
    const made = space ? document.createElementNS(space, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
        if (value === null || value === undefined || value === false) continue;
        if (typeof value === "function") made.addEventListener(key, value);
        else made.setAttribute(key, value === true ? "" : value);
    }
    for (const child of children.flat()) {
        if (child === null || child === undefined) continue;
        made.append(child instanceof Node ? child : String(child));
    }
    return made;
};
henry.el = (name, attributes, ...children) => henry.element(null, name, attributes, children);
henry.svg = (name, attributes, ...children) => henry.element("http://www.w3.org/2000/svg", name, attributes, children);

henry.replace = (element, ...children) =>
    element.replaceChildren(...children.flat().filter(child => child !== null && child !== undefined));

/* Three digits, whatever the unit. */
henry.digits = value => {
    const size = Math.abs(value);
    if (size === 0 || size >= 100) return value.toFixed(0);
    return value.toFixed(size >= 10 ? 1 : 2);
};
henry.scaled = (value, units, step) => {
    let k = 0;
    while (Math.abs(value) >= step * .9995 && k + 1 < units.length) value /= step, k++;
    return henry.digits(value) + "\u00a0" + units[k];
};
henry.isNumber = value => typeof value === "number" && Number.isFinite(value);
henry.time = ns => henry.isNumber(ns) ? henry.scaled(ns, ["ns", "\u00b5s", "ms", "s"], 1000) : "\u2013";
henry.bytes = n => !henry.isNumber(n)   ? "\u2013"
                   : Math.abs(n) < 1000 ? Math.round(n) + "\u00a0B"
                                        : henry.scaled(n, ["B", "kB", "MB", "GB", "TB"], 1000);
henry.rate = perSecond => henry.isNumber(perSecond) ? henry.scaled(perSecond / 1e9, ["GB/s", "TB/s"], 1000) : "\u2013";
henry.operations = n => henry.isNumber(n) ? henry.scaled(n, ["", "k", "M", "G", "T"], 1000).trim() : "\u2013";
henry.percent = share => henry.isNumber(share) ? (100 * share).toFixed(share < .0995 ? 1 : 0) + "\u00a0%" : "\u2013";
henry.count = n => henry.isNumber(n) ? n.toLocaleString("en-US") : "\u2013";
henry.plural = (n, one, many) => henry.count(n) + "\u00a0" + (n === 1 ? one : many || one + "s");
henry.signed = (text, value) => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + text;

/* Colours of style.css as they are now, by name. Elements have them: the properties are both those for light and those for dark. */
henry.colours = names => {
    const probes = names.map(name => henry.el("i", {style: `color:var(--${name})`})), all = henry.el("span", {hidden: true}, probes);
    document.body.append(all);
    const colours = Object.fromEntries(names.map((name, k) => [name, getComputedStyle(probes[k]).color]));
    all.remove();
    return colours;
};

/* What draws on a canvas draws again when the theme or the width changes. */
henry.redraws = new Set();
henry.redraw = () => {
    for (const draw of henry.redraws) draw();
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", henry.redraw);
addEventListener("resize", henry.redraw);

/* A section of the page: where its content goes. */
henry.section = (id, title, ...intro) => {
    const heading = henry.el("h2", {id: id + "-title"}, title);
    return henry.el(
        "section", {id, "aria-labelledby": id + "-title"}, heading, intro.length ? henry.el("p", {class: "soft"}, ...intro) : null);
};
henry.note = (...words) => henry.el("p", {class: "note"}, ...words);

henry.legend = entries => henry.el("ul", {class: "legend"},
    entries.map(([name, colour]) => henry.el("li", {}, henry.el("i", {style: `background:var(--${colour})`}), name)));

henry.meter = share =>
    henry.el("span", {class: "meter", "aria-hidden": "true"}, henry.el("i", {style: `width:${Math.max(0, Math.min(100, 100 * share))}%`}));

henry.facts = entries => henry.el("dl", {class: "facts"},
    entries.filter(entry => entry).flatMap(([name, ...value]) => [henry.el("dt", {}, name), henry.el("dd", {}, ...value)]));
