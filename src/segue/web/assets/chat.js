// The state of one session, as far as this page knows it: its transcript, and between its messages
// the moves, and the messages that are only on this page.

import { draft, keepDraft } from "./kept.js";

/** @import * as frames from "../frames.js" */
/** A message of the user that the server has not returned yet.
 * @typedef {{ key: string, text: string, at: string, taken: boolean, no: number | null }} Own */
/** A part of what a session shows.
 * @typedef {{ kind: "line", item: frames.Line }} LinePart
 * @typedef {{ kind: "message", item: frames.Message }} MessagePart
 * @typedef {{ kind: "move", item: frames.MoveLine }} MovePart */

export class Chat {
  /** Messages of the transcript, by seq.
   * @type {Map<number, frames.Line>} */
  lines = new Map();
  /** Messages that are not in it, by number.
   * @type {Map<number, frames.Message>} */
  messages = new Map();
  /** Arrivals and departures, by number.
   * @type {Map<number, frames.MoveLine>} */
  moves = new Map();
  /** The user's messages that the server has not returned yet, by key.
   * @type {Map<string, Own>} */
  own = new Map();
  /** The session as in the list; null if nothing was said yet.
   * @type {frames.Chat | null} */
  entry = null;
  more = false; // whether there are earlier messages
  seq = 0; // the last message of the transcript
  edits = 0;
  shown = false;
  writing = ""; // the answer that is being written
  writingAfter = 0; // the last message before it
  asksEarlier = false; // earlier messages have been requested
  trouble = ""; // why it cannot be shown

  /** @param {string} id */
  constructor(id) {
    this.id = id;
  }

  /** Apply the response to `open`, or what is new. Returns the new lines and messages.
   * @param {frames.Shown} frame */
  show(frame) {
    if (frame.fresh) {
      for (const kept of [this.lines, this.messages, this.moves]) kept.clear();
      this.more = frame.more;
    }
    this.shown = true;
    this.trouble = "";
    this.entry = frame.entry;
    this.seq = frame.seq;
    this.edits = frame.edits;
    return this.#add(frame);
  }

  /** The connection was lost: no updates until the session is opened again. */
  lineLost() {
    this.asksEarlier = false;
    this.writing = "";
  }

  /** Apply the response to `earlier`.
   * @param {frames.History} frame */
  prepend(frame) {
    this.asksEarlier = false;
    this.more = frame.more;
    this.#add(frame);
  }

  /** @param {frames.Shown | frames.History} frame */
  #add({ lines, messages, moves }) {
    const fresh = lines.filter((line) => !this.lines.has(line.seq));
    for (const line of fresh) {
      this.lines.set(line.seq, line);
      if (line.shows !== null) this.#returned(line.shows);
    }
    if (this.#isWritten(fresh)) this.writing = "";
    for (const move of moves) this.moves.set(move.no, move);
    return [...fresh, ...messages.filter((message) => this.put(message))];
  }

  /** Set the answer that is being written, unless the transcript has it already.
   * @param {frames.Writing} frame */
  write({ html, after }) {
    this.writingAfter = after;
    this.writing = this.#isWritten([...this.lines.values()]) ? "" : html;
  }

  /** @param {frames.Line[]} lines */
  #isWritten(lines) {
    return lines.some(({ role, seq }) => role === "assistant" && seq > this.writingAfter);
  }

  /** Add or update a message. Returns false if nothing in it is new.
   * @param {frames.Message} message */
  put(message) {
    const known = this.messages.get(message.no);
    if (known && known.rev >= message.rev && known.after === message.after) return false;
    this.messages.set(message.no, message);
    if (message.key) this.own.delete(message.key);
    return true;
  }

  /** The server has recorded a message of the user. The transcript may show it already.
   * @param {frames.Taken} frame */
  taken({ key, no }) {
    const said = this.own.get(key);
    if (!said) return;
    said.taken = true;
    said.no = no;
    if ([...this.lines.values()].some((line) => line.shows === no)) this.own.delete(key);
  }

  /** A line of the transcript shows the message with this number.
   * @param {number} no */
  #returned(no) {
    const shown = this.messages.get(no);
    if (shown?.key) this.own.delete(shown.key);
    for (const [key, said] of this.own) if (said.no === no) this.own.delete(key);
    this.messages.delete(no);
  }

  /** Add a message of the user that the server has not returned yet.
   * @param {frames.Say} frame */
  recall({ key, text }) {
    if (this.own.has(key)) return;
    this.own.set(key, { key, text, at: new Date().toISOString(), taken: false, no: null });
  }

  get isEmpty() {
    return this.lines.size + this.messages.size + this.own.size === 0 && !this.writing;
  }

  /** The first message of the transcript that the page has. */
  get first() {
    return Math.min(...this.lines.keys());
  }

  /** Everything in the order of the transcript. What waits for its turn is at the end. */
  inOrder() {
    const last = Math.max(0, ...this.lines.keys());
    /** @type {((MessagePart | MovePart) & { after: number, at: number })[]} */
    const between = [];
    for (const item of this.moves.values()) {
      between.push({ kind: "move", item, after: item.after, at: Date.parse(item.at) });
    }
    for (const item of this.messages.values()) {
      between.push({ kind: "message", item, after: item.after ?? last, at: Date.parse(item.at) });
    }
    between.sort((a, b) => a.after - b.after || a.at - b.at || a.item.no - b.item.no);
    const lines = [...this.lines.values()].sort((a, b) => a.seq - b.seq);
    /** @type {(LinePart | MessagePart | MovePart)[]} */
    const ordered = [];
    let placed = 0;
    for (const item of lines) {
      for (; placed < between.length && between[placed].after < item.seq; placed++) ordered.push(between[placed]);
      ordered.push({ kind: "line", item });
    }
    return [...ordered, ...between.slice(placed)];
  }
}

/** The sessions that this page has opened. */
export class Chats {
  /** @type {Map<string, Chat>} */
  #opened = new Map();

  /** The session with that id. Its state is empty if it was not opened yet.
   * @param {string} id */
  of(id) {
    const known = this.#opened.get(id) ?? new Chat(id);
    this.#opened.set(id, known);
    return known;
  }

  /** The session with that id, if it was opened.
   * @param {string} id */
  get(id) {
    return this.#opened.get(id);
  }

  /** @param {string} id */
  forget(id) {
    this.#opened.delete(id);
  }

  /** The connection was lost. */
  lineLost() {
    for (const chat of this.#opened.values()) chat.lineLost();
  }

  /** The session that the server shows instead of the one that was asked for: that of an old link
   * or a new conversation, or the one that came in its place after /new or /resume. What the user
   * wrote in a conversation that has no session goes with them.
   * @param {Chat} former
   * @param {string} id */
  successor(former, id) {
    const chat = this.of(id);
    if (former.entry || chat === former) return chat;
    for (const [key, said] of former.own) chat.own.set(key, said);
    keepDraft(id, draft(former.id) || draft(id));
    keepDraft(former.id, "");
    this.forget(former.id);
    return chat;
  }
}
