import {
  apiKeyCreated,
  changeEmail,
  dayOf,
  emailChanged,
  emailReleased,
  identityLinked,
  type LinkBases,
  type Links,
  linksTo,
  type MailContent,
  nameOf,
  oneLine,
  passwordChanged,
  renderHtml,
  renderText,
  resetPassword,
  secondFactorChanged,
  verifyEmail,
} from "./template.ts";
import type { MailTemplate, MailValues, RenderedMail } from "../mail.ts";

const ABOUT = "You get this mail because you are an owner or admin of this account.";
/** Characters of what follows from another plan. */
const REMARKS_MAX = 1_000;

const numbersOf = ({ what, used, limit, plan }: MailValues["usage-80"]): string =>
  `Your account has used ${oneLine(used)} of the ${oneLine(limit)} ${oneLine(what)} a month that your plan ` +
  `${oneLine(plan)} includes.`;

const usage80 = (values: MailValues["usage-80"]): MailContent => ({
  subject: `80 % of this month's ${oneLine(values.what)} are used`,
  paragraphs: [numbersOf(values), `Counting begins anew at ${oneLine(values.periodEnd, 64)}.`],
  remark: ABOUT,
});

const usage100 = (values: MailValues["usage-100"]): MailContent => ({
  subject: `This month's ${oneLine(values.what)} are used up`,
  paragraphs: [
    numbersOf(values),
    values.refusedAbove === ""
      ? `Nothing is refused for that. Counting begins anew at ${oneLine(values.periodEnd, 64)}.`
      : `More than ${oneLine(values.refusedAbove)} are refused with status 402 until ` +
        `${oneLine(values.periodEnd, 64)}. A larger plan takes more at once.`,
  ],
  remark: ABOUT,
});

const paymentFailed = (values: MailValues["payment-failed"]): MailContent => ({
  subject: "A payment for your plan failed",
  paragraphs: [
    `The last payment for your plan ${oneLine(values.plan)} failed. It will be tried again.`,
    `Your account keeps the plan until ${dayOf(values.keptUntil)} (${oneLine(values.keptUntil, 64)}), and ` +
      "is put on FREE then, unless it is paid. An owner can pay, or change the card, in the billing portal.",
    "Nothing of yours is deleted.",
  ],
  remark: ABOUT,
});

const planChanged = (values: MailValues["plan-changed"]): MailContent => ({
  subject: `Your plan is now ${oneLine(values.to)}`,
  paragraphs: [
    `The plan of your account has changed from ${oneLine(values.from)} to ${oneLine(values.to)}.`,
    values.remarks === "" ? "It has room for all that you have." : oneLine(values.remarks, REMARKS_MAX),
  ],
  remark: ABOUT,
});

const subscriptionDuplicate = (values: MailValues["subscription-duplicate"]): MailContent => ({
  subject: "A second subscription was ended",
  paragraphs: [
    "Two subscriptions of your account were paid for at once. The newer one counts; the other was ended, " +
      "and what it had left is credited to your next invoices.",
    `Ended: ${oneLine(values.subscriptions)}`,
  ],
  remark: "You get this mail because you are an owner of this account.",
});

/** Characters of a domain. */
const NAME_MAX = 253;
/** Characters of what an authority says. */
const ERROR_MAX = 250;
const ABOUT_DOMAINS = "You get this mail because you are an owner or admin of this account.";

const DEGRADED = [
  "does not lead to your games any more",
  "Its DNS records have been missing for three days.",
] as const;
const OTHERS: Readonly<Record<string, readonly [what: string, why: string]>> = {
  SUSPENDED: ["is not served any more", "Its certificate and the key of that were deleted."],
  LOST: ["is another account's now", "Its DNS records prove that; yours are not there any more."],
  PLAN_LOST: ["is more than your plan has room for", "It goes on working for seven days."],
  TENANT_SUSPENDED: ["ends with your suspended account", "It is kept for thirty days."],
};

const customDomain = ({ domain, change, until }: MailValues["custom-domain"]): MailContent => {
  const name = oneLine(domain, NAME_MAX);
  const [what, why] = OTHERS[change] ?? DEGRADED;
  return {
    subject: `${name} ${what}`,
    paragraphs: [
      `${name} ${what}. ${why}`,
      change === "SUSPENDED" || change === "LOST"
        ? "To use it again, make its records as GET /enterprise/domains shows them, and have it verified."
        : `Unless that changes it is not served from ${dayOf(until)} (${oneLine(until, 64)}).`,
    ],
    remark: ABOUT_DOMAINS,
  };
};

