// Queues: a tree with what each is guaranteed, uses, borrows and lets wait, and who is next.

import { read } from "./api.js";
import { command, empty, h, replace } from "./dom.js";
import { age, many } from "./format.js";

const EVERY_MS = 5000;
const MOST = 50;

export class QueuesView {
  title = "Queues";

  constructor(root) {
    this.list = h("div", { class: "quotas" }, h("p", { class: "quiet" }, "Loading…"));
    root.append(h("h1", {}, "Queues"), this.list);
    this.timer = setInterval(() => { if (!document.hidden) this.load(); }, EVERY_MS);
    this.load();
  }

  close() {
    clearInterval(this.timer);
    this.closed = true;
  }

  async load() {
    try {
      const found = await read("queues");
      if (!this.closed) this.show(found.items, found.message);
    } catch (error) {
      if (!this.closed) replace(this.list, empty("No queues", error.message, command("tessera queue -A")));
    }
  }

  show(items, message) {
    const levels = new Map();
    for (const { state } of items) levels.set(`${state.group}/${state.name}`, 1 + (levels.get(`${state.group}/${state.parent}`) ?? -1));
    replace(this.list, items.length ? items.map((one) => queue(one, levels.get(`${one.state.group}/${one.state.name}`)))
      : empty("No queue", message ?? "The cluster has neither Queues of Volcano nor ElasticQuotas that you may see."));
  }
}

function queue({ state, waiting, moreWaiting }, level) {
  const cards = state.amounts.filter((amount) => amount.what === "cards");
  const element = h("article", { class: "panel quota" },
    h("h3", {}, state.name, h("span", { class: "tag" }, state.kind), state.share ? h("span", { class: "tag" }, `${(100 * state.share).toFixed(1)} % beyond its part`) : null),
    cards.length ? cards.map(line) : h("p", { class: "quiet" }, "It has no cards."),
    state.problem ? h("p", { class: "bad" }, state.problem) : null,
    waiting.length ? h("p", {}, `${many(state.waiting_gangs, "gang")} and ${many(state.waiting_pods, "pod")} wait`) : null,
    waiting.length ? h("ol", {}, waiting.slice(0, MOST).map(entry)) : null,
    moreWaiting || waiting.length > MOST ? h("p", { class: "quiet" }, `and ${waiting.length - Math.min(waiting.length, MOST) + moreWaiting} more`) : null);
  element.style.marginLeft = `${24 * level}px`;
  return element;
}

function entry(one) {
  const name = one.name ? `${one.namespace}/${one.name}` : "of another namespace";
  return h("li", {}, `${one.kind} ${name}, ${many(one.pods, "pod")}, for ${age(one.waitsSince)}`, one.reason ? h("span", { class: "quiet" }, `: ${one.reason}`) : null);
}

function line({ vendor, used, guarantee, deserved, cap }) {
  const top = Math.max(cap ?? 0, guarantee, deserved, used, 1e-9);
  const width = (value, kind) => {
    const element = h("span", { class: kind });
    element.style.width = `${Math.min(100, (100 * value) / top)}%`;
    return element;
  };
  const borrowed = Math.max(0, used - deserved);
  const text = [`${used}${cap === null ? "" : ` of ${cap}`} used`, guarantee ? `${guarantee} guaranteed` : "", deserved ? `${deserved} deserved` : "", borrowed ? `${borrowed} borrowed` : ""].filter(Boolean).join(", ");
  return h("div", { class: "line" }, h("span", { class: "name" }, vendor),
    h("div", { class: "gauge tall", "aria-hidden": "true" }, width(used, used > (cap ?? Infinity) ? "granted over" : "granted"), width(Math.min(used, deserved), "used"), width(guarantee, "guaranteed")), h("span", { class: "quiet" }, text));
}
