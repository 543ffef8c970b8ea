import { type MailContent, oneLine, renderHtml, renderText } from "../layout.ts";
import type { MailTemplate, MailValues } from "../mail.ts";
import type { RenderedMail } from "../mailer.ts";
import {
  apiKeyCreated,
  changeEmail,
  emailChanged,
  identityLinked,
  passwordChanged,
  resetPassword,
  verifyEmail,
} from "./account.ts";
import { type Links, linksTo } from "./template.ts";
import {
  invitation,
  memberPending,
  tenantApproved,
  tenantDeleted,
  tenantRejected,
  tenantSuspended,
} from "./tenant.ts";
import { webhookDisabled, webhookFailing } from "./webhook.ts";

type Templates = { [T in MailTemplate]: (values: MailValues[T], links: Links) => MailContent };

const TEMPLATES: Templates = {
  "verify-email": verifyEmail,
  "change-email": changeEmail,
  "email-changed": emailChanged,
  "reset-password": resetPassword,
  "password-changed": passwordChanged,
  "identity-linked": identityLinked,
  invitation,
  "member-pending": memberPending,
  "tenant-approved": tenantApproved,
  "tenant-rejected": tenantRejected,
  "tenant-suspended": tenantSuspended,
  "tenant-deleted": tenantDeleted,
  "api-key-created": apiKeyCreated,
  "webhook-failing": webhookFailing,
  "webhook-disabled": webhookDisabled,
};

const SUBJECT_CHARACTERS_MAX = 200;

/** Renders the contents of a mail. A subject is one line whatever the values are. */
export const renderMail = <T extends MailTemplate>(
  template: T,
  values: MailValues[T],
  consoleUrl: string,
): Pick<RenderedMail, "subject" | "text" | "html"> => {
  const content = TEMPLATES[template](values, linksTo(consoleUrl));
  const subject = oneLine(content.subject, SUBJECT_CHARACTERS_MAX);
  return { subject, text: renderText(content), html: renderHtml({ ...content, subject }) };
};
