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
  /** Enterprise single sign-on. */
  | "sso_required"
  | "email_missing"
  | "email_domain_not_allowed"
  | "email_of_other_tenant"
  | "seat_limit"
  | "rate_limited";

/** Why a sign-in failed, without secrets. `isAnybodys`: a browser alone says so, which may be anybody's. */
export type FailureReason = { text: string; isAnybodys: boolean };

/** Ends a flow whose redirect URI is known: reported by the redirect, never by a status code. */
export class OAuthError extends Error {
  readonly code: OAuthErrorCode;
  /** What exactly was wrong, for who runs the provider; the browser is not told. */
  readonly reason: FailureReason | undefined;
  constructor(code: OAuthErrorCode, message: string, cause?: unknown, reason?: FailureReason) {
    super(message, { cause });
    this.name = "OAuthError";
    this.code = code;
    this.reason = reason;
  }
}
