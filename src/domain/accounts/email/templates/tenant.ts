import { type MailContent, nameOf, oneLine } from "../layout.ts";
import type { MailValues } from "../mail.ts";
import { dayOf, type Links } from "./template.ts";

const ROLE_NAMES: Record<string, string> = {
  OWNER: "an owner",
  ADMIN: "an admin",
  DESIGNER: "a designer",
  DEVELOPER: "a developer",
  VIEWER: "a viewer",
};

const ABOUT_TENANT = "You get this mail because you are an owner or admin of this account.";

export const invitation = (values: MailValues["invitation"], links: Links): MailContent => {
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

export const memberPending = (values: MailValues["member-pending"]): MailContent => {
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

export const tenantApproved = (values: MailValues["tenant-approved"]): MailContent => {
  const tenantName = nameOf(values.tenantName);
  return {
    subject: `${tenantName} was approved`,
    paragraphs: [`Your account ${tenantName} was approved. Everything in your plan is open to you now.`],
    remark: ABOUT_TENANT,
  };
};

export const tenantRejected = (values: MailValues["tenant-rejected"]): MailContent => {
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

export const tenantSuspended = (values: MailValues["tenant-suspended"]): MailContent => {
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

export const tenantUnsuspended = (values: MailValues["tenant-unsuspended"]): MailContent => {
  const tenantName = nameOf(values.tenantName);
  return {
    subject: `${tenantName} is no longer suspended`,
    paragraphs: [`The suspension of your account ${tenantName} has ended: its API keys work again.`],
    remark: ABOUT_TENANT,
  };
};

export const tenantDeleted = (values: MailValues["tenant-deleted"]): MailContent => {
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
