// Topics, and one topic: who leads each partition, who is in sync, how fast it grows.

import { ask, el, filter, head, href, trouble } from "./dom.js";
import { Rates, byteRate, bytes, count, counted, rate } from "./format.js";
import { Rows } from "./rows.js";

const MAP_CELL = 9;
const MAP_CELL_SMALL = 5;
const MAP_SMALL_FROM = 2_000;
const LETTERS = { n: ["--bad", "nobody leads"], u: ["--warn", "under-replicated"], p: ["--calm", "led by another than the preferred"], o: ["--well", "in order"] };

function trouble_of({ leaderless, underReplicated }) {
  if (leaderless > 0) return el("span", { class: "badge down" }, `${count(leaderless)} without a leader`);
  if (underReplicated > 0) return el("span", { class: "badge warning" }, `${count(underReplicated)} under-replicated`);
  return el("span", { class: "dim" }, "in order");
}

export function topics(place, { beat, beatMs }) {
  const failed = trouble();
  const rates = new Rates();
  const growth = new Rates();
  const summary = el("span", { class: "dim" });
  let wanted = "";
  let sort = "name";
  let internal = false;
  const rows = new Rows({
    label: "Topics",
    empty: "No topic has such a name.",
    columns: [
      { title: "Topic", cell: (topic) => el("a", { href: href("topics", topic.name) }, topic.name) },
      { title: "Partitions", right: true, cell: (topic) => count(topic.partitions) },
      { title: "Replicas", right: true, cell: (topic) => count(topic.replicationFactor) },
      { title: "Records", right: true, cell: (topic) => count(topic.records) },
      { title: "Records/s", right: true, cell: (topic) => rate(topic.rate) },
      { title: "Bytes/s", right: true, cell: (topic) => byteRate(topic.growth) },
      { title: "Size", right: true, cell: (topic) => bytes(topic.bytes) },
      { title: "State", cell: trouble_of },
    ],
    load: async (offset, limit, signal) => {
      const answer = await ask("topics", { filter: wanted, sort, internal, offset, limit }, signal);
      failed.show(answer.error);
      summary.textContent = wanted ? `${count(answer.total)} of ${counted(answer.all, "topic")}` : counted(answer.total, "topic");
      const topics = answer.topics.map((topic) => ({
        ...topic,
        rate: rates.of(topic.name, answer.atMs, topic.endSum),
        growth: growth.of(topic.name, answer.bytesAtMs, topic.bytes),
      }));
      return { rows: topics, total: answer.total };
    },
    open: (topic) => (location.hash = href("topics", topic.name)),
  });
  const again = () => rows.restart().catch((error) => failed.show(error.message));
  const order = el("select", { "aria-label": "Order", onchange: (event) => { sort = event.target.value; again(); } },
    ...[["name", "by name"], ["partitions", "by partitions"], ["trouble", "by trouble"]].map(([value, text]) => el("option", { value }, text)));
  const all = el("label", {}, el("input", { type: "checkbox", onchange: (event) => { internal = event.target.checked; again(); } }), "internal");
  place.append(head("Topics", summary, filter("Filter topics", (text) => { wanted = text; again(); }), order, all), failed.place, rows.element);
  beat.every(beatMs, () => rows.refresh(), (error) => error && failed.show(error));
  return { end: () => rows.end() };
}

/** Who keeps a partition: the leader filled, those in sync outlined, the others struck. */
function replicas({ replicas, isr, leader, adding, removing }) {
  const chip = (id) => {
    const [kind, words] = id === leader ? ["leader", "leads"]
      : isr.includes(id) ? ["in-sync", "in sync"]
        : adding.includes(id) ? ["adding", "is coming"] : ["behind", "not in sync"];
    const going = removing.includes(id) ? ", is going" : "";
    return el("span", { class: `chip ${kind}`, title: `broker ${id} ${words}${going}`, "aria-label": `broker ${id} ${words}${going}` }, String(id));
  };
  return el("span", { class: "chips" }, ...replicas.map(chip));
}

/** All partitions as one picture, in the colours of how they are. */
class IsrMap {
  #states = "";
  #look = "";
  #across = 1;
  #cell = MAP_CELL;

