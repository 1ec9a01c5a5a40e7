// The conversation list, which slides in as a panel on small screens.

import { byId, el, morph } from "./dom.js";
import { ago } from "./times.js";

const wide = matchMedia("(min-width: 52rem)");

export class ListView {
  #list = byId("chats");
  #side = byId("side");
  #menu = byId("menu");
  #seen = new Map(); // conversation → its last activity that the user has seen
  #chats = null;

  constructor() {
    this.#list.addEventListener("keydown", (event) => this.#move(event));
    this.#menu.addEventListener("click", () => this.toggle(true));
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

  /** Draw the list. Returns the conversations that are new to the user. */
  draw(chats, current) {
    const first = this.#chats === null;
    this.#chats = chats;
    this.current = current;
    const fresh = first ? [] : chats.filter((chat) => !this.#seen.has(chat.id) && chat.id !== current);
    for (const { id, active } of chats) {
      if (first || id === current) this.#seen.set(id, active);
    }
    const focused = document.activeElement?.dataset?.chat;
    morph(this.#list, el("ul", { id: "chats" }, ...chats.map((chat) => this.#item(chat))));
    if (focused) this.#link(focused)?.focus();
    const unread = chats.filter((chat) => this.#isUnread(chat)).length;
    byId("menu-unread").hidden = unread === 0;
    this.unread = unread;
    return fresh;
  }

  #isUnread({ id, active }) {
    return id !== this.current && (this.#seen.get(id) ?? "") < active;
  }

  #item(chat) {
    const { id, title, where, active } = chat;
    const unread = this.#isUnread(chat);
    return el(
      "li",
      {},
      el(
        "a",
        { href: `#/c/${encodeURIComponent(id)}`, "data-chat": id, "aria-current": id === this.current ? "page" : null },
        el("span", { class: "chat-title" }, title || "New conversation"),
        el("time", { class: "chat-time", datetime: active }, ago(active)),
        el("span", { class: "chat-where" }, where === "here" ? "here" : where),
        unread && el("span", { class: "unread" }, el("span", { class: "unseen" }, "new messages")),
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
