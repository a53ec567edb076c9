// What the rebalancer proposes: the same cards before and after, gain, cost, and who is disturbed.

import { write } from "./api.js";
import { bar, patterns } from "./bar.js";
import { scheme } from "./colors.js";
import { command, empty, h, replace, say } from "./dom.js";
import { age, gib, many, quantity } from "./format.js";
import { state } from "./store.js";

const ORDER = ["Proposed", "Started", "Failed", "Done", "Declined"];
const WIDTH = 220;
const AROUND = 190;

export class PlansView {
  title = "Plans";

  constructor(root) {
    this.said = new Map();
    this.list = h("div", { class: "plans" });
    root.append(patterns(), h("h1", {}, "Plans"), this.list);
    this.show();
  }

  update(what) {
    if (what.has("plan") || what.has("meta")) this.show();
  }

  show() {
    const plans = [...state.plan.values()].sort((a, b) => ORDER.indexOf(a.status.phase) - ORDER.indexOf(b.status.phase) || (a.created < b.created ? 1 : -1));
    replace(this.list, plans.length ? plans.map((plan) => this.plan(plan))
      : empty("No plan", "The rebalancer proposes nothing at the moment: no move or resize would be worth its cost."));
  }

  plan(plan) {
    const { spec, status } = plan;
    const pods = new Set(spec.steps.map((step) => `${step.pod.namespace}/${step.pod.name}`));
    const decided = spec.decision ? `${spec.decision}${spec.decidedBy ? ` by ${spec.decidedBy}` : ""}` : "nobody has decided";
    return h("article", { class: "panel plan" },
      h("h2", {}, plan.name, h("span", { class: `tag ${status.phase}` }, status.phase), h("span", { class: "tag" }, spec.kind), spec.dryRun ? h("span", { class: "tag" }, "dry run") : null),
      h("p", {}, spec.reason || "It is about pods that you may not see."),
      h("dl", { class: "facts" }, [["Gain", `${Math.round(spec.gain ?? 0)} card-seconds`], ["Cost", `${Math.round(spec.cost ?? 0)} card-seconds`], ["Disturbs", many(pods.size, "pod")], ["Proposed", plan.created ? `${age(plan.created)} ago` : "–"], ["Decision", decided],
        status.gained === null || status.gained === undefined ? null : ["Gained", `${Math.round(status.gained)} card-seconds`]].filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      h("ol", { class: "steps" }, spec.steps.map((step, n) => h("li", { class: n < (status.stepsDone ?? 0) ? "done" : "" }, words(step)))),
      status.phase === "Proposed" ? pictures(spec) : null,
      status.message ? h("p", { class: status.phase === "Failed" ? "bad" : "quiet" }, status.message) : null,
      status.phase === "Proposed" ? this.acts(plan) : null,
      h("p", { class: "bad", role: "alert" }, this.said.get(plan.name) ?? ""));
  }

  acts(plan) {
    if (plan.spec.decision) return null;
    if (plan.spec.dryRun) return h("p", { class: "quiet" }, "A dry run is never carried out.");
    if (!state.meta.decides) {
      return h("div", {}, h("p", { class: "quiet" }, state.meta.acts ? "You may not change plans in this cluster." : "This console only reads. To decide:"),
        state.meta.acts ? null : [command(`tessera plan approve ${plan.name}`), command(`tessera plan decline ${plan.name}`)]);
    }
    return h("div", { class: "acts" },
      h("button", { type: "button", class: "button", "data-key": `approve ${plan.name}`, onclick: () => this.decide(plan, "approved") }, "Approve"),
      h("button", { type: "button", class: "button second", "data-key": `decline ${plan.name}`, onclick: () => this.decide(plan, "declined") }, "Decline"));
  }

  async decide(plan, decision) {
    try {
      const done = await write(["plans", plan.name, "decision"], { decision, version: plan.version });
      state.plan.set(plan.name, done);
      this.said.delete(plan.name);
      say(`Plan ${plan.name} is ${decision}`);
    } catch (error) {
      this.said.set(plan.name, error.message);
    }
    this.show();
  }
}

function words(step) {
  const pod = step.pod.name ? `${step.pod.namespace}/${step.pod.name}` : "a pod of another namespace";
  if (!step.container) return `${pod} leaves ${step.pod.node}${step.toNode ? `; there is room for it on ${step.toNode}` : ""}`;
  const amounts = [step.memory, step.cores === null || step.cores === undefined ? "" : `${step.cores} % of cores`].filter(Boolean).join(" and ");
  return `${pod}: ${amounts} of card ${step.card} on ${step.pod.node}`;
}

/** The cards that the plan changes, as they are, and as they would be. */
function pictures(spec) {
  const steps = new Map(spec.steps.filter((step) => step.pod.uid).map((step) => [step.pod.uid, step]));
  const colors = scheme("namespace", state.node.values());
  const width = Math.max(80, Math.min(WIDTH, (innerWidth - AROUND) / 2));
  const pairs = [];
  const moved = [];
  for (const node of state.node.values()) {
    for (const card of node.cards) {
      if (!card.shares.some((share) => steps.has(share.uid))) continue;
      const shares = [];
      for (const share of card.shares) {
        const step = steps.get(share.uid);
        if (!step) shares.push(share);
        else if (step.container) shares.push({ ...share, mib: step.memory ? quantity(step.memory) : share.mib, cores: step.cores ?? share.cores });
        else moved.push({ share, to: step.toNode });
      }
      pairs.push([node.name, card, { ...card, shares, granted_mib: shares.reduce((total, share) => total + share.mib, 0) }]);
    }
  }
  for (const { share, to } of moved) {
    const node = state.node.get(to);
    const card = node?.cards.find((one) => one.mib - one.granted_mib >= share.mib && one.healthy);
    if (!card) continue;
    const known = pairs.find(([name, before]) => name === to && before.index === card.index);
    const after = known?.[2] ?? { ...card, shares: [...card.shares] };
    after.shares.push(share);
    after.granted_mib += share.mib;
    if (!known) pairs.push([to, card, after]);
  }
  if (!pairs.length) return null;
  return h("div", { class: "scroll" }, h("table", { class: "table pairs" }, h("thead", {}, h("tr", {}, ["Card", "Before", "After"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, pairs.slice(0, 8).map(([name, before, after]) => h("tr", {}, h("td", {}, `${name} / ${before.index}`),
      [before, after].map((card) => h("td", {}, bar(card, null, colors, { width }), h("span", { class: "quiet" }, `${gib(card.granted_mib)} / ${gib(card.mib)} GiB`))))))));
}
