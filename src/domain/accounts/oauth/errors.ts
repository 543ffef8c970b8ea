/** Values of `error` in the redirect when the sign-in fails. */
export type OAuthErrorCode =
  /** The user or the provider denied it. */
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

/** Ends a flow whose redirect URI is known: reported by the redirect, never by a status code. */
export class OAuthError extends Error {
  readonly code: OAuthErrorCode;
  constructor(code: OAuthErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = "OAuthError";
    this.code = code;
  }
}
