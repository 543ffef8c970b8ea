import type { Work } from "../work.ts";

/** What each template has to be told; tokens go into links, everything is escaped. */
export type MailValues = {
  "verify-email": { name: string; token: string };
  "change-email": { name: string; token: string };
  "email-changed": { name: string; newEmail: string };
  "reset-password": { name: string; token: string };
  "password-changed": { name: string };
  "identity-linked": { name: string; provider: string };
  invitation: { tenantName: string; inviterName: string; role: string; token: string };
  "member-pending": { tenantName: string; name: string; email: string };
  "tenant-approved": { tenantName: string };
  "tenant-rejected": { tenantName: string; reason: string };
  "tenant-suspended": { tenantName: string; reason: string };
  "tenant-deleted": { tenantName: string; deleteAfter: string };
  "api-key-created": { name: string; keyName: string; keyPrefix: string; projectName: string };
};
export type MailTemplate = keyof MailValues;

export type MailRequest<T extends MailTemplate> = {
  template: T;
  to: string;
  values: MailValues[T];
  tenantId: string | null;
  userId: string | null;
};

/** The outgoing mail: rows of the commit that asks for them, sent later by a worker. */
export type Mail = {
  /**
   * Puts a mail into the outbox. The same template to the same address within a minute is one mail: false
   * then. @throws DomainError SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED when the server sends no mail at all
   */
  queue<T extends MailTemplate>(work: Work, request: MailRequest<T>): Promise<boolean>;
  /** Whether mails leave this server; without it nobody can be asked to prove an address. */
  isSent: boolean;
};
