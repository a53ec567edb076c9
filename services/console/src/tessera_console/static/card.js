// One card: who holds it, and its last hour.

import { Refused, read } from "./api.js";
import { bar, patterns } from "./bar.js";
import { chart } from "./chart.js";
import { scheme } from "./colors.js";
import { command, empty, h, replace } from "./dom.js";
import { age, gib, model, percent } from "./format.js";
import { state } from "./store.js";

const AGAIN_MS = 30_000;
const cores = (value) => `${Math.round(value)}`;

export class CardView {
  constructor(root, node, index) {
    this.node = node;
    this.index = Number(index);
    this.title = `${node}/${index}`;
    this.head = h("div", {});
    this.charts = h("div", { class: "charts" });
    root.append(patterns(), h("p", { class: "back" }, h("a", { href: "/cards" }, "← Cards")), this.head, h("h2", {}, "The last hour"), this.charts,
      h("h2", {}, "Commands"), command(`tessera cards ${node} -o wide`), command(`kubectl describe node ${node}`));
    this.update(new Set(["node"]));
    this.load();
    this.timer = setInterval(() => { if (!document.hidden) this.load(); }, AGAIN_MS);
  }

  close() {
    clearInterval(this.timer);
  }

  async load() {
    try {
      const { history } = await read("cards", this.node, String(this.index));
      replace(this.charts, chart(history, { title: "Memory", granted: "granted_mib", used: "used_mib", most: this.card?.mib, unit: "GiB", format: gib }),
        chart(history, { title: "Cores", granted: "granted_cores", used: "used_cores", most: 100, unit: "%", format: cores }));
    } catch (error) {
      if (error instanceof Refused) replace(this.charts, h("p", { class: "quiet" }, error.message));
    }
  }

  update(what) {
    if (!what.has("node") && !what.has("use")) return;
    const node = state.node.get(this.node);
    const n = node?.cards.findIndex((card) => card.index === this.index) ?? -1;
    if (n < 0) {
      replace(this.head, empty("This card is gone", `Node ${this.node} publishes no card ${this.index} now.`));
      return;
    }
    const card = this.card = node.cards[n];
    const use = state.use.get(this.node)?.[n];
    const colors = scheme("namespace", state.node.values());
    const width = Math.min(880, this.head.clientWidth || 880);
    replace(this.head,
      h("h1", {}, `${this.node} / ${card.index}`, card.note ? h("span", { class: "tag bad" }, card.note) : null),
      h("p", { class: "quiet" }, `${model(card)}, ${card.id}`),
      h("div", { class: "panel" }, bar(card, use, colors, { width: width - 34, height: 44 }),
        h("p", {}, h("b", {}, gib(card.granted_mib)), ` of ${gib(card.mib)} GiB and `, h("b", {}, percent(card.granted_cores)), " of cores granted; ",
          use ? [h("b", {}, gib(use[0])), " GiB and ", h("b", {}, percent(use[1])), " used"] : "use is not measured")),
      card.shares.length ? holders(card, use, colors) : h("p", { class: "quiet" }, "No pod holds a part of it."));
  }
}

function holders(card, use, colors) {
  return h("div", { class: "scroll" }, h("table", { class: "table" },
    h("thead", {}, h("tr", {}, ["", "Pod", "Dialect", "Memory", "used", "Cores", "used", "Throttled", "Since"].map((name) => h("th", { scope: "col" }, name || h("span", { class: "unseen" }, "Colour"))))),
    h("tbody", {}, card.shares.map((share, n) => {
      const measured = use?.[2]?.[n] || null;
      const entry = colors.of(share, measured);
      return h("tr", {}, h("td", {}, h("span", { class: `swatch ${entry.color} ${entry.pattern}`, "aria-hidden": "true" }, entry.letter)),
        h("td", {}, share.pod ? h("a", { href: `/pod/${encodeURIComponent(share.namespace)}/${encodeURIComponent(share.pod)}`, "data-key": share.uid }, `${share.namespace}/${share.pod}`) : h("span", { class: "quiet" }, "a pod of another namespace")),
        h("td", {}, share.dialects?.join(", ") ?? ""),
        h("td", { class: "number" }, share.whole ? "whole" : `${gib(share.mib)} GiB`), h("td", { class: "number" }, measured ? gib(measured[0]) : "–"),
        h("td", { class: "number" }, share.whole ? "whole" : share.cores ? `${share.cores} %` : "no limit"), h("td", { class: "number" }, measured ? percent(measured[1]) : "–"),
        h("td", { class: "number" }, measured ? percent(measured[3]) : "–"), h("td", { class: "number" }, share.created ? age(share.created) : ""));
    }))));
}
