/* The page: its head, its sections, one after the other so that the first are there at once. */

henry.themes = ["auto", "light", "dark"];
henry.setTheme = theme => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    henry.redraw();
};

henry.renderHead = reports => {
    const shown = henry.shown, version = new Map(shown.environment).get("henry");
    const theme = henry.el("select", {"aria-label": "colours", change: event => henry.setTheme(event.target.value)},
        henry.themes.map(name => henry.el("option", {value: name}, name)));
    const which = reports.length > 1
                      ? henry.el("span", {role: "group", "aria-label": "which report is shown"},
                            reports.map((report, k) => henry.el("button",
                                            {type: "button", "aria-pressed": String(report === shown), click: () => henry.show(reports, k)},
                                            k ? "after" : "before")))
                      : null;
    henry.replace(document.getElementById("top"), henry.el("h1", {}, shown.title),
        henry.el("span", {class: "soft"}, [shown.kind, shown.made, version && "henry " + version].filter(text => text).join(", ")),
        henry.el("span", {class: "tools"}, which, theme));
    theme.value = document.documentElement.dataset.theme || "auto";
    document.title = `${shown.title} \u2013 Henry report`;
};

henry.sections = reports => [...reports.length > 1 ? [["changes", "What changed", () => henry.renderCompare(reports[0], reports[1])]] : [],
    ["summary", "Summary", henry.renderSummary],
    ["timeline", "Time line", henry.renderTimeline],
    ["graph", "Graph", henry.renderGraph],
    ["kernels", "Kernels", henry.renderKernels],
    ["fusions", "Refused fusions", henry.renderFusions],
    ["memory", "Memory", henry.renderMemory],
    ["variants", "Variants", henry.renderVariants],
    ["environment", "Environment", henry.renderEnvironment],
];

henry.renderContents = sections => {
    const links = sections.map(([id, title]) => henry.el("a", {href: "#" + id}, title));
    henry.replace(document.getElementById("contents"), henry.el("ol", {}, links.map(link => henry.el("li", {}, link))));
    const seen = new Map();
    henry.watcher = new IntersectionObserver(entries => {
        for (const entry of entries) seen.set(entry.target.id, entry.isIntersecting);
        const first = sections.find(([id]) => seen.get(id));
        links.forEach((link, k) => first && sections[k][0] === first[0] ? link.setAttribute("aria-current", "true")
                                                                        : link.removeAttribute("aria-current"));
    }, {rootMargin: "-60px 0px -50% 0px"});
};

/* A section that fails says so, and the others are there all the same. */
henry.renderSection = ([id, title, render]) => {
    try {
        return render(henry.shown);
    } catch (error) {
        console.error(error);
        const section = henry.section(id, title);
        section.append(henry.el("p", {class: "note bad"}, `This section cannot be shown: ${error.message}`));
        return section;
    }
};

henry.show = (reports, which) => {
    henry.shown = reports[which];
    henry.redraws.clear();
    if (henry.watcher) henry.watcher.disconnect();
    const sections = henry.sections(reports), main = document.getElementById("main");
    henry.renderHead(reports);
    henry.renderContents(sections);
    henry.replace(main);
    let k = 0;
    const next = () => {
        if (henry.shown !== reports[which]) return;
        const section = henry.renderSection(sections[k]);
        main.append(section);
        henry.watcher.observe(section);
        if (++k < sections.length) setTimeout(next, 0);
        else henry.ready();
    };
    next();
};

/* All is there: what the address asks for comes into sight. */
henry.ready = () => {
    const wanted = decodeURIComponent(location.hash.slice(1)), step = /^step-(\d+)$/.exec(wanted);
    if (step && henry.shown.steps[step[1]]) henry.openStep(henry.shown, Number(step[1]));
    else if (wanted && document.getElementById(wanted)) document.getElementById(wanted).scrollIntoView();
    document.documentElement.dataset.ready = Math.round(performance.now());
};

henry.start = () => {
    const reports = [...document.querySelectorAll("script.henry-report")].map(script => henry.readReport(script.textContent));
    henry.show(reports, reports.length - 1);
};
try {
    henry.start();
} catch (error) {
    console.error(error);
    henry.replace(document.getElementById("main"), henry.el("p", {class: "note bad"}, `This report cannot be read: ${error.message}`));
}
