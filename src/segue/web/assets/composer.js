// Where the person writes. What is not sent yet is kept for each conversation.

import { byId } from "./dom.js";
import { draft, keepDraft } from "./kept.js";

export class Composer {
  #area = byId("composer");
  #button = byId("send");
  #chat = null;

  /** `says` gets what is sent. */
  constructor(says) {
    this.says = says;
    this.#area.addEventListener("input", () => this.#changed());
    this.#area.addEventListener("keydown", (event) => {
      // While an input method composes a word, Enter ends that word.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
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

  /** Write to that conversation from now on; null for none. */
  open(chat) {
    if (chat !== this.#chat) {
      this.#chat = chat;
      this.#fill(chat === null ? "" : draft(chat));
    }
    this.#area.disabled = chat === null;
  }

  /** What could not be said goes back to where it was written, if nothing else is there by now. */
  takeBack(chat, text) {
    if (draft(chat)) return;
    keepDraft(chat, text);
    if (chat === this.#chat) this.#fill(text);
  }

  #submit() {
    const text = this.#area.value.trim();
    if (this.#chat === null || text === "") return;
    this.#fill("");
    this.says(text);
  }

  #fill(text) {
    this.#area.value = text;
    this.#changed();
  }

  #changed() {
    const text = this.#area.value;
    if (this.#chat !== null) keepDraft(this.#chat, text);
    this.#button.disabled = text.trim() === "";
    // As high as what is written; browsers that know field-sizing see to it by themselves.
    if (CSS.supports("field-sizing", "content")) return;
    this.#area.style.height = "auto";
    this.#area.style.height = `${this.#area.scrollHeight}px`;
  }
}
