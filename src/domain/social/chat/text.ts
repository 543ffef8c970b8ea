import { invalid } from "../../kernel/errors.ts";

/**
 * Invisible characters that only confuse: control characters except the line feed, and marks that reverse the
 * direction of the following text.
 */
const CONTROLS = /[\p{Cc}\u202a-\u202e\u2066-\u2069\ufeff]/gu;
/** Maximum code points of an emoji that are examined: far more than the longest has. */
export const EMOJI_MAX = 32;

const clean = (text: string): string =>
  text
    .normalize("NFC")
    .replace(CONTROLS, (mark) => (mark === "\n" ? mark : ""))
    .trim();

/** @throws DomainError VALIDATION_ERROR for half of a surrogate pair */
const checkWellFormed = (field: string, text: string): void => {
  if (!text.isWellFormed()) throw invalid(field, "contains half of a surrogate pair");
};

/**
 * Returns the text of a message in its stored form: NFC, without control characters, trimmed.
 * @throws DomainError VALIDATION_ERROR when nothing is left, or more than `maxLength` code points
 */
export const readContent = (text: string, maxLength: number): string => {
  checkWellFormed("content", text);
  const content = clean(text);
  if (content === "") throw invalid("content", "must not be empty");
  // There are never fewer UTF-16 units than code points, so most texts need not be counted.
  if (content.length > maxLength && [...content].length > maxLength)
    throw invalid("content", `must be at most ${maxLength} characters`);
  return content;
};

/** @throws DomainError VALIDATION_ERROR */
export const readEmoji = (text: string): string => {
  checkWellFormed("emoji", text);
  const emoji = clean(text);
  if (emoji === "" || emoji.length > EMOJI_MAX || /\s/.test(emoji))
    throw invalid("emoji", `must be 1 to ${EMOJI_MAX} characters without spaces`);
  return emoji;
};

/** `@name`, not inside a word such as an address; trailing punctuation belongs to the sentence. */
const NAMED = /(?<![\p{L}\p{N}_])@([\p{L}\p{N}_](?:[\p{L}\p{N}_.:-]{0,253}[\p{L}\p{N}_])?)/gu;
export const EVERYONE = "everyone";

/** Returns the external ids mentioned in a text, each once; `@everyone` is not included. */
export const namesIn = (content: string): string[] => {
  if (!content.includes("@")) return [];
  const names = new Set([...content.matchAll(NAMED)].map(([, name]) => name!));
  names.delete(EVERYONE);
  return [...names];
};

export const namesEveryone = (content: string): boolean =>
  content.includes("@") && [...content.matchAll(NAMED)].some(([, name]) => name === EVERYONE);

/** Replaces the mentions of some names in a text: `@ann` becomes `@${name}`. */
export const renameIn = (content: string, isOne: (name: string) => boolean, name: string): string =>
  content.replace(NAMED, (mention, named: string) => (isOne(named) ? `@${name}` : mention));
