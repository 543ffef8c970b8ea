import type { FactorChange, MailValues } from "../mail.ts";
import { PROVIDER_NAMES } from "../../oauth/provider.ts";

/** The contents of a mail as plain text; the layout escapes and formats it. */
export type MailContent = {
  subject: string;
  /** The name of the recipient; mails to a role or to a stranger have no greeting. */
  greeting?: string;
  paragraphs: readonly string[];
  link?: { label: string; url: string };
  /** Small print below the link. */
  remark: string;
};

const NAME_CHARACTERS_MAX = 100;
const TEXT_CHARACTERS_MAX = 1_000;
/** Control characters, line separators and characters that change the direction of text. */
const INVISIBLE = /[\p{Cc}\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff]+/gu;

/** Returns one line of text without control characters and split surrogate pairs, truncated. */
export const oneLine = (text: string, charactersMax = TEXT_CHARACTERS_MAX): string => {
  const line = text.toWellFormed().replace(INVISIBLE, " ").replace(/\s+/gu, " ").trim();
  const characters = [...line];
  return characters.length <= charactersMax ? line : `${characters.slice(0, charactersMax - 1).join("")}…`;
};

/**
 * Formats a user-chosen name for a mail that may go to a stranger. Mail programs turn what looks like an
 * address into links; a zero-width space after its dots and colons prevents that.
 */
export const nameOf = (text: string): string => {
  const line = oneLine(text, NAME_CHARACTERS_MAX);
  if (line === "") return "(no name)";
  return line.replace(/(?<=[\p{L}\p{N}])[.:](?=[\p{L}\p{N}/])/gu, "$&\u200b");
};

const ENTITIES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character]!);

export const renderText = ({ greeting, paragraphs, link, remark }: MailContent): string =>
  [
    ...(greeting === undefined ? [] : [`${greeting},`]),
    ...paragraphs,
    ...(link ? [`${link.label}:\n${link.url}`] : []),
    `--\n${remark}`,
  ].join("\n\n");

const FONT = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";
const PARAGRAPH = `margin:0 0 16px;${FONT};font-size:16px;line-height:24px;color:#1f2933`;
const BUTTON =
  `display:inline-block;padding:12px 24px;${FONT};font-size:16px;line-height:20px;` +
  "font-weight:600;color:#ffffff;background:#1b6e53;border-radius:6px;text-decoration:none";
const SMALL = `margin:0 0 12px;${FONT};font-size:13px;line-height:20px;color:#616e7c`;
const CARD = "max-width:560px;width:100%;background:#ffffff;border:1px solid #e4e7eb;border-radius:8px";
const BRAND = `padding:24px 32px 0;${FONT};font-size:14px;font-weight:700;letter-spacing:1px;color:#1b6e53`;
const HEADING = `margin:0 0 16px;${FONT};font-size:22px;line-height:30px;color:#1f2933`;

const paragraph = (text: string, style = PARAGRAPH): string => `<p style="${style}">${escapeHtml(text)}</p>`;

const linkHtml = ({ label, url }: { label: string; url: string }): string => {
  const href = escapeHtml(url);
  return [
    `<p style="margin:24px 0"><a href="${href}" style="${BUTTON}">${escapeHtml(label)}</a></p>`,
    `<p style="${SMALL};word-break:break-all">Or open this address: ` +
      `<a href="${href}" style="color:#1b6e53">${href}</a></p>`,
  ].join("\n");
};

