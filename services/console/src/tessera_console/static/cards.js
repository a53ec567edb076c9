// Nodes as rows, cards as bars to scale. Only the rows in the window are in the document.

import { HEIGHT, bar, patterns } from "./bar.js";
import { OTHER, scheme } from "./colors.js";
import { byId, empty, h, replace, say } from "./dom.js";
import { age, gib, many, model, part, percent } from "./format.js";
import { address } from "./router.js";
import { state } from "./store.js";

const CELL = { least: 124, gap: 12, height: HEIGHT + 26 };
const ROW_PAD = 22;
const LEAST_ROW = 86;
const NARROW = 900;
const HEAD = 34;
const AHEAD = 400;
const LEGEND = 24;
const SORTS = {
  name: ["Name", null],
  free: ["Most free memory", (node) => -sum(node.cards, (c) => Math.max(0, c.mib - c.granted_mib))],
  memory: ["Memory granted", (node) => -part(sum(node.cards, (c) => c.granted_mib), sum(node.cards, (c) => c.mib))],
  idle: ["Granted and idle", (node) => -idle(node)],
};

const sum = (items, of) => items.reduce((total, item) => total + of(item), 0);

function idle(node) {
  const use = state.use.get(node.name);
  return sum(node.cards.map((card, n) => (use?.[n]?.[0] === null || !use?.[n] ? 0 : Math.max(0, card.granted_mib - use[n][0]))), (x) => x);
}

export class CardsView {
  title = "Cards";

  constructor(root) {
    this.root = root;
    this.rows = new Map();
    this.offsets = [];
    this.figures = h("section", { class: "figures", "aria-label": "All cards together" });
    this.tools = h("div", { class: "tools" });
    this.legend = h("div", { class: "legend", role: "group", "aria-label": "Legend, which is the filter" });
    this.list = h("div", { class: "nodes", role: "list", "aria-label": "Nodes" });
    this.root.append(h("h1", { class: "unseen" }, "Cards"), patterns(), this.figures, this.tools, this.legend, this.list);
    this.onScroll = () => {
      if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
    };
    this.onResize = () => { this.widths(); this.arrange(); };
    addEventListener("scroll", this.onScroll, { passive: true });
    this.observer = new ResizeObserver(this.onResize);
    this.observer.observe(this.list);
    this.list.addEventListener("keydown", (event) => this.move(event));
    this.list.addEventListener("pointerover", (event) => this.hint(event.target));
    this.list.addEventListener("pointerleave", () => hideTip());
    this.list.addEventListener("focusin", (event) => this.hint(event.target));
    this.list.addEventListener("focusout", () => hideTip());
    this.read();
    this.makeTools();
    this.widths();
    this.update(new Set(["node", "meta"]));
  }

  close() {
    removeEventListener("scroll", this.onScroll);
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
    hideTip();
  }

  /** What the address says. */
  read() {
    const query = new URLSearchParams(location.search);
    this.color = ["namespace", "dialect", "use"].includes(query.get("color")) ? query.get("color") : "namespace";
    this.sort = query.get("sort") in SORTS ? query.get("sort") : "name";
    this.text = query.get("q") ?? "";
    this.picked = new Set(query.getAll("only"));
  }

  /** The address of what is shown, which can be shared. */
  write() {
    const query = new URLSearchParams();
    if (this.color !== "namespace") query.set("color", this.color);
    if (this.sort !== "name") query.set("sort", this.sort);
    if (this.text) query.set("q", this.text);
    for (const key of this.picked) query.append("only", key);
    address(`/cards${query.size ? `?${query}` : ""}`);
  }

  makeTools() {
    const colors = h("fieldset", { class: "choice" }, h("legend", {}, "Colour by"),
      ["namespace", "dialect", "use"].map((by) => h("label", {},
        h("input", { type: "radio", name: "color", value: by, checked: by === this.color, onchange: () => {
          this.color = by;
          this.picked.clear();
          this.write();
          this.update(new Set(["node"]));
        } }), h("span", {}, by[0].toUpperCase() + by.slice(1)))));
    const sorts = h("label", { class: "field" }, h("span", {}, "Sort"), h("select", { onchange: (event) => {
      this.sort = event.target.value;
      this.write();
      this.arrange();
    } }, Object.entries(SORTS).map(([key, [name]]) => h("option", { value: key, selected: key === this.sort }, name))));
    const search = h("label", { class: "field grow" }, h("span", {}, "Find"),
      h("input", { id: "find", type: "search", placeholder: "node, model, pod, namespace", value: this.text, autocomplete: "off", spellcheck: "false", oninput: (event) => {
        this.text = event.target.value.trim();
        this.write();
        this.arrange();
      } }));
    this.tools.append(search, colors, sorts);
  }

