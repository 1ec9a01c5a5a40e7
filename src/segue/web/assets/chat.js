// The state of one session, as far as this page knows it: its transcript, and between its messages
// the moves, and the messages that are only on this page.

export class Chat {
  lines = new Map(); // messages of the transcript, by seq
  messages = new Map(); // messages that are not in it, by number
  moves = new Map(); // arrivals and departures, by number
  own = new Map(); // the user's messages that the server has not returned yet, by key
  entry = null; // the session as in the list; null if nothing was said yet
  more = false; // whether there are earlier messages
  seq = 0; // the last message of the transcript
  edits = 0;
  shown = false;
  writing = ""; // the answer that is being written
  writingAfter = 0; // the last message before it
  asksEarlier = false; // earlier messages have been requested
  trouble = ""; // why it cannot be shown

  constructor(id) {
    this.id = id;
  }

  /** Apply the response to `open`, or what is new. Returns the new lines and messages. */
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

  /** Apply the response to `earlier`. */
  prepend(frame) {
    this.asksEarlier = false;
    this.more = frame.more;
    this.#add(frame);
  }

  #add({ lines, messages, moves }) {
    const fresh = lines.filter((line) => !this.lines.has(line.seq));
    for (const line of fresh) {
      this.lines.set(line.seq, line);
      this.#returned(line.shows);
      this.messages.delete(line.shows);
    }
    if (this.#isWritten(fresh)) this.writing = "";
    for (const move of moves) this.moves.set(move.no, move);
    return [...fresh, ...messages.filter((message) => this.put(message))];
  }

  /** Set the answer that is being written, unless the transcript has it already. */
  write({ html, after }) {
    this.writingAfter = after;
    this.writing = this.#isWritten([...this.lines.values()]) ? "" : html;
  }

  #isWritten(lines) {
    return lines.some(({ role, seq }) => role === "assistant" && seq > this.writingAfter);
  }

  /** Add or update a message. Returns false if nothing in it is new. */
  put(message) {
    const known = this.messages.get(message.no);
    if (known && known.rev >= message.rev && known.after === message.after) return false;
    this.messages.set(message.no, message);
    if (message.key) this.own.delete(message.key);
    return true;
  }

  /** The server has recorded a message of the user. The transcript may show it already. */
  taken({ key, no }) {
    const said = this.own.get(key);
    if (!said) return;
    Object.assign(said, { taken: true, no });
    if ([...this.lines.values()].some((line) => line.shows === no)) this.own.delete(key);
  }

  /** A line of the transcript shows the message with this number. */
  #returned(no) {
    const shown = this.messages.get(no);
    if (shown?.key) this.own.delete(shown.key);
    for (const [key, said] of this.own) if (no && said.no === no) this.own.delete(key);
  }

  /** Add a message of the user that the server has not returned yet. */
  recall({ key, text }) {
    if (!this.own.has(key)) this.own.set(key, { key, text, at: new Date().toISOString(), taken: false });
  }

  get isEmpty() {
    return this.lines.size + this.messages.size + this.own.size === 0 && !this.writing;
  }

  get first() {
    return Math.min(...this.lines.keys());
  }

  /** Everything in the order of the transcript. What waits for its turn is at the end. */
  inOrder() {
    const last = Math.max(0, ...this.lines.keys());
    const placed = (kind) => (item) => ({ kind, item, after: item.after ?? last, at: Date.parse(item.at) });
    const between = [
      ...[...this.moves.values()].map(placed("move")),
      ...[...this.messages.values()].map(placed("message")),
    ];
    between.sort((a, b) => a.after - b.after || a.at - b.at || a.item.no - b.item.no);
    const lines = [...this.lines.values()].sort((a, b) => a.seq - b.seq);
    const ordered = [];
    for (const item of lines) {
      while (between[0]?.after < item.seq) ordered.push(between.shift());
      ordered.push({ kind: "line", item });
    }
    return [...ordered, ...between];
  }
}
