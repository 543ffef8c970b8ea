/** A mail as it goes out. */
export type RenderedMail = {
  /** The Message-ID's left side: the id in the log. */
  id: string;
  to: { name: string; address: string };
  subject: string;
  text: string;
  html: string;
};

export type MailSent = { messageId: string; response: string };

export type Mailer = {
  /**
   * Ends within SEND_MAX_MS, one way or the other.
   * @throws Error as nodemailer has them, with `responseCode` or `code`
   */
  send(mail: RenderedMail): Promise<MailSent>;
  /** Finishes what it is sending, up to a few seconds, and hangs up. Sends nothing afterwards. */
  close(): Promise<void>;
};

/** The longest that one attempt may take. */
export const SEND_MAX_MS = 60_000;
