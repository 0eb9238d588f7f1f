// Messages: pages of a topic's records from a place on, and those that come.

import { ask, el, head, href, trouble, visible } from "./dom.js";
import { bytes, clock, count, hex, json, moment } from "./format.js";

const PAGE = 50;
const KEPT_MAX = 500;
const FOLLOW_MS = 1_000;
const PREVIEW = 160;
const WHOLE_BYTES = 512 * 1024;

function preview(field) {
  if (field === null) return el("span", { class: "dim" }, "null");
  if (field.bytes === 0) return el("span", { class: "dim" }, "empty");
  const text = field.text ?? atob(field.base64).slice(0, 24).replace(/./gs, (it) => it.charCodeAt(0).toString(16).padStart(2, "0") + " ");
  const short = text.length > PREVIEW ? `${text.slice(0, PREVIEW)}…` : text;
  return el("span", { class: field.text === undefined ? "bytes" : null }, short);
}

/** A field in full: JSON with its structure, other text as it is, bytes as a table. */
function content(field) {
  if (field === null) return el("p", { class: "dim" }, "null");
  if (field.text === undefined) return el("pre", { class: "content bytes", tabindex: "0" }, document.createTextNode(hex(field.base64)));
  const parts = field.cut ? null : json(field.text);
  const texts = parts === null
    ? [document.createTextNode(visible(field.text, true))]
    : parts.map(({ kind, text }) => el("span", { class: kind ? `json-${kind}` : null }, document.createTextNode(visible(text, true))));
  return el("pre", { class: "content", tabindex: "0" }, ...texts);
}

function kindOf(field) {
  if (field === null) return "null";
  const kind = field.text === undefined ? "bytes" : !field.cut && json(field.text) !== null ? "JSON" : "text";
  return `${kind}, ${bytes(field.bytes)}${field.cut ? ", cut" : ""}`;
}

function detail(topic, record, whole) {
  const fact = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  const part = (title, field) => el("section", {}, el("h3", {}, title, " ", el("span", { class: "dim" }, kindOf(field))), content(field));
  const isCut = [record.key, record.value].some((field) => field?.cut);
  const header = ({ name, value }) => el("tr", {}, el("th", { scope: "row" }, preview(name)), el("td", {}, preview(value)));
  return [
    el("dl", { class: "facts" }, fact("Partition", String(record.partition)), fact("Offset", count(record.offset)), fact("Time", moment(record.timestampMs))),
    isCut && el("button", { type: "button", onclick: () => whole(record) }, "Show all of it"),
    part("Value", record.value),
    part("Key", record.key),
    record.headerCount > 0 && el("section", {}, el("h3", {}, "Headers ", el("span", { class: "dim" }, count(record.headerCount))),
      el("table", { class: "plain headers" }, el("tbody", {}, ...record.headers.map(header)))),
  ].filter(Boolean);
}

/** The records that are shown, and the one that is open. */
class Records {
  #records = [];
  #at = -1;
  #body = el("tbody");

