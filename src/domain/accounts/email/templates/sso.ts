import { type MailContent, nameOf, oneLine } from "../layout.ts";
import type { MailValues } from "../mail.ts";
import { dayOf } from "./template.ts";

const ABOUT_SSO = "You get this mail because you are an owner of this account.";

export const ssoChanged = (values: MailValues["sso-changed"]): MailContent => {
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

export const ssoCertificateExpiring = (values: MailValues["sso-certificate-expiring"]): MailContent => {
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

export const ssoBreakGlassUsed = (values: MailValues["sso-break-glass-used"]): MailContent => ({
  subject: "Somebody signed in past single sign-on",
  paragraphs: [
    `${oneLine(values.email)} signed in without your identity provider, as the break-glass owner may, at ` +
      `${oneLine(values.at, 64)}.`,
    "If that was not expected, end their sessions and name another break-glass owner.",
  ],
  remark: ABOUT_SSO,
});
