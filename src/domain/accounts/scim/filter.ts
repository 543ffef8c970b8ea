import type { Mail } from "../email/mail.ts";
import { releaseUnproved } from "../sso/domains.ts";
import { DomainError, type ErrorCode } from "../../kernel/errors.ts";
import type { Transact, Work } from "../../kernel/work.ts";

/** Kinds of errors of the protocol that we answer with (RFC 7644, table 9). */
export type ScimType =
  | "invalidFilter"
  | "uniqueness"
  | "mutability"
  | "invalidSyntax"
  | "invalidPath"
  | "noTarget"
  | "invalidValue";

/** A refusal with the `scimType` that clients tell its cause by. */
export class ScimError extends DomainError {
  readonly scimType: ScimType;
  constructor(code: ErrorCode, scimType: ScimType, message: string) {
    super(code, message);
    this.scimType = scimType;
  }
}

/** A value that an attribute cannot have; `message` is a predicate. */
export const invalidValue = (attribute: string, message: string): ScimError =>
  new ScimError("VALIDATION_ERROR", "invalidValue", `${attribute}: ${message}`);

/** A name or address that another resource has. */
export const notUnique = (message: string): ScimError => new ScimError("CONFLICT", "uniqueness", message);

/** An account has the email address: of this tenant or another one, which this one does not see. */
export class AddressTaken extends ScimError {
  readonly email: string;
  constructor(email: string) {
    super("CONFLICT", "uniqueness", "A user with this email address exists already");
    this.email = email;
  }
}

/** If-Match names another version than the stored one (RFC 7644, 3.14). */
export class OtherVersion extends DomainError {
  constructor() {
    super("CONFLICT", "The resource has changed: its version is not that of If-Match");
  }
  override get status(): number {
    return 412;
  }
}

/** Of the tenant's own accounts, and of all: whether those of others may keep an address is seen there. */
export type ProvisioningParts = { transact: Transact; accounts: Transact; mail: Mail };

/**
 * Runs a change of a user; once more if an account of another tenant has the address, has never proved it,
 * and gives it up to this tenant, which has proved the domain. @throws as `run`
 */
export const provisioned = async <T>(
  { transact, accounts, mail }: ProvisioningParts,
  tenantId: string,
  run: (work: Work) => Promise<T>,
): Promise<T> => {
  try {
    return await transact(run);
  } catch (error) {
    if (!(error instanceof AddressTaken)) throw error;
    const { email } = error;
    if (!(await accounts((work) => releaseUnproved(work, mail, { tenantId, email })))) throw error;
    return transact(run);
  }
};

/** Characters of a filter, and of a path of PATCH. */
export const SCIM_FILTER_MAX = 1_024;
/** Comparisons of a filter, joined by `and`. */
export const SCIM_COMPARISONS_MAX = 5;

export type ScimLiteral = string | number | boolean | null;
/** `attribute eq value`; the attribute in lower case, without the URN of its schema. */
export type Comparison = { attribute: string; value: ScimLiteral };
/** The target of an operation of PATCH: `emails[type eq "work"].value`, all in lower case. */
export type ScimPath = { attribute: string; where?: Comparison; sub?: string };

// Each matches without a choice between ways: no text makes them slow.
const WORD = /[A-Za-z][A-Za-z0-9_$:.-]*/y;
const SUB = /\.[A-Za-z][A-Za-z0-9_$-]*/y;
const TEXT = /"(?:[^"\\]|\\.)*"/y;
const NUMBER = /-?[0-9]{1,15}(?:\.[0-9]{1,15})?/y;
const BLANKS = /[ \t]*/y;

const CORE = /^urn:ietf:params:scim:schemas:core:2\.0:(?:user|group):/;

/** Returns the name of an attribute of the core schemas in lower case, without their URN. */
export const attributeName = (text: string): string => text.toLowerCase().replace(CORE, "");