  update(what) {
    if (!state.meta) return;
    if (what.has("meta") || what.has("full")) this.drawFigures();
    if (what.has("node")) {
      this.scheme = scheme(this.color, state.node.values());
      this.drawLegend();
      this.arrange();
    } else if (what.has("use")) {
      if (this.color === "use" && this.picked.size) this.arrange();
      else this.draw(true);
    }
  }

  drawFigures() {
    const t = state.meta.totals;
    const measured = t.nodes_measured > 0;
    const gauge = (name, granted, used, of, text) => h("div", { class: "figure" },
      h("h2", {}, name), h("p", {}, h("b", {}, `${part(granted, of)} %`), " granted", measured ? [", ", h("b", {}, `${part(used, of)} %`), " used"] : ""),
      h("div", { class: "gauge", "aria-hidden": "true" }, sized("granted", part(granted, of)), measured ? sized("used", part(used, of)) : null),
      h("p", { class: "quiet" }, text));
    const waits = state.wait.size + state.meta.waiting_hidden;
    replace(this.figures,
      h("div", { class: "figure" }, h("h2", {}, "Cards"), h("p", {}, h("b", {}, `${t.cards_healthy}`), ` of ${t.cards} healthy`),
        h("p", { class: "quiet" }, `${many(t.nodes, "node")}, ${many(t.shares, "share")}${measured && t.nodes_measured < t.nodes ? `; ${t.nodes - t.nodes_measured} not measured` : ""}`)),
      gauge("Memory", t.memory_granted_bytes, t.memory_used_bytes, t.memory_bytes, `${gib(t.memory_granted_bytes / 2 ** 20)} of ${gib(t.memory_bytes / 2 ** 20)} GiB granted`),
      gauge("Cores", t.cores_granted_percent, t.cores_used_percent, t.cores_percent, measured ? `as much work as ${(t.cores_used_percent / 100).toFixed(1)} cards do` : "use is not measured"),
      h("div", { class: "figure" }, h("h2", {}, "Waiting"), h("p", {}, h("a", { href: "/waiting", "data-key": "waiting" }, h("b", {}, `${waits}`), ` ${waits === 1 ? "pod" : "pods"}`)),
        h("p", { class: "quiet" }, oldest())));
  }

  drawLegend() {
    const { entries } = this.scheme;
    const held = new Map();
    for (const node of state.node.values()) {
      const use = state.use.get(node.name);
      node.cards.forEach((card, c) => card.shares.forEach((share, n) => {
        const { key } = this.scheme.of(share, use?.[c]?.[2]?.[n] || null);
        held.set(key, (held.get(key) ?? 0) + share.mib);
      }));
    }
    const all = held.has(OTHER.key) ? [...entries, OTHER] : entries;
    const shown = this.color === "namespace" && all.length > LEGEND && !this.unfolded
      ? [...all].sort((a, b) => (held.get(b.key) ?? 0) - (held.get(a.key) ?? 0)).slice(0, LEGEND)
      : all;
    replace(this.legend, shown.map((entry) => h("button", {
      type: "button", class: "chip", "aria-pressed": String(this.picked.has(entry.key)), "data-key": entry.key,
      onclick: () => {
        if (!this.picked.delete(entry.key)) this.picked.add(entry.key);
        this.write();
        this.drawLegend();
        this.arrange();
        say(this.picked.size ? `${many(this.order.length, "node")} with ${[...this.picked].join(", ")}` : "All nodes");
      },
    }, h("span", { class: `swatch ${entry.color} ${entry.pattern}`, "aria-hidden": "true" }, entry.letter), h("span", { class: "name" }, entry.label),
      h("span", { class: "quiet" }, `${gib(held.get(entry.key) ?? 0)} GiB`))),
      shown.length < all.length ? h("button", { type: "button", class: "chip", onclick: () => { this.unfolded = true; this.drawLegend(); } }, `${all.length - shown.length} more`) : null,
      this.picked.size ? h("button", { type: "button", class: "chip plain", "data-key": "clear", onclick: () => { this.picked.clear(); this.write(); this.drawLegend(); this.arrange(); } }, "Show all") : null);
  }

  // -- which rows there are, and where

  widths() {
    const width = this.list.clientWidth;
    this.narrow = innerWidth < NARROW;
    const room = width - (this.narrow ? 0 : 208) - 32;
    this.columns = Math.max(1, Math.min(8, Math.floor((room + CELL.gap) / (CELL.least + CELL.gap))));
    this.cell = Math.floor((room + CELL.gap) / this.columns) - CELL.gap;
    this.list.style.setProperty("--columns", this.columns);
    this.list.style.setProperty("--cell", `${this.cell}px`);
  }

