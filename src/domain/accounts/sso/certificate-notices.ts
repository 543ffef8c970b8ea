import { sql } from "kysely";
import type { Mail } from "../email/mail.ts";
import { notifyAdmins } from "../tenants/notify-owners.ts";
import type { Work } from "../../kernel/work.ts";
import { showCertificates } from "./domain-name.ts";

/** Days before a certificate expires at which its tenant is mailed, once each. */
export const NOTICE_DAYS = [1, 7, 30] as const;
const DAY_MS = 86_400_000;

type Row = { tenant_id: string; display_name: string; saml_certificate: string };

/** Returns the smallest number of days that a certificate's rest is within; undefined outside all. */
const noticeOf = (notAfter: string, now: Date): number | undefined => {
  const leftMs = Date.parse(notAfter) - now.getTime();
  return leftMs <= 0 ? undefined : NOTICE_DAYS.find((days) => leftMs <= days * DAY_MS);
};

/** Records a notice; false if it was sent before. */
const isFirst = async (
  { db, now }: Work,
  tenantId: string,
  { fingerprint, days }: { fingerprint: string; days: number },
): Promise<boolean> => {
  const { rows } = await sql`
    insert into sso_certificate_notices (tenant_id, fingerprint, days, sent_at)
    values (${tenantId}::uuid, ${fingerprint}, ${days}, ${now.toISOString()}::timestamptz)
    on conflict do nothing returning 1`.execute(db);
  return rows.length === 1;
};

/**
 * Mails the OWNERs and ADMINs of tenants whose identity provider's certificates expire in 30, 7 or 1 days:
 * once each, however often it runs. Who was not told of 30 days in time is told of 7 alone.
 */
export const tellOfCertificates = async (work: Work, mail: Mail): Promise<void> => {
  const { rows } = await sql<Row>`
    select c.tenant_id, c.display_name, c.saml_certificate
    from sso_configurations c join tenants t on t.id = c.tenant_id
    where c.status = 'ACTIVE' and c.saml_certificate is not null and t.deleted_at is null`.execute(work.db);
  for (const row of rows) await tellOne(work, mail, row);
};

const tellOne = async (work: Work, mail: Mail, row: Row): Promise<void> => {
  const certificates = showCertificates(row.saml_certificate);
  const last =
    certificates
      .map(({ notAfter }) => notAfter)
      .toSorted()
      .at(-1) ?? "";
  for (const { fingerprint, notAfter: expiresAt } of certificates) {
    const days = noticeOf(expiresAt, work.now);
    if (days === undefined || !(await isFirst(work, row.tenant_id, { fingerprint, days }))) continue;
    const otherUntil = last > expiresAt ? last : "";
    const values = { displayName: row.display_name, fingerprint, expiresAt, otherUntil };
    await notifyAdmins(mail, work, row.tenant_id, { template: "sso-certificate-expiring", values });
  }
};
