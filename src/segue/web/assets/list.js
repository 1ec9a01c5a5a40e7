// The list of sessions, which slides in as a panel on small screens, and the search in it.

import { byId, el, morph } from "./dom.js";
import { ago } from "./times.js";

const wide = matchMedia("(min-width: 52rem)");
const TYPING = 200; // milliseconds without a key before the search starts
const STATES = { working: "working", asking: "waiting for approval" };

const capital = (text) => text[0].toUpperCase() + text.slice(1);

export const hashOf = (id) => `#/c/${encodeURIComponent(id)}`;

export class ListView {
  #list = byId("chats");
  #side = byId("side");
  #menu = byId("menu");
  #search = byId("search");
  #seen = new Map(); // session → its last activity that the user has seen
  #chats = null;
  #hits = null; // what the search found; null without one
  #typing = 0;

  /** `searches` is called with the words to search for, `more` when more sessions are wanted. */
  constructor({ searches, more }) {
    this.searches = searches;
    this.#list.addEventListener("keydown", (event) => this.#move(event));
    this.#menu.addEventListener("click", () => this.toggle(true));
    this.#search.addEventListener("input", () => this.#typed());
    this.#search.addEventListener("keydown", (event) => event.key === "Escape" && this.endSearch());
    byId("more-chats").addEventListener("click", more);
    byId("scrim").addEventListener("click", () => this.toggle(false));
    wide.addEventListener("change", () => this.toggle(false));
    setInterval(() => this.#chats && this.draw(this.#chats, this.current), 30_000);
    this.toggle(false);
  }

  get slides() {
    return !wide.matches;
  }

  get isOpen() {
    return document.body.classList.contains("side-open");
  }

  get words() {
    return this.#search.value.trim();
  }

  /** Open or close the panel. On a wide screen it is always visible. */
  toggle(open) {
    const was = this.isOpen;
    document.body.classList.toggle("side-open", open && this.slides);
    this.#side.inert = this.slides && !open;
    byId("main").inert = this.slides && open;
    this.#menu.setAttribute("aria-expanded", String(open));
    if (open && this.slides) (this.#list.querySelector("[aria-current]") ?? byId("new")).focus();
    else if (was && this.slides) this.#menu.focus();
  }

  /** Draw the list. Returns the sessions that are new to the user. */
  draw(chats, current) {
    const first = this.#chats === null;
    this.#chats = chats;
    this.current = current;
    const fresh = first ? [] : chats.filter((chat) => !this.#seen.has(chat.id) && chat.id !== current);
    for (const { id, active } of chats) {
      if (first || id === current) this.#seen.set(id, active);
    }
    const focused = document.activeElement?.dataset?.chat;
    morph(this.#list, el("ul", { id: "chats" }, ...this.#items()));
    if (focused) this.#link(focused)?.focus();
    const unread = chats.filter((chat) => this.#isUnread(chat)).length;
    byId("menu-unread").hidden = unread === 0;
    this.unread = unread;
    return fresh;
  }

  /** Show what the search found, unless the words have changed since. */
  found({ words, hits }) {
    if (words !== this.words) return;
    this.#hits = hits;
    this.draw(this.#chats, this.current);
  }

  endSearch() {
    this.#search.value = "";
    this.#typed();
  }

  #typed() {
    clearTimeout(this.#typing);
    if (this.words) this.#typing = setTimeout(() => this.searches(this.words), TYPING);
    else if (this.#hits) {
      this.#hits = null;
      this.draw(this.#chats, this.current);
    }
  }

  #isUnread({ id, active, where }) {
    return where === "here" && id !== this.current && (this.#seen.get(id) ?? "") < active;
  }

  #items() {
    if (this.#hits === null) return this.#chats.map((chat) => this.#item(chat));
    if (this.#hits.length === 0) return [el("li", { class: "no-hits" }, "Nothing found.")];
    return this.#hits.map(({ chat, title, text, at }) =>
      this.#linked(chat, title, at, el("span", { class: "chat-last hit" }, text)),
    );
  }

  #item(chat) {
    const { id, title, where, state, last, active } = chat;
    return this.#linked(
      id,
      title,
      active,
      el("span", { class: "chat-last" }, last),
      el(
        "span",
        { class: "chat-where", "data-state": state },
        state === "idle" ? null : el("span", { class: "lamp busy" }),
        capital(state === "idle" ? where : `${where}, ${STATES[state]}`),
      ),
      this.#isUnread(chat) && el("span", { class: "unread" }, el("span", { class: "unseen" }, "new messages")),
    );
  }

  #linked(id, title, at, ...rest) {
    return el(
      "li",
      {},
      el(
        "a",
        { href: hashOf(id), "data-chat": id, "aria-current": id === this.current ? "page" : null },
        el("span", { class: "chat-title" }, title),
        el("time", { class: "chat-time", datetime: at }, ago(at)),
        ...rest,
      ),
    );
  }

  #link(id) {
    return this.#list.querySelector(`[data-chat="${CSS.escape(id)}"]`);
  }

  #move(event) {
    const links = [...this.#list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    links[Math.max(0, Math.min(to, links.length - 1))]?.focus();
  }
}
