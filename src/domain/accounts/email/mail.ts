import { DomainError } from "../../kernel/errors.ts";
import type { ProviderId } from "../oauth/provider.ts";
import type { Work } from "../../kernel/work.ts";

/** smtp: mails are sent; log: they are printed; off: asking for one is an error. */
export const MAIL_MODES = ["smtp", "log", "off"] as const;
export type MailMode = (typeof MAIL_MODES)[number];

/** What each template has to be told; tokens go into links, everything is escaped. */
export type MailValues = {
  "verify-email": { name: string; token: string };
  "change-email": { name: string; token: string };
  "email-changed": { name: string; newEmail: string };
  "reset-password": { name: string; token: string };
  "password-changed": { name: string };
  "identity-linked": { name: string; provider: ProviderId };
  invitation: { tenantName: string; inviterName: string; role: string; token: string };
  "member-pending": { tenantName: string; name: string; email: string };
  "tenant-approved": { tenantName: string };
  "tenant-rejected": { tenantName: string; reason: string };
  "tenant-suspended": { tenantName: string; reason: string };
  "tenant-deleted": { tenantName: string; deleteAfter: string };
  "api-key-created": { name: string; keyName: string; keyPrefix: string; projectName: string };
  "webhook-failing": { webhookId: string; host: string; error: string };
  "webhook-disabled": { webhookId: string; host: string; reason: string };
};
export type MailTemplate = keyof MailValues;

/**
 * What a mail is to the act that asks for it. "purpose": the act is for nothing without the mail, so it fails
 * where none can be sent. "notice": the mail tells of an act that stands on its own, so it never fails one.
 */
export const MAIL_KINDS: Record<MailTemplate, "purpose" | "notice"> = {
  "verify-email": "purpose",
  "change-email": "purpose",
  "reset-password": "purpose",
  invitation: "purpose",
  "email-changed": "notice",
  "password-changed": "notice",
  "identity-linked": "notice",
  "member-pending": "notice",
  "tenant-approved": "notice",
  "tenant-rejected": "notice",
  "tenant-suspended": "notice",
  "tenant-deleted": "notice",
  "api-key-created": "notice",
  "webhook-failing": "notice",
  "webhook-disabled": "notice",
};
export const MAIL_TEMPLATES = Object.keys(MAIL_KINDS) as readonly MailTemplate[];

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
   * Puts a mail into the outbox; true when it will be sent. The very same mail (template, tenant, address,
   * values) twice within a minute is one: false for the second; mails with different tokens differ. A mail
   * with a token takes the place of those of its template to the same address that have not been sent yet.
   *
   * A notice (MAIL_KINDS) never throws: where no mail is sent, or the address is none, it answers false.
   * In a tenant's scope `tenantId` must be that tenant; in the accounts scope it may be any, or null.
   * @throws DomainError SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED when the server sends no mail at all, and
   * VALIDATION_ERROR EMAIL_INVALID for an address that no mail is sent to; both not for notices
   */
  queue<T extends MailTemplate>(work: Work, request: MailRequest<T>): Promise<boolean>;
  /** The server has no mail at all. */
  isOff: boolean;
};

/** The error for what is for nothing without a mail. */
export const mailIsOff = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "This server sends no mail; ask its operator", {
    reason: "EMAIL_NOT_CONFIGURED",
  });
