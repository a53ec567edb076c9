// Addresses that can be shared: each place has one, and what is chosen in it stands in its query.

let arrived = () => {};

export function onArrival(handler) {
  arrived = handler;
  addEventListener("popstate", handler);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || link.origin !== location.origin || link.hash || event.defaultPrevented) return;
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  });
}

export function go(path) {
  if (path === location.pathname + location.search) return;
  history.pushState(null, "", path);
  arrived();
  scrollTo(0, 0);
}

/** The address of what is shown already. */
export function address(path) {
  history.replaceState(null, "", path);
}
