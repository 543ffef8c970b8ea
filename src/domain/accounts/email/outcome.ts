/** What a failed attempt to send means for the mail. */
export type MailFailure = {
  /**
   * retry: later, so many times. operator: later, for as long as it takes, because only the people who run
   * the server can mend it. give-up: never. refused: never, and no other mail to this address for a while.
   */
  kind: "retry" | "operator" | "give-up" | "refused";
  /** For the log that tenants read: nothing of the server's network and settings. */
  error: string;
  /** What the mail server said. */
  smtpResponse: string | undefined;
};

/** nodemailer's errors, as far as they are looked at. */
type SmtpError = { code?: string; command?: string; response?: string; responseCode?: number };

const RESPONSE_CHARACTERS_MAX = 500;
/** The server wants other credentials or another connection than the settings give it. */
const OPERATOR_CODES = new Set(["EAUTH", "ENOAUTH", "EOAUTH2", "ETLS", "EREQUIRETLS", "ECONFIG"]);
/** The mail itself is at fault; another try changes nothing. */
const MAIL_CODES = new Set(["EENVELOPE", "EMESSAGE", "ESTREAM", "EFILEACCESS", "EURLACCESS"]);
/** No such mailbox, moved away, no such name. */
const NO_MAILBOX = new Set([550, 551, 553]);
/** An enhanced status of policy (RFC 3463): it is about us or the text, not about the address. */
const POLICY = /^\d{3}[ -]5\.7\./;
/** Servers quote what they refuse; a token must not come back into the log that way. */
const TOKEN = /token=[^\s"'<>&]+/gi;

/** What is kept of a mail server's words: no token, and not too many. */
export const keptResponse = (response: string): string =>
  response.replace(TOKEN, "token=…").slice(0, RESPONSE_CHARACTERS_MAX);

/** Reads what the mailer threw. An address is held to be dead only when the server refused the recipient. */
export const failureOf = (error: unknown): MailFailure => {
  const said = (error ?? {}) as SmtpError;
  const smtpResponse = said.response === undefined ? undefined : keptResponse(said.response);
  if (said.code !== undefined && OPERATOR_CODES.has(said.code))
    return { kind: "operator", error: "This server may not send at the moment", smtpResponse };
  const judged = said.responseCode === undefined ? withoutAnswer(said) : byAnswer(said, said.responseCode);
  return { ...judged, smtpResponse };
};

type Judged = Pick<MailFailure, "kind" | "error">;

const withoutAnswer = ({ code }: SmtpError): Judged =>
  code !== undefined && MAIL_CODES.has(code)
    ? { kind: "give-up", error: "The mail cannot be sent" }
    : { kind: "retry", error: "The mail server cannot be reached" };

const byAnswer = ({ command, response = "" }: SmtpError, status: number): Judged => {
  // 503 is about the order of commands on the connection, not about the mail.
  if (status < 500 || status === 503)
    return { kind: "retry", error: `The mail server asks to come back later (${status})` };
  const isAddress = NO_MAILBOX.has(status) && command === "RCPT TO" && !POLICY.test(response);
  return isAddress
    ? { kind: "refused", error: `The address does not take mail (${status})` }
    : { kind: "give-up", error: `The mail was refused (${status})` };
};
