/** What `error` says on the way back, when there is no sign-in. */
export type OAuthErrorCode =
  /** The person said no, or the provider did. */
  | "access_denied"
  | "provider_error"
  | "temporarily_unavailable"
  | "server_error"
  | "account_not_found"
  | "account_exists"
  | "account_disabled"
  | "email_not_verified"
  | "email_disposable"
  | "identity_already_linked"
  | "invitation_invalid"
  | "rate_limited";

/** Ends a flow whose way back is known: it is told there, never by the status of an answer. */
export class OAuthError extends Error {
  readonly code: OAuthErrorCode;
  constructor(code: OAuthErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = "OAuthError";
    this.code = code;
  }
}
