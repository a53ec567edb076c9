// Elements, made without any markup in strings: names of pods are text, whatever they are.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "hidden") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export const byId = (id) => document.getElementById(id);

/** Replaces what an element holds, and keeps the focus on what has the same `data-key`. */
export function replace(element, ...children) {
  const key = element.contains(document.activeElement) ? document.activeElement.dataset?.key : undefined;
  element.replaceChildren(...children.flat(3).filter(Boolean));
  if (key) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

/** Says something to screen readers. */
export function say(text) {
  byId("said").textContent = text;
}

/** A line that is copied by a press. */
export function command(line) {
  const button = h("button", { class: "copy", type: "button", "aria-label": `Copy: ${line}`, onclick: async () => {
    try {
      await navigator.clipboard.writeText(line);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    say(button.textContent);
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } }, "Copy");
  const code = h("code", {}, line);
  return h("div", { class: "command" }, code, button);
}

export function empty(title, ...more) {
  return h("div", { class: "empty" }, h("h2", {}, title), ...more.filter(Boolean).map((text) => (typeof text === "string" ? h("p", {}, text) : text)));
}
