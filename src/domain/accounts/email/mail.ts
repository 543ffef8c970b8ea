import { DomainError } from "../../kernel/errors.ts";
import type { ProviderId } from "../oauth/provider.ts";
import type { Work } from "../../kernel/work.ts";

/** smtp: mails are sent; log: they are printed; off: requesting one is an error. */
export const MAIL_MODES = ["smtp", "log", "off"] as const;
export type MailMode = (typeof MAIL_MODES)[number];

/** Values of each template; tokens become part of links, everything is escaped. */
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
 * Role of a mail in the operation that sends it. "purpose": the operation is useless without the mail, so it
 * fails where none can be sent. "notice": the mail reports an operation that is valid without it, so it never
 * fails one.
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

/** Outgoing mail: rows of the commit that requests them, sent later by a worker. */
export type Mail = {
  /**
   * Adds a mail to the outbox; true when it will be sent. The very same mail (template, tenant, address,
   * values) twice within a minute is sent once: false for the second; mails with different tokens differ. A
   * mail with a token replaces unsent ones of its template to the same address.
   *
   * A notice (MAIL_KINDS) never throws: where no mail is sent, or the address is invalid, it returns false.
   * In a tenant's scope `tenantId` must be that tenant; in the accounts scope it may be any, or null.
   * @throws DomainError SERVICE_UNAVAILABLE EMAIL_NOT_CONFIGURED when the server sends no mail at all, and
   * VALIDATION_ERROR EMAIL_INVALID for an address that no mail is sent to; both not for notices
   */
  queue<T extends MailTemplate>(work: Work, request: MailRequest<T>): Promise<boolean>;
  /** Whether the server sends no mail at all. */
  isOff: boolean;
};

/** Builds the error for operations that are useless without mail. */
export const mailIsOff = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "This server sends no mail; ask its operator", {
    reason: "EMAIL_NOT_CONFIGURED",
  });