/** Reads a filter or a path from left to right, each character once. */
class Scanner {
  readonly #text: string;
  readonly #type: ScimType;
  #at = 0;

  constructor(text: string, type: ScimType) {
    this.#text = text;
    this.#type = type;
    if (text.length > SCIM_FILTER_MAX) throw this.error(`may have at most ${SCIM_FILTER_MAX} characters`);
  }

  error(message: string): ScimError {
    const name = this.#type === "invalidPath" ? "path" : "filter";
    return new ScimError("VALIDATION_ERROR", this.#type, `${name}: ${message}`);
  }

  blanks(): void {
    this.take(BLANKS);
  }

  take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  takes(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  isAtEnd(): boolean {
    this.blanks();
    return this.#at >= this.#text.length;
  }

  word(what: string): string {
    this.blanks();
    return this.take(WORD) ?? this.#missing(what);
  }

  #missing(what: string): never {
    throw this.error(`lacks ${what} at character ${this.#at + 1}`);
  }

  literal(): ScimLiteral {
    this.blanks();
    const text = this.take(TEXT) ?? this.take(NUMBER);
    if (text !== undefined) return this.#parsed(text);
    const word = this.take(WORD)?.toLowerCase();
    if (word === "true" || word === "false") return word === "true";
    return word === "null" ? null : this.#missing("a value such as a text in quotes");
  }

  #parsed(text: string): ScimLiteral {
    try {
      return JSON.parse(text) as ScimLiteral;
    } catch {
      throw this.error("has a value that is not valid JSON");
    }
  }

  /** Reads ` eq value`. */
  equals(): ScimLiteral {
    const operator = this.word("an operator").toLowerCase();
    if (operator !== "eq") throw this.error(`the operator ${operator} is not served here: use eq`);
    return this.literal();
  }
}

const readPath = (scanner: Scanner): ScimPath => {
  const attribute = attributeName(scanner.word("an attribute"));
  if (!scanner.takes("[")) return { attribute };
  const inner = attributeName(scanner.word("an attribute"));
  const where = { attribute: inner, value: scanner.equals() };
  scanner.blanks();
  if (!scanner.takes("]")) throw scanner.error("lacks a closing bracket");
  const sub = scanner.take(SUB)?.slice(1).toLowerCase();
  return { attribute, where, ...(sub === undefined ? {} : { sub }) };
};

/** `emails[type eq "work"].value` is as good as `emails.value`: a user has one address. */
const nameOf = (scanner: Scanner, { attribute, where, sub }: ScimPath): string => {
  if (!where) return attribute;
  const isTheOne =
    (where.attribute === "type" && where.value === "work") ||
    (where.attribute === "primary" && where.value === true);
  if (attribute !== "emails" || !isTheOne) throw scanner.error("has a filter in brackets that is not served");
  return `emails.${sub ?? "value"}`;
};

/**
 * Parses a filter: comparisons by `eq`, joined by `and`.
 * @throws ScimError invalidFilter for anything else that the protocol has
 */
export const parseFilter = (text: string): Comparison[] => {
  const scanner = new Scanner(text, "invalidFilter");
  const comparisons: Comparison[] = [];
  for (;;) {
    const attribute = nameOf(scanner, readPath(scanner));
    comparisons.push({ attribute, value: scanner.equals() });
    if (scanner.isAtEnd()) return comparisons;
    const join = scanner.word("and").toLowerCase();
    if (join !== "and") throw scanner.error(`${join} is not served here: join comparisons by and`);
    if (comparisons.length >= SCIM_COMPARISONS_MAX)
      throw scanner.error(`may have at most ${SCIM_COMPARISONS_MAX} comparisons`);
  }
};

/** Parses the path of an operation of PATCH. @throws ScimError invalidPath */
export const parsePath = (text: string): ScimPath => {
  const scanner = new Scanner(text, "invalidPath");
  const path = readPath(scanner);
  if (!scanner.isAtEnd()) throw scanner.error("goes on after its attribute");
  return path;
};
