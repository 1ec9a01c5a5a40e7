// The three screens: opening, not admitted ("door"), and the page.

import { byId } from "./dom.js";

const LINK_FAILED = {
  title: "This link no longer works",
  text: "It was used already, has expired, or the gateway was restarted since. To get a new one:",
};
const NOT_PAIRED = {
  title: "This browser is not paired yet",
  text: "Only browsers paired by the owner can use this page. To pair this one:",
};

function only(shown) {
  for (const id of ["opening", "door", "app"]) byId(id).hidden = id !== shown;
}

/** Show that this browser is not admitted. With `linkFailed`, it had a link that did not work. */
export function showDoor(linkFailed) {
  const { title, text } = linkFailed ? LINK_FAILED : NOT_PAIRED;
  only("door");
  byId("door-title").textContent = title;
  byId("door-text").textContent = text;
  document.title = `${title} · Segue`;
  byId("door-title").focus();
}

export function showPage() {
  if (byId("app").hidden) only("app");
}
