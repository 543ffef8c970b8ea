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
  /** @throws Error as nodemailer has them, with `responseCode` or `code` */
  send(mail: RenderedMail): Promise<MailSent>;
};
