// What the page asks of the server. What must not be lost is kept until the server acknowledges it,
// and sent again on the next connection.

import { toast } from "./around.js";
import { keepChoice, newKey, Outbox } from "./kept.js";

/** @import * as frames from "../frames.js" */
/** @import { Chat } from "./chat.js" */
/** @import { Answer, KeptFrame } from "./kept.js" */
/** @import { Live } from "./live.js" */
/** A request about the open session, to which its id and a key are added.
 * @typedef {{ do: "rename", title: string } | { do: "delete" } | { do: "export" }} AboutChat */

export class Requests {
  #live;
  #outbox = new Outbox();
  /** A conversation that is being created.
   * @type {frames.New | null} */
  #beginning = null;

  /** @param {Live} live */
  constructor(live) {
    this.#live = live;
  }

  get isBeginning() {
    return this.#beginning !== null;
  }

  /** The messages of the user in that session that are not acknowledged.
   * @param {string} chat */
  unsent(chat) {
    const said = this.#outbox.all().filter((frame) => frame.do === "say");
    return said.filter((frame) => frame.chat === chat);
  }

  /** @param {Chat} chat
   * @param {string} text */
  say(chat, text) {
    /** @type {frames.Say} */
    const frame = { do: "say", chat: chat.id, key: newKey(), text };
    chat.recall(frame);
    this.#post(frame);
  }

  /** @param {Chat} chat
   * @param {frames.Message} message
   * @param {Answer} answer */
  press(chat, message, answer) {
    keepChoice(chat.id, message, answer);
    this.#post({ do: "press", chat: chat.id, key: newKey(), message: message.no, data: answer.data });
  }

  /** @param {Chat} chat */
  bring(chat) {
    this.#post({ do: "bring", chat: chat.id, key: newKey() });
  }

  /** Begin a conversation. */
  begin() {
    this.#beginning ??= { do: "new", key: newKey() };
    if (this.#live.send(this.#beginning, this.#beginning.key)) return;
    toast("Segue cannot be reached at the moment. The conversation starts when it is back.");
  }

  /** Returns the key of the request, or null without a connection.
   * @param {Chat} chat
   * @param {AboutChat} request */
  about(chat, request) {
    return this.#sendNow({ ...request, chat: chat.id, key: newKey() });
  }

  /** @param {number} number
   * @param {frames.ChangeJob["action"]} action */
  changeJob(number, action) {
    this.#sendNow({ do: "job", number, key: newKey(), action });
  }

  /** @param {Chat} chat */
  earlier(chat) {
    if (!chat.more || chat.asksEarlier) return;
    chat.asksEarlier = this.#live.send({ do: "earlier", chat: chat.id, before: chat.first });
  }

  /** The server has answered the request with that key. Returns the request, if it was kept.
   * @param {string} key
   * @returns {KeptFrame | frames.New | undefined} */
  settle(key) {
    this.#live.settled(key);
    if (this.#beginning?.key !== key) return this.#outbox.settle(key);
    const begun = this.#beginning;
    this.#beginning = null;
    return begun;
  }

  /** The server is connected again: send what it did not acknowledge. */
  resend() {
    for (const frame of this.#outbox.all()) this.#live.send(frame, frame.key);
    if (this.#beginning) this.begin();
  }

  /** @param {KeptFrame} frame */
  #post(frame) {
    this.#outbox.add(frame);
    this.#live.send(frame, frame.key);
  }

  /** Send a request that makes sense only now.
   * @param {frames.Ask & { key: string }} frame */
  #sendNow(frame) {
    if (this.#live.send(frame, frame.key)) return frame.key;
    toast("Segue cannot be reached at the moment. Try again when it is back.");
    return null;
  }
}

/** The session whose changes the server sends: one for each page. */
export class Following {
  #live;
  /** Its id.
   * @type {string | null} */
  #followed = null;
  /** The id of the session that the server was asked to follow, until it answers.
   * @type {string | null} */
  #asked = null;

  /** @param {Live} live */
  constructor(live) {
    this.#live = live;
  }

  /** Have the server follow that session, unless it does or was asked to.
   * @param {Chat} chat */
  ask({ id, seq, edits }) {
    if ((this.#asked ?? this.#followed) === id) return;
    if (this.#live.send({ do: "open", chat: id, seq, edits }, `open ${id}`)) this.#asked = id;
  }

  /** The server shows a session.
   * @param {frames.Shown} frame */
  shows({ chat, was }) {
    this.#live.settled(`open ${was}`);
    this.#followed = chat;
    if (was === this.#asked) this.#asked = null;
  }

  /** The server refuses to show that session.
   * @param {string} id */
  refused(id) {
    this.#live.settled(`open ${id}`);
    this.#asked = null;
  }

  /** That session was deleted.
   * @param {string} id */
  gone(id) {
    if (this.#followed === id) this.#followed = null;
  }

  /** The connection was lost. */
  lineLost() {
    this.#followed = null;
    this.#asked = null;
  }
}
