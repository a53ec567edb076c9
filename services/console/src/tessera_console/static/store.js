// The state of the cluster as the stream reports it, and whether it is still so.

import { Refused, stream } from "./api.js";

const LEAST_S = 1;
const MOST_S = 15;
const EVENTS = 500;
const HIDDEN_MS = 30_000;

export const state = {
  meta: null,
  node: new Map(),
  use: new Map(),
  wait: new Map(),
  quota: new Map(),
  plan: new Map(),
  events: [],
  /** Unix seconds of the last message. */
  at: 0,
  /** Why there is no connection; empty = there is one. */
  problem: "",
  signedOut: false,
};

const listeners = new Set();
let connection = null;
let hiddenTimer = 0;

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function changed(what) {
  for (const listener of [...listeners]) listener(what);
}

function take(update) {
  const what = new Set(["at"]);
  if (update.full) {
    for (const part of ["node", "use", "wait", "quota", "plan"]) {
      state[part].clear();
      what.add(part);
    }
    state.events = [];
    what.add("event");
  }
  for (const [key, document] of Object.entries(update.put ?? {})) {
    const slash = key.indexOf("/");
    if (slash < 0) state[key] = document;
    else state[key.slice(0, slash)].set(key.slice(slash + 1), document);
    what.add(slash < 0 ? key : key.slice(0, slash));
  }
  for (const key of update.drop ?? []) {
    const slash = key.indexOf("/");
    state[key.slice(0, slash)].delete(key.slice(slash + 1));
    what.add(key.slice(0, slash));
  }
  if (update.events) {
    state.events = [...state.events, ...update.events].slice(-EVENTS);
    what.add("event");
  }
  state.at = update.at;
  state.problem = "";
  state.signedOut = false;
  changed(what);
}

async function follow(signal) {
  let wait = LEAST_S;
  while (!signal.aborted) {
    try {
      await stream(signal, (update) => { wait = LEAST_S; take(update); });
      state.problem = "the console ended the connection";
    } catch (error) {
      if (signal.aborted) return;
      state.problem = error instanceof Refused ? error.message : "the console does not answer";
      if (error instanceof Refused && error.status === 401) {
        state.signedOut = true;
        changed(new Set(["problem"]));
        return;
      }
    }
    if (signal.aborted) return;
    changed(new Set(["problem"]));
    await new Promise((resolve) => { setTimeout(resolve, wait * 1000); });
    wait = Math.min(wait * 2, MOST_S);
  }
}

export function connect() {
  connection?.abort();
  connection = new AbortController();
  follow(connection.signal);
}

// A page that nobody sees asks for nothing.
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    hiddenTimer = setTimeout(() => { connection?.abort(); connection = null; }, HIDDEN_MS);
  } else if (connection === null) {
    connect();
  }
});
