// Brokers with their disks and leaders, and the controllers.

import { ask, el, head, trouble } from "./dom.js";
import { age, bytes, count } from "./format.js";

const FULL_AT = 0.85;

function disk({ path, totalBytes, usableBytes, error }) {
  if (error) return el("span", { class: "warn" }, error);
  if (totalBytes === null || usableBytes === null) return el("span", { class: "dim" }, path);
  const used = totalBytes > 0 ? 1 - usableBytes / totalBytes : 0;
  const bar = el("meter", { min: 0, max: 1, high: FULL_AT, optimum: 0, value: used.toFixed(3), "aria-label": `${path} is ${Math.round(used * 100)} % full` });
  return el("div", { class: "disk", title: path }, bar,
    el("span", {}, `${Math.round(used * 100)} %`), el("span", { class: "dim" }, `${bytes(usableBytes)} free of ${bytes(totalBytes)}`));
}

function state({ fenced, leaving, duty }) {
  if (fenced) return el("span", { class: "badge down" }, "away");
  if (leaving) return el("span", { class: "badge warning" }, "leaving");
  return el("span", { class: duty === "serving" ? "badge well" : "badge warning" }, duty);
}

function row(broker, most) {
  const leads = el("meter", { class: "share", min: 0, max: Math.max(1, most), value: broker.leaders, "aria-label": `leads ${broker.leaders} partitions` });
  return el("tr", {},
    el("th", { scope: "row" }, String(broker.id)),
    el("td", {}, state(broker)),
    el("td", {}, broker.address ?? "–"),
    el("td", {}, broker.rack ?? "–"),
    el("td", { class: "right" }, el("div", { class: "leads" }, leads, count(broker.leaders))),
    el("td", { class: "right" }, count(broker.preferred)),
    el("td", { class: "right" }, count(broker.replicas)),
    el("td", {}, broker.error ? el("span", { class: "warn" }, broker.error) : broker.dirs.length ? broker.dirs.map(disk) : el("span", { class: "dim" }, "not told")));
}

function controller(member) {
  const role = member.active ? "active" : member.votes ? "votes" : "follows";
  return el("tr", {},
    el("th", { scope: "row" }, String(member.id)),
    el("td", {}, el("span", { class: member.active ? "badge well" : "badge" }, role)),
    el("td", {}, member.address),
    el("td", { class: "right" }, count(member.entriesBehind)),
    el("td", { class: "right" }, member.active ? "–" : age(member.heardMsAgo)));
}

function table(label, titles, rights) {
  const body = el("tbody");
  const heads = titles.map((title, at) => el("th", { scope: "col", class: rights.includes(at) ? "right" : null }, title));
  return { body, element: el("table", { class: "plain", "aria-label": label }, el("thead", {}, el("tr", {}, ...heads)), body) };
}

export function brokers(place, { beat, beatMs }) {
  const failed = trouble();
  const all = table("Brokers", ["Broker", "State", "Address", "Rack", "Leads", "Preferred", "Keeps", "Disk"], [4, 5, 6]);
  const quorum = table("Controllers", ["Controller", "Role", "Address", "Entries behind", "Heard of"], [3, 4]);
  place.append(head("Brokers"), failed.place, el("div", { class: "scroll" }, all.element), el("section", {}, el("h2", {}, "Controllers"), quorum.element));
  beat.every(beatMs, async (signal) => {
    const [answer, { quorum: { members } }] = await Promise.all([ask("brokers", {}, signal), ask("health", {}, signal)]);
    const most = Math.max(...answer.brokers.map((broker) => broker.leaders), 0);
    all.body.replaceChildren(...answer.brokers.map((broker) => row(broker, most)));
    quorum.body.replaceChildren(...members.map(controller));
  }, failed.show);
  return {};
}
