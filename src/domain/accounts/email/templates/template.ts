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
