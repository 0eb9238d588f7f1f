// A table of which only the rows that can be seen exist, and are asked for: ten thousand cost no more than thirty.

import { el } from "./dom.js";

const ROW_HEIGHT = 36;
const PAGE = 100;
const BEYOND = 8;

let tables = 0;

/**
 * A table. `columns` are `{title, cell(row), right}`; `load(offset, limit, signal)` gives `{rows, total}`; `open(row)` is what Enter
 * and a click do; `empty` is said when there are no rows.
 */
export class Rows {
  #columns;
  #load;
  #open;
  #empty;
  #pages = new Map();
  #asked = new Set();
  #total = null;
  #active = 0;
  #life = 0;
  #number = (tables += 1);
  #body = el("tbody");
  #stop = new AbortController();
  #table;

  constructor({ label, columns, load, open, empty, compact }) {
    this.#columns = columns;
    this.#load = load;
    this.#open = open;
    this.#empty = empty ?? "Nothing here.";
    const titles = columns.map((column) => el("th", { role: "columnheader", class: column.right ? "right" : null }, column.title));
    this.#table = el("table", { role: "presentation" }, el("thead", {}, el("tr", { role: "row" }, ...titles)), this.#body);
    this.element = el("div", {
      class: compact ? "rows compact" : "rows",
      tabindex: "0",
      role: "grid",
      "aria-label": label,
      "data-rows": "",
      onscroll: () => this.#draw(),
      onkeydown: (event) => this.#key(event),
    }, this.#table);
    this.#body.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-at]");
      if (!row || event.target.closest("a, button")) return;
      this.#go(Number(row.dataset.at));
      this.#openActive();
    });
    this.resized = new ResizeObserver(() => this.#draw());
    this.resized.observe(this.element);
  }

  /** How many rows there are; `null` = not known yet. */
  get total() {
    return this.#total;
  }

  /** Asks anew for what is seen. */
  async refresh() {
    const [first, last] = this.#range();
    const pages = [];
    for (let page = Math.floor(first / PAGE); page <= Math.floor(last / PAGE); page += 1) pages.push(page);
    await Promise.all(pages.map((page) => this.#ask(page)));
  }

  /** Forgets all rows, for instance because others are wanted, and asks for the first ones. */
  async restart() {
    this.#life += 1;
    this.#pages.clear();
    this.#asked.clear();
    this.#total = null;
    this.#active = 0;
    this.element.scrollTop = 0;
    await this.refresh();
  }

  /** Brings a row into sight, and makes it the one that keys act on. */
  show(at) {
    this.#go(at, true);
  }

  /** Ends what is under way. */
  end() {
    this.#stop.abort();
    this.resized.disconnect();
  }

  async #ask(page) {
    if (this.#asked.has(page)) return;
    const life = this.#life;
    this.#asked.add(page);
    try {
      const { rows, total } = await this.#load(page * PAGE, PAGE, this.#stop.signal);
      // What was asked for before a restart is no answer any more.
      if (life !== this.#life) return;
      this.#pages.set(page, rows);
      this.#total = total;
      this.#active = Math.max(0, Math.min(this.#active, total - 1));
    } finally {
      if (life === this.#life) this.#asked.delete(page);
    }
    this.#draw();
  }

  #range() {
    const seen = Math.ceil((this.element.clientHeight || 600) / ROW_HEIGHT);
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT) - BEYOND);
    const last = Math.max(0, Math.min((this.#total ?? PAGE) - 1, first + seen + 2 * BEYOND));
    return [first, last];
  }

  #row(at) {
    return this.#pages.get(Math.floor(at / PAGE))?.[at % PAGE];
  }

  #draw() {
    const total = this.#total;
    if (total === null) return;
    this.element.setAttribute("aria-rowcount", String(total + 1));
    if (total === 0) {
      this.#body.replaceChildren(el("tr", { class: "empty" }, el("td", { colspan: this.#columns.length }, this.#empty)));
      return;
    }
    const [first, last] = this.#range();
    const rows = [this.#space(first)];
    for (let at = first; at <= last; at += 1) rows.push(this.#drawn(at));
    rows.push(this.#space(total - 1 - last));
    this.#body.replaceChildren(...rows);
    this.element.setAttribute("aria-activedescendant", this.#id(this.#active));
    for (const page of [Math.floor(first / PAGE), Math.floor(last / PAGE)]) {
      // Who asked for the rows hears of a failure at the next refresh.
      if (!this.#pages.has(page)) this.#ask(page).catch(() => {});
    }
  }

  #drawn(at) {
    const row = this.#row(at);
    const cells = this.#columns.map((column) =>
      el("td", { class: column.right ? "right" : null, role: "gridcell" }, row === undefined ? "…" : column.cell(row)));
    return el("tr", {
      id: this.#id(at),
      role: "row",
      "data-at": at,
      "aria-rowindex": at + 2,
      "aria-selected": at === this.#active ? "true" : "false",
      class: this.#open ? "opens" : null,
    }, ...cells);
  }

  #space(rows) {
    const space = el("td", { colspan: this.#columns.length });
    space.style.height = `${Math.max(0, rows) * ROW_HEIGHT}px`;
    return el("tr", { class: "space", "aria-hidden": "true" }, space);
  }

  #id(at) {
    return `rows-${this.#number}-${at}`;
  }

  #go(at, centred = false) {
    if (!this.#total) return;
    this.#active = Math.max(0, Math.min(at, this.#total - 1));
    const top = this.#active * ROW_HEIGHT;
    const height = this.element.clientHeight - ROW_HEIGHT;
    if (centred) this.element.scrollTop = top - height / 2;
    else if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + ROW_HEIGHT > this.element.scrollTop + height) this.element.scrollTop = top + ROW_HEIGHT - height;
    this.#draw();
  }

  #openActive() {
    const row = this.#row(this.#active);
    if (row !== undefined) this.#open?.(row, this.#active);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.element) return;
    const screen = Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 2);
    const to = {
      ArrowDown: this.#active + 1,
      j: this.#active + 1,
      ArrowUp: this.#active - 1,
      k: this.#active - 1,
      PageDown: this.#active + screen,
      PageUp: this.#active - screen,
      Home: 0,
      End: (this.#total ?? 1) - 1,
    }[event.key];
    if (to !== undefined) this.#go(to);
    else if (event.key === "Enter") this.#openActive();
    else return;
    event.preventDefault();
  }
}
