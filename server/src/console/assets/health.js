// Health: what is wrong and why, whether brokers may be taken down, and who lags most.

import { ask, el, head, href, trouble } from "./dom.js";
import { age, count, counted } from "./format.js";
import { sparkline } from "./groups.js";

const LAGGING_MAX = 5;

function tile(title, big, small, isWell) {
  return el("div", { class: isWell ? "tile" : "tile bad" },
    el("span", { class: "tile-title" }, title), el("span", { class: "tile-big" }, big), el("span", { class: "dim" }, small));
}

function tiles({ controllers, brokers, partitions, topics }) {
  const voting = controllers.voters - controllers.missing.length;
  const serving = brokers.registered - brokers.fenced.length;
  const bad = [
    [partitions.leaderless, "without a leader"],
    [partitions.belowMinimum, "below their minimum"],
    [partitions.underReplicated, "under-replicated"],
  ].filter(([number]) => number > 0).map(([number, words]) => `${count(number)} ${words}`);
  return el("div", { class: "tiles" },
    tile("Controllers", `${voting} of ${controllers.voters}`,
      controllers.active === null ? "none is active" : `${controllers.active} is active`,
      controllers.active !== null && controllers.missing.length === 0),
    tile("Brokers", `${serving} of ${brokers.registered}`,
      brokers.draining.length ? `draining: ${brokers.draining.join(", ")}` : "serving", brokers.fenced.length === 0),
    tile("Partitions", count(partitions.count),
      bad.length ? bad.join(", ") : `in sync, in ${counted(topics, "topic")}`, bad.length === 0));
}

function troubleCard({ level, what, why, topic }) {
  const title = topic === null ? what : el("a", { href: href("topics", topic) }, what);
  return el("li", { class: `card ${level}` }, el("strong", {}, title), el("span", { class: "dim" }, why));
}

function verdict(answer) {
  const { brokers, mayGo, blockingCount, smallCount, grantedTo, blocking } = answer;
  const first = blocking[0];
  const why = mayGo
    ? smallCount > 0
      ? `but ${counted(smallCount, "partition")} would stop meanwhile, with no more replicas than must be in sync`
      : "every partition stays at its minimum without it"
    : grantedTo
      ? `somebody has the permission to take down ${grantedTo.join(", ")}`
      : first
        ? `${counted(blockingCount, "partition")} would fall below the minimum, such as ${first.topic}-${first.partition} (in sync: ${first.isr.join(", ") || "nobody"}; minimum ${first.minInsyncReplicas})`
        : "it is not registered";
  return el("tr", {},
    el("th", { scope: "row" }, `Broker ${brokers.join(", ")}`),
    el("td", {}, el("span", { class: mayGo ? "badge well" : "badge warning" }, mayGo ? "may go" : "may not go")),
    el("td", { class: "dim" }, why));
}

function lagging(groups) {
  const late = groups.filter((group) => group.lag > 0).slice(0, LAGGING_MAX);
  if (late.length === 0) return el("p", { class: "dim" }, groups.length ? "Every group has read everything." : "No group has committed anything yet.");
  return el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ...["Group", "Behind", "Records", "Last half hour"].map((title, at) =>
      el("th", { scope: "col", class: at === 1 || at === 2 ? "right" : null }, title)))),
    el("tbody", {}, ...late.map((group) => el("tr", {},
      el("th", { scope: "row" }, el("a", { href: href("groups", group.name) }, group.name)),
      el("td", { class: "right" }, age(group.lagMs)),
      el("td", { class: "right" }, count(group.lag)),
      el("td", {}, sparkline(group.history))))));
}

export function health(place, { beat, beatMs }) {
  const failed = trouble();
  const state = el("p", { class: "state" });
  const parts = el("div");
  const late = el("section", {}, el("h2", {}, "Who lags most"), el("div"));
  place.append(head("Health"), failed.place, state, parts, late);
  beat.every(beatMs, async (signal) => {
    const answer = await ask("health", {}, signal);
    const bad = answer.troubles.filter((it) => it.level !== "notice");
    state.className = `state ${answer.healthy ? "well" : bad[0]?.level ?? "warning"}`;
    state.replaceChildren(answer.healthy ? "All is well." : bad.length === 1 ? "One thing is wrong." : `${bad.length} things are wrong.`);
    const restarts = answer.restarts.length === 0 ? [] : [el("section", {},
      el("h2", {}, "May a broker be taken down?"),
      el("table", { class: "plain" }, el("tbody", {}, ...answer.restarts.map(verdict))))];
    parts.replaceChildren(tiles(answer),
      el("ul", { class: "cards", "aria-label": "What is wrong" }, ...answer.troubles.map(troubleCard)), ...restarts);
  }, failed.show);
  beat.every(5_000, async (signal) => {
    const { groups } = await ask("groups", { limit: 50 }, signal);
    late.lastChild.replaceChildren(lagging(groups));
  });
  return {};
}
