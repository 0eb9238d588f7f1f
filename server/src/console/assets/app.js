// The page as a whole: which part of it is shown, keys that work everywhere, and the beat at which answers are renewed.

import { ask, el, say, visible } from "./dom.js";
import { brokers } from "./brokers.js";
import { counted } from "./format.js";
import { group, groups } from "./groups.js";
import { health } from "./health.js";
import { messages } from "./messages.js";
import { topic, topics } from "./topics.js";

const PAGES = ["health", "brokers", "topics", "groups", "messages"];
const SHOWN = { health, brokers, topics, groups, messages };
const ONE = { topics: topic, groups: group, messages };
const BEAT_MS = 2_000;

const main = document.getElementById("main");
const help = document.getElementById("help");

/** What runs while a part of the page is shown: work that is done again and again, and how it ends. */
class Beat {
  #stop = new AbortController();
  #wakes = new Set();

  static paused = false;

  get signal() {
    return this.#stop.signal;
  }

  /** Does `work` now, and again so long after it has ended, while somebody looks. `failed` is told why it failed, or `null`. */
  every(ms, work, failed = () => {}) {
    let timer;
    const turn = async () => {
      clearTimeout(timer);
      if (this.signal.aborted) return;
      try {
        await work(this.signal);
        if (!this.signal.aborted) failed(null);
      } catch (error) {
        if (!this.signal.aborted) failed(error.message || "the console does not answer");
      }
      if (!this.signal.aborted) timer = setTimeout(() => (Beat.paused || document.hidden ? wait() : turn()), ms);
    };
    const wait = () => this.#wakes.add(turn);
    turn();
  }

  /** Goes on with what waits for somebody to look. */
  wake() {
    const turns = [...this.#wakes];
    this.#wakes.clear();
    turns.forEach((turn) => turn());
  }

  end() {
    this.#stop.abort();
  }
}

let shown = null;
const shell = new Beat();

function place() {
  const [path, query] = location.hash.replace(/^#?\/?/, "").split("?");
  const parts = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const page = PAGES.includes(parts[0]) ? parts[0] : "health";
  return { page, name: parts.slice(1).join("/"), query: new URLSearchParams(query ?? "") };
}

function route() {
  shown?.beat.end();
  shown?.part?.end?.();
  const { page, name, query } = place();
  const beat = new Beat();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const build = name && ONE[page] ? ONE[page] : SHOWN[page];
  const content = el("div", { class: "page" });
  main.replaceChildren(content);
  shown = { beat, page, name, part: build(content, { name, query, beat, beatMs: BEAT_MS }) };
  const title = `${name ? `${visible(name)} – ` : ""}${page[0].toUpperCase()}${page.slice(1)} – Taffrail`;
  document.title = title;
  say(title);
  focusFirst();
}

function focusFirst() {
  (main.querySelector("[data-rows]") ?? main).focus({ preventScroll: true });
}

function pause(paused) {
  Beat.paused = paused;
  document.body.classList.toggle("paused", paused);
  document.getElementById("pause").setAttribute("aria-pressed", String(paused));
  document.getElementById("pause-text").textContent = paused ? "Paused" : "Live";
  say(paused ? "Paused" : "Live");
  if (!paused) wake();
}

function wake() {
  shell.wake();
  shown?.beat.wake();
}

/** The way back: from a field to the rows, from one thing to all of its kind. */
function back(field) {
  if (field) {
    field.blur();
    focusFirst();
  } else if (shown?.name) location.hash = `#/${shown.page}`;
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || help.open) return;
  const field = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape") return void back(field);
  if (field) return;
  const page = PAGES[Number(event.key) - 1];
  if (page) location.hash = `#/${page}`;
  else if (event.key === "/") main.querySelector("[data-filter]")?.focus();
  else if (event.key === "?") help.showModal();
  else if (event.key === "p") pause(!Beat.paused);
  else if (event.key === "m" && shown.page === "topics" && shown.name) location.hash = `#/messages/${encodeURIComponent(shown.name)}`;
  else if (!shown.part?.key?.(event.key)) return;
  event.preventDefault();
}

/** The mark beside "Health", and what the browser's tab says. */
async function mark(signal) {
  const answer = await ask("health", {}, signal);
  const worst = answer.healthy ? "well" : answer.troubles[0]?.level ?? "warning";
  const bad = answer.troubles.filter((it) => it.level !== "notice").length;
  const dot = document.getElementById("mark");
  dot.className = `mark ${worst}`;
  dot.setAttribute("role", "img");
  dot.setAttribute("aria-label", answer.healthy ? "all is well" : counted(bad, "trouble"));
  document.getElementById("cluster").textContent = `Broker ${answer.servedBy} of ${visible(answer.clusterId ?? "no cluster")}, version ${answer.version}`;
  return answer;
}

function unreachable(error) {
  if (error === null) return;
  const dot = document.getElementById("mark");
  dot.className = "mark down";
  dot.setAttribute("aria-label", "the console does not answer");
}

addEventListener("hashchange", route);
addEventListener("keydown", key);
addEventListener("visibilitychange", () => document.hidden || Beat.paused || wake());
document.getElementById("pause").addEventListener("click", () => pause(!Beat.paused));
document.getElementById("keys").addEventListener("click", () => help.showModal());
route();
shell.every(5_000, mark, unreachable);
