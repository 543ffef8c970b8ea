/** A mail in the form in which it is sent. */
export type RenderedMail = {
  /** The local part of the Message-ID: the id in the log. */
  id: string;
  to: { name: string; address: string };
  subject: string;
  text: string;
  html: string;
};

export type MailSent = { messageId: string; response: string };

export type Mailer = {
  /**
   * Sends a mail; settles within SEND_MAX_MS.
   * @throws errors of nodemailer, with `responseCode` or `code`
   */
  send(mail: RenderedMail): Promise<MailSent>;
  /** Completes running deliveries, up to a few seconds, and disconnects. Sends nothing afterwards. */
  close(): Promise<void>;
};

/** Maximum duration of one attempt. */
export const SEND_MAX_MS = 60_000;
