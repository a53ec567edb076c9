// Messages of the bus as they come, the newest first.

import { empty, h, replace } from "./dom.js";
import { line } from "./pod.js";
import { address } from "./router.js";
import { state } from "./store.js";

const KINDS = ["allocation", "quota", "plan"];
const MOST = 200;

export class EventsView {
  title = "Events";

  constructor(root) {
    const query = new URLSearchParams(location.search);
    this.kind = KINDS.includes(query.get("kind")) ? query.get("kind") : "";
    this.text = query.get("q") ?? "";
    this.list = h("ol", { class: "events" });
    root.append(h("h1", {}, "Events"), h("div", { class: "tools" },
      h("label", { class: "field grow" }, h("span", {}, "Find"), h("input", { id: "find", type: "search", value: this.text, placeholder: "pod, node, word", oninput: (event) => { this.text = event.target.value.trim(); this.show(); } })),
      h("fieldset", { class: "choice" }, h("legend", {}, "Kind"), ["", ...KINDS].map((kind) => h("label", {}, h("input", { type: "radio", name: "kind", value: kind, checked: kind === this.kind, onchange: () => { this.kind = kind; this.show(); } }), h("span", {}, kind || "All"))))), this.list);
    this.show();
  }

  update(what) {
    if (what.has("event")) this.show(false);
  }

  show(write = true) {
    if (write) {
      const query = new URLSearchParams();
      if (this.kind) query.set("kind", this.kind);
      if (this.text) query.set("q", this.text);
      address(`/events${query.size ? `?${query}` : ""}`);
    }
    const text = this.text.toLowerCase();
    const found = state.events.filter((event) => (!this.kind || event.kind === this.kind)
      && (!text || `${event.namespace}/${event.name} ${event.node} ${event.what} ${event.text}`.toLowerCase().includes(text)));
    replace(this.list, found.length ? found.slice(-MOST).reverse().map(line) : h("li", {}, empty("No events", state.meta.bus
      ? "They appear as they happen: a pod gets a card, waits, ends; a quota is exceeded; a plan is proposed."
      : "The message bus does not answer, so none can be read.")));
  }
}