const domainCertificateExpiring = ({
  domain,
  expiresAt,
  error,
}: MailValues["domain-certificate-expiring"]): MailContent => {
  const [name, day] = [oneLine(domain, NAME_MAX), dayOf(expiresAt)];
  return {
    subject: `The certificate of ${name} expires on ${day}`,
    paragraphs: [
      `The certificate of your domain ${name} could not be renewed. From ${day} ` +
        `(${oneLine(expiresAt, 64)}) browsers and games refuse to connect to it.`,
      `What is in the way: ${oneLine(error, ERROR_MAX)}`,
      "Renewal is tried again by itself. Once you have mended your DNS records, POST " +
        "/enterprise/domains/{domainId}/verify looks at them at once. If they are right, ask the operator " +
        "of the server.",
    ],
    remark: ABOUT_DOMAINS,
  };
};

const ABOUT_REPORT =
  "You get this mail because a scheduled report of your team names you. Whoever may change it can take you " +
  "off.";

type Run = { reportId: string; runId: string };

const linkTo = ({ reportId, runId }: Run, links: Links) => ({
  label: "Open the report",
  url: links.to("analytics", "reports", reportId, "runs", runId),
});

const reportReady = (values: MailValues["report-ready"], links: Links): MailContent => {
  const name = nameOf(values.reportName);
  const [from, to] = [oneLine(values.from, 64), oneLine(values.to, 64)];
  const days = from === to ? from : `${from} to ${to}`;
  return {
    subject: `The report ${name} is ready`,
    paragraphs: [
      `The report ${name} of ${days} (${oneLine(values.timezone, 64)}) is ready. It is kept for a week.`,
      "You need to sign in to read it.",
    ],
    link: linkTo(values, links),
    remark: ABOUT_REPORT,
  };
};

const reportFailed = (values: MailValues["report-failed"], links: Links): MailContent => {
  const name = nameOf(values.reportName);
  return {
    subject: `The report ${name} could not be made`,
    paragraphs: [
      `The report ${name} could not be made: ${oneLine(values.error)}`,
      "It is tried again when it is next due.",
    ],
    link: linkTo(values, links),
    remark: ABOUT_REPORT,
  };
};

const ABOUT_SSO = "You get this mail because you are an owner of this account.";

const ssoChanged = (values: MailValues["sso-changed"]): MailContent => {
  const name = nameOf(values.displayName);
  const isGone = values.change === "DELETED";
  return {
    subject: isGone ? "Single sign-on was removed" : "Single sign-on was changed",
    paragraphs: [
      isGone
        ? `The identity provider ${name} was removed from your account. Who signed in through it can set a ` +
          "password by mail."
        : `The identity provider ${name} of your account was set up or changed.`,
      ...(values.change === "ENFORCED"
        ? ["Everybody but the break-glass owner now signs in through it; passwords are refused."]
        : []),
      "If no owner of your account did this, somebody else may be using one of your accounts.",
    ],
    remark: ABOUT_SSO,
  };
};

const ssoCertificateExpiring = (values: MailValues["sso-certificate-expiring"]): MailContent => {
  const [name, day] = [nameOf(values.displayName), dayOf(values.expiresAt)];
  return {
    subject: `A certificate of ${name} expires on ${day}`,
    paragraphs: [
      `The signing certificate ${oneLine(values.fingerprint, 64)} of your identity provider ${name} ` +
        `expires on ${day} (${oneLine(values.expiresAt, 64)}).`,
      values.otherUntil === ""
        ? "It is the last one that is valid: from then on nobody can sign in through it. Add the " +
          "provider's next certificate to samlCertificate before, beside this one."
        : `Another certificate is valid until ${oneLine(values.otherUntil, 64)}. Check that the provider ` +
          "signs with that one by then.",
    ],
    remark: ABOUT_SSO,
  };
};

const ssoBreakGlassUsed = (values: MailValues["sso-break-glass-used"]): MailContent => ({
  subject: "Somebody signed in past single sign-on",
  paragraphs: [
    `${oneLine(values.email)} signed in without your identity provider, as the break-glass owner may, at ` +
      `${oneLine(values.at, 64)}.`,
    "If that was not expected, end their sessions and name another break-glass owner.",
  ],
  remark: ABOUT_SSO,
});

const ROLE_NAMES: Record<string, string> = {
  OWNER: "an owner",
  ADMIN: "an admin",
  DESIGNER: "a designer",
  DEVELOPER: "a developer",
  VIEWER: "a viewer",
};

