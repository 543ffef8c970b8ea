import {
  dayOf,
  type LinkBases,
  type Links,
  linksTo,
  type MailContent,
  nameOf,
  oneLine,
  renderHtml,
  renderText,
} from "./template.ts";
import type { FactorChange, MailTemplate, MailValues, RenderedMail } from "../mail.ts";
import { PROVIDER_NAMES } from "../../oauth/provider.ts";

const greet = (name: string): string => `Hello ${nameOf(name)}`;
const NOT_YOU_THERE = "If this was not you, tell the owner of your account at once.";
const NOT_YOU = "If this was not you, change your password at once and tell the owner of your account.";

type FactorText = { subject: string; text: string };

const FACTOR_TEXTS: Readonly<Record<FactorChange, FactorText> & Record<string, FactorText | undefined>> = {
  TOTP_ENABLED: {
    subject: "Codes of an app were switched on for your account",
    text: "From now on your account asks for a code of your authenticator app when you sign in.",
  },
  TOTP_DISABLED: {
    subject: "Codes of an app were switched off for your account",
    text: "Your account no longer asks for codes of an authenticator app.",
  },
  PASSKEY_ADDED: {
    subject: "A passkey was added to your account",
    text: "You can now sign in with a new passkey.",
  },
  PASSKEY_REMOVED: {
    subject: "A passkey was removed from your account",
    text: "One of your passkeys was removed and no longer signs you in.",
  },
  RECOVERY_CODES_REPLACED: {
    subject: "Your recovery codes were replaced",
    text: "Your account has new recovery codes; those of before no longer work.",
  },
  RECOVERY_CODE_USED: {
    subject: "A recovery code of your account was used",
    text: "Somebody proved to be you with a recovery code, which works only once.",
  },
  RESET: {
    subject: "The second factor of your account was reset",
    text:
      "Somebody who may do so removed your authenticator app, your passkeys and your recovery codes, and " +
      "your sessions were ended. You can sign in with your password and set up a second factor again.",
  },
};

const ABOUT = "You get this mail because you are an owner or admin of this account.";
/** Characters of what follows from another plan. */
const REMARKS_MAX = 1_000;

const numbersOf = ({ what, used, limit, plan }: MailValues["usage-80"]): string =>
  `Your account has used ${oneLine(used)} of the ${oneLine(limit)} ${oneLine(what)} a month that your plan ` +
  `${oneLine(plan)} includes.`;

/** Characters of a domain. */
const NAME_MAX = 253;
/** Characters of what an authority says. */
const ERROR_MAX = 250;

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

const ABOUT_REPORT =
  "You get this mail because a scheduled report of your team names you. Whoever may change it can take you " +
  "off.";

type Run = { reportId: string; runId: string };

const linkTo = ({ reportId, runId }: Run, links: Links) => ({
  label: "Open the report",
  url: links.to("analytics", "reports", reportId, "runs", runId),
});

const ABOUT_OWNERS = "You get this mail because you are an owner of this account.";

const ROLE_NAMES: Record<string, string> = {
  OWNER: "an owner",
  ADMIN: "an admin",
  DESIGNER: "a designer",
  DEVELOPER: "a developer",
  VIEWER: "a viewer",
};

const ABOUT_WEBHOOK = "You get this mail because you are an owner or admin of the account of this webhook.";

/** What one says; without a remark that it is for owners and admins. */
type Said = Omit<MailContent, "remark"> & { remark?: string };
type Templates = { [T in MailTemplate]: (values: MailValues[T], links: Links) => Said };

