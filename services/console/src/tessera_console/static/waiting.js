// Pods that wait: why, for how long, and what would help.

import { empty, h, replace } from "./dom.js";
import { age, many, requested } from "./format.js";
import { address } from "./router.js";
import { state } from "./store.js";

const MOST = 500;

export class WaitingView {
  title = "Waiting";

  constructor(root) {
    this.text = new URLSearchParams(location.search).get("q") ?? "";
    this.summary = h("p", { class: "quiet" });
    this.reasons = h("div", { class: "legend", role: "group", "aria-label": "Reasons" });
    this.list = h("ol", { class: "waits" });
    root.append(h("h1", {}, "Waiting"), this.summary, h("div", { class: "tools" }, h("label", { class: "field grow" }, h("span", {}, "Find"),
      h("input", { id: "find", type: "search", placeholder: "pod, namespace, reason", value: this.text, oninput: (event) => { this.text = event.target.value.trim(); address(`/waiting${this.text ? `?q=${encodeURIComponent(this.text)}` : ""}`); this.show(); } }))), this.list);
    this.show();
  }

  update(what) {
    if (what.has("wait") || what.has("meta")) this.show();
  }

  show() {
    const all = [...state.wait.values()].sort((a, b) => a.place - b.place);
    const hidden = state.meta.waiting_hidden;
    this.summary.textContent = `${many(all.length, "pod")} ${all.length === 1 ? "waits" : "wait"} for cards, the oldest first.${hidden ? ` ${many(hidden, "pod")} of other namespaces too.` : ""}`;
    const text = this.text.toLowerCase();
    const found = all.filter((one) => !text || `${one.namespace}/${one.name} ${one.reason}`.toLowerCase().includes(text));
    replace(this.list, found.length ? found.slice(0, MOST).map(wait)
      : h("li", {}, all.length ? empty("Nothing matches", "No pod that waits has these words.") : empty("Nothing waits", "Each pod that asks for a card has one.")),
      found.length > MOST ? h("li", { class: "quiet" }, `and ${found.length - MOST} more: write a part of a name above`) : null);
  }
}

function wait(one) {
  return h("li", { class: "panel wait" },
    h("h2", {}, h("a", { href: `/pod/${encodeURIComponent(one.namespace)}/${encodeURIComponent(one.name)}`, "data-key": `${one.namespace}/${one.name}` }, `${one.namespace}/${one.name}`), h("span", { class: "tag" }, age(one.created)), one.dialects.map((name) => h("span", { class: "tag" }, name))),
    h("p", { class: "quiet" }, `asks for ${one.parts.map(requested).join("; ") || "cards"}`),
    one.reason || !one.remedy ? h("p", {}, one.reason || "The scheduler has not said why yet.") : null,
    one.remedy ? h("p", { class: "remedy" }, one.remedy) : null);
}
