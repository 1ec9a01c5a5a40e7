// The message input. Unsent text is kept per conversation. On a touch screen, Enter makes a new line
// and the button sends.

import { byId } from "./dom.js";
import { draft, keepDraft } from "./kept.js";

const touch = matchMedia("(pointer: coarse)");

export class Composer {
  #area = byId("composer");
  #button = byId("send");
  /** @type {string | null} */
  #chat = null;
  #onSubmit;

  /** @param {{ onSubmit: (text: string) => void }} callbacks */
  constructor({ onSubmit }) {
    this.#onSubmit = onSubmit;
    this.#labelEnter();
    touch.addEventListener("change", () => this.#labelEnter());
    this.#area.addEventListener("input", () => this.#changed());
    this.#area.addEventListener("keydown", (event) => {
      // While an input method is composing, Enter ends the composition.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || touch.matches) return;
      event.preventDefault();
      this.#submit();
    });
    this.#button.addEventListener("click", () => {
      this.#submit();
      this.focus();
    });
  }

  get hasFocus() {
    return document.activeElement === this.#area;
  }

  focus() {
    this.#area.focus();
  }

  /** Focus, unless that would raise a phone's keyboard over what the user wants to read. */
  offer() {
    if (!touch.matches) this.focus();
  }

  /** Take a key that was pressed where no text can be written, so that nobody types in vain.
   * @param {KeyboardEvent} event */
  take({ key }) {
    if (key.length === 1 && key !== " ") this.focus();
  }

  /** Switch to that conversation; null disables the input.
   * @param {string | null} chat */
  open(chat) {
    if (chat !== this.#chat) {
      this.#chat = chat;
      this.#fill(chat === null ? "" : draft(chat));
    }
    this.#area.disabled = chat === null;
  }

  /** Restore the text of a refused message, unless there is a new draft.
   * @param {string} chat
   * @param {string} text */
  takeBack(chat, text) {
    if (draft(chat)) return;
    keepDraft(chat, text);
    if (chat === this.#chat) this.#fill(text);
  }

  /** Label the Enter key of a keyboard on the screen. */
  #labelEnter() {
    this.#area.enterKeyHint = touch.matches ? "enter" : "send";
  }

  #submit() {
    const text = this.#area.value.trim();
    if (this.#chat === null || text === "") return;
    this.#fill("");
    this.#onSubmit(text);
  }

  /** @param {string} text */
  #fill(text) {
    this.#area.value = text;
    this.#changed();
  }

  #changed() {
    const text = this.#area.value;
    if (this.#chat !== null) keepDraft(this.#chat, text);
    this.#button.disabled = text.trim() === "";
    // Fit the height to the text. Browsers with field-sizing do this by themselves.
    if (CSS.supports("field-sizing", "content")) return;
    this.#area.style.height = "auto";
    this.#area.style.height = `${this.#area.scrollHeight}px`;
  }
}