  wanted(node) {
    if (this.picked.size) {
      const use = state.use.get(node.name);
      const has = node.cards.some((card, c) => card.shares.some((share, n) => this.picked.has(this.scheme.of(share, use?.[c]?.[2]?.[n] || null).key)));
      if (!has) return false;
    }
    if (!this.text) return true;
    const text = this.text.toLowerCase();
    return node.name.includes(text) || node.cards.some((card) => model(card).toLowerCase().includes(text)
      || card.shares.some((share) => share.pod && `${share.namespace}/${share.pod}`.includes(text)));
  }

  arrange() {
    if (!this.scheme) return;
    const order = [...state.node.values()].filter((node) => this.wanted(node));
    const by = SORTS[this.sort][1];
    const collate = (a, b) => (a.name < b.name ? -1 : 1);
    if (by) {
      const values = new Map(order.map((node) => [node.name, by(node)]));
      order.sort((a, b) => values.get(a.name) - values.get(b.name) || collate(a, b));
    } else order.sort(collate);
    this.order = order;
    this.offsets = [0];
    for (const node of order) this.offsets.push(this.offsets.at(-1) + this.heightOf(node));
    this.most = Math.max(...order.flatMap((node) => node.cards.map((card) => card.mib)), 1);
    this.list.style.height = `${this.offsets.at(-1)}px`;
    for (const row of this.rows.values()) row.element.remove();
    this.rows.clear();
    this.blank?.remove();
    this.blank = null;
    if (!order.length) {
      this.blank = state.node.size
        ? empty("Nothing matches", "No node has what the filter wants.", h("button", { type: "button", class: "button", onclick: () => { this.text = ""; this.picked.clear(); byId("find").value = ""; this.write(); this.update(new Set(["node"])); } }, "Show all nodes"))
        : empty("No card is published", "No agent has published a card in this cluster yet.", h("p", {}, h("code", {}, "tessera check"), " says what is missing, and how to mend it."));
      this.root.append(this.blank);
    }
    this.draw();
  }

  heightOf(node) {
    const lines = Math.ceil(node.cards.length / this.columns);
    const height = lines * CELL.height + ROW_PAD + (this.narrow ? HEAD : 0);
    return Math.max(height, this.narrow ? 0 : LEAST_ROW) + (node.problems.length ? 22 : 0);
  }

  draw(refresh = false) {
    if (!this.order?.length) return;
    const top = scrollY - this.list.offsetTop - AHEAD;
    const bottom = top + innerHeight + 2 * AHEAD;
    let first = 0;
    let last = this.order.length;
    while (first < last) {
      const middle = (first + last) >> 1;
      if (this.offsets[middle + 1] < top) first = middle + 1;
      else last = middle;
    }
    const wanted = new Set();
    for (let n = first; n < this.order.length && this.offsets[n] < bottom; n += 1) {
      const node = this.order[n];
      wanted.add(node.name);
      const use = state.use.get(node.name);
      const known = this.rows.get(node.name);
      if (known && !(refresh && known.use !== use)) continue;
      const element = this.row(node, use, n);
      if (known) this.swap(known.element, element);
      else this.list.append(element);
      this.rows.set(node.name, { element, use });
    }
    for (const [name, { element }] of this.rows) {
      if (!wanted.has(name) && !element.contains(document.activeElement)) {
        element.remove();
        this.rows.delete(name);
      }
    }
  }

  swap(before, after) {
    const key = before.contains(document.activeElement) ? document.activeElement.dataset.key : "";
    before.replaceWith(after);
    if (key) after.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  }

  row(node, use, n) {
    const total = sum(node.cards, (card) => card.mib);
    const granted = sum(node.cards, (card) => card.granted_mib);
    const models = [...new Set(node.cards.map(model))].join(", ");
    const element = h("div", { class: `node${node.closed ? " closed" : ""}`, role: "listitem", "aria-label": `Node ${node.name}`, "aria-setsize": this.order.length, "aria-posinset": n + 1 },
      h("header", {}, h("h3", { title: node.name }, node.name),
        h("p", { class: "quiet", title: models }, `${node.cards.length} × ${models}`),
        h("p", { class: "quiet" }, `${part(granted, total)} % granted${node.closed ? ", cordoned" : ""}`)),
      h("div", { class: "grid" }, node.cards.map((card, c) => this.card(node, card, use?.[c]))),
      node.problems.length ? h("p", { class: "problem", title: node.problems.join("\n") }, node.problems[0]) : null);
    element.style.transform = `translateY(${this.offsets[n]}px)`;
    element.style.height = `${this.heightOf(node) - 8}px`;
    return element;
  }

