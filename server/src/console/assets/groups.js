// Groups: how far behind in time and records, since when, and whether they catch up.

import { ask, el, filter, head, href, svg, trouble } from "./dom.js";
import { age, count, counted, moment, rate } from "./format.js";
import { Rows } from "./rows.js";

const WIDTH = 132;
const HEIGHT = 24;
const TREND_MS = 60_000;
const KEEPS_UP_MS = 5_000;

/** A line of `[time, records, age]`: how far behind over time. */
export function sparkline(history, width = WIDTH, height = HEIGHT) {
  const values = history.map(([, records]) => records);
  const most = Math.max(...values, 0);
  const label = history.length === 0 ? "no history yet" : `at most ${count(most)} records behind, now ${count(values.at(-1))}`;
  const drawing = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, svg("title", {}, label));
  if (history.length === 0) return drawing;
  const from = history[0][0];
  const span = Math.max(1, history.at(-1)[0] - from);
  const points = history.map(([at, records]) => {
    const x = history.length === 1 ? width - 2 : 2 + ((at - from) / span) * (width - 4);
    const y = height - 2 - (most === 0 ? 0 : (records / most) * (height - 4));
    return [x.toFixed(1), y.toFixed(1)];
  });
  const line = points.map((point) => point.join(",")).join(" ");
  const [lastX, lastY] = points.at(-1);
  drawing.append(
    svg("polygon", { class: "area", points: `${points[0][0]},${height} ${line} ${lastX},${height}` }),
    svg("polyline", { class: "line", points: line }),
    svg("circle", { class: "end", cx: lastX, cy: lastY, r: 2 }));
  return drawing;
}

/** What the last minute says of the next: `{words, kind}`. */
export function trend(history) {
  const last = history.at(-1);
  if (!last || last[1] === 0) return { words: last ? "up to date" : "not known yet", kind: "well" };
  // Between two looks at a topic that grows there is always something that was not read yet.
  if (last[2] !== null && last[2] <= KEEPS_UP_MS) return { words: "keeps up", kind: "well" };
  const before = history.findLast(([at]) => last[0] - at >= TREND_MS) ?? history[0];
  const seconds = (last[0] - before[0]) / 1_000;
  if (seconds < 4) return { words: "not known yet", kind: "" };
  const growth = (last[1] - before[1]) / seconds;
  if (Math.abs(growth) < 0.05) return { words: "stays behind", kind: "warning" };
  if (growth > 0) return { words: `falls behind, ${rate(growth)}/s`, kind: "down" };
  return { words: `catches up in ${age((last[1] / -growth) * 1_000)}`, kind: "warning" };
}

function state(text) {
  const kind = text === "Stable" ? "badge well" : text === "Empty" || text === "Dead" ? "badge" : "badge warning";
  return el("span", { class: kind }, text || "unknown");
}

function trendOf(history) {
  const { words, kind } = trend(history);
  return el("span", { class: kind === "down" ? "warn" : "dim" }, words);
}

export function groups(place, { beat, beatMs }) {
  const failed = trouble();
  const summary = el("span", { class: "dim" });
  let wanted = "";
  const rows = new Rows({
    label: "Groups",
    empty: "No group has such a name, or none has committed anything yet.",
    columns: [
      { title: "Group", cell: (group) => el("a", { href: href("groups", group.name) }, group.name) },
      { title: "State", cell: (group) => (group.error ? el("span", { class: "badge warning", title: group.error }, "not told") : state(group.state)) },
      { title: "Members", right: true, cell: (group) => count(group.members) },
      { title: "Behind", right: true, cell: (group) => age(group.lagMs) },
      { title: "Records", right: true, cell: (group) => count(group.lag) },
      { title: "Last half hour", cell: (group) => sparkline(group.history) },
      { title: "Trend", cell: (group) => trendOf(group.history) },
    ],
    load: async (offset, limit, signal) => {
      const answer = await ask("groups", { filter: wanted, offset, limit }, signal);
      failed.show(answer.error);
      const omitted = answer.omitted > 0 ? `, ${count(answer.omitted)} more are not looked at` : "";
      summary.textContent = counted(answer.total, "group") + omitted;
      return { rows: answer.groups, total: answer.total };
    },
    open: (group) => (location.hash = href("groups", group.name)),
  });
  const again = () => rows.restart().catch((error) => failed.show(error.message));
  place.append(head("Groups", summary, filter("Filter groups", (text) => { wanted = text; again(); })), failed.place, rows.element);
  beat.every(beatMs, () => rows.refresh(), (error) => error && failed.show(error));
  return { end: () => rows.end() };
}

function member({ clientId, host, id, instanceId, partitions }) {
  return el("tr", {},
    el("th", { scope: "row" }, clientId || "–"), el("td", {}, host), el("td", {}, instanceId ?? "–"),
    el("td", { class: "right" }, count(partitions)), el("td", { class: "dim" }, id));
}

export function group(place, { name, beat, beatMs }) {
  const failed = trouble();
  const facts = el("span", { class: "dim" });
  const badge = el("span");
  const line = el("div", { class: "history" });
  const members = el("tbody");
  let partitions = [];
  const rows = new Rows({
    label: `Partitions of group ${name}`,
    empty: "It reads no partition.",
    columns: [
      { title: "Topic", cell: (it) => el("a", { href: href("topics", it.topic) }, it.topic) },
      { title: "Partition", right: true, cell: (it) => String(it.partition) },
      { title: "Behind", right: true, cell: (it) => age(it.lagMs) },
      { title: "Records", right: true, cell: (it) => count(it.lag) },
      { title: "Committed", right: true, cell: (it) => (it.committed === null ? "nothing" : count(it.committed)) },
      { title: "Ends at", right: true, cell: (it) => count(it.endOffset) },
      { title: "Member", cell: (it) => el("span", { class: "dim" }, it.member ?? "nobody") },
    ],
    load: async (offset, limit) => ({ rows: partitions.slice(offset, offset + limit), total: partitions.length }),
    open: (it) => (location.hash = `${href("messages", it.topic)}?partition=${it.partition}&offset=${it.committed ?? 0}`),
  });
  place.append(head(el("span", {}, el("a", { href: "#/groups", class: "up" }, "Groups"), name), badge, facts), failed.place, line, rows.element,
    el("section", {}, el("h2", {}, "Members"), el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...["Client", "Host", "Instance", "Partitions", "Id"].map((title, at) => el("th", { scope: "col", class: at === 3 ? "right" : null }, title)))),
      members)));
  beat.every(beatMs, async (signal) => {
    const answer = await ask("group", { name }, signal);
    partitions = answer.partitions.sort((one, other) => (other.lagMs ?? -1) - (one.lagMs ?? -1) || (other.lag ?? -1) - (one.lag ?? -1));
    badge.replaceChildren(state(answer.state));
    const omitted = answer.partitionCount > partitions.length ? ` (${count(partitions.length)} are shown)` : "";
    facts.textContent = `${counted(answer.memberCount, "member")}, ${counted(answer.partitionCount, "partition")}${omitted}, coordinated by broker ${answer.coordinator}`;
    const { history } = answer;
    line.replaceChildren(sparkline(history, Math.max(240, line.clientWidth - 42), 96), el("p", { class: "dim" },
      trendOf(history), history.length ? ` · since ${moment(history[0][0])}` : ""));
    members.replaceChildren(...answer.members.map(member));
    await rows.refresh();
  }, failed.show);
  return { end: () => rows.end() };
}
