// Quotas: what each group may use, is guaranteed, uses, and lets rest.

import { command, empty, h, replace } from "./dom.js";
import { age, gib, quantity } from "./format.js";
import { state } from "./store.js";

export class QuotasView {
  title = "Quotas";

  constructor(root) {
    this.list = h("div", {});
    root.append(h("h1", {}, "Quotas"), this.list);
    this.show();
  }

  update(what) {
    if (what.has("quota")) this.show();
  }

  show() {
    const pools = new Map();
    for (const one of state.quota.values()) {
      const pool = one.spec.pool || "";
      if (!pools.has(pool)) pools.set(pool, []);
      pools.get(pool).push(one);
    }
    const sorted = [...pools].sort(([a], [b]) => (!a) - (!b) || (a < b ? -1 : 1));
    replace(this.list, sorted.length ? sorted.map(([pool, quotas]) => h("section", {}, sorted.length > 1 || pool ? h("h2", {}, pool ? `Pool ${pool}` : "Without a pool") : null,
      pool ? h("p", { class: "quiet" }, "Its groups lend to each other what they are guaranteed and do not use.") : null,
      h("div", { class: "quotas" }, quotas.sort((a, b) => (a.namespace + a.name < b.namespace + b.name ? -1 : 1)).map(quota))))
      : empty("No quota", "No AcceleratorQuota is there, or none that you may list.", h("p", {}, "Without one a namespace may use every card."), command("kubectl explain acceleratorquota.spec")));
  }
}

const MEMORY = { name: "Memory", unit: "GiB", of: (amounts) => quantity(amounts?.memory), format: gib };
const CORES = { name: "Cores", unit: "%", of: (amounts) => Number(amounts?.cores ?? 0), format: (x) => `${Math.round(x)}` };
const CARDS = { name: "Cards", unit: "", of: (amounts) => Number(amounts?.cards ?? 0), format: (x) => `${x}` };

function quota(one) {
  const { spec, status } = one;
  const used = status.used ?? {};
  const hours = status.hours ?? {};
  return h("article", { class: `panel quota ${status.phase ?? ""}` },
    h("h3", {}, `${one.namespace}/${one.name}`, status.phase && status.phase !== "Within" ? h("span", { class: "tag bad" }, status.phase) : null, spec.vendor ? h("span", { class: "tag" }, spec.vendor) : null),
    [MEMORY, CORES, CARDS].map((dimension) => line(dimension, spec, status, used)),
    status.message ? h("p", { class: "bad" }, status.message) : null,
    status.problem ? h("p", { class: "bad" }, `Its specification: ${status.problem}`) : null,
    status.waiting?.pods ? h("p", {}, h("a", { href: `/waiting?q=${encodeURIComponent(one.namespace)}` }, `${status.waiting.pods} waiting`), `, for ${gib(quantity(status.waiting.memory))} GiB and ${Math.round(status.waiting.cores ?? 0)} % at least`) : null,
    hours.granted ? h("p", { class: "quiet" }, `${hours.granted.toFixed(1)} card hours granted, ${(hours.seen ?? 0).toFixed(1)} measured (${Math.round((100 * (hours.seen ?? 0)) / hours.granted)} %)`) : null,
    status.idle?.length ? h("details", {}, h("summary", {}, `${status.idlePods} idle`), h("ul", {}, status.idle.map((idle) => h("li", {}, h("a", { href: `/pod/${idle.pod.split("/").map(encodeURIComponent).join("/")}` }, idle.pod), ` for ${age(idle.since)}: ${gib(quantity(idle.memory))} GiB`)))) : null);
}

function line({ name, unit, of, format }, spec, status, used) {
  const hard = spec.hard?.[name.toLowerCase()] === undefined ? null : of(spec.hard);
  const guaranteed = spec.guaranteed?.[name.toLowerCase()] === undefined ? null : of(spec.guaranteed);
  const uses = of(used);
  if (hard === null && guaranteed === null && !uses) return null;
  const measured = name === "Cards" ? null : of(status.seen);
  const top = Math.max(hard ?? 0, guaranteed ?? 0, uses, 1e-9);
  const width = (value, kind) => {
    const element = h("span", { class: kind });
    element.style.width = `${Math.min(100, (100 * value) / top)}%`;
    return element;
  };
  const borrowed = guaranteed === null ? 0 : Math.max(0, uses - guaranteed);
  const mark = guaranteed === null ? null : width(guaranteed, "guaranteed");
  const text = [`${format(uses)}${hard === null ? "" : ` of ${format(hard)}`} ${unit} held`, guaranteed === null ? "" : `${format(guaranteed)} guaranteed`, borrowed ? `${format(borrowed)} borrowed` : "", measured === null ? "" : `${format(measured)} measured`].filter(Boolean).join(", ");
  const bounded = hard !== null || guaranteed !== null;
  return h("div", { class: "line" }, h("span", { class: "name" }, name),
    bounded && h("div", { class: "gauge tall", "aria-hidden": "true" }, width(uses, uses > (hard ?? Infinity) ? "granted over" : "granted"), measured === null ? null : width(measured, "used"), mark), h("span", { class: "quiet" }, text));
}
