import { DomainError, type ErrorCode } from "../../kernel/errors.ts";

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
