// One conversation, as far as this page knows it.

export class Chat {
  history = []; // the lines from before this place, oldest first
  more = false; // there are older ones
  messages = new Map(); // what was said here, by number
  own = new Map(); // what the person said and the server has not shown yet, by key
  rev = 0; // all that changed up to here is known
  shown = false;
  live = false; // it is followed on the line that is open now
  working = 0; // until when the agent is at work
  asksEarlier = false; // older lines are on their way
  trouble = ""; // why it cannot be shown

  constructor(id) {
    this.id = id;
  }

  /** The answer to `open`. Returns the messages that are new or changed. */
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

  /** Nothing more comes in until it is opened again. */
  lineLost() {
    this.live = false;
    this.asksEarlier = false;
  }

  /** The answer to `earlier`. */
  prepend(frame) {
    this.asksEarlier = false;
    const first = this.history[0]?.seq ?? Infinity;
    this.history = [...frame.history.filter((line) => line.seq < first), ...this.history];
    this.more = frame.more;
  }

  /** False when it is known already. */
  put(message) {
    // Only while we follow it do we know that nothing is missing in between.
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

  /** The person said it, and the server has not shown it yet. */
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

/** Something the agent said, and not what it is still saying: that ends with three dots. */
export const isAnswer = (message) =>
  message.author === "agent" && !/…\s*(<\/[a-z]+>\s*)*$/.test(message.html);