/** Tables and inline styles, because mail programs support little else; no images, so nothing is loaded. */
export const renderHtml = ({ subject, greeting, paragraphs, link, remark }: MailContent): string => {
  const body = [
    ...(greeting === undefined ? [] : [paragraph(`${greeting},`)]),
    ...paragraphs.map((text) => paragraph(text)),
    ...(link ? [linkHtml(link)] : []),
  ].join("\n");
  const title = escapeHtml(subject);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light">
<title>${title}</title>
</head>
<body style="margin:0;padding:0;background:#f5f7fa">
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" style="background:#f5f7fa">
<tr><td align="center" style="padding:32px 16px">
<table role="presentation" cellpadding="0" cellspacing="0" style="${CARD}">
<tr><td style="${BRAND}">LAUREL</td></tr>
<tr><td style="padding:16px 32px 24px">
<h1 style="${HEADING}">${title}</h1>
${body}
</td></tr>
<tr><td style="padding:16px 32px;border-top:1px solid #e4e7eb">${paragraph(remark, SMALL)}</td></tr>
</table>
</td></tr>
</table>
</body>
</html>
`;
};

/** Pages of the console that take a token. At custom domains they lead to it. */
export const TOKEN_PAGES = ["/verify-email", "/reset-password", "/accept-invitation"] as const;

/** Builds the links of a mail, which all lead to the console; those with a token may by a tenant's domain. */
export type Links = {
  withToken(path: (typeof TOKEN_PAGES)[number], token: string): string;
  /** @param parts of the path, which are encoded */
  to(...parts: string[]): string;
};

/** Base URLs of links, without a trailing slash: with a token, and others. */
export type LinkBases = { tokenUrl: string; consoleUrl: string };

export const linksTo = ({ tokenUrl, consoleUrl }: LinkBases): Links => ({
  withToken: (path, token) => `${tokenUrl}${path}?token=${encodeURIComponent(token.toWellFormed())}`,
  to: (...parts) => [consoleUrl, ...parts.map((part) => encodeURIComponent(part.toWellFormed()))].join("/"),
});

const DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" });

/** Formats the day of an ISO time, such as 21 November 2026; other texts are returned unchanged. */
export const dayOf = (text: string): string => {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? oneLine(text, 64) : DAY.format(ms);
};

const greet = (name: string): string => `Hello ${nameOf(name)}`;
const NOT_YOU_THERE = "If this was not you, tell the owner of your account at once.";
const NOT_YOU = "If this was not you, change your password at once and tell the owner of your account.";

export const verifyEmail = ({ name, token }: MailValues["verify-email"], links: Links): MailContent => ({
  subject: "Verify your email address",
  greeting: greet(name),
  paragraphs: ["Please prove that this address is yours. The link works once, for 24 hours."],
  link: { label: "Verify my address", url: links.withToken("/verify-email", token) },
  remark: "If you did not sign up, ignore this mail: nothing happens without the link.",
});

export const changeEmail = ({ name, token }: MailValues["change-email"], links: Links): MailContent => ({
  subject: "Verify your new email address",
  greeting: greet(name),
  paragraphs: [
    "You asked to use this address from now on. The change happens when you open the link, " +
      "which works once, for 24 hours.",
  ],
  link: { label: "Use this address", url: links.withToken("/verify-email", token) },
  remark: "If you did not ask for this, ignore this mail: nothing changes without the link.",
});

export const emailChanged = ({ name, newEmail }: MailValues["email-changed"]): MailContent => ({
  subject: "Your email address was changed",
  greeting: greet(name),
  paragraphs: [
    `The address of your account is now ${oneLine(newEmail)}. This mail goes to the old one.`,
    "If this was not you, tell the owner of your account at once: somebody else may be using it.",
  ],
  remark: "You get this mail because this was the address of your account.",
});

export const emailReleased = ({ loginName }: MailValues["email-released"]): MailContent => ({
  subject: "An account has given up your email address",
  paragraphs: [
    "Somebody had set up an account under your email address, and nobody had ever verified it. The " +
      "organisation that owns the domain has now made an account for you, so the earlier one has given the " +
      "address up.",
    `If the earlier one was yours too, nothing of it is lost: log in as ${oneLine(loginName)} with its ` +
      "password, and give it another email address. If it was not, there is nothing to do.",
  ],
  remark: "You get this mail because this was the email address of that account.",
});

export const resetPassword = ({ name, token }: MailValues["reset-password"], links: Links): MailContent => ({
  subject: "Reset your password",
  greeting: greet(name),
  paragraphs: [
    "Somebody asked to reset the password of your account. If that was you, set a new one; " +
      "the link works once, for one hour.",
  ],
  link: { label: "Set a new password", url: links.withToken("/reset-password", token) },
  remark: "If you did not ask for this, ignore this mail: your password stays as it is.",
});

export const passwordChanged = ({ name }: MailValues["password-changed"]): MailContent => ({
  subject: "Your password was changed",
  greeting: greet(name),
  paragraphs: ["The password of your account was changed, and your other sessions were ended.", NOT_YOU],
  remark: "You get this mail because the password of your account changed.",
});

export const identityLinked = ({ name, provider }: MailValues["identity-linked"]): MailContent => {
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
};

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

export const secondFactorChanged = (values: MailValues["second-factor-changed"]): MailContent => {
  const { subject, text } = FACTOR_TEXTS[values.change] ?? FACTOR_TEXTS.RESET;
  return {
    subject,
    greeting: greet(values.name),
    paragraphs: [text, NOT_YOU],
    remark: "You get this mail because the second factor of your account changed or was used.",
  };
};

export const apiKeyCreated = (values: MailValues["api-key-created"]): MailContent => {
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
};
