// What screen readers announce.

import { byId, el } from "./dom.js";

const KEPT = 5; // announcements that stay in the page, in case they are still being read

const announced = new Map(); // subject → the text announced last

/** Announce the text to screen readers. */
export function speak(text) {
  const spoken = byId("spoken");
  spoken.append(el("p", {}, text));
  while (spoken.childElementCount > KEPT) spoken.firstElementChild.remove();
}

/** Announce the text about that subject, and nothing of it twice: of a text that has grown, only
 * what is new. `after` follows it. */
export function speakOnce(subject, text, after = "") {
  const before = announced.get(subject) ?? "";
  announced.set(subject, text);
  const news = text.startsWith(before) ? text.slice(before.length).trim() : text;
  if (news) speak(news + after);
}