  card(node, card, use) {
    const width = Math.max(24, Math.round((this.cell * card.mib) / this.most));
    const dim = this.picked.size ? (entry) => !this.picked.has(entry.key) : undefined;
    const note = card.note || "";
    const [before, after] = around(node, card, use);
    return h("a", {
      class: `card${note ? " noted" : ""}`, href: `/card/${encodeURIComponent(node.name)}/${card.index}`, "data-key": `${node.name}/${card.index}`,
      "data-node": node.name, "data-index": card.index,
    }, h("span", { class: "caption" }, h("b", {}, `${card.index}`), unseen(before), h("span", {}, note || memory(card)), unseen(after), h("span", { class: "right" }, use ? percent(use[1]) : ""), use ? unseen(" of its cores in use") : null),
    bar(card, use, this.scheme, { width, dim }));
  }

  // -- keyboard and tips

  move(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns };
    const step = steps[event.key];
    const at = event.target.closest?.(".card");
    if (!step || !at) return;
    event.preventDefault();
    const places = this.order.flatMap((node, n) => node.cards.map((card) => ({ key: `${node.name}/${card.index}`, n })));
    const now = places.findIndex((place) => place.key === at.dataset.key);
    const next = places[Math.max(0, Math.min(places.length - 1, now + step))];
    const top = this.list.offsetTop + this.offsets[next.n];
    if (top < scrollY + 80) scrollTo(0, top - 120);
    else if (top + 120 > scrollY + innerHeight) scrollTo(0, top - innerHeight + 220);
    this.draw();
    this.list.querySelector(`[data-key="${CSS.escape(next.key)}"]`)?.focus({ preventScroll: true });
  }

  hint(target) {
    const card = target.closest?.(".card");
    if (!card) return hideTip();
    const node = state.node.get(card.dataset.node);
    const n = node?.cards.findIndex((one) => String(one.index) === card.dataset.index);
    if (n === undefined || n < 0) return hideTip();
    showTip(card, tipOf(node, node.cards[n], state.use.get(node.name)?.[n], this.scheme));
  }
}

function oldest() {
  const first = [...state.wait.values()].reduce((a, b) => (a && a.created < b.created ? a : b), null);
  return first ? `the oldest for ${age(first.created)}` : state.meta.waiting_hidden ? "of other namespaces" : "nothing waits for a card";
}

const memory = (card) => `${gib(card.granted_mib)} / ${gib(card.mib)}`;
const unseen = (text) => h("span", { class: "unseen" }, text);

/** What screen readers hear between the number of a card, its note or memory, and its use. */
function around(node, card, use) {
  const used = use ? `, ${gib(use[0])} GiB and ` : "";
  return [` of ${node.name}, ${model(card)}: `, `${card.note ? `, ${memory(card)}` : ""} GiB granted to ${many(card.shares.length, "pod")}${used}`];
}

function tipOf(node, card, use, colors) {
  const rows = card.shares.slice(0, 12).map((share, n) => {
    const measured = use?.[2]?.[n] || null;
    const entry = colors.of(share, measured);
    return h("tr", {}, h("td", {}, h("span", { class: `swatch ${entry.color} ${entry.pattern}` }, entry.letter)),
      h("td", {}, share.pod ? `${share.namespace}/${share.pod}` : "a pod of another namespace"),
      h("td", {}, share.whole ? "whole" : `${gib(share.mib)} GiB`), h("td", {}, share.whole || !share.cores ? "" : `${share.cores} %`),
      h("td", {}, measured ? `uses ${gib(measured[0])} GiB, ${percent(measured[1])}` : ""), h("td", {}, share.created ? age(share.created) : ""));
  });
  const more = card.shares.length - rows.length;
  return [h("p", {}, h("b", {}, `${node.name} / ${card.index}`), ` ${model(card)}`, card.note ? h("span", { class: "bad" }, ` ${card.note}`) : ""),
    h("p", { class: "quiet" }, `${gib(card.granted_mib)} of ${gib(card.mib)} GiB granted, ${gib(Math.max(0, card.mib - card.granted_mib))} GiB free${use ? `; ${gib(use[0])} GiB and ${percent(use[1])} of cores used` : ""}`),
    rows.length ? h("table", {}, h("tbody", {}, rows)) : null, more > 0 ? h("p", { class: "quiet" }, `and ${more} more`) : null];
}

function showTip(at, content) {
  const tip = byId("tip");
  replace(tip, content);
  tip.hidden = false;
  const place = at.getBoundingClientRect();
  const width = tip.offsetWidth;
  const left = Math.max(8, Math.min(place.left, document.documentElement.clientWidth - width - 8));
  const below = place.bottom + 6 + tip.offsetHeight < innerHeight;
  tip.style.transform = `translate(${left}px, ${below ? place.bottom + 6 : place.top - tip.offsetHeight - 6}px)`;
}

function hideTip() {
  byId("tip").hidden = true;
}

function sized(name, width) {
  const element = h("span", { class: name });
  element.style.width = `${Math.min(100, width)}%`;
  return element;
}

