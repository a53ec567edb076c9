// The frame: places, who is signed in, whether what is shown is still so; and the view of the place.

import { token } from "./api.js";
import { CardView } from "./card.js";
import { CardsView } from "./cards.js";
import { byId, h, replace, say } from "./dom.js";
import { EventsView } from "./events.js";
import { clock, duration } from "./format.js";
import { PlansView } from "./plans.js";
import { PodView } from "./pod.js";
import { QueuesView } from "./queues.js";
import { QuotasView } from "./quotas.js";
import { onArrival } from "./router.js";
import { SignInView } from "./signin.js";
import { connect, listen, state } from "./store.js";
import { WaitingView } from "./waiting.js";

const PLACES = [
  ["cards", "Cards", CardsView, () => ""],
  ["waiting", "Waiting", WaitingView, () => (state.wait.size + (state.meta?.waiting_hidden ?? 0)) || ""],
  ["quotas", "Quotas", QuotasView, () => ""],
  ["queues", "Queues", QueuesView, () => ""],
  ["plans", "Plans", PlansView, () => [...state.plan.values()].filter((p) => p.status.phase === "Proposed").length || ""],
  ["events", "Events", EventsView, () => ""],
];
const DETAILS = { card: CardView, pod: PodView };
const LATE_S = 10;

let view = null;

function arrive() {
  view?.close?.();
  const main = byId("main");
  main.replaceChildren();
  const [place, ...rest] = location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  const View = state.signedOut ? SignInView : DETAILS[place] ?? PLACES.find(([name]) => name === place)?.[2] ?? CardsView;
  if (!state.meta && !state.signedOut) {
    view = null;
    main.append(h("p", { class: "quiet pad" }, state.problem ? "" : "Loading…"));
  } else {
    view = new View(main, ...rest);
    document.title = `${view.title} · Tessera`;
  }
  drawPlaces(DETAILS[place] ? "cards" : place ?? "cards");
}

function drawPlaces(current = location.pathname.split("/")[1] || "cards") {
  const places = PLACES.filter(([name]) => name !== "plans" || state.meta?.plans);
  replace(byId("places"), places.map(([name, title, , count]) => h("a", { href: `/${name}`, "data-key": name, "aria-current": name === current ? "page" : null },
    title, count() === "" ? null : h("span", { class: "count" }, `${count()}`))));
}

function drawFrame() {
  const { meta } = state;
  byId("cluster").textContent = meta?.cluster ?? "";
  const late = state.at && Date.now() / 1000 - state.at > LATE_S;
  const stale = Boolean(state.at && (late || state.problem));
  document.body.classList.toggle("stale", stale);
  byId("live").textContent = state.at ? clock(state.at) : "";
  byId("live").title = stale ? "What is shown is from this time" : "Up to date";
  replace(byId("user"), meta?.open ? h("span", { class: "quiet" }, "open access") : token.get() && !state.signedOut
    ? [h("span", { class: "name", title: meta?.user ?? "" }, short(meta?.user ?? "")), h("button", { type: "button", class: "plain", "data-key": "out", onclick: () => { token.forget(); location.assign("/"); } }, "Sign out")] : null);
  const problems = [];
  if (state.signedOut) { /* the page itself says it */ }
  else if (stale) problems.push(`Not up to date since ${clock(state.at)} (${duration(Date.now() / 1000 - state.at)}): ${state.problem || "the console sends nothing"}. Trying again.`);
  else if (state.problem) problems.push(`${state.problem[0].toUpperCase()}${state.problem.slice(1)}. Trying again.`);
  problems.push(...(meta?.problems ?? []));
  if (meta?.unasked) problems.push(`There are more namespaces than the console asks about: pods of ${meta.unasked} are shown without names.`);
  const text = problems.join("\n");
  if (text !== drawFrame.text) {
    replace(byId("notices"), problems.map((problem) => h("p", { class: "notice" }, problem)));
    const first = problems[0] ?? (drawFrame.text ? "Up to date again" : "");
    if (!stale || !drawFrame.text) say(first);
    drawFrame.text = text;
  }
}

function short(user) {
  return user.startsWith("system:serviceaccount:") ? user.slice("system:serviceaccount:".length).replace(":", "/") : user;
}

listen((what) => {
  if (!view || (view instanceof SignInView) !== state.signedOut) arrive();
  else view.update?.(what);
  if (what.has("wait") || what.has("plan") || what.has("meta")) drawPlaces(view instanceof CardView || view instanceof PodView ? "cards" : undefined);
  drawFrame();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
    const find = byId("find");
    if (find) { event.preventDefault(); find.focus(); }
  }
  if (event.key === "Escape") byId("tip").hidden = true;
});

onArrival(arrive);
arrive();
drawFrame();
connect();
setInterval(() => { if (!document.hidden) drawFrame(); }, 1000);
