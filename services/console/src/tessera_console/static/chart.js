// The last hour: a line for what is granted, an area for what is used, shade where it was throttled.

import { h, s } from "./dom.js";

const HEIGHT = 132;
const LEFT = 44;
const BOTTOM = 18;
const TOP = 8;
const TICKS = 3;

/** `history` has lists of equal length; `granted` and `used` name two of them. */
export function chart(history, { title, granted, used, most, unit, format, span = 3600 }) {
  const width = 560;
  const at = history.at ?? [];
  const numbers = history[used].filter((x) => x !== null && Number.isFinite(x));
  if (!at.length) return h("figure", { class: "chart" }, h("figcaption", {}, title), h("p", { class: "quiet none" }, "Nothing is remembered yet: the first point comes within a minute."));
  const top = Math.max(most ?? 0, ...history[granted].filter(Number.isFinite), ...numbers, 1);
  const end = at.at(-1);
  const begin = end - span;
  const x = (time) => LEFT + ((width - LEFT - 4) * (time - begin)) / span;
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const drawing = s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": summary(title, history, granted, used, format, unit) });
  for (let n = 0; n <= TICKS; n += 1) {
    const value = (top * n) / TICKS;
    drawing.append(s("line", { x1: LEFT, x2: width - 4, y1: y(value), y2: y(value), class: "rule" }), s("text", { x: LEFT - 6, y: y(value) + 4, class: "tick end" }, format(value)));
  }
  for (const minutes of [60, 45, 30, 15, 0]) {
    const time = end - minutes * 60;
    drawing.append(s("text", { x: x(time), y: HEIGHT - 4, class: `tick ${minutes === 60 ? "start" : minutes ? "middle" : "end"}` }, minutes ? `−${minutes}m` : "now"));
  }
  const step = at.length > 1 ? Math.min(...at.slice(1).map((t, n) => t - at[n])) : 30;
  history.throttled.forEach((value, n) => {
    if (value >= 1) {
      const w = Math.max(1, x(at[n] + step) - x(at[n]));
      drawing.append(s("rect", { x: Math.min(x(at[n]), width - 4 - w), y: TOP, width: w, height: HEIGHT - TOP - BOTTOM, class: "throttle", opacity: 0.15 + 0.35 * Math.min(1, value / 100) }));
    }
  });
  for (const run of runs(at, history[used], step)) {
    const line = run.map(([time, value]) => `${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("L");
    drawing.append(s("path", { d: `M${x(run[0][0]).toFixed(1)} ${y(0)}L${line}L${x(run.at(-1)[0]).toFixed(1)} ${y(0)}Z`, class: "area" }), s("path", { d: `M${line}`, class: "line" }));
  }
  for (const run of runs(at, history[granted], step)) {
    drawing.append(s("path", { d: `M${run.map(([time, value]) => `${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}`, class: "limit" }));
  }
  return h("figure", { class: "chart" }, h("figcaption", {}, title, h("span", { class: "keys" }, h("span", { class: "key limit" }, "granted"), h("span", { class: "key used" }, "used"), history.throttled.some((v) => v >= 1) ? h("span", { class: "key throttled" }, "throttled") : null)),
    drawing, h("p", { class: "quiet" }, summary("", history, granted, used, format, unit)));
}

/** Parts of a line without gaps. */
function runs(at, values, step) {
  const found = [];
  let run = [];
  values.forEach((value, n) => {
    const gap = n && at[n] - at[n - 1] > 3 * step;
    if (run.length && (value === null || gap)) { found.push(run); run = []; }
    if (value !== null && Number.isFinite(value)) run.push([at[n], value]);
  });
  if (run.length) found.push(run);
  return found;
}

function summary(title, history, granted, used, format, unit) {
  const numbers = history[used].filter((x) => x !== null && Number.isFinite(x));
  const head = title ? `${title}, the last hour: ` : "";
  if (!numbers.length) return `${head}not measured`;
  const mean = numbers.reduce((a, b) => a + b, 0) / numbers.length;
  return `${head}now ${format(numbers.at(-1))} of ${format(history[granted].at(-1))} ${unit} granted; mean ${format(mean)}, most ${format(Math.max(...numbers))} ${unit}`;
}
