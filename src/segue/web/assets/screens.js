// Which of the three the person sees: the page is opening, this browser is not let in, or the page.

import { byId } from "./dom.js";

const DOORS = {
  403: {
    title: "This link no longer works",
    text: "It was used before, or it is too old. Ask for a new one:",
  },
  429: {
    title: "Too many attempts",
    text: "Links were tried too often in a short time. Wait a minute, then try again.",
  },
};
const NOT_PAIRED = {
  title: "This browser is not paired yet",
  text: "Segue lets in only the browsers of its owner. To pair this one:",
};

function only(shown) {
  for (const id of ["opening", "door", "app"]) byId(id).hidden = id !== shown;
}

/** This browser is not let in; `status` is what became of its link, if it had one. */
export function showDoor(status) {
  const { title, text } = DOORS[status] ?? NOT_PAIRED;
  only("door");
  byId("door-title").textContent = title;
  byId("door-text").textContent = text;
  byId("door-steps").hidden = status === 429;
  byId("door-again").hidden = status !== 429;
  document.title = `${title} · Segue`;
  byId("door-title").focus();
}

export function showPage() {
  if (byId("app").hidden) only("app");
}