/** What each mail says. */
const TEMPLATES: Templates = {
  "verify-email": ({ name, token }, links) => ({
    subject: "Verify your email address",
    greeting: greet(name),
    paragraphs: ["Please prove that this address is yours. The link works once, for 24 hours."],
    link: { label: "Verify my address", url: links.withToken("/verify-email", token) },
    remark: "If you did not sign up, ignore this mail: nothing happens without the link.",
  }),
  "change-email": ({ name, token }, links) => ({
    subject: "Verify your new email address",
    greeting: greet(name),
    paragraphs: [
      "You asked to use this address from now on. The change happens when you open the link, " +
        "which works once, for 24 hours.",
    ],
    link: { label: "Use this address", url: links.withToken("/verify-email", token) },
    remark: "If you did not ask for this, ignore this mail: nothing changes without the link.",
  }),
  "reset-password": ({ name, token }, links) => ({
    subject: "Reset your password",
    greeting: greet(name),
    paragraphs: [
      "Somebody asked to reset the password of your account. If that was you, set a new one; " +
        "the link works once, for one hour.",
    ],
    link: { label: "Set a new password", url: links.withToken("/reset-password", token) },
    remark: "If you did not ask for this, ignore this mail: your password stays as it is.",
  }),
  invitation: (values, links) => {
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
  },
  "email-changed": ({ name, newEmail }) => ({
    subject: "Your email address was changed",
    greeting: greet(name),
    paragraphs: [
      `The address of your account is now ${oneLine(newEmail)}. This mail goes to the old one.`,
      "If this was not you, tell the owner of your account at once: somebody else may be using it.",
    ],
    remark: "You get this mail because this was the address of your account.",
  }),
  "email-released": ({ loginName }) => ({
    subject: "An account has given up your email address",
    paragraphs: [
      "Somebody had set up an account under your email address, and nobody had ever verified it. The " +
        "organisation that owns the domain has now made an account for you, so the earlier one has given the " +
        "address up.",
      `If the earlier one was yours too, nothing of it is lost: log in as ${oneLine(loginName)} with its ` +
        "password, and give it another email address. If it was not, there is nothing to do.",
    ],
    remark: "You get this mail because this was the email address of that account.",
  }),
  "password-changed": ({ name }) => ({
    subject: "Your password was changed",
    greeting: greet(name),
    paragraphs: ["The password of your account was changed, and your other sessions were ended.", NOT_YOU],
    remark: "You get this mail because the password of your account changed.",
  }),
  "identity-linked": ({ name, provider }) => {
    const isSso = provider === "sso";
    const shown = isSso ? "Your company's single sign-on" : PROVIDER_NAMES[provider];
    return {
      subject: `${shown} was linked to your account`,
      greeting: greet(name),
      paragraphs: isSso
        ? ["You can now sign in through your company's identity provider.", NOT_YOU_THERE]
        : [`You can now sign in with ${shown}.`, NOT_YOU],
      remark: "You get this mail because a way to sign in was added to your account.",
    };
  },
  "second-factor-changed": (values) => {
    const { subject, text } = FACTOR_TEXTS[values.change] ?? FACTOR_TEXTS.RESET;
    return {
      subject,
      greeting: greet(values.name),
      paragraphs: [text, NOT_YOU],
      remark: "You get this mail because the second factor of your account changed or was used.",
    };
  },
  "member-pending": (values) => {
    const [name, tenantName] = [nameOf(values.name), nameOf(values.tenantName)];
    return {
      subject: `${name} asks to join ${tenantName}`,
      paragraphs: [
        `${name} (${oneLine(values.email)}) has registered for ${tenantName} and can do nothing ` +
          "until an owner or admin accepts them.",
        "Accept or remove them under Team.",
      ],
    };
  },
  "tenant-approved": (values) => {
    const tenantName = nameOf(values.tenantName);
    return {
      subject: `${tenantName} was approved`,
      paragraphs: [`Your account ${tenantName} was approved. Everything in your plan is open to you now.`],
    };
  },
  "tenant-rejected": (values) => {
    const tenantName = nameOf(values.tenantName);
    return {
      subject: `${tenantName} was rejected`,
      paragraphs: [
        `Your account ${tenantName} was not approved.`,
        `Reason: ${oneLine(values.reason)}`,
        "An owner can ask for approval again, once a day.",
      ],
    };
  },
  "tenant-suspended": (values) => {
    const tenantName = nameOf(values.tenantName);
    return {
      subject: `${tenantName} was suspended`,
      paragraphs: [
        `Your account ${tenantName} was suspended: its API keys are refused until that ends.`,
        `Reason: ${oneLine(values.reason)}`,
      ],
    };
  },
  "tenant-unsuspended": (values) => {
    const tenantName = nameOf(values.tenantName);
    return {
      subject: `${tenantName} is no longer suspended`,
      paragraphs: [`The suspension of your account ${tenantName} has ended: its API keys work again.`],
    };
  },
  "tenant-deleted": (values) => {
    const tenantName = nameOf(values.tenantName);
    return {
      subject: `${tenantName} will be deleted`,
      paragraphs: [
        `An owner has deleted the account ${tenantName}. It ends for good after ` +
          `${dayOf(values.deleteAfter)}, and so do its keys and the logins of its people.`,
        "If that is a mistake, an owner can take it back until then.",
      ],
    };
  },
  "api-key-created": (values) => {
    const [keyName, projectName] = [nameOf(values.keyName), nameOf(values.projectName)];
    return {
      subject: `A new API key for ${projectName}`,
      greeting: greet(values.name),
      paragraphs: [
        `The API key “${keyName}” (${oneLine(values.keyPrefix, 64)}…) was made for ${projectName}.`,
        "If nobody of your team did this, revoke the key and change your password at once.",
      ],
      remark: "You get this mail because an API key was made with your account.",
    };
  },
  "sso-changed": (values) => {
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
      remark: ABOUT_OWNERS,
    };
  },
  "sso-certificate-expiring": (values) => {
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
      remark: ABOUT_OWNERS,
    };
  },
  "sso-domain": (values) => {
    const name = oneLine(values.domain, NAME_MAX);
    const isLost = values.until === "";
    return {
      subject: isLost ? `${name} is another account's now` : `The TXT record of ${name} is missing`,
      paragraphs: [
        isLost
          ? `${name} is another account's now: its TXT record proves that, and yours is not there any more.`
          : `Another account proves by a TXT record that ${name} is its own, and your record is missing. The ` +
            `domain is theirs after ${dayOf(values.until)} (${oneLine(values.until, 64)}) unless yours is there.`,
        "People with email addresses of the domain sign in through whoever holds it. GET " +
          "/enterprise/sso/domains shows your record.",
      ],
    };
  },
  "sso-break-glass-used": (values) => ({
    subject: "Somebody signed in past single sign-on",
    paragraphs: [
      `${oneLine(values.email)} signed in without your identity provider, as the break-glass owner may, at ` +
        `${oneLine(values.at, 64)}.`,
      "If that was not expected, end their sessions and name another break-glass owner.",
    ],
    remark: ABOUT_OWNERS,
  }),
  "custom-domain": ({ domain, change, until }) => {
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
    };
  },
  "domain-certificate-expiring": ({ domain, expiresAt, error }) => {
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
    };
  },
  "report-ready": (values, links) => {
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
  },
  "report-failed": (values, links) => {
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
  },
  "webhook-failing": (values) => {
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
  },
  "webhook-disabled": (values) => {
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
  },
  "usage-80": (values) => ({
    subject: `80 % of this month's ${oneLine(values.what)} are used`,
    paragraphs: [numbersOf(values), `Counting begins anew at ${oneLine(values.periodEnd, 64)}.`],
  }),
  "usage-100": (values) => ({
    subject: `This month's ${oneLine(values.what)} are used up`,
    paragraphs: [
      numbersOf(values),
      values.refusedAbove === ""
        ? `Nothing is refused for that. Counting begins anew at ${oneLine(values.periodEnd, 64)}.`
        : `More than ${oneLine(values.refusedAbove)} are refused with status 402 until ` +
          `${oneLine(values.periodEnd, 64)}. A larger plan takes more at once.`,
    ],
  }),
  "payment-failed": (values) => ({
    subject: "A payment for your plan failed",
    paragraphs: [
      `The last payment for your plan ${oneLine(values.plan)} failed. It will be tried again.`,
      `Your account keeps the plan until ${dayOf(values.keptUntil)} (${oneLine(values.keptUntil, 64)}), and ` +
        "is put on FREE then, unless it is paid. An owner can pay, or change the card, in the billing portal.",
      "Nothing of yours is deleted.",
    ],
  }),
  "plan-changed": (values) => ({
    subject: `Your plan is now ${oneLine(values.to)}`,
    paragraphs: [
      `The plan of your account has changed from ${oneLine(values.from)} to ${oneLine(values.to)}.`,
      values.remarks === "" ? "It has room for all that you have." : oneLine(values.remarks, REMARKS_MAX),
    ],
  }),
  "subscription-duplicate": (values) => ({
    subject: "A second subscription was ended",
    paragraphs: [
      "Two subscriptions of your account were paid for at once. The newer one counts; the other was ended, " +
        "and what it had left is credited to your next invoices.",
      `Ended: ${oneLine(values.subscriptions)}`,
    ],
    remark: ABOUT_OWNERS,
  }),
};

/** Names of all mails. */
export const MAIL_TEMPLATES = Object.keys(TEMPLATES) as readonly MailTemplate[];

const SUBJECT_CHARACTERS_MAX = 200;

/** Renders the contents of a mail. A subject is one line whatever the values are. */
export const renderMail = <T extends MailTemplate>(
  template: T,
  values: MailValues[T],
  bases: LinkBases,
): Pick<RenderedMail, "subject" | "text" | "html"> => {
  const content = { remark: ABOUT, ...TEMPLATES[template](values, linksTo(bases)) };
  const subject = oneLine(content.subject, SUBJECT_CHARACTERS_MAX);
  return { subject, text: renderText(content), html: renderHtml({ ...content, subject }) };
};
