// Elements of the page, and questions to the process. Everything that comes from the cluster becomes text nodes, and characters
// that would hide, reorder or command something are shown as what they are.

const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const NAMED = new Map([["\0", "NUL"], ["\u0007", "BEL"], ["\b", "BS"], ["\r", "CR"], ["\u001b", "ESC"], ["\u007f", "DEL"]]);
const LINES = new Map([["\n", "\u21b5"], ["\t", "\u21e5"]]);

function shown(character) {
  const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return LINES.get(character) ?? `\u27e8${NAMED.get(character) ?? `U+${code}`}\u27e9`;
}

/** A text in which nothing is hidden; `lines` keeps line ends and tabs as they are. */
export function visible(text, lines = false) {
  return String(text).replace(HIDDEN, (character) => (lines && LINES.has(character) ? character : shown(character)));
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(visible(child)))));
  return node;
}

/** An element: its attributes (those that begin with `on` are listeners), its children (elements, or texts). */
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** An address within the page: `href("topics", name)`. */
export function href(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** Why a question was not answered. */
export class Refused extends Error {}

/** Asks the process: `ask("topics", {limit: 10})`. */
export async function ask(what, parameters = {}, signal) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given).toString();
  const response = await fetch(`api/${what}${query ? `?${query}` : ""}`, { signal });
  if (response.ok) return response.json();
  const refusal = await response.json().catch(() => ({}));
  throw new Refused(refusal.error ?? `the answer has the status ${response.status}`);
}

/** Says a sentence to who hears the page. */
export function say(text) {
  document.getElementById("said").textContent = visible(text);
}

/** The head of a page: its title, and what stands beside it. */
export function head(title, ...beside) {
  return el("div", { class: "head" }, el("h1", {}, title), el("div", { class: "beside" }, ...beside));
}

/** A field in which names are looked for; `changed` is told when it has been still for a moment. */
export function filter(label, changed) {
  let timer;
  const field = el("input", { type: "search", placeholder: label, "aria-label": label, "data-filter": "", spellcheck: "false", autocomplete: "off" });
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => changed(field.value.trim()), 150);
  });
  return field;
}

/** A place for the newest trouble with the answers; empty while there is none. */
export function trouble() {
  const place = el("p", { class: "trouble", role: "alert", hidden: true });
  return {
    place,
    show(text) {
      place.hidden = !text;
      place.textContent = text ? visible(text) : "";
    },
  };
}
