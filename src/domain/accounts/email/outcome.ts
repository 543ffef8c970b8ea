/** Consequence of a failed attempt for the mail. */
export type MailFailure = {
  /**
   * retry: later, a limited number of times. operator: later, without limit, because only the operator of the
   * server can fix the cause. give-up: never. refused: never, and no other mail to this address for a while.
   */
  kind: "retry" | "operator" | "give-up" | "refused";
  /** For the log that tenants read: without details of the server's network and settings. */
  error: string;
  /** Response of the mail server. */
  smtpResponse: string | undefined;
};

/** The relevant fields of nodemailer's errors. */
type SmtpError = { code?: string; command?: string; response?: string; responseCode?: number };

const RESPONSE_CHARACTERS_MAX = 500;
/** The server requires other credentials or another connection than configured. */
const OPERATOR_CODES = new Set(["EAUTH", "ENOAUTH", "EOAUTH2", "ETLS", "EREQUIRETLS", "ECONFIG"]);
/** The mail itself is invalid; retrying is useless. */
const MAIL_CODES = new Set(["EENVELOPE", "EMESSAGE", "ESTREAM", "EFILEACCESS", "EURLACCESS"]);
/** No such mailbox, moved, invalid name. */
const NO_MAILBOX = new Set([550, 551, 553]);
/** An enhanced status of policy (RFC 3463): it is about us or the text, not about the address. */
const POLICY = /^\d{3}[ -]5\.7\./;
/** Servers quote what they refuse; tokens must not get into the log that way. */
const TOKEN = /token=[^\s"'<>&]+/gi;

/** Returns the logged part of a mail server's response: truncated and without tokens. */
export const keptResponse = (response: string): string =>
  response.replace(TOKEN, "token=…").slice(0, RESPONSE_CHARACTERS_MAX);

/**
 * Classifies an error of the mailer. An address is considered invalid only when the server refused the
 * recipient.
 */
export const failureOf = (error: unknown): MailFailure => {
  const said = (error ?? {}) as SmtpError;
  const smtpResponse = said.response === undefined ? undefined : keptResponse(said.response);
  if (said.code !== undefined && OPERATOR_CODES.has(said.code))
    return { kind: "operator", error: "This server may not send at the moment", smtpResponse };
  const judged =
    said.responseCode === undefined ? withoutResponse(said) : byResponse(said, said.responseCode);
  return { ...judged, smtpResponse };
};

type Judged = Pick<MailFailure, "kind" | "error">;

const withoutResponse = ({ code }: SmtpError): Judged =>
  code !== undefined && MAIL_CODES.has(code)
    ? { kind: "give-up", error: "The mail cannot be sent" }
    : { kind: "retry", error: "The mail server cannot be reached" };

const byResponse = ({ command, response = "" }: SmtpError, status: number): Judged => {
  // 503 is about the order of commands on the connection, not about the mail.
  if (status < 500 || status === 503)
    return { kind: "retry", error: `The mail server asks to retry later (${status})` };
  const isAddress = NO_MAILBOX.has(status) && command === "RCPT TO" && !POLICY.test(response);
  return isAddress
    ? { kind: "refused", error: `The address does not accept mail (${status})` }
    : { kind: "give-up", error: `The mail was refused (${status})` };
};
