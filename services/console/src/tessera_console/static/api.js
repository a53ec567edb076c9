// Requests to this host, with the token of the person at the page. The token stays in this tab.

const KEY = "tessera-token";

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function request(path, options = {}) {
  const headers = { ...options.headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  let text = `${response.status} ${response.statusText}`;
  try {
    text = (await response.json()).error ?? text;
  } catch { /* something in between has answered */ }
  throw new Refused(response.status, text);
}

export const read = async (...parts) => (await request(`/api/${parts.map(encodeURIComponent).join("/")}`)).json();

export async function write(parts, body) {
  const options = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return (await request(`/api/${parts.map(encodeURIComponent).join("/")}`, options)).json();
}

/** Calls `take` with each message of the stream until it ends or is aborted. */
export async function stream(signal, take) {
  const response = await request("/api/stream", { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    let rest = value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      parts.push(rest.slice(0, end));
      const text = parts.join("");
      parts = [];
      rest = rest.slice(end + 2);
      if (text.startsWith("data: ")) take(JSON.parse(text.slice(6)));
    }
    if (rest) parts.push(rest);
  }
}