  constructor(opened) {
    this.opened = opened;
    const titles = ["Partition", "Offset", "Time", "Key", "Value"];
    this.element = el("div", { class: "rows records", tabindex: "0", role: "grid", "aria-label": "Records", "data-rows": "", onkeydown: (event) => this.#key(event) },
      el("table", { role: "presentation" }, el("thead", {}, el("tr", { role: "row" }, ...titles.map((title, at) => el("th", { role: "columnheader", class: at < 2 ? "right" : null }, title)))), this.#body));
    this.#body.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-at]");
      if (row) this.#go(Number(row.dataset.at));
    });
  }

  get records() {
    return this.#records;
  }

  set(records, nothing) {
    this.#records = records;
    this.#at = -1;
    this.#draw(nothing);
  }

  /** Adds what came, and lets the oldest go where there are too many. */
  add(records) {
    if (records.length === 0) return;
    const isAtEnd = this.element.scrollTop + this.element.clientHeight >= this.element.scrollHeight - 8;
    const all = [...this.#records, ...records];
    const gone = Math.max(0, all.length - KEPT_MAX);
    this.#records = all.slice(gone);
    this.#at = Math.max(-1, this.#at - gone);
    this.#draw();
    if (isAtEnd) this.element.scrollTop = this.element.scrollHeight;
  }

  #draw(nothing = "No records here.") {
    const cells = (record) => [
      el("td", { class: "right", role: "gridcell" }, String(record.partition)),
      el("td", { class: "right", role: "gridcell" }, count(record.offset)),
      el("td", { class: "time", role: "gridcell", title: moment(record.timestampMs) }, clock(record.timestampMs)),
      el("td", { class: "preview", role: "gridcell" }, preview(record.key)),
      el("td", { class: "preview", role: "gridcell" }, preview(record.value)),
    ];
    const rows = this.#records.map((record, at) =>
      el("tr", { id: `record-${at}`, role: "row", "data-at": at, class: "opens", "aria-selected": String(at === this.#at) }, ...cells(record)));
    this.#body.replaceChildren(...(rows.length ? rows : [el("tr", { class: "empty" }, el("td", { colspan: 5 }, nothing))]));
  }

  #go(at) {
    if (this.#records.length === 0) return;
    this.#body.children[this.#at]?.setAttribute("aria-selected", "false");
    this.#at = Math.max(0, Math.min(at, this.#records.length - 1));
    const row = this.#body.children[this.#at];
    row.setAttribute("aria-selected", "true");
    row.scrollIntoView({ block: "nearest" });
    this.element.setAttribute("aria-activedescendant", row.id);
    this.opened(this.#records[this.#at]);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.element) return;
    const to = {
      ArrowDown: this.#at + 1, j: this.#at + 1, ArrowUp: this.#at - 1, k: this.#at - 1, Enter: Math.max(0, this.#at),
      PageDown: this.#at + 15, PageUp: this.#at - 15, Home: 0, End: this.#records.length - 1,
    }[event.key];
    if (to === undefined) return;
    this.#go(to);
    event.preventDefault();
  }
}

/** Without a topic: which there are. */
function choice(place, beat) {
  const list = el("ul", { class: "choice" });
  const failed = trouble();
  place.append(head("Messages"), failed.place, el("p", { class: "dim" }, "Of which topic?"), list);
  ask("topics", { limit: 200 }, beat.signal).then(({ topics, total }) => {
    list.replaceChildren(...topics.map(({ name }) => el("li", {}, el("a", { href: href("messages", name) }, name))));
    if (total > topics.length) list.append(el("li", { class: "dim" }, `and ${count(total - topics.length)} more: choose one under Topics, and press m`));
    if (total === 0) list.append(el("li", { class: "dim" }, "There is none yet."));
    list.querySelector("a")?.focus();
  }, (error) => beat.signal.aborted || failed.show(error.message));
  return {};
}

/** Where to begin, as the process reads it. `share` is how many of each partition make a page. */
function from(kind, value, share) {
  if (kind === "oldest") return "start";
  if (kind === "offset") return String(Math.max(0, Number.parseInt(value, 10) || 0));
  if (kind === "time") return `@${new Date(value).getTime() || 0}`;
  return `end-${share}`;
}

export function messages(place, { name, query, beat }) {
  if (!name) return choice(place, beat);
  const failed = trouble();
  const open = el("aside", { class: "detail", "aria-label": "Record" }, el("p", { class: "dim" }, "Choose a record."));
  const status = el("span", { class: "dim" });
  let next = [];
  let begun = [];
  let follows = false;

  const partition = el("input", { type: "number", min: 0, placeholder: "all", value: query.get("partition"), "aria-label": "Partition" });
  const kind = el("select", { "aria-label": "From" }, ...["newest", "oldest", "offset", "time"].map((value) => el("option", { value }, value)));
  const value = el("input", { "aria-label": "Place", hidden: true });
  const older = el("button", { type: "button", onclick: () => turn(-1) }, "Older");
  const newer = el("button", { type: "button", onclick: () => turn(1) }, "Newer");
  const follow = el("button", { type: "button", "aria-pressed": "false", onclick: () => setFollows(!follows) }, "Follow");
  const records = new Records((record) => open.replaceChildren(...detail(name, record, whole)));

  const read = (parameters, signal = beat.signal) =>
    ask("messages", { topic: name, partition: partition.value, limit: PAGE, ...parameters }, signal);

  /** Shows an answer: the newest last, as they lie in the log. */
  function take(answer) {
    failed.show(null);
    next = answer.partitions;
    begun = answer.partitions;
    const sorted = answer.records.sort((one, other) => (one.timestampMs ?? 0) - (other.timestampMs ?? 0) || one.partition - other.partition || one.offset - other.offset);
    records.set(sorted, answer.atEnd ? "No records from here on." : "Nothing came in time; try Newer.");
    tell(answer);
  }

  function tell(answer) {
    const one = answer.partitions.length === 1 ? answer.partitions[0] : null;
    status.textContent = one ? `offsets ${count(one.startOffset)} to ${count(one.endOffset)}` : `${count(answer.partitions.length)} partitions`;
    older.disabled = begun.every((it) => it.from <= it.startOffset);
    newer.disabled = answer.atEnd;
  }

  const refused = (error) => beat.signal.aborted || failed.show(error.message);
  const places = (partitions, offset) => partitions.map((it) => `${it.partition}:${offset(it)}`).join(",");

  /** The page before or after this one. */
  function turn(way) {
    setFollows(false);
    const share = Math.ceil(PAGE / Math.max(1, begun.length));
    const question = way > 0
      ? { at: places(next, (it) => it.next) }
      : { at: places(begun, (it) => Math.max(it.startOffset, it.from - share)), until: places(begun, (it) => it.from), limit: share * begun.length };
    read(question).then(take, refused);
  }

  async function begin() {
    try {
      // How many partitions there are says how many records of each make a page.
      const count = partition.value === "" ? (await ask("topic", { name, limit: 1 }, beat.signal)).partitionCount : 1;
      const share = Math.ceil(PAGE / Math.max(1, count));
      take(await read({ from: from(kind.value, value.value, share), limit: kind.value === "newest" ? share * count : PAGE }));
    } catch (error) {
      refused(error);
    }
  }

  function setFollows(wanted) {
    follows = wanted;
    follow.setAttribute("aria-pressed", String(wanted));
  }

  function whole(record) {
    ask("messages", { topic: name, partition: record.partition, at: `${record.partition}:${record.offset}`, limit: 1, bytes: WHOLE_BYTES }, beat.signal)
      .then(({ records: [found] }) => found && open.replaceChildren(...detail(name, found, whole)), refused);
  }

  function kindChanged() {
    value.hidden = !["offset", "time"].includes(kind.value);
    value.type = kind.value === "time" ? "datetime-local" : "number";
    if (kind.value === "time") value.step = "1";
    if (value.hidden) begin();
    else value.focus();
  }

  kind.addEventListener("change", kindChanged);
  value.addEventListener("change", begin);
  partition.addEventListener("change", begin);
  const form = el("form", { class: "place", onsubmit: (event) => { event.preventDefault(); begin(); } },
    el("label", {}, "Partition ", partition), el("label", {}, "From ", kind), value, older, newer, follow, status);
  place.append(head(el("span", {}, el("a", { href: href("topics", name), class: "up" }, "Topic"), name)), form, failed.place,
    el("div", { class: "split" }, records.element, open));

  if (query.has("offset")) {
    kind.value = "offset";
    value.type = "number";
    value.value = query.get("offset");
    value.hidden = false;
  }
  begin();
  beat.every(FOLLOW_MS, async (signal) => {
    if (!follows || next.length === 0) return;
    const answer = await read({ at: places(next, (it) => it.next) }, signal);
    next = answer.partitions;
    records.add(answer.records);
    tell(answer);
  }, (error) => error && failed.show(error));
  return {
    key(pressed) {
      if (pressed !== "t") return false;
      setFollows(!follows);
      return true;
    },
  };
}
