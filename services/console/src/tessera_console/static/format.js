// Numbers as the command line prints them: GiB with one decimal, percent without, kubectl's ages.

export const gib = (mib) => (mib === null || mib === undefined ? "–" : (mib / 1024).toFixed(1));
export const percent = (amount) => (amount === null || amount === undefined ? "–" : `${Math.round(amount)} %`);
export const part = (have, of) => (of ? Math.round((100 * have) / of) : 0);

export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return `${s}s`;
  if (s < 600) return s % 60 ? `${Math.floor(s / 60)}m${s % 60}s` : `${s / 60}m`;
  if (s < 10800) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

export function age(created, now = Date.now()) {
  const at = Date.parse(created);
  return Number.isNaN(at) ? "–" : duration((now - at) / 1000);
}

export const clock = (unix) => new Date(unix * 1000).toTimeString().slice(0, 8);
export const many = (count, word, words = `${word}s`) => `${count} ${count === 1 ? word : words}`;

/** The model without what is the same of all of a vendor's, as `tessera cards` has it. */
export function model(card) {
  const name = card.model || card.vendor;
  return name.includes(" ") && name.length > 12 ? name.slice(name.indexOf(" ") + 1) : name;
}

export function requested(p) {
  const what = p.whole ? "whole" : p.mib ? `${gib(p.mib)} GiB` : p.memory_percent ? `${p.memory_percent} % of memory` : "";
  const cores = p.cores && !p.whole ? `${p.cores} %` : "";
  return `${p.cards} × ${[what, cores].filter(Boolean).join(", ") || "a part"}`;
}

const UNITS = { Ki: 2 ** -10, Mi: 1, Gi: 2 ** 10, Ti: 2 ** 20, k: 1e3 / 2 ** 20, M: 1e6 / 2 ** 20, G: 1e9 / 2 ** 20, T: 1e12 / 2 ** 20 };

/** A Kubernetes quantity of memory in MiB. */
export function quantity(text) {
  const found = /^\+?([0-9.]+)([A-Za-z]*)$/.exec(String(text ?? ""));
  if (!found) return 0;
  return Number(found[1]) * (found[2] ? UNITS[found[2]] ?? 0 : 2 ** -20);
}
