// A token of the cluster: the page shows what its owner may list, and nothing more.

import { token } from "./api.js";
import { command, h } from "./dom.js";
import { connect, state } from "./store.js";

export class SignInView {
  title = "Sign in";

  constructor(root) {
    const field = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "token-help" });
    const form = h("form", { class: "panel signin", onsubmit: (event) => {
      event.preventDefault();
      token.set(field.value.trim());
      this.said.textContent = "";
      connect();
    } },
    h("h1", {}, "Sign in"),
    h("p", {}, "You see what you may list in Kubernetes: pods of your namespaces by name, those of others as sizes."),
    h("label", { for: "token" }, "Token of this cluster"), field,
    h("button", { type: "submit", class: "button" }, "Sign in"),
    this.said = h("p", { class: "bad", role: "alert" }, token.get() ? state.problem : ""),
    h("div", { id: "token-help", class: "quiet" }, h("p", {}, "A token of a service account, for an hour:"),
      command("kubectl -n NAMESPACE create token ACCOUNT"),
      h("p", {}, "It stays in this tab, is sent to this console alone, and is forgotten when the tab is closed.")));
    root.append(form);
    field.focus();
  }

  update() {
    this.said.textContent = token.get() ? state.problem : "";
  }
}
