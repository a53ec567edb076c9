// One pod: what it holds of each card, what it used of it in the last hour, and with which pods it
// shares cores.

import { Refused, read } from "./api.js";
import { chart } from "./chart.js";
import { command, empty, h, replace } from "./dom.js";
import { age, gib, percent } from "./format.js";
import { state } from "./store.js";

const AGAIN_MS = 15_000;

export class PodView {
  constructor(root, namespace, name) {
    this.namespace = namespace;
    this.name = name;
    this.title = `${namespace}/${name}`;
    this.body = h("div", {}, h("p", { class: "quiet" }, "Loading…"));
    root.append(h("p", { class: "back" }, h("a", { href: "/cards" }, "← Cards")), h("h1", {}, `${namespace}/${name}`), this.body,
      h("h2", {}, "Its events"), this.events = h("ol", { class: "events" }),
      h("h2", {}, "Commands"), command(`kubectl -n ${namespace} describe pod ${name}`), command(`kubectl -n ${namespace} logs ${name}`),
      command(`tessera pods ${name} -n ${namespace} -o wide`), command(`tessera explain ${name} -n ${namespace}`));
    this.update(new Set(["event"]));
    this.load();
    this.timer = setInterval(() => { if (!document.hidden) this.load(); }, AGAIN_MS);
  }

  close() {
    clearInterval(this.timer);
  }

  update(what) {
    if (!what.has("event")) return;
    const own = state.events.filter((event) => event.namespace === this.namespace && event.name === this.name);
    replace(this.events, own.length ? own.reverse().slice(0, 20).map(line) : h("li", { class: "quiet" }, "None since this console started."));
  }

  async load() {
    const waits = [...state.wait.values()].find((one) => one.namespace === this.namespace && one.name === this.name);
    if (waits) {
      replace(this.body, empty("It waits", waits.reason || (waits.remedy ? "" : "The scheduler has not said why yet."), waits.remedy,
        this.why ??= h("div", {}), h("p", {}, h("a", { href: "/waiting" }, "All that wait"))));
      this.explain();
      return;
    }
    try {
      const { shares } = await read("pods", this.namespace, this.name);
      replace(this.body, shares.map(share));
    } catch (error) {
      if (!(error instanceof Refused)) return;
      replace(this.body, empty("Nothing to show", `${error.message[0].toUpperCase()}${error.message.slice(1)}.`));
    }
  }

  /** On how many nodes each reason holds, as the scheduler answers this caller. */
  async explain() {
    let answer;
    try {
      answer = await read("explanations", this.namespace, this.name);
    } catch {
      return; // the reason on the pod has to do
    }
    const found = new Map();
    for (const node of answer.nodes ?? []) {
      for (const { reason, message } of node.reasons) {
        const known = found.get(reason) ?? { nodes: 0, message };
        found.set(reason, { ...known, nodes: known.nodes + 1 });
      }
    }
    for (const { reason, message } of answer.reasons ?? []) found.set(reason, { nodes: null, message });
    if (!found.size) return;
    replace(this.why, answer.preemption ? h("p", { class: "quiet" }, answer.preemption) : null, h("div", { class: "scroll" }, h("table", { class: "table reasons" },
      h("thead", {}, h("tr", {}, ["Nodes", "Reason", "For example"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, [...found].sort((a, b) => (b[1].nodes ?? 1e9) - (a[1].nodes ?? 1e9)).map(([reason, { nodes, message }]) => h("tr", {},
        h("td", {}, nodes === null ? "all" : `${nodes}`), h("td", {}, reason), h("td", {}, message)))))));
  }
}

function share(one) {
  const use = one.use;
  const loans = [];
  if (use?.[4]) loans.push(`borrows ${use[4]} % from ${partners(one)}`);
  if (use?.[5]) loans.push(`lends ${use[5]} % to ${partners(one)}`);
  return h("section", {},
    h("h2", {}, "Part of ", h("a", { href: `/card/${encodeURIComponent(one.node)}/${one.card}` }, `${one.node} / ${one.card}`)),
    h("div", { class: "panel facts" },
      fact("Memory", one.whole ? "whole card" : `${gib(one.mib)} GiB`, use ? `${gib(use[0])} GiB used` : "not measured"),
      fact("Cores", one.whole ? "whole card" : one.cores ? `${one.cores} %` : "no limit", use ? `${percent(use[1])} used${use[2] ? `, limit now ${percent(use[2])}` : ""}` : "not measured"),
      fact("Throttled", use ? percent(use[3]) : "–", loans.join("; ") || "no loans"),
      fact("State", one.phase || "–", `for ${age(one.created)}, asked in the words of ${one.dialects.join(", ")}`),
      use && !use[6] ? h("p", { class: "bad" }, "Its limits do not hold: the agent reports it as not enforced. `kubectl describe pod` names the reason.") : null),
    h("div", { class: "charts" },
      chart(one.history, { title: "Memory", granted: "granted_mib", used: "used_mib", unit: "GiB", format: gib }),
      chart(one.history, { title: "Cores", granted: "granted_cores", used: "used_cores", unit: "%", format: (value) => `${Math.round(value)}` })));
}

function partners(one) {
  const names = [...one.partners];
  if (one.partners_hidden) names.push("a pod of another namespace");
  return names.join(", ") || "nobody's cores";
}

function fact(name, value, more) {
  return h("div", { class: "fact" }, h("h3", {}, name), h("p", {}, h("b", {}, value)), h("p", { class: "quiet" }, more));
}

export function line(event) {
  const where = event.namespace ? `${event.namespace}/${event.name}` : event.name;
  const link = event.kind === "allocation" && event.name
    ? h("a", { href: `/pod/${encodeURIComponent(event.namespace)}/${encodeURIComponent(event.name)}` }, where)
    : event.kind === "plan" ? h("a", { href: "/plans" }, where) : h("span", {}, where);
  return h("li", { class: `event ${event.what}` }, h("time", { datetime: event.at, class: "quiet" }, new Date(event.at).toTimeString().slice(0, 8)),
    h("span", { class: "what" }, event.what), h("span", { class: "about" }, link, event.node ? ` on ${event.node}` : ""), h("span", { class: "text" }, event.text));
}
