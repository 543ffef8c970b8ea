import { type MailContent, oneLine, renderHtml, renderText } from "../layout.ts";
import type { MailTemplate, MailValues } from "../mail.ts";
import type { RenderedMail } from "../mailer.ts";
import {
  apiKeyCreated,
  changeEmail,
  emailChanged,
  emailReleased,
  identityLinked,
  passwordChanged,
  resetPassword,
  secondFactorChanged,
  verifyEmail,
} from "./account.ts";
import { customDomain, domainCertificateExpiring } from "./domain.ts";
import { reportFailed, reportReady } from "./report.ts";
import { paymentFailed, planChanged, subscriptionDuplicate, usage100, usage80 } from "./billing.ts";
import { ssoBreakGlassUsed, ssoCertificateExpiring, ssoChanged } from "./sso.ts";
import { type LinkBases, type Links, linksTo } from "./template.ts";
import {
  invitation,
  memberPending,
  tenantApproved,
  tenantDeleted,
  tenantRejected,
  tenantSuspended,
  tenantUnsuspended,
} from "./tenant.ts";
import { webhookDisabled, webhookFailing } from "./webhook.ts";

type Templates = { [T in MailTemplate]: (values: MailValues[T], links: Links) => MailContent };

const TEMPLATES: Templates = {
  "verify-email": verifyEmail,
  "change-email": changeEmail,
  "email-changed": emailChanged,
  "email-released": emailReleased,
  "reset-password": resetPassword,
  "password-changed": passwordChanged,
  "identity-linked": identityLinked,
  "second-factor-changed": secondFactorChanged,
  invitation,
  "member-pending": memberPending,
  "tenant-approved": tenantApproved,
  "tenant-rejected": tenantRejected,
  "tenant-suspended": tenantSuspended,
  "tenant-unsuspended": tenantUnsuspended,
  "tenant-deleted": tenantDeleted,
  "api-key-created": apiKeyCreated,
  "sso-changed": ssoChanged,
  "sso-certificate-expiring": ssoCertificateExpiring,
  "sso-break-glass-used": ssoBreakGlassUsed,
  "custom-domain": customDomain,
  "domain-certificate-expiring": domainCertificateExpiring,
  "report-ready": reportReady,
  "report-failed": reportFailed,
  "webhook-failing": webhookFailing,
  "webhook-disabled": webhookDisabled,
  "usage-80": usage80,
  "usage-100": usage100,
  "payment-failed": paymentFailed,
  "plan-changed": planChanged,
  "subscription-duplicate": subscriptionDuplicate,
};

const SUBJECT_CHARACTERS_MAX = 200;

/** Renders the contents of a mail. A subject is one line whatever the values are. */
export const renderMail = <T extends MailTemplate>(
  template: T,
  values: MailValues[T],
  bases: LinkBases,
): Pick<RenderedMail, "subject" | "text" | "html"> => {
  const content = TEMPLATES[template](values, linksTo(bases));
  const subject = oneLine(content.subject, SUBJECT_CHARACTERS_MAX);
  return { subject, text: renderText(content), html: renderHtml({ ...content, subject }) };
};
