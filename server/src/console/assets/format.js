// Numbers, times and texts as people read them.

const COUNT = new Intl.NumberFormat("en");
const ONE_DIGIT = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const NOTHING = "–";

const isKnown = (value) => value !== null && value !== undefined;

/** A number with its thousands apart. */
export function count(value) {
  return isKnown(value) ? COUNT.format(value) : NOTHING;
}

/** How many of what: `1 broker`, `3 brokers`. */
export function counted(value, what) {
  return `${count(value)} ${what}${value === 1 ? "" : "s"}`;
}

/** Bytes in the unit that suits them. */
export function bytes(value) {
  if (!isKnown(value)) return NOTHING;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const step = value > 0 ? Math.min(Math.floor(Math.log2(value) / 10), units.length - 1) : 0;
  return `${ONE_DIGIT.format(value / 1024 ** step)} ${units[step]}`;
}

/** So many bytes a second. */
export function byteRate(value) {
  return isKnown(value) ? `${bytes(Math.round(value))}/s` : NOTHING;
}

/** A stretch of time in the unit that suits it. */
export function age(ms) {
  if (!isKnown(ms)) return NOTHING;
  if (ms < 1_000) return ms === 0 ? "0 s" : `${ONE_DIGIT.format(ms / 1_000)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** The time of day of a moment, in the reader's own time zone. */
export function clock(ms) {
  return moment(ms).split(" ").at(-1);
}

/** A moment in the reader's own time zone, to the millisecond. */
export function moment(ms) {
  if (!isKnown(ms)) return NOTHING;
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const two = (value) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${day} ${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** So many a second. */
export function rate(value) {
  if (!isKnown(value)) return NOTHING;
  return value > 0 && value < 10 ? ONE_DIGIT.format(value) : COUNT.format(Math.round(value));
}

/** How fast ends of logs move: the difference of two answers. */
export class Rates {
  #seen = new Map();

  /** Takes note of where `key` ended at `atMs`; gives the records a second since the answer before, once there are two. */
  of(key, atMs, end) {
    if (!isKnown(end)) return null;
    const seen = this.#seen.get(key);
    if (seen === undefined || end < seen.end) {
      this.#seen.set(key, { atMs, end, rate: null });
      return null;
    }
    // Answers that follow closely would make a rate of noise.
    if (atMs - seen.atMs >= 900) {
      this.#seen.set(key, { atMs, end, rate: ((end - seen.end) * 1_000) / (atMs - seen.atMs) });
    }
    return this.#seen.get(key).rate;
  }
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g;

/** A JSON text as lines of `{kind, text}`, with every number and escape as it was written; `null` if it is none. */
export function json(text) {
  try {
    if (typeof JSON.parse(text) !== "object") return null;
  } catch {
    return null;
  }
  const tokens = text.match(TOKEN) ?? [];
  const parts = [];
  const put = (kind, part) => parts.push({ kind, text: part });
  let depth = 0;
  const newLine = () => put("", `\n${"  ".repeat(Math.min(depth, 40))}`);
  tokens.forEach((token, at) => {
    const next = tokens[at + 1];
    if (token === "{" || token === "[") {
      put("mark", token);
      if (next === "}" || next === "]") return;
      depth += 1;
      newLine();
    } else if (token === "}" || token === "]") {
      if (tokens[at - 1] !== "{" && tokens[at - 1] !== "[") {
        depth -= 1;
        newLine();
      }
      put("mark", token);
    } else if (token === ",") {
      put("mark", token);
      newLine();
    } else if (token === ":") put("mark", ": ");
    else if (token.startsWith('"')) put(next === ":" ? "name" : "string", token);
    else put("literal", token);
  });
  return parts;
}

/** Bytes in base 64 as a table of their hexadecimal digits, sixteen a line. */
export function hex(base64) {
  const raw = atob(base64);
  const lines = [];
  for (let at = 0; at < raw.length; at += 16) {
    const codes = [...raw.slice(at, at + 16)].map((character) => character.charCodeAt(0));
    const digits = codes.map((code) => code.toString(16).padStart(2, "0")).join(" ");
    const texts = codes.map((code) => (code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${texts}`);
  }
  return lines.join("\n");
}
