import { type MailContent, oneLine } from "../layout.ts";
import type { MailValues } from "../mail.ts";
import { dayOf } from "./template.ts";

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

export const customDomain = ({ domain, change, until }: MailValues["custom-domain"]): MailContent => {
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

export const domainCertificateExpiring = ({
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
