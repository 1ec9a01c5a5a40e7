// The state of one conversation, as far as this page knows it.

export class Chat {
  history = []; // lines from before the session came here, oldest first
  more = false; // whether there are older ones
  messages = new Map(); // messages of this conversation, by number
  own = new Map(); // the user's messages that the server has not returned yet, by key
  rev = 0; // all changes up to this revision are known
  shown = false;
  live = false; // followed on the current connection
  working = 0; // time until which the agent counts as working
  asksEarlier = false; // older lines have been requested
  trouble = ""; // why it cannot be shown

  constructor(id) {
    this.id = id;
  }

  /** Apply the response to `open`. Returns the new or changed messages. */
  show(frame) {
    if (!this.shown || frame.history.length) {
      this.history = frame.history;
      this.more = frame.more;
    }
    this.shown = true;
    this.live = true;
    this.trouble = "";
    const changed = frame.messages.filter((message) => this.#put(message));
    this.rev = Math.max(this.rev, frame.rev);
    return changed;
  }

  /** The connection was lost: no updates until the conversation is opened again. */
  lineLost() {
    this.live = false;
    this.asksEarlier = false;
  }

  /** Apply the response to `earlier`. */
  prepend(frame) {
    this.asksEarlier = false;
    const first = this.history[0]?.seq ?? Infinity;
    this.history = [...frame.history.filter((line) => line.seq < first), ...this.history];
    this.more = frame.more;
  }

  /** Add or update a message. Returns false if this version is already known. */
  put(message) {
    // Only while following it do we know that no change is missing in between.
    if (this.live) this.rev = Math.max(this.rev, message.rev);
    return this.#put(message);
  }

  #put(message) {
    const known = this.messages.get(message.no);
    if (known && known.rev >= message.rev) return false;
    this.messages.set(message.no, message);
    if (message.key) this.own.delete(message.key);
    if (isAnswer(message)) this.working = 0;
    return true;
  }

  /** Add a message of the user that the server has not returned yet. */
  recall({ key, text }) {
    if (!this.own.has(key)) this.own.set(key, { key, text, at: new Date().toISOString(), taken: false });
  }

  get isEmpty() {
    return this.history.length === 0 && this.messages.size === 0 && this.own.size === 0;
  }

  inOrder() {
    return [...this.messages.values()].sort((a, b) => a.no - b.no);
  }
}

/** Whether it is a finished message of the agent. One that is still being written ends with "…". */
export const isAnswer = (message) =>
  message.author === "agent" && !/…\s*(<\/[a-z]+>\s*)*$/.test(message.html);
