// The list of sessions, which slides in as a panel on small screens, and the search in it.

import { byId, el, morph } from "./dom.js";
import { ago } from "./times.js";

/** @import * as frames from "../frames.js" */
/** @import { Child } from "./dom.js" */

const wide = matchMedia("(min-width: 52rem)");
const TYPING = 200; // milliseconds without a key before the search starts
const STATES = { idle: "", working: ", working", asking: ", waiting for approval" };

/** @param {string} text */
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** @param {string} id */
export const hashOf = (id) => `#/c/${encodeURIComponent(id)}`;

export class ListView {
  #list = byId("chats");
  #side = byId("side");
  #menu = byId("menu");
  #search = byId("search");
  /** Session → its last activity that the user has seen.
   * @type {Map<string, string>} */
  #seen = new Map();
  /** Null until the server has sent them.
   * @type {frames.Chat[] | null} */
  #chats = null;
  /** The id of the open session.
   * @type {string | null} */
  #current = null;
  /** What the search found; null without one.
   * @type {frames.SearchHit[] | null} */
  #hits = null;
  #typing = 0;
  #onSearch;
  unread = 0; // how many sessions have something new

  /** `onSearch` receives the words to search for; `onMore` is called when more sessions are wanted.
   * @param {{ onSearch: (words: string) => void, onMore: () => void }} callbacks */
  constructor({ onSearch, onMore }) {
    this.#onSearch = onSearch;
    this.#list.addEventListener("keydown", (event) => this.#move(event));
    this.#menu.addEventListener("click", () => this.toggle(true));
    this.#search.addEventListener("input", () => this.#typed());
    this.#search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.endSearch();
    });
    byId("more-chats").addEventListener("click", onMore);
    byId("scrim").addEventListener("click", () => this.toggle(false));
    wide.addEventListener("change", () => this.toggle(false));
    setInterval(() => this.#redraw(), 30_000);
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

  /** Open or close the panel. On a wide screen it is always visible.
   * @param {boolean} open */
  toggle(open) {
    const was = this.isOpen;
    document.body.classList.toggle("side-open", open && this.slides);
    this.#side.inert = this.slides && !open;
    byId("main").inert = this.slides && open;
    this.#menu.setAttribute("aria-expanded", String(open));
    const current = this.#list.querySelector("a[aria-current]");
    if (open && this.slides) (current instanceof HTMLElement ? current : byId("new")).focus();
    else if (was && this.slides) this.#menu.focus();
  }

  /** Draw the list. Returns the sessions that are new to the user.
   * @param {frames.Chat[]} chats
   * @param {string | null} current */
  draw(chats, current) {
    const first = this.#chats === null;
    this.#chats = chats;
    this.#current = current;
    const fresh = first ? [] : chats.filter((chat) => !this.#seen.has(chat.id) && chat.id !== current);
    for (const { id, active } of chats) {
      if (first || id === current) this.#seen.set(id, active);
    }
    const active = document.activeElement;
    const focused = active instanceof HTMLElement && active.dataset.chat;
    morph(this.#list, el("ul", { id: "chats" }, ...this.#items(chats)));
    if (focused) this.#link(focused)?.focus();
    const unread = chats.filter((chat) => this.#isUnread(chat)).length;
    byId("menu-unread").hidden = unread === 0;
    this.unread = unread;
    return fresh;
  }

  /** Show what the search found, unless the words have changed since.
   * @param {frames.Found} frame */
  found({ words, hits }) {
    if (words !== this.words) return;
    this.#hits = hits;
    this.#redraw();
  }

  endSearch() {
    this.#search.value = "";
    this.#typed();
  }

  #typed() {
    clearTimeout(this.#typing);
    if (this.words) this.#typing = setTimeout(() => this.#onSearch(this.words), TYPING);
    else if (this.#hits) {
      this.#hits = null;
      this.#redraw();
    }
  }

  #redraw() {
    if (this.#chats) this.draw(this.#chats, this.#current);
  }

  /** @param {frames.Chat} chat */
  #isUnread({ id, active, where }) {
    return where === "here" && id !== this.#current && (this.#seen.get(id) ?? "") < active;
  }

  /** @param {frames.Chat[]} chats */
  #items(chats) {
    if (this.#hits === null) return chats.map((chat) => this.#item(chat));
    if (this.#hits.length === 0) return [el("li", { class: "no-hits" }, "Nothing found.")];
    return this.#hits.map(({ chat, title, text, at }) =>
      this.#linked(chat, title, at, el("span", { class: "chat-last hit" }, text)),
    );
  }

  /** @param {frames.Chat} chat */
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
        capital(`${where}${STATES[state]}`),
      ),
      this.#isUnread(chat) && el("span", { class: "unread" }, el("span", { class: "unseen" }, "new messages")),
    );
  }

  /** @param {string} id
   * @param {string} title
   * @param {string} at
   * @param {Child[]} rest */
  #linked(id, title, at, ...rest) {
    return el(
      "li",
      {},
      el(
        "a",
        { href: hashOf(id), "data-chat": id, "aria-current": id === this.#current ? "page" : null },
        el("span", { class: "chat-title" }, title),
        el("time", { class: "chat-time", datetime: at }, ago(at)),
        ...rest,
      ),
    );
  }

  /** @param {string} id */
  #link(id) {
    return [...this.#list.querySelectorAll("a")].find((link) => link.dataset.chat === id);
  }

  /** @param {KeyboardEvent} event */
  #move(event) {
    const links = [...this.#list.querySelectorAll("a")];
    const at = links.findIndex((link) => link === document.activeElement);
    const to = new Map([
      ["ArrowDown", at + 1],
      ["ArrowUp", at - 1],
      ["Home", 0],
      ["End", links.length - 1],
    ]).get(event.key);
    if (to === undefined) return;
    event.preventDefault();
    links[Math.max(0, Math.min(to, links.length - 1))]?.focus();
  }
}
