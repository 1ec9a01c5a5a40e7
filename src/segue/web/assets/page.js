// What the page shows: the list, the open session or another view, as the URL names it, and what
// the user does there.

import { Actions } from "./actions.js";
import { drawBlank, drawPlace, toast } from "./around.js";
import { Chats } from "./chat.js";
import { Composer } from "./composer.js";
import { ConversationView } from "./conversation.js";
import { byId } from "./dom.js";
import { healthIsComing } from "./health.js";
import { JobsView } from "./jobs.js";
import { choice } from "./kept.js";
import { hashOf, ListView } from "./list.js";
import { tokenFromLink } from "./live.js";
import { Following, Requests } from "./requests.js";

/** @import * as frames from "../frames.js" */
/** @import { Chat } from "./chat.js" */
/** @import { Live } from "./live.js" */
/** A view besides the conversation, with its name in the URL.
 * @typedef {{
 *   hash: string,
 *   title: string,
 *   section: HTMLElement,
 *   link: HTMLElement,
 *   ask: frames.Ask,
 *   isComing: () => void,
 * }} OtherView */

const SHOW = "w:"; // prefix of the data of a "Show all" button

export class Page {
  chats = new Chats();
  #live;
  #arrives = true; // the page or a link was just opened
  #host = "";
  /** The server's list, most recently active first.
   * @type {frames.Chat[]} */
  #listed = [];
  /** @type {OtherView[]} */
  #others;

  /** @param {Live} live */
  constructor(live) {
    this.#live = live;
    this.requests = new Requests(live);
    this.following = new Following(live);
    this.list = new ListView({
      onSearch: (words) => live.send({ do: "search", words }),
      onMore: () => live.send({ do: "more" }),
    });
    this.view = new ConversationView({
      onEarlier: () => {
        if (this.view.chat) this.requests.earlier(this.view.chat);
      },
    });
    this.composer = new Composer({ onSubmit: (text) => this.say(text) });
    this.jobs = new JobsView({ onAction: (number, action) => this.requests.changeJob(number, action) });
    this.actions = new Actions({
      onRequest: (request) => this.view.chat && this.requests.about(this.view.chat, request),
      onMove: () => this.say("/move"), // the answer has a button for each platform
      title: () => this.view.chat?.entry?.title ?? "",
    });
    this.#others = [
      {
        hash: "#/health",
        title: "Health",
        section: byId("health"),
        link: byId("to-health"),
        ask: { do: "health" },
        isComing: healthIsComing,
      },
      {
        hash: "#/jobs",
        title: "Jobs",
        section: byId("jobs"),
        link: byId("to-jobs"),
        ask: { do: "jobs" },
        isComing: () => this.jobs.isComing(),
      },
    ];
  }

  // What the user does

  /** @param {string} text */
  say(text) {
    const { chat } = this.view;
    if (!chat) return;
    this.requests.say(chat, text);
    this.view.draw();
    this.view.toBottom();
    this.drawAround();
  }

  /** Answer a question with that button.
   * @param {HTMLButtonElement} button */
  press(button) {
    const { chat } = this.view;
    const message = chat?.messages.get(Number(button.closest("article")?.dataset.no));
    const { answer, label } = button.dataset;
    if (!chat || !message || answer === undefined || label === undefined) return;
    if (choice(chat.id, message)) return;
    if (answer.startsWith(SHOW)) {
      this.say(`/show ${answer.slice(SHOW.length)}`); // not an answer: the question stays open
      return;
    }
    this.requests.press(chat, message, { data: answer, label });
    this.view.draw();
    this.composer.focus(); // the disabled button cannot keep it
  }

  /** Bring the open session to the page. */
  bring() {
    if (!this.view.chat) return;
    const button = byId("bring");
    button.disabled = true; // until it can no longer be a second click
    setTimeout(() => (button.disabled = false), 2000);
    this.requests.bring(this.view.chat);
    this.composer.focus();
  }

  // Where the user is

  /** Show what the URL names. */
  route() {
    const token = tokenFromLink();
    if (token !== null) {
      this.#arrives = true;
      this.#live.open(token);
      return;
    }
    toast("");
    const other = this.#other();
    byId("conversation").hidden = other !== undefined;
    for (const one of this.#others) {
      one.section.hidden = one !== other;
      one.link.setAttribute("aria-current", one === other ? "page" : "false");
    }
    if (this.list.isOpen) this.list.toggle(false);
    this.openChat(other ? null : this.#wanted());
    if (!other) return;
    other.isComing();
    this.#live.send(other.ask);
  }

  /** The connection is there: show what the URL names. The user who opened the page can write. */
  arrive() {
    this.route();
    if (this.#arrives) this.composer.focus();
    this.#arrives = false;
  }

  /** Show the new conversation that the user began.
   * @param {string} id */
  enter(id) {
    history.pushState(null, "", `/${hashOf(id)}`);
    this.route();
    this.composer.focus();
  }

  /** @param {string | null} id */
  openChat(id) {
    const chat = id === null ? null : this.chats.of(id);
    const isOther = chat !== this.view.chat;
    if (isOther) {
      if (chat) for (const frame of this.requests.unsent(chat.id)) chat.recall(frame);
      this.view.open(chat);
    }
    if (chat) this.following.ask(chat);
    this.drawList();
    this.drawAround();
    if (isOther) this.composer.offer();
  }

  /** Show that the open session cannot be shown.
   * @param {Chat} chat
   * @param {string} reason */
  close(chat, reason) {
    chat.trouble = reason;
    if (chat !== this.view.chat) this.view.open(chat);
    this.drawAround();
  }

  #other() {
    return this.#others.find(({ hash }) => hash === location.hash);
  }

  /** The conversation named in the URL, or the most recently active one. */
  #wanted() {
    const named = /^#\/c\/(.+)$/.exec(location.hash);
    if (named) return decodeURIComponent(named[1]);
    const newest = this.#listed.at(0);
    if (!newest) return null;
    history.replaceState(null, "", `/${hashOf(newest.id)}`);
    return newest.id;
  }

  // What the server says

  /** @param {frames.Hello} frame */
  greet({ host, version }) {
    this.#host = host;
    byId("host").textContent = `${host} · ${version}`;
  }

  /** Show the server's list. Returns the sessions that are new to the user.
   * @param {frames.Hello | frames.Chats} frame */
  listed({ chats, more }) {
    this.#listed = chats;
    byId("more-chats").hidden = !more;
    const fresh = this.drawList();
    const { chat } = this.view;
    if (!chat && !location.hash && chats.length) this.route();
    else if (chat?.trouble && chats.some(({ id }) => id === chat.id)) this.openChat(chat.id);
    this.drawAround();
    return fresh;
  }

  /** Draw the list, and the title. Returns the sessions that are new to the user. */
  drawList() {
    const fresh = this.list.draw(this.#listed, this.view.chat?.id ?? null);
    const title = this.#title();
    const unread = this.list.unread ? `(${this.list.unread}) ` : "";
    byId("title").textContent = title;
    document.title = `${unread}${title === "Segue" ? "" : `${title} · `}Segue`;
    return fresh;
  }

  #title() {
    const other = this.#other();
    if (other) return other.title;
    const { chat } = this.view;
    if (!chat || chat.trouble) return "Segue";
    return chat.entry?.title || "New conversation";
  }

  /** Draw what is around the messages. */
  drawAround() {
    const { chat } = this.view;
    drawPlace(chat?.entry ?? null);
    this.actions.show(Boolean(chat?.entry));
    this.composer.open(chat && !chat.trouble ? chat.id : null);
    drawBlank(chat, this.#host);
  }
}