const ABOUT_TENANT = "You get this mail because you are an owner or admin of this account.";

const invitation = (values: MailValues["invitation"], links: Links): MailContent => {
  const tenantName = nameOf(values.tenantName);
  const role = ROLE_NAMES[values.role] ?? nameOf(values.role);
  return {
    subject: `Invitation to join ${tenantName}`,
    paragraphs: [
      `${nameOf(values.inviterName)} invites you to join ${tenantName} as ${role}. ` +
        "The link works for 7 days.",
    ],
    link: { label: "Accept the invitation", url: links.withToken("/accept-invitation", values.token) },
    remark: "If you know nothing of this, ignore this mail: nothing happens without the link.",
  };
};

const memberPending = (values: MailValues["member-pending"]): MailContent => {
  const [name, tenantName] = [nameOf(values.name), nameOf(values.tenantName)];
  return {
    subject: `${name} asks to join ${tenantName}`,
    paragraphs: [
      `${name} (${oneLine(values.email)}) has registered for ${tenantName} and can do nothing ` +
        "until an owner or admin accepts them.",
      "Accept or remove them under Team.",
    ],
    remark: ABOUT_TENANT,
  };
};

const tenantApproved = (values: MailValues["tenant-approved"]): MailContent => {
  const tenantName = nameOf(values.tenantName);
  return {
    subject: `${tenantName} was approved`,
    paragraphs: [`Your account ${tenantName} was approved. Everything in your plan is open to you now.`],
    remark: ABOUT_TENANT,
  };
};

const tenantRejected = (values: MailValues["tenant-rejected"]): MailContent => {
  const tenantName = nameOf(values.tenantName);
  return {
    subject: `${tenantName} was rejected`,
    paragraphs: [
      `Your account ${tenantName} was not approved.`,
      `Reason: ${oneLine(values.reason)}`,
      "An owner can ask for approval again, once a day.",
    ],
    remark: ABOUT_TENANT,
  };
};

const tenantSuspended = (values: MailValues["tenant-suspended"]): MailContent => {
  const tenantName = nameOf(values.tenantName);
  return {
    subject: `${tenantName} was suspended`,
    paragraphs: [
      `Your account ${tenantName} was suspended: its API keys are refused until that ends.`,
      `Reason: ${oneLine(values.reason)}`,
    ],
    remark: ABOUT_TENANT,
  };
};

const tenantUnsuspended = (values: MailValues["tenant-unsuspended"]): MailContent => {
  const tenantName = nameOf(values.tenantName);
  return {
    subject: `${tenantName} is no longer suspended`,
    paragraphs: [`The suspension of your account ${tenantName} has ended: its API keys work again.`],
    remark: ABOUT_TENANT,
  };
};

const tenantDeleted = (values: MailValues["tenant-deleted"]): MailContent => {
  const tenantName = nameOf(values.tenantName);
  return {
    subject: `${tenantName} will be deleted`,
    paragraphs: [
      `An owner has deleted the account ${tenantName}. It ends for good after ` +
        `${dayOf(values.deleteAfter)}, and so do its keys and the logins of its people.`,
      "If that is a mistake, an owner can take it back until then.",
    ],
    remark: ABOUT_TENANT,
  };
};

const ABOUT_WEBHOOK = "You get this mail because you are an owner or admin of the account of this webhook.";

const webhookFailing = (values: MailValues["webhook-failing"]): MailContent => {
  const host = oneLine(values.host);
  return {
    subject: `A webhook to ${host} is failing`,
    paragraphs: [
      `An event could not be delivered to ${host} in five attempts, and was given up. ` +
        `The webhook is ${oneLine(values.webhookId)}.`,
      `The last attempt: ${oneLine(values.error)}`,
      "It still gets new events. Its deliveries show what was sent and returned; once the endpoint " +
        "works again, failed deliveries can be sent again.",
      "If it goes on failing for five days, it is disabled.",
    ],
    remark: ABOUT_WEBHOOK,
  };
};

const webhookDisabled = (values: MailValues["webhook-disabled"]): MailContent => {
  const host = oneLine(values.host);
  return {
    subject: `A webhook to ${host} was disabled`,
    paragraphs: [
      `The webhook ${oneLine(values.webhookId)} to ${host} gets no events any more.`,
      `Reason: ${oneLine(values.reason)}`,
      "Set it to ACTIVE once the endpoint works again; missed events can be sent again.",
    ],
    remark: ABOUT_WEBHOOK,
  };
};

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
