/* Tables that sort and filter. Long ones show their first rows until all are asked for. */

/* columns: {title, value: what sorts, show: text or elements, is_number, is_wide, help}; options: caption, sort: a column's number,
   down: largest first, open: what a row's first cell does, words: text that the filter looks in, limit. */
henry.table = (columns, rows, options = {}) => {
    const limit = options.limit || 100;
    const state = {sort: options.sort, down: options.down !== false, filter: "", all: false};
    const body = henry.el("tbody", {});
    const heads =
        columns.map((column, k) => henry.el("th", {class: column.is_number ? "num" : null, scope: "col", title: column.help || null},
                        column.value ? henry.el("button", {type: "button", click: () => choose(k)}, column.title) : column.title));
    const table = henry.el("table", {}, options.caption ? henry.el("caption", {}, options.caption) : null,
        henry.el("thead", {}, henry.el("tr", {}, heads)), body);
    const more = henry.el("button", {
        type: "button",
        click: () => {
            state.all = true;
            fill();
        }
    });
    const found = henry.el("span", {class: "soft", role: "status"});
    const filter = henry.el("input", {
        type: "search",
        placeholder: "filter",
        "aria-label": "filter the table",
        input: event => {
            state.filter = event.target.value.toLowerCase();
            fill();
        }
    });

    const matching = () => {
        const wanted = state.filter.split(/\s+/).filter(word => word);
        return wanted.length && options.words ? rows.filter(row => {
            const text = options.words(row).toLowerCase();
            return wanted.every(word => text.includes(word));
        })
                                              : [...rows];
    };
    const compare = (a, b) => {
        const column = columns[state.sort], x = column.value(a), y = column.value(b);
        const order =
            typeof x === "string" || typeof y === "string" ? String(x ?? "").localeCompare(String(y ?? "")) : (x ?? -1) - (y ?? -1);
        return state.down ? -order : order;
    };
    const cell = (column, row, k) => {
        const shown = column.show ? column.show(row) : column.value(row);
        const content =
            k === 0 && options.open ? henry.el("button", {type: "button", class: "link", click: () => options.open(row)}, shown) : shown;
        return henry.el("td", {class: column.is_number ? "num" : column.is_wide ? "wide" : null}, content);
    };
    const fill = () => {
        const list = matching();
        if (state.sort !== undefined) list.sort(compare);
        const shown = state.all ? list : list.slice(0, limit);
        henry.replace(body, shown.map(row => henry.el("tr", {}, columns.map((column, k) => cell(column, row, k)))));
        heads.forEach((head, k) => k === state.sort ? head.setAttribute("aria-sort", state.down ? "descending" : "ascending")
                                                    : head.removeAttribute("aria-sort"));
        more.hidden = shown.length === list.length;
        more.textContent = `Show all ${henry.count(list.length)} rows`;
        found.textContent = state.filter ? `${henry.count(list.length)} of ${henry.count(rows.length)}` : "";
    };
    const choose = k => {
        state.down = state.sort === k ? !state.down : Boolean(columns[k].is_number);
        state.sort = k;
        fill();
    };
    fill();
    return henry.el("div", {}, options.words && rows.length > 8 ? henry.el("div", {class: "bar"}, filter, found) : null,
        henry.el("div", {class: "scroll", tabindex: "0", role: "group", "aria-label": options.caption || "table"}, table),
        henry.el("div", {class: "bar"}, more));
};
