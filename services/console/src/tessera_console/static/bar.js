// A card as a bar drawn to scale: each share is as wide as its memory, and filled as high as it uses
// its cores.

import { s } from "./dom.js";

const LETTER_WIDTH = 9;
export const HEIGHT = 26;

/** The patterns that bars refer to; once in the page. */
export function patterns() {
  const pattern = (id, size, ...shapes) => s("pattern", { id, width: size, height: size, patternUnits: "userSpaceOnUse" }, ...shapes);
  return s("svg", { width: 0, height: 0, class: "defs", "aria-hidden": "true" }, s("defs", {},
    pattern("stripes", 6, s("path", { d: "M-1 7L7 -1M-1 1L1 -1M5 7L7 5", class: "ink" })),
    pattern("dots", 5, s("circle", { cx: 2, cy: 2, r: 1, class: "dot" })),
    pattern("bars", 5, s("path", { d: "M0 2.5H5", class: "ink" })),
    pattern("ill", 8, s("path", { d: "M-2 10L10 -2M-2 2L2 -2M6 10L10 6", class: "illness" }))));
}

/** `width` and `height` are pixels; `dim(entry)` says which parts are out of the filter. */
export function bar(card, use, scheme, { width, height = HEIGHT, dim = () => false }) {
  const drawing = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", class: "bar" },
    s("rect", { x: 0, y: 0, width, height, rx: 3, class: "free" }));
  const total = Math.max(card.mib, card.granted_mib, 1);
  let x = 0;
  card.shares.forEach((share, n) => {
    const measured = use?.[2]?.[n] || null;
    const whole = share.whole ? Math.max(card.mib, share.mib) : share.mib;
    const full = (width * whole) / total;
    const w = Math.max(full - 1, 1.5);
    const entry = scheme.of(share, measured);
    const group = s("g", { class: `part ${entry.color}${dim(entry) ? " dim" : ""}` },
      s("rect", { x, y: 0, width: w, height, rx: 2, class: "granted" }));
    if (measured) {
      const filled = Math.min(1, (measured[1] ?? 0) / (share.cores || card.cores || 100)) * height;
      if (filled > 0) group.append(s("rect", { x, y: height - filled, width: w, height: filled, rx: Math.min(2, filled / 2), class: "used" }));
    }
    if (entry.pattern) group.append(s("rect", { x, y: 0, width: w, height, rx: 2, fill: `url(#${entry.pattern})` }));
    if (entry.letter && w > LETTER_WIDTH * entry.letter.length + 4) {
      group.append(s("text", { x: x + 4, y: 11, class: "letter" }, entry.letter));
    }
    if (measured && measured[3] >= 1) group.append(s("rect", { x, y: 0, width: w, height: 2.5, class: "throttled" }));
    drawing.append(group);
    x += full;
  });
  if (!card.healthy || !card.published) drawing.append(s("rect", { x: 0, y: 0, width, height, rx: 3, fill: "url(#ill)" }));
  return drawing;
}