  constructor(chosen, signal) {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw(this.#states), { signal });
    this.canvas = el("canvas", { class: "map", role: "img", onclick: (event) => {
      const at = Math.floor(event.offsetY / this.#cell) * this.#across + Math.floor(event.offsetX / this.#cell);
      if (at < this.#states.length) chosen(at);
    } });
    this.legend = el("p", { class: "legend dim" });
    this.element = el("div", { class: "map-frame" }, this.canvas, this.legend);
  }

  draw(states) {
    const width = this.element.clientWidth;
    const colours = getComputedStyle(this.element);
    const look = `${width} ${colours.getPropertyValue("--well")} ${states}`;
    if (look === this.#look) return;
    this.#look = look;
    this.#states = states;
    this.#cell = states.length > MAP_SMALL_FROM ? MAP_CELL_SMALL : MAP_CELL;
    this.#across = Math.max(1, Math.floor(width / this.#cell));
    const height = Math.ceil(states.length / this.#across) * this.#cell;
    const scale = devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const size = this.#cell - (this.#cell === MAP_CELL ? 2 : 1);
    const counts = {};
    [...states].forEach((letter, at) => {
      counts[letter] = (counts[letter] ?? 0) + 1;
      context.fillStyle = colours.getPropertyValue(LETTERS[letter][0]);
      context.fillRect((at % this.#across) * this.#cell, Math.floor(at / this.#across) * this.#cell, size, size);
    });
    const parts = Object.entries(LETTERS).filter(([letter]) => counts[letter]);
    const words = parts.map(([letter, [, text]]) => `${count(counts[letter])} ${text}`);
    this.canvas.setAttribute("aria-label", `Partitions: ${words.join(", ")}`);
    this.legend.replaceChildren(...parts.map(([letter, [colour]], at) =>
      el("span", { class: `key key-${colour.slice(2)}` }, words[at])));
  }
}

function settings(answer) {
  const line = ({ name, value, sensitive }) => el("div", {}, el("dt", {}, name), el("dd", {}, sensitive ? "(secret)" : value ?? "–"));
  const own = answer.settings.filter((setting) => setting.own);
  const others = answer.settings.filter((setting) => !setting.own);
  return [
    own.length ? el("dl", { class: "facts" }, ...own.map(line)) : el("p", { class: "dim" }, "No settings of its own."),
    el("details", {}, el("summary", {}, `${others.length} by default`), el("dl", { class: "facts" }, ...others.map(line))),
  ];
}

export function topic(place, { name, beat, beatMs }) {
  const failed = trouble();
  const rates = new Rates();
  const growth = new Rates();
  const facts = el("span", { class: "dim" });
  const own = el("section", { class: "settings" }, el("h2", {}, "Settings"), el("div"));
  const rows = new Rows({
    label: `Partitions of ${name}`,
    columns: [
      { title: "Partition", right: true, cell: (it) => String(it.partition) },
      { title: "Leader", right: true, cell: (it) => (it.leader === null ? el("span", { class: "badge down" }, "nobody") : String(it.leader)) },
      { title: "Replicas", cell: replicas },
      { title: "Begins at", right: true, cell: (it) => count(it.startOffset) },
      { title: "Ends at", right: true, cell: (it) => count(it.endOffset) },
      { title: "Records/s", right: true, cell: (it) => rate(it.rate) },
      { title: "Bytes/s", right: true, cell: (it) => byteRate(it.growth) },
      { title: "Epoch", right: true, cell: (it) => count(it.leaderEpoch) },
    ],
    load: async (offset, limit, signal) => {
      const answer = await ask("topic", { name, offset, limit }, signal);
      failed.show(answer.error);
      facts.textContent = `${counted(answer.partitionCount, "partition")}, ${counted(answer.replicationFactor, "replica")} of each`;
      map.draw(answer.states);
      const partitions = answer.partitions.map((it) => ({
        ...it,
        rate: rates.of(it.partition, answer.atMs, it.endOffset),
        growth: growth.of(it.partition, answer.bytesAtMs, it.bytes),
      }));
      return { rows: partitions, total: answer.partitionCount };
    },
    open: (it) => (location.hash = `${href("messages", name)}?partition=${it.partition}`),
  });
  const map = new IsrMap((at) => rows.show(at), beat.signal);
  place.append(
    head(el("span", {}, el("a", { href: "#/topics", class: "up" }, "Topics"), name), facts,
      el("a", { class: "button", href: href("messages", name) }, "Messages")),
    failed.place, map.element, rows.element, own);
  beat.every(beatMs, () => rows.refresh(), (error) => error && failed.show(error));
  ask("settings", { topic: name }, beat.signal).then((answer) => own.lastChild.replaceChildren(...settings(answer)), () => own.remove());
  return { end: () => rows.end() };
}
